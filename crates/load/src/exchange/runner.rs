//! Connections of one process, each with requests in flight.
//!
//! A closed loop keeps every connection filled to its depth, so the server's speed determines the load. An open loop
//! takes requests on schedule. Each goes to a connection with room or waits, and its latency counts from its
//! scheduled time.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fermata_io::alarm::Alarm;
use fermata_io::sys::epoll::Epoll;
use fermata_io::{Driver, Event, Fd, net};
use hdrhistogram::Histogram;

use super::{Answer, Protocol};
use crate::clock::Clock;
use crate::counters::{Counter, Counters};
use crate::error::Error;
use crate::error::Fault;
use crate::link::Link;
use crate::report::{Command, Errors, Report, Stage, histogram, take_recorded};
use crate::schedule::Schedule;

/// Maximum bytes per read.
const READ_BYTES: usize = 256 * 1024;
/// Interval of checks for timeouts and for broken connections to reopen.
const SCAN_US: u64 = 50_000;
/// Delay before a broken connection is reopened.
const REOPEN_US: u64 = 100_000;
const LINK: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;
/// Invalid descriptor.
const NONE: Fd = -1;

/// Work of one process.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub address: SocketAddr,
    pub source: Option<IpAddr>,
    pub connections: usize,
    /// Maximum number of requests in flight per connection.
    pub depth: usize,
    /// True to keep connections open between requests.
    pub reuse: bool,
    /// Requests per second of this process. Zero means a closed loop.
    pub rate: f64,
    /// Time after which no request starts.
    pub duration_us: u64,
    /// Time at the start that is not measured.
    pub warmup_us: u64,
    /// Maximum number of requests of this process, if limited.
    pub requests: Option<u64>,
    /// Number of the first request of this process, and the increment per request.
    pub numbers: (u64, u64),
    pub timeout_us: u64,
    pub interval_us: u64,
}

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not connected.
    Closed,
    /// Waiting for [`Answer::Welcome`].
    Opening,
    /// Open for requests.
    Open,
}

struct Connection<W> {
    fd: Fd,
    /// Distinguishes events of this connection from events of earlier connections in the slot.
    generation: u32,
    state: State,
    wire: W,
    /// Scheduled times of the requests without a response, oldest first.
    in_flight: VecDeque<u64>,
    unsent: Vec<u8>,
    /// Invariant: set if and only if the connection is in the queue of connections with room.
    queued: bool,
    /// True after the first response.
    answered: bool,
    opened_us: u64,
    /// Time before which a closed connection is not reopened.
    reopen_us: u64,
}

struct Runner<P: Protocol> {
    plan: Plan,
    clock: Clock,
    protocol: P,
    epoll: Epoll,
    connections: Vec<Connection<P::Wire>>,
    /// Connections with room for a request.
    room: VecDeque<u32>,
    schedule: Schedule,
    begun: u64,
    in_flight: u64,
    start_us: u64,
    /// Time of the last check at which the server was reachable: it had sent a response since the check before, or a connection
    /// with a response was open.
    served_us: u64,
    /// Number of responses at the last check.
    served: u64,
    /// Time from which no request starts.
    stop_us: u64,
    counters: Counters,
    /// Part of `counters` that was reported or belongs to the warm-up.
    reported: Counters,
    latency: Histogram<u64>,
    connect: Histogram<u64>,
    errors: Errors,
}

