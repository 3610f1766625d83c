//! Held WebSockets, and bursts that one of them sends to all: the loop of `ws fanout`.
//!
//! After all clients are connected, the first client sends a burst of messages. It sends the next burst when every
//! client has received the whole previous one. So the server's speed determines the load, nothing is sampled, and at
//! the end no message is in flight. The first burst is a warm-up without measurement.
//!
//! The server sends every message to all clients, including the sender.

mod client;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use fermata_io::sys::epoll::Epoll;
use fermata_io::{Driver, Event, net};
use fermata_proto::ws::Role;
use fermata_proto::ws::frame::Opcode;
use fermata_proto::ws::message::Rules;
use hdrhistogram::Histogram;

use client::{Client, NONE, Shared, State};

use crate::clock::Clock;
use crate::counters::{Counter, Counters};
use crate::error::Error;
use crate::error::Fault;
use crate::exchange::echo::write_number;
use crate::link::Link;
use crate::processor;
use crate::report::{Command, Errors, Report, Stage, histogram, take_recorded};
use crate::target::Values;
use crate::tls::Connector;
use crate::websocket::Opening;

/// Maximum bytes per read.
const READ_BYTES: usize = 256 * 1024;
const LINK: u64 = u64::MAX;
/// Interval of checks for progress.
const SCAN_US: u64 = 50_000;

/// Work of the process.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub address: SocketAddr,
    /// First source address, and the number of addresses. Clients use the addresses in turn.
    pub sources: Option<(Ipv4Addr, u32)>,
    pub opening: Opening,
    pub connector: Option<Connector>,
    pub clients: usize,
    pub connecting_max: usize,
    pub message_bytes: usize,
    /// Messages per burst; zero holds the clients without sending.
    pub burst: u32,
    /// Time after all clients are connected from which no burst starts.
    pub duration_us: u64,
    /// Maximum time without progress while messages or connections are pending.
    pub timeout_us: u64,
    /// Processes whose CPU time is measured.
    pub watched: Vec<u32>,
    pub interval_us: u64,
}

/// Phase of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    /// During the first burst.
    WarmingUp,
    /// Measuring since the given time.
    Measuring(u64),
    /// Holding idle clients until the given time.
    Holding(u64),
    Over,
}

struct Fanout {
    plan: Plan,
    clock: Clock,
    epoll: Epoll,
    shared: Shared,
    clients: Vec<Client>,
    phase: Phase,
    /// Number of clients started, and with a complete handshake.
    started: usize,
    held: usize,
    /// Pending deliveries of the current burst.
    awaited: u64,
    /// Number of the next message to send.
    number: u32,
    burst_us: u64,
    moved_us: u64,
    measured_us: u64,
    watched_ns: u64,
    reported: Counters,
    latency: Histogram<u64>,
    connect: Histogram<u64>,
    errors: Errors,
}

/// Connects, sends and receives until the time is over, an error occurs or the parent stops it.
pub(crate) fn run(plan: Plan, clock: Clock, link: &mut Link) -> Result<(), Error> {
    let mut epoll = Epoll::new().map_err(Error::system("opening an epoll instance"))?;
    epoll
        .add_wake(link.fd(), LINK)
        .map_err(Error::system("watching the parent's pipe"))?;
    let bytes = plan.message_bytes;
    let rules = Rules::new(Role::Client, bytes as u64, bytes, false);
    let mut fanout = Fanout {
        shared: Shared::new(plan.opening.clone(), rules, bytes),
        clients: (0..plan.clients).map(|_| Client::new()).collect(),
        moved_us: clock.now_us(),
        plan,
        clock,
        epoll,
        phase: Phase::Connecting,
        started: 0,
        held: 0,
        awaited: 0,
        number: 0,
        burst_us: 0,
        measured_us: 0,
        watched_ns: 0,
        reported: Counters::default(),
        latency: histogram(),
        connect: histogram(),
        errors: Errors::default(),
    };
    fanout.work(link)
}

