//! Held clients of one process: connect, receive, verify and reconnect.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use fermata_io::sys::epoll::Epoll;
use fermata_io::wheel::{Fired, Wheel};
use fermata_io::{Driver, EVENTS_MAX, Event, Fd, net, process};
use hdrhistogram::Histogram;

use super::client::{Client, NONE, Shared, State};
use crate::clock::Clock;
use crate::counters::Counter;
use crate::counters::Counters;
use crate::error::Error;
use crate::error::Fault;
use crate::groups::{ALL, GroupSizes};
use crate::link::Link;
use crate::message::{Message, Verifier};
use crate::report::{Command, Errors, Report, Stage, histogram, take_recorded};
use crate::schedule::Schedule;
use crate::target::{Template, Values};
use crate::websocket::Opening;

const READ_BYTES: usize = 64 * 1024;
/// Interval of checks for complete delivery.
const SETTLE_SCAN_US: u64 = 20_000;
const LINK: u64 = u64::MAX;

/// Work of one process.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Servers and their `Host` values. There is at least one.
    pub servers: Vec<(SocketAddr, String)>,
    /// First source address of the process, and the number of addresses. Clients use the addresses in turn.
    pub sources: Option<(Ipv4Addr, u32)>,
    pub path: Template,
    /// Additional headers, each with its line end.
    pub headers: Vec<u8>,
    /// True for WebSockets, false for event streams.
    pub websocket: bool,
    pub sizes: GroupSizes,
    /// Number of the first client, and the number of clients.
    pub first: u64,
    pub clients: usize,
    pub run: u32,
    pub message_bytes: usize,
    pub event_bytes_max: usize,
    /// Connects per second of this process. Zero: no limit.
    pub connect_rate: f64,
    pub connecting_max: usize,
    pub connect_timeout_ms: u64,
    pub attempts_max: u8,
    pub reconnect_delay_ms: u64,
    /// True to send `Last-Event-ID` after a disconnect.
    pub resume: bool,
    /// Clients per second of this process that disconnect and reconnect immediately. Zero: none do.
    pub churn_rate: f64,
    pub interval_us: u64,
    /// Pause after each batch of events. Zero: no pause.
    pub coalesce: Duration,
}

/// Publish whose deliveries are being counted.
#[derive(Debug, Default)]
struct Arrivals {
    /// The publish that is being counted: its number, the deliveries so far, and the last delivery time in microseconds.
    current: (u32, u32, u32),
    /// Completed counts for the next report.
    list: Vec<(u32, u32, u32)>,
}

struct Receiver {
    plan: Plan,
    clock: Clock,
    epoll: Epoll,
    wheel: Wheel,
    clients: Vec<Client>,
    shared: Shared,
    /// Index of the first client that was not started.
    started: usize,
    /// Timer keys of clients that wait to reconnect until fewer clients are connecting.
    crowd: VecDeque<u64>,
    connecting: usize,
    held: usize,
    given_up: usize,
    connects: Schedule,
    churn: Option<Schedule>,
    churn_turn: usize,
    ready_us: Option<u64>,
    measured_us: u64,
    /// Confirmed sequence numbers per group, and as the last entry those of messages to all groups. Empty until the settle command.
    confirmed: Vec<u32>,
    reported: Counters,
    latency: Histogram<u64>,
    connect: Histogram<u64>,
    arrivals: Arrivals,
    errors: Errors,
    request: Vec<u8>,
}

/// Holds clients until the close command.
pub(crate) fn run(plan: Plan, clock: Clock, link: &mut Link) -> Result<(), Error> {
    let mut epoll = Epoll::new().map_err(Error::system("opening an epoll instance"))?;
    epoll
        .add_wake(link.fd(), LINK)
        .map_err(Error::system("watching the parent's pipe"))?;
    let opening = plan
        .websocket
        .then(|| Opening::new(&plan.servers[0].1, &plan.path, plan.headers.clone()));
    let clients = (0..plan.clients as u64)
        .map(|index| Client::new(plan.sizes.group(plan.first + index)))
        .collect();
    let mut receiver = Receiver {
        wheel: Wheel::new(epoll.refresh_now()),
        connects: Schedule::new(clock.now_us(), plan.connect_rate),
        shared: Shared::new(
            Verifier::new(plan.run, plan.message_bytes),
            plan.event_bytes_max,
            opening,
        ),
        plan,
        clock,
        epoll,
        clients,
        started: 0,
        crowd: VecDeque::new(),
        connecting: 0,
        held: 0,
        given_up: 0,
        churn: None,
        churn_turn: 0,
        ready_us: None,
        measured_us: 0,
        confirmed: Vec::new(),
        reported: Counters::default(),
        latency: histogram(),
        connect: histogram(),
        arrivals: Arrivals::default(),
        errors: Errors::default(),
        request: Vec::new(),
    };
    receiver.work(link)
}