/// Performs the work of one process until it is complete or the parent stops it.
pub(crate) fn run<P: Protocol>(
    plan: Plan,
    protocol: P,
    clock: Clock,
    link: &mut Link,
) -> Result<(), Error> {
    let mut epoll = Epoll::new().map_err(Error::system("opening an epoll instance"))?;
    let alarm = Alarm::new().map_err(Error::system("opening a timer"))?;
    epoll
        .add_wake(link.fd(), LINK)
        .and_then(|()| epoll.add_wake(alarm.fd(), ALARM))
        .map_err(Error::system("watching the parent's pipe"))?;
    let connections = (0..plan.connections)
        .map(|_| Connection {
            fd: NONE,
            generation: 0,
            state: State::Closed,
            wire: P::Wire::default(),
            in_flight: VecDeque::new(),
            unsent: Vec::new(),
            queued: false,
            answered: false,
            opened_us: 0,
            reopen_us: 0,
        })
        .collect();
    let now_us = clock.now_us();
    let mut runner = Runner {
        schedule: Schedule::new(now_us, plan.rate),
        start_us: now_us,
        served_us: now_us,
        served: 0,
        stop_us: now_us + plan.duration_us,
        plan,
        clock,
        protocol,
        epoll,
        connections,
        room: VecDeque::new(),
        begun: 0,
        in_flight: 0,
        counters: Counters::default(),
        reported: Counters::default(),
        latency: histogram(),
        connect: histogram(),
        errors: Errors::default(),
    };
    runner.work(link, &alarm)
}

impl<P: Protocol> Runner<P> {
    fn work(&mut self, link: &mut Link, alarm: &Alarm) -> Result<(), Error> {
        let mut events: Vec<Event> = Vec::new();
        let mut input = vec![0; READ_BYTES];
        self.scan();
        let mut scan_us = self.start_us + SCAN_US;
        let mut report_us = self.start_us + self.plan.interval_us;
        let mut alarm_us = u64::MAX;
        let mut warm = self.plan.warmup_us == 0;
        loop {
            self.dispatch();
            let now_us = self.clock.now_us();
            if !warm && now_us >= self.start_us + self.plan.warmup_us {
                warm = true;
                // Excludes the warm-up from all reports.
                self.reported = self.counters;
                self.latency.reset();
            }
            if now_us >= scan_us {
                self.scan();
                scan_us = now_us + SCAN_US;
            }
            let over = self.is_over(now_us);
            if over || now_us >= report_us {
                self.report(link, over, warm)?;
                report_us = now_us + self.plan.interval_us;
            }
            if over {
                return Ok(());
            }
            let timeout_us = scan_us.min(report_us).saturating_sub(now_us);
            if self.plan.rate > 0.0 && !self.room.is_empty() {
                let next_us = self.schedule.next_us();
                if next_us != alarm_us {
                    alarm_us = next_us;
                    alarm
                        .set(Duration::from_micros(next_us.saturating_sub(now_us)))
                        .map_err(Error::system("setting a timer"))?;
                }
            }
            events.clear();
            self.epoll
                .wait(&mut events, Some(timeout_us.div_ceil(1000)))
                .map_err(Error::system("waiting for events"))?;
            for event in &events {
                match event.token {
                    LINK => {
                        let mut close = false;
                        let each = |command: Command| close |= command == Command::Close;
                        let alive = link.receive(each);
                        let alive = alive.map_err(Error::system("reading the parent's pipe"))?;
                        if close || !alive {
                            // Requests in flight may still complete.
                            self.stop_us = self.stop_us.min(self.clock.now_us());
                        }
                        if !alive {
                            return Ok(());
                        }
                    }
                    ALARM => alarm.drain(),
                    token => self.handle_event(token, event, &mut input),
                }
            }
        }
    }

    /// Assigns due requests to connections with room.
    fn dispatch(&mut self) {
        while let Some(&slot) = self.room.front() {
            let now_us = self.clock.now_us();
            // The connection has lost its room since it was queued.
            if !self.has_room(slot, now_us) {
                self.room.pop_front();
                self.connections[slot as usize].queued = false;
                continue;
            }
            let mut written = false;
            while self.has_room(slot, now_us)
                && let Some(due_us) = self.next_request(now_us)
            {
                written = true;
                self.write_request(slot, due_us, now_us);
            }
            if !written {
                return;
            }
            self.flush(slot);
        }
    }