impl Fanout {
    fn work(&mut self, link: &mut Link) -> Result<(), Error> {
        let mut events: Vec<Event> = Vec::new();
        let mut input = vec![0; READ_BYTES];
        let mut report_us = self.clock.now_us() + self.plan.interval_us;
        loop {
            self.start_clients();
            let now_us = self.clock.now_us();
            self.step(now_us);
            let over = self.phase == Phase::Over;
            if over || now_us >= report_us {
                self.report(link)?;
                report_us = now_us + self.plan.interval_us;
            }
            if over {
                self.close_all();
                return Ok(());
            }
            let mut due_us = report_us.min(now_us + SCAN_US);
            if let Phase::Holding(until_us) = self.phase {
                // While clients are only held, there is no progress to check.
                due_us = report_us.min(until_us);
            }
            let timeout_ms = due_us.saturating_sub(now_us).div_ceil(1000);
            events.clear();
            self.epoll
                .wait(&mut events, Some(timeout_ms))
                .map_err(Error::system("waiting for events"))?;
            for event in &events {
                if event.token != LINK {
                    self.handle_event(event, &mut input);
                    continue;
                }
                let mut close = false;
                let alive = link.receive(|command: Command| close |= command == Command::Close);
                if !alive.map_err(Error::system("reading the parent's pipe"))? {
                    return Ok(());
                }
                if close {
                    self.end(self.clock.now_us());
                }
            }
        }
    }

    /// Starts the next phase or burst when the current one is complete.
    fn step(&mut self, now_us: u64) {
        let stuck = now_us.saturating_sub(self.moved_us) > self.plan.timeout_us;
        match self.phase {
            Phase::Connecting if self.held == self.clients.len() => {
                if self.plan.burst == 0 {
                    self.watched_ns = processor::time_ns(&self.plan.watched);
                    self.burst_us = now_us;
                    self.phase = Phase::Holding(now_us + self.plan.duration_us);
                } else {
                    self.phase = Phase::WarmingUp;
                    self.begin_burst(now_us);
                }
            }
            Phase::WarmingUp if self.awaited == 0 => {
                for counters in [&mut self.shared.counters, &mut self.reported] {
                    forget_warm_up(counters);
                }
                self.watched_ns = processor::time_ns(&self.plan.watched);
                // Reading the CPU time has taken a while, so the measurement starts now.
                let now_us = self.clock.now_us();
                self.phase = Phase::Measuring(now_us);
                self.begin_burst(now_us);
            }
            Phase::Measuring(since_us) if self.awaited == 0 => {
                let took_us = now_us.saturating_sub(self.burst_us);
                self.latency.saturating_record(took_us);
                self.measured_us = now_us - since_us;
                if self.measured_us < self.plan.duration_us {
                    self.begin_burst(now_us)
                } else {
                    self.end(now_us)
                }
            }
            Phase::Holding(until_us) if now_us >= until_us => self.end(now_us),
            Phase::Holding(_) | Phase::Over => {}
            _ if stuck => {
                self.errors.add("nothing came within --timeout", 1);
                self.end(now_us);
            }
            _ => {}
        }
    }

    fn start_clients(&mut self) {
        while self.phase == Phase::Connecting
            && self.started < self.clients.len()
            && self.started - self.held < self.plan.connecting_max
        {
            let slot = self.started;
            self.started += 1;
            if let Err(cause) = self.open(slot) {
                self.shared.counters.increment(Counter::ConnectFailures);
                self.fail(slot, &format!("connecting: {cause}"));
            }
        }
    }

    fn open(&mut self, slot: usize) -> Result<(), Fault> {
        let source = self.plan.sources.map(|(first, count)| {
            let address = u32::from(first) + slot as u32 % count;
            IpAddr::V4(Ipv4Addr::from(address))
        });
        let fd = net::connect_tcp(self.plan.address, source)?;
        let client = &mut self.clients[slot];
        client.fd = fd;
        self.epoll.add_stream(fd, slot as u64)?;
        self.shared.counters.increment(Counter::Connects);
        client.opened_us = self.clock.now_us();
        client.state = State::Opening(Vec::new());
        if let Some(connector) = &self.plan.connector {
            client.tls = Some(connector.connect()?);
        }
        let values = Values {
            number: slot as u64,
            client: slot as u64,
            message: b"",
        };
        let mut request = Vec::new();
        self.shared.opening.write(values, &mut request);
        client.write(&request)?;
        self.flush(slot)
    }

    fn begin_burst(&mut self, now_us: u64) {
        self.burst_us = now_us;
        self.moved_us = now_us;
        self.awaited = u64::from(self.plan.burst) * self.clients.len() as u64;
        let mut frames = Vec::new();
        for _ in 0..self.plan.burst {
            write_number(&mut self.shared.message, self.number);
            self.number = self.number.wrapping_add(1);
            let shared = &mut self.shared;
            shared
                .masks
                .write(Opcode::Text, &shared.message, &mut frames);
        }
        let published = u64::from(self.plan.burst);
        self.shared.counters.add(Counter::Published, published);
        let written = self.clients[0].write(&frames);
        if let Err(cause) = written.and_then(|()| self.flush(0)) {
            self.fail(0, &cause.to_string());
        }
    }