impl Plan {
    /// Returns the server for the `generation`th connection of a client. The first connection uses the client's own server, and
    /// each further one a different server. If a server fails, its clients are spread evenly over all others.
    fn server(&self, slot: usize, generation: u16) -> &(SocketAddr, String) {
        let count = self.servers.len() as u64;
        let client = self.first + slot as u64;
        let step = match count {
            0 | 1 => 0,
            _ => 1 + client / count % (count - 1),
        };
        let before = u64::from(generation.wrapping_sub(1));
        &self.servers[((client + before * step) % count) as usize]
    }
}

impl Receiver {
    fn work(&mut self, link: &mut Link) -> Result<(), Error> {
        let mut events: Vec<Event> = Vec::new();
        let mut fired: Vec<Fired> = Vec::new();
        let mut input = vec![0; READ_BYTES];
        let mut stage = Stage::Working;
        let mut report_us = self.clock.now_us() + self.plan.interval_us;
        let mut settle_us = 0;
        let mut is_coalescing = false;
        if !self.plan.coalesce.is_zero() {
            // A wake-up of this process must not preempt a server on the same core.
            process::give_way();
        }
        loop {
            let now_us = self.clock.now_us();
            self.start_clients(now_us);
            self.churn(now_us);
            self.wheel.poll(self.epoll.now_ms(), &mut fired);
            for timer in fired.drain(..) {
                self.handle_timer(timer.key);
            }
            self.bring_back();
            if stage == Stage::Working && self.held + self.given_up == self.clients.len() {
                stage = Stage::Ready;
                report_us = now_us;
                self.ready_us = Some(now_us);
                if self.plan.churn_rate > 0.0 {
                    self.churn = Some(Schedule::new(now_us, self.plan.churn_rate));
                }
            }
            let settling = stage == Stage::Ready && !self.confirmed.is_empty();
            if settling && now_us >= settle_us {
                settle_us = now_us + SETTLE_SCAN_US;
                if self.has_everything() {
                    stage = Stage::Settled;
                    report_us = now_us;
                }
            }
            if now_us >= report_us {
                self.report(link, stage)?;
                report_us = now_us + self.plan.interval_us;
            }
            let mut due_us = report_us;
            if settling {
                due_us = due_us.min(settle_us);
            }
            if self.started < self.clients.len() && self.connecting < self.plan.connecting_max {
                due_us = due_us.min(self.connects.next_us());
            }
            if let Some(churn) = &self.churn {
                due_us = due_us.min(churn.next_us());
            }
            let mut timeout_ms = due_us.saturating_sub(now_us).div_ceil(1000);
            if let Some(next_ms) = self.wheel.next_due_ms() {
                timeout_ms = timeout_ms.min(next_ms.saturating_sub(self.epoll.now_ms()));
            }
            // During the sleep no thread waits for events, so messages cause no wake-ups. The next wait returns the events of
            // all of them.
            if is_coalescing {
                std::thread::sleep(self.plan.coalesce);
                timeout_ms = 0;
            }
            events.clear();
            self.epoll
                .wait(&mut events, Some(timeout_ms))
                .map_err(Error::system("waiting for events"))?;
            // After a full batch, more events are ready. Read them before the next pause.
            let is_full = events.len() == EVENTS_MAX;
            is_coalescing = !self.plan.coalesce.is_zero() && !events.is_empty() && !is_full;
            for event in &events {
                if event.token != LINK {
                    self.handle_event(event, &mut input);
                    continue;
                }
                let mut commands = Vec::new();
                let alive = link.receive(|command| commands.push(command));
                let alive = alive.map_err(Error::system("reading the parent's pipe"))?;
                for command in commands {
                    match command {
                        Command::Settle(confirmed) => self.settle(&confirmed),
                        Command::Close => {
                            self.close_all();
                            return self.report(link, Stage::Ended);
                        }
                        Command::Publish(_) | Command::StopPublishing => {}
                    }
                }
                if !alive {
                    return Ok(());
                }
            }
        }
    }