    /// Takes the next request if one may start now, and returns its scheduled time.
    fn next_request(&mut self, now_us: u64) -> Option<u64> {
        if now_us >= self.stop_us || self.plan.requests.is_some_and(|max| self.begun >= max) {
            return None;
        }
        if self.plan.rate > 0.0 {
            self.schedule.take(now_us)
        } else {
            Some(now_us)
        }
    }

    fn has_room(&self, slot: u32, now_us: u64) -> bool {
        let connection = &self.connections[slot as usize];
        match connection.state {
            State::Open => self.plan.reuse && connection.in_flight.len() < self.plan.depth,
            State::Opening => false,
            State::Closed => !self.plan.reuse && now_us >= connection.reopen_us,
        }
    }

    fn write_request(&mut self, slot: u32, due_us: u64, now_us: u64) {
        let number = self.plan.numbers.0 + self.begun * self.plan.numbers.1;
        self.begun += 1;
        if self.connections[slot as usize].state == State::Closed {
            self.open(slot, now_us);
        }
        let connection = &mut self.connections[slot as usize];
        self.counters.increment(Counter::Requests);
        if connection.fd == NONE {
            self.counters.increment(Counter::Failures);
            return;
        }
        let wire = &mut connection.wire;
        self.protocol.request(wire, number, &mut connection.unsent);
        connection.in_flight.push_back(due_us);
        self.in_flight += 1;
    }

    fn open(&mut self, slot: u32, now_us: u64) {
        let opened = net::connect_tcp(self.plan.address, self.plan.source);
        let connection = &mut self.connections[slot as usize];
        connection.generation = connection.generation.wrapping_add(1) & 0x7fff_ffff;
        connection.opened_us = now_us;
        connection.answered = false;
        let token = token(slot, connection.generation);
        let watched = opened.and_then(|fd| match self.epoll.add_stream(fd, token) {
            Ok(()) => Ok(fd),
            Err(error) => {
                self.epoll.close(fd);
                Err(error)
            }
        });
        match watched {
            Ok(fd) => {
                connection.fd = fd;
                let wire = &mut connection.wire;
                let waits = self.protocol.open(wire, &mut connection.unsent);
                connection.state = if waits { State::Opening } else { State::Open };
                self.counters.increment(Counter::Connects);
            }
            Err(error) => {
                connection.reopen_us = now_us + REOPEN_US;
                self.counters.increment(Counter::ConnectFailures);
                self.errors.add(&format!("connecting: {error}"), 1);
            }
        }
    }

    fn handle_event(&mut self, token: u64, event: &Event, input: &mut [u8]) {
        let slot = token as u32;
        let generation = (token >> 32) as u32;
        let is_current = |connection: &Connection<P::Wire>| {
            connection.fd != NONE && connection.generation == generation
        };
        if !is_current(&self.connections[slot as usize]) {
            return;
        }
        if event.readable || event.hangup {
            self.read(slot, event.hangup, input);
        }
        if !is_current(&self.connections[slot as usize]) {
            return;
        }
        // The protocol may have output of its own, for example a pong, in addition to requests.
        if !self.connections[slot as usize].unsent.is_empty() {
            self.flush(slot);
        }
        self.queue(slot);
    }

    /// Adds a connection to the queue if it has room.
    fn queue(&mut self, slot: u32) {
        let now_us = self.clock.now_us();
        if !self.connections[slot as usize].queued && self.has_room(slot, now_us) {
            self.connections[slot as usize].queued = true;
            self.room.push_back(slot);
        }
    }