    fn handle_event(&mut self, event: &Event, input: &mut [u8]) {
        let slot = event.token as usize;
        if self.clients[slot].fd == NONE {
            return;
        }
        let mut done = Ok(());
        if event.readable || event.hangup {
            done = self.read(slot, event.hangup, input);
        }
        if let Err(cause) = done.and_then(|()| self.flush(slot)) {
            self.fail(slot, &cause.to_string());
        }
    }

    /// Reads all available bytes.
    fn read(&mut self, slot: usize, hangup: bool, input: &mut [u8]) -> Result<(), Fault> {
        let client = &mut self.clients[slot];
        loop {
            let count = match self.epoll.recv(client.fd, input) {
                Ok(None) => return Ok(()),
                Ok(Some(0)) => return Err(Fault::Ended),
                Ok(Some(count)) => count,
                Err(error) => return Err(error.into()),
            };
            let shared = &mut self.shared;
            shared.counters.add(Counter::BytesReceived, count as u64);
            let progress = client.handle(&mut input[..count], shared)?;
            self.moved_us = self.clock.now_us();
            if progress.opened {
                self.held += 1;
                let took_us = self.moved_us.saturating_sub(client.opened_us);
                self.connect.saturating_record(took_us);
            }
            // Each client receives each message once, so all further ones are duplicates.
            if progress.messages > self.awaited {
                let more = progress.messages - self.awaited;
                shared.counters.add(Counter::Repeated, more);
                return Err(Fault::TooMany);
            }
            self.awaited -= progress.messages;
            if count < input.len() && !hangup {
                return Ok(());
            }
        }
    }

    fn flush(&mut self, slot: usize) -> Result<(), Fault> {
        let client = &mut self.clients[slot];
        if client.unsent.is_empty() {
            return Ok(());
        }
        let sent = self
            .epoll
            .send_one(client.fd, &client.unsent[client.sent..]);
        if let Some(count) = sent? {
            self.shared.counters.add(Counter::BytesSent, count as u64);
            client.sent += count;
        }
        if client.sent == client.unsent.len() {
            // Freed instead of cleared: held clients keep no buffer.
            client.unsent = Vec::new();
            client.sent = 0;
        }
        Ok(())
    }

    /// Fails the run: with a lost client all further measurements are meaningless.
    fn fail(&mut self, slot: usize, cause: &str) {
        self.errors.add(cause, 1);
        self.shared.counters.increment(Counter::Disconnects);
        self.close(slot);
        self.end(self.clock.now_us());
    }

    fn end(&mut self, now_us: u64) {
        let before = std::mem::replace(&mut self.phase, Phase::Over);
        if before == Phase::Over {
            return;
        }
        if let Phase::Holding(_) = before {
            self.measured_us = now_us.saturating_sub(self.burst_us);
        }
        let counters = &mut self.shared.counters;
        if let Phase::Holding(_) | Phase::Measuring(_) = before {
            let watched_ns = processor::time_ns(&self.plan.watched);
            let grown_ns = watched_ns.saturating_sub(self.watched_ns);
            counters.add(Counter::WatchedCpuNs, grown_ns);
        }
        let held = |client: &&Client| matches!(client.state, State::Held(_));
        let held = self.clients.iter().filter(held).count();
        counters.add(Counter::NotHeld, (self.clients.len() - held) as u64);
        counters.add(Counter::Missing, self.awaited);
    }

    fn close(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        client.state = State::Closed;
        let fd = std::mem::replace(&mut client.fd, NONE);
        if fd != NONE {
            // A reset frees the port immediately for the next run.
            net::abort_on_close(fd);
            self.epoll.close(fd);
        }
    }

    fn close_all(&mut self) {
        for slot in 0..self.clients.len() {
            self.close(slot);
        }
    }

    fn report(&mut self, link: &mut Link) -> Result<(), Error> {
        let mut counters = self.shared.counters.since(&self.reported);
        self.reported = self.shared.counters;
        if let Phase::Connecting | Phase::WarmingUp = self.phase {
            forget_warm_up(&mut counters);
        }
        let stage = match self.phase {
            Phase::Over => Stage::Ended,
            _ => Stage::Working,
        };
        let report = Report {
            stage,
            open: self.held as u64,
            measured_us: self.measured_us,
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

/// Clears the counters of the first burst, except connections and faults.
fn forget_warm_up(counters: &mut Counters) {
    counters.clear(Counter::Published);
    counters.clear(Counter::Deliveries);
}