    /// Connects new clients as fast as both limits allow.
    fn start_clients(&mut self, now_us: u64) {
        while self.started < self.clients.len()
            && self.connecting < self.plan.connecting_max
            && self.connects.take(now_us).is_some()
        {
            let slot = self.started;
            self.started += 1;
            self.open(slot);
        }
    }

    /// Reconnects waiting clients within the limit.
    fn bring_back(&mut self) {
        while self.connecting < self.plan.connecting_max
            && let Some(key) = self.crowd.pop_front()
        {
            let slot = key as u32 as usize;
            let client = &self.clients[slot];
            // The client may have got another connection since it was queued.
            if client.generation == (key >> 32) as u16 && client.state == State::Waiting {
                self.open(slot);
            }
        }
    }

    /// Disconnects clients one after the other. They reconnect immediately.
    fn churn(&mut self, now_us: u64) {
        let Some(churn) = &mut self.churn else {
            return;
        };
        let mut due = 0;
        // Disconnect each client at most once, even if the schedule is far behind.
        while due < self.clients.len() && churn.take(now_us).is_some() {
            due += 1;
        }
        for _ in 0..due {
            let slot = self.churn_turn;
            self.churn_turn = (slot + 1) % self.clients.len();
            if self.clients[slot].state == State::Held {
                self.shared.counters.increment(Counter::Churned);
                self.leave(slot);
                self.open(slot);
            }
        }
    }

    fn open(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        client.generation = client.generation.wrapping_add(1);
        client.opened_us = self.clock.now_us();
        let token = token(slot, client.generation);
        let source = self.plan.sources.map(|(first, count)| {
            let address = u32::from(first) + slot as u32 % count;
            IpAddr::V4(Ipv4Addr::from(address))
        });
        let (address, _) = self.plan.server(slot, client.generation);
        let opened = net::connect_tcp(*address, source);
        let watched = opened.and_then(|fd| match self.epoll.add_stream(fd, token) {
            Ok(()) => Ok(fd),
            Err(error) => {
                self.epoll.close(fd);
                Err(error)
            }
        });
        match watched {
            Ok(fd) => {
                client.fd = fd;
                client.state = State::Opening;
                self.connecting += 1;
                let deadline_ms = self.epoll.now_ms() + self.plan.connect_timeout_ms;
                self.wheel.arm(token, deadline_ms);
                self.write_request(slot);
                self.flush(slot);
            }
            Err(error) => {
                client.state = State::Waiting;
                self.fail(slot, &error.to_string());
            }
        }
    }