    /// Reads all available bytes. After a hang-up it reads to the end, because epoll reports that only once.
    fn read(&mut self, slot: u32, hangup: bool, input: &mut [u8]) {
        let fd = self.connections[slot as usize].fd;
        let generation = self.connections[slot as usize].generation;
        loop {
            match self.epoll.recv(fd, input) {
                Ok(None) => return,
                Ok(Some(0)) => return self.handle_end(slot),
                Ok(Some(count)) => {
                    self.counters.add(Counter::BytesReceived, count as u64);
                    if let Err(cause) = self.handle_bytes(slot, &mut input[..count]) {
                        return self.fail(slot, &cause.to_string());
                    }
                    let connection = &self.connections[slot as usize];
                    if connection.fd == NONE || connection.generation != generation {
                        return;
                    }
                    if count < input.len() && !hangup {
                        return;
                    }
                }
                Err(error) => return self.fail(slot, &error.to_string()),
            }
        }
    }

    fn handle_bytes(&mut self, slot: u32, input: &mut [u8]) -> Result<(), Fault> {
        let now_us = self.clock.now_us();
        let mut used = 0;
        loop {
            let connection = &mut self.connections[slot as usize];
            let (wire, out) = (&mut connection.wire, &mut connection.unsent);
            let (bytes, answer) = self.protocol.handle(wire, &mut input[used..], out)?;
            used += bytes;
            let Some(answer) = answer else {
                return Ok(());
            };
            if !connection.answered {
                connection.answered = true;
                let took_us = now_us.saturating_sub(connection.opened_us);
                self.connect.saturating_record(took_us);
            }
            match answer {
                Answer::Welcome => connection.state = State::Open,
                Answer::Response { good, keep_alive } => {
                    let Some(due_us) = connection.in_flight.pop_front() else {
                        return Err(Fault::Unasked);
                    };
                    self.in_flight -= 1;
                    self.latency
                        .saturating_record(now_us.saturating_sub(due_us));
                    self.counters.increment(Counter::Responses);
                    if !good {
                        self.counters.increment(Counter::BadResponses);
                    }
                    if !keep_alive || !self.plan.reuse {
                        self.close(slot, 0);
                        return Ok(());
                    }
                }
            }
        }
    }

    fn handle_end(&mut self, slot: u32) {
        let connection = &mut self.connections[slot as usize];
        if let Some(Answer::Response { good, .. }) = self.protocol.handle_end(&mut connection.wire)
            && let Some(due_us) = connection.in_flight.pop_front()
        {
            let took_us = self.clock.now_us().saturating_sub(due_us);
            self.in_flight -= 1;
            self.latency.saturating_record(took_us);
            self.counters.increment(Counter::Responses);
            if !good {
                self.counters.increment(Counter::BadResponses);
            }
        }
        if self.connections[slot as usize].in_flight.is_empty() {
            // A server may close an idle connection. This is no failure.
            self.close(slot, 0);
        } else {
            self.fail(
                slot,
                "the server closed the connection before it had answered",
            );
        }
    }

    fn fail(&mut self, slot: u32, cause: &str) {
        let reopen_us = self.clock.now_us() + REOPEN_US;
        let connection = &self.connections[slot as usize];
        // A connection that has worked counts as disconnected, any other as a failed connect.
        if connection.answered
            || connection.state == State::Open && !connection.in_flight.is_empty()
        {
            self.counters.increment(Counter::Disconnects);
        } else {
            self.counters.increment(Counter::ConnectFailures);
        }
        self.errors.add(cause, 1);
        self.close(slot, reopen_us);
    }

    /// Closes a connection and counts its requests without a response as failed.
    fn close(&mut self, slot: u32, reopen_us: u64) {
        let connection = &mut self.connections[slot as usize];
        let lost = connection.in_flight.len() as u64;
        self.counters.add(Counter::Failures, lost);
        self.in_flight -= lost;
        connection.in_flight.clear();
        connection.unsent.clear();
        connection.state = State::Closed;
        connection.answered &= self.plan.requests.is_none() || reopen_us == 0;
        connection.reopen_us = reopen_us;
        let fd = std::mem::replace(&mut connection.fd, NONE);
        if fd != NONE {
            self.epoll.close(fd);
        }
        if reopen_us == 0 && self.clock.now_us() < self.stop_us {
            if self.plan.reuse {
                let now_us = self.clock.now_us();
                self.open(slot, now_us);
                self.flush(slot);
            }
            self.queue(slot);
        }
    }

    fn flush(&mut self, slot: u32) {
        let connection = &mut self.connections[slot as usize];
        if connection.fd == NONE {
            return;
        }
        let wire = &mut connection.wire;
        self.protocol.end_turn(wire, &mut connection.unsent);
        if connection.unsent.is_empty() {
            return;
        }
        match self.epoll.send_one(connection.fd, &connection.unsent) {
            Ok(None) => {}
            Ok(Some(count)) => {
                self.counters.add(Counter::BytesSent, count as u64);
                connection.unsent.drain(..count);
            }
            Err(error) if !connection.answered => self.fail(slot, &error.to_string()),
            // The server may have responded and closed before it read the complete request. Read that response before the
            // connection fails; the driver reports the hang-up.
            Err(_) => connection.unsent.clear(),
        }
    }

    /// Checks requests for timeouts, and reopens closed connections.
    fn scan(&mut self) {
        let now_us = self.clock.now_us();
        // With one connection per request, all connections may be without a response at this moment. So the server also counts
        // as reachable if there are new responses.
        let served = self.counters.get(Counter::Responses);
        if std::mem::replace(&mut self.served, served) != served
            || self
                .connections
                .iter()
                .any(|connection| connection.answered)
        {
            self.served_us = now_us;
        } else if self.plan.requests.is_some()
            && now_us.saturating_sub(self.served_us) > self.plan.timeout_us
        {
            // The server is unreachable. Stop now, because it would take too long to let all remaining requests fail.
            self.stop_us = self.stop_us.min(now_us);
        }
        for slot in 0..self.connections.len() as u32 {
            let connection = &self.connections[slot as usize];
            if connection.state == State::Closed {
                if now_us < connection.reopen_us || now_us >= self.stop_us {
                    continue;
                }
                if self.plan.reuse {
                    self.open(slot, now_us);
                    self.flush(slot);
                }
                self.queue(slot);
                continue;
            }
            let since_us = match connection.in_flight.front() {
                Some(&due_us) => due_us.max(connection.opened_us),
                None if connection.state == State::Opening => connection.opened_us,
                None => continue,
            };
            if now_us.saturating_sub(since_us) > self.plan.timeout_us {
                let late = (connection.in_flight.len() as u64).max(1);
                self.counters.add(Counter::Timeouts, late);
                self.fail(slot, "no answer within --timeout");
            }
        }
    }

    fn is_over(&self, now_us: u64) -> bool {
        let all_begun = self.plan.requests.is_some_and(|max| self.begun >= max);
        (all_begun || now_us >= self.stop_us) && self.in_flight == 0
    }

    fn report(&mut self, link: &mut Link, over: bool, warm: bool) -> Result<(), Error> {
        if over && self.plan.rate > 0.0 && self.plan.requests.is_none() {
            let unsent = self.schedule.behind(self.stop_us.saturating_sub(1));
            self.counters.add(Counter::Unsent, unsent);
        }
        let mut counters = Counters::default();
        if warm {
            counters = self.counters.since(&self.reported);
            self.reported = self.counters;
        }
        let from_us = self.start_us + self.plan.warmup_us;
        let until_us = self.clock.now_us().min(self.stop_us);
        let open = self
            .connections
            .iter()
            .filter(|connection| connection.fd != NONE);
        let report = Report {
            stage: if over { Stage::Ended } else { Stage::Working },
            open: open.count() as u64,
            measured_us: until_us.saturating_sub(from_us),
            counters,
            latency: take_recorded(&mut self.latency),
            connect: take_recorded(&mut self.connect),
            errors: self.errors.take(),
            ..Report::default()
        };
        link.send(&report)
            .map_err(Error::system("writing to the parent's pipe"))
    }
}

fn token(slot: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot)
}