    fn write_request(&mut self, slot: usize) {
        let out = &mut self.request;
        let client = &mut self.clients[slot];
        let values = Values {
            number: u64::from(client.group),
            client: self.plan.first + slot as u64,
            message: b"",
        };
        out.clear();
        if let Some(opening) = self.shared.opening() {
            opening.write(values, out);
            client.rest.clear();
            client.rest.extend_from_slice(out);
            return;
        }
        out.extend_from_slice(b"GET ");
        self.plan.path.render(values, out);
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        let (_, host) = self.plan.server(slot, client.generation);
        out.extend_from_slice(host.as_bytes());
        out.extend_from_slice(b"\r\nAccept: text/event-stream\r\n");
        out.extend_from_slice(&self.plan.headers);
        if self.plan.resume
            && let Some(id) = &client.id
        {
            out.extend_from_slice(b"Last-Event-ID: ");
            out.extend_from_slice(id);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        client.rest.clear();
        client.rest.extend_from_slice(out);
    }

    /// Sends the rest of the request. A connection that is not yet established accepts the rest later.
    fn flush(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        match self.epoll.send_one(client.fd, &client.rest) {
            Ok(None) => {}
            Ok(Some(count)) if count == client.rest.len() => {
                self.shared.counters.add(Counter::BytesSent, count as u64);
                client.rest = Vec::new();
            }
            Ok(Some(count)) => {
                self.shared.counters.add(Counter::BytesSent, count as u64);
                client.rest.drain(..count);
            }
            Err(error) => self.fail(slot, &error.to_string()),
        }
    }

    fn handle_event(&mut self, event: &Event, input: &mut [u8]) {
        let slot = event.token as u32 as usize;
        let generation = (event.token >> 32) as u16;
        let client = &self.clients[slot];
        if client.fd == NONE || client.generation != generation {
            return;
        }
        let unsent = client.state == State::Opening && !client.rest.is_empty();
        // The request is not sent yet, so there is nothing to read except an error.
        if unsent && event.writable && !event.readable && !event.hangup {
            return self.flush(slot);
        }
        if event.readable || event.hangup {
            self.read(slot, event.hangup, input);
        }
    }

    fn read(&mut self, slot: usize, hangup: bool, input: &mut [u8]) {
        let fd = self.clients[slot].fd;
        loop {
            match self.epoll.recv(fd, input) {
                Ok(None) => return,
                Ok(Some(0)) => return self.fail(slot, "the server closed the connection"),
                Ok(Some(count)) => {
                    let counters = &mut self.shared.counters;
                    counters.add(Counter::BytesReceived, count as u64);
                    match self.handle_bytes(slot, &mut input[..count]) {
                        Ok(true) if self.shared.replies.is_empty() => {}
                        Ok(true) if self.reply(fd) => {}
                        Ok(true) => return self.fail(slot, "an answer to a ping did not go out"),
                        Ok(false) => return self.fail(slot, "the server ended the stream"),
                        Err(cause) => return self.fail(slot, &cause.to_string()),
                    }
                    if count < input.len() && !hangup {
                        return;
                    }
                }
                Err(error) => return self.fail(slot, &error.to_string()),
            }
        }
    }

    /// Sends protocol replies: a few bytes to a peer that reads.
    fn reply(&mut self, fd: Fd) -> bool {
        let sent = self.epoll.send_one(fd, &self.shared.replies);
        let whole = matches!(sent, Ok(Some(count)) if count == self.shared.replies.len());
        self.shared.replies.clear();
        whole
    }

    fn handle_bytes(&mut self, slot: usize, bytes: &mut [u8]) -> Result<bool, Fault> {
        let now_us = self.clock.now_us();
        let client = &mut self.clients[slot];
        let mut bytes = bytes;
        self.shared.replies.clear();
        if client.state == State::Opening {
            match self.shared.handle_head(client, bytes)? {
                Some(head_bytes) => bytes = &mut bytes[head_bytes..],
                None => return Ok(true),
            }
            self.connecting -= 1;
            self.held += 1;
            let came_back = std::mem::replace(&mut client.known, true);
            let counter = if came_back {
                Counter::Reconnects
            } else {
                Counter::Connects
            };
            self.shared.counters.increment(counter);
            self.connect
                .saturating_record(now_us.saturating_sub(client.opened_us));
        }
        if bytes.is_empty() {
            return Ok(true);
        }
        let (latency, arrivals) = (&mut self.latency, &mut self.arrivals);
        let each = |message: &Message| {
            let took_us = now_us.saturating_sub(message.time_us);
            latency.saturating_record(took_us);
            arrivals.add(message.number, took_us);
        };
        self.shared.handle_stream(client, bytes, each)
    }

    /// Handles a timer of a connection: its response has timed out, or its reconnect is due.
    fn handle_timer(&mut self, key: u64) {
        let slot = key as u32 as usize;
        let client = &self.clients[slot];
        // The timer belongs to an earlier connection.
        if client.generation != (key >> 32) as u16 {
            return;
        }
        match client.state {
            State::Opening => {
                self.shared.counters.increment(Counter::Timeouts);
                self.fail(slot, "no answer within --connect-timeout");
            }
            State::Waiting => self.crowd.push_back(key),
            State::New | State::Held | State::GivenUp => {}
        }
    }

    /// Handles the failure or unwanted end of a connection.
    fn fail(&mut self, slot: usize, cause: &str) {
        let was_held = self.clients[slot].state == State::Held;
        let counters = &mut self.shared.counters;
        counters.increment(if was_held {
            Counter::Disconnects
        } else {
            Counter::Refusals
        });
        self.errors.add(cause, 1);
        self.leave(slot);
        let client = &mut self.clients[slot];
        client.attempts = client.attempts.saturating_add(1);
        if !was_held && client.attempts >= self.plan.attempts_max {
            client.state = State::GivenUp;
            self.given_up += 1;
            return;
        }
        let key = token(slot, client.generation);
        self.wheel
            .arm(key, self.epoll.now_ms() + self.plan.reconnect_delay_ms);
    }

    /// Closes a client's connection. The client reopens it later.
    fn leave(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        match client.state {
            State::Held => self.held -= 1,
            State::Opening => self.connecting -= 1,
            State::New | State::Waiting | State::GivenUp => {}
        }
        if client.state == State::Held && !self.plan.resume {
            // Without resumption, messages that are published while the client is away do not count as missing.
            client.next = 0;
            client.next_all = 0;
        }
        client.state = State::Waiting;
        client.rest = Vec::new();
        let fd = std::mem::replace(&mut client.fd, NONE);
        if fd != NONE {
            self.epoll.close(fd);
        }
    }

    fn settle(&mut self, confirmed: &[(u32, u32)]) {
        self.confirmed = vec![0; self.plan.sizes.groups as usize + 1];
        let last = self.confirmed.len() - 1;
        for &(group, sequence) in confirmed {
            let index = if group == ALL { last } else { group as usize };
            self.confirmed[index] = sequence;
        }
        self.stop_measuring();
        self.churn = None;
    }

    fn missing(&self, client: &Client) -> u64 {
        match self.confirmed.last() {
            Some(&all) => client.missing(self.confirmed[client.group as usize], all),
            None => 0,
        }
    }

    fn has_everything(&self) -> bool {
        self.held + self.given_up == self.started
            && self.clients.iter().all(|client| self.missing(client) == 0)
    }

    fn stop_measuring(&mut self) {
        if let Some(ready_us) = self.ready_us.take() {
            self.measured_us = self.clock.now_us() - ready_us;
        }
    }

    /// Counts missing clients and messages, and resets all connections. A million connections in TIME_WAIT would
    /// leave no ports for the next run.
    fn close_all(&mut self) {
        self.stop_measuring();
        let missing = self.clients.iter().map(|client| self.missing(client)).sum();
        let held = self
            .clients
            .iter()
            .filter(|client| client.state == State::Held);
        let not_held = self.started - held.count();
        self.shared.counters.add(Counter::Missing, missing);
        self.shared.counters.add(Counter::NotHeld, not_held as u64);
        for client in &mut self.clients {
            let fd = std::mem::replace(&mut client.fd, NONE);
            if fd != NONE {
                net::abort_on_close(fd);
                self.epoll.close(fd);
            }
        }
        self.held = 0;
    }

    fn report(&mut self, link: &mut Link, stage: Stage) -> Result<(), Error> {
        let counters = self.shared.counters.since(&self.reported);
        self.reported = self.shared.counters;
        if let Some(ready_us) = self.ready_us {
            self.measured_us = self.clock.now_us() - ready_us;
        }
        let report = Report {
            stage,
            open: self.held as u64,
            measured_us: self.measured_us,
            counters,
            latency: take_recorded(&mut self.latency),
            connect: take_recorded(&mut self.connect),
            arrivals: self.arrivals.take(),
            errors: self.errors.take(),
            ..Report::default()
        };
        link.send(&report)
            .map_err(Error::system("writing to the parent's pipe"))
    }
}

impl Arrivals {
    /// Adds one delivery. Deliveries of one publish usually arrive in sequence, so only a change of the number completes a
    /// count.
    fn add(&mut self, number: u32, took_us: u64) {
        let took_us = u32::try_from(took_us).unwrap_or(u32::MAX);
        if self.current.0 != number {
            self.push();
            self.current = (number, 0, 0);
        }
        self.current.1 += 1;
        self.current.2 = self.current.2.max(took_us);
    }

    fn push(&mut self) {
        if self.current.1 != 0 {
            self.list.push(self.current);
            self.current = (0, 0, 0);
        }
    }

    fn take(&mut self) -> Vec<(u32, u32, u32)> {
        self.push();
        let mut list = std::mem::take(&mut self.list);
        list.sort_unstable();
        list.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                first.1 += later.1;
                first.2 = first.2.max(later.2);
            }
            same
        });
        list
    }
}

fn token(slot: usize, generation: u16) -> u64 {
    u64::from(generation) << 32 | slot as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_of_one_publish_are_summed() {
        let mut arrivals = Arrivals::default();
        for (number, took_us) in [(1, 5), (1, 9), (2, 1), (1, 7)] {
            arrivals.add(number, took_us);
        }
        assert_eq!(arrivals.take(), [(1, 3, 9), (2, 1, 1)]);
        assert_eq!(arrivals.take(), []);
    }
}
