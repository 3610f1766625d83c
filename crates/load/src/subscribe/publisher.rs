//! The publishing process: an open loop of POST requests or WebSocket messages.
//!
//! The response confirms a POST; a WebSocket message counts as confirmed when it is sent. Messages of one group use
//! one connection, one at a time, so that they are processed in the order of their sequence numbers. A message
//! carries its scheduled time.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fermata_io::alarm::Alarm;
use fermata_io::sys::epoll::Epoll;
use fermata_io::{Driver, Event, Fd, net};
use fermata_proto::response_reader::RequestKind;
use fermata_proto::ws::Role;
use fermata_proto::ws::frame::Opcode;
use fermata_proto::ws::message::{self, Rules};
use hdrhistogram::Histogram;

use crate::clock::Clock;
use crate::counters::{Counter, Counters};
use crate::error::Error;
use crate::error::Fault;
use crate::exchange::http::Request;
use crate::groups::ALL;
use crate::link::Link;
use crate::message::Message;
use crate::report::{Command, Errors, Rates, Report, Stage, histogram, take_recorded};
use crate::response::Reader;
use crate::schedule::Schedule;
use crate::target::Values;
use crate::websocket::{Masks, Opening};

const READ_BYTES: usize = 64 * 1024;
/// Delay before a broken connection is reopened.
const REOPEN_US: u64 = 100_000;
/// Maximum size of a message received by a publishing connection.
const FRAME_BYTES_MAX: u64 = 16 << 20;
/// Interval of checks for timeouts.
const SCAN_US: u64 = 50_000;
const LINK: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;
const NONE: Fd = -1;

/// Messages to one URL.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub address: SocketAddr,
    pub how: How,
    /// True for a source that sends one message to all groups. False for a source that sends to one group after the other.
    pub to_all: bool,
}

/// Transport of a message.
#[derive(Debug, Clone)]
pub(crate) enum How {
    Post(Request),
    Websocket(Opening),
}

/// Work of the publisher.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub sources: Vec<Source>,
    pub source_address: Option<IpAddr>,
    pub run: u32,
    pub message_bytes: usize,
    pub groups: u32,
    /// Number of connections per source.
    pub connections: usize,
    /// Maximum number of messages queued per connection.
    pub queue_max: usize,
    pub timeout_us: u64,
    pub interval_us: u64,
}

#[derive(Debug, Clone, Copy)]
struct Due {
    group: u32,
    due_us: u64,
}

/// A message without a response.
#[derive(Debug, Clone, Copy)]
struct Sent {
    group: u32,
    sequence: u32,
    due_us: u64,
    sent_us: u64,
}

struct Connection {
    /// Index of the source.
    source: usize,
    fd: Fd,
    generation: u32,
    reader: Reader,
    /// True if messages can be sent: immediately, or after the WebSocket handshake.
    open: bool,
    frames: message::Reader,
    /// Start of the incomplete handshake response.
    head: Vec<u8>,
    queue: VecDeque<Due>,
    sent: Option<Sent>,
    unsent: Vec<u8>,
    reopen_us: u64,
}

/// Numbering of one group's messages.
#[derive(Debug, Clone, Copy, Default)]
struct Stream {
    sequence: u32,
    confirmed: u32,
}

struct Publisher {
    plan: Plan,
    clock: Clock,
    epoll: Epoll,
    connections: Vec<Connection>,
    /// One stream per group, and after these one stream for messages to all groups.
    streams: Vec<Stream>,
    /// One schedule per source. `None`: the source publishes nothing now.
    schedules: Vec<Option<Schedule>>,
    /// The group that gets the next message of a source that serves one group after the other.
    turn: u32,
    number: u32,
    /// Publishing time before `started_us`, and the start of the current publishing.
    published_us: u64,
    started_us: Option<u64>,
    counters: Counters,
    reported: Counters,
    answers: Histogram<u64>,
    publishes: Vec<(u32, u32)>,
    errors: Errors,
    message: Vec<u8>,
    body: Vec<u8>,
    masks: Masks,
}

/// Publishes between the start and stop commands.
pub(crate) fn run(plan: Plan, clock: Clock, link: &mut Link) -> Result<(), Error> {
    let mut epoll = Epoll::new().map_err(Error::system("opening an epoll instance"))?;
    let alarm = Alarm::new().map_err(Error::system("opening a timer"))?;
    epoll
        .add_wake(link.fd(), LINK)
        .and_then(|()| epoll.add_wake(alarm.fd(), ALARM))
        .map_err(Error::system("watching the parent's pipe"))?;
    let per_source = plan.connections;
    let connections = (0..plan.sources.len() * per_source)
        .map(|index| Connection {
            source: index / per_source,
            fd: NONE,
            generation: 0,
            reader: Reader::default(),
            open: false,
            frames: message::Reader::new(),
            head: Vec::new(),
            queue: VecDeque::new(),
            sent: None,
            unsent: Vec::new(),
            reopen_us: 0,
        })
        .collect();
    let mut publisher = Publisher {
        clock,
        epoll,
        connections,
        streams: vec![Stream::default(); plan.groups as usize + 1],
        schedules: Vec::new(),
        turn: 0,
        number: 0,
        published_us: 0,
        started_us: None,
        counters: Counters::default(),
        reported: Counters::default(),
        answers: histogram(),
        publishes: Vec::new(),
        errors: Errors::default(),
        message: Vec::new(),
        body: Vec::new(),
        masks: Masks::new(),
        plan,
    };
    publisher.work(link, &alarm)
}

impl Publisher {
    fn work(&mut self, link: &mut Link, alarm: &Alarm) -> Result<(), Error> {
        let mut events: Vec<Event> = Vec::new();
        let mut input = vec![0; READ_BYTES];
        let mut stage = Stage::Ready;
        self.report(link, stage)?;
        let mut report_us = self.clock.now_us() + self.plan.interval_us;
        let mut scan_us = 0;
        let mut stopping = false;
        let mut closing = false;
        loop {
            let now_us = self.clock.now_us();
            self.enqueue(now_us);
            if now_us >= scan_us {
                self.scan(now_us);
                scan_us = now_us + SCAN_US;
            }
            let idle =
                |connection: &Connection| connection.sent.is_none() && connection.queue.is_empty();
            let is_idle = self.started_us.is_none() && self.connections.iter().all(idle);
            let present = match is_idle {
                true if stopping => Stage::Settled,
                true => Stage::Ready,
                false => Stage::Working,
            };
            // Report a new stage immediately. `Settled` is the last one.
            if stage != present && stage != Stage::Settled {
                stage = present;
                report_us = now_us;
            }
            if closing {
                return self.report(link, Stage::Ended);
            }
            if now_us >= report_us {
                self.report(link, stage)?;
                report_us = now_us + self.plan.interval_us;
            }
            let schedules = self.schedules.iter().flatten();
            if let Some(next_us) = schedules.map(Schedule::next_us).min() {
                let delay = Duration::from_micros(next_us.saturating_sub(now_us));
                alarm.set(delay).map_err(Error::system("setting a timer"))?;
            }
            let timeout_us = scan_us.min(report_us).saturating_sub(now_us);
            events.clear();
            self.epoll
                .wait(&mut events, Some(timeout_us.div_ceil(1000)))
                .map_err(Error::system("waiting for events"))?;
            for event in &events {
                match event.token {
                    LINK => {
                        let mut commands = Vec::new();
                        let alive = link.receive(|command| commands.push(command));
                        let alive = alive.map_err(Error::system("reading the parent's pipe"))?;
                        for command in commands {
                            match command {
                                Command::Publish(rates) => self.publish_at(rates),
                                Command::StopPublishing => {
                                    self.publish_at(Rates::default());
                                    stopping = true;
                                }
                                Command::Settle(_) => {}
                                Command::Close => {
                                    self.publish_at(Rates::default());
                                    closing = true;
                                }
                            }
                        }
                        closing |= !alive;
                    }
                    ALARM => alarm.drain(),
                    token => self.handle_event(token, event, &mut input),
                }
            }
        }
    }

    /// Changes the publishing rates.
    fn publish_at(&mut self, rates: Rates) {
        let now_us = self.clock.now_us();
        self.published_us = self.measured_us();
        let rate = |source: &Source| {
            if source.to_all {
                rates.all
            } else {
                rates.groups
            }
        };
        let sources = self.plan.sources.iter().map(rate);
        self.schedules = sources
            .map(|rate| (rate > 0.0).then(|| Schedule::new(now_us, rate)))
            .collect();
        let publishes = self.schedules.iter().any(Option::is_some);
        self.started_us = publishes.then_some(now_us);
    }

    /// Returns the publishing time so far.
    fn measured_us(&self) -> u64 {
        let present = |started_us| self.clock.now_us().saturating_sub(started_us);
        self.published_us + self.started_us.map_or(0, present)
    }

    /// Queues every due message on its connection.
    fn enqueue(&mut self, now_us: u64) {
        for source in 0..self.schedules.len() {
            while let Some(schedule) = &mut self.schedules[source]
                && let Some(due_us) = schedule.take(now_us)
            {
                let group = if self.plan.sources[source].to_all {
                    ALL
                } else {
                    let group = self.turn;
                    self.turn = (group + 1) % self.plan.groups;
                    group
                };
                let per_source = self.plan.connections;
                // All messages of a group use one connection, which keeps them in order.
                let slot = source * per_source + group as usize % per_source;
                let connection = &mut self.connections[slot];
                if connection.queue.len() >= self.plan.queue_max {
                    // An open loop does not wait for a slow server. The message counts as a fault.
                    self.counters.increment(Counter::PublishSkipped);
                    continue;
                }
                connection.queue.push_back(Due { group, due_us });
                self.pump(slot);
            }
        }
    }

    /// Sends the next message of a connection, unless an earlier message still awaits its response.
    fn pump(&mut self, slot: usize) {
        let now_us = self.clock.now_us();
        let connection = &mut self.connections[slot];
        if connection.sent.is_some() || connection.queue.is_empty() || now_us < connection.reopen_us
        {
            return;
        }
        if connection.fd == NONE && !self.open(slot, now_us) {
            return;
        }
        while self.connections[slot].open
            && self.connections[slot].sent.is_none()
            && let Some(due) = self.connections[slot].queue.pop_front()
        {
            self.send(slot, due, now_us);
        }
    }

    fn send(&mut self, slot: usize, Due { group, due_us }: Due, now_us: u64) {
        let connection = &mut self.connections[slot];
        let stream = &mut self.streams[(group as usize).min(self.plan.groups as usize)];
        stream.sequence += 1;
        self.number += 1;
        let message = Message {
            group,
            sequence: stream.sequence,
            confirmed: stream.confirmed,
            number: self.number,
            time_us: due_us,
        };
        self.message.clear();
        message.write(self.plan.run, self.plan.message_bytes, &mut self.message);
        let values = Values {
            number: u64::from(group),
            client: u64::from(self.number),
            message: &self.message,
        };
        match &self.plan.sources[connection.source].how {
            How::Post(request) => {
                request.render(values, false, &mut self.body, &mut connection.unsent);
                connection.sent = Some(Sent {
                    group,
                    sequence: stream.sequence,
                    due_us,
                    sent_us: now_us,
                });
            }
            How::Websocket(_) => {
                let out = &mut connection.unsent;
                self.masks.write(Opcode::Text, &self.message, out);
                // A WebSocket message has no response, so it counts as confirmed.
                stream.confirmed = stream.sequence;
                self.counters.increment(Counter::Published);
            }
        }
        self.publishes.push((self.number, group));
        self.counters.increment(Counter::Requests);
        self.flush(slot);
    }

    fn open(&mut self, slot: usize, now_us: u64) -> bool {
        let connection = &mut self.connections[slot];
        let address = self.plan.sources[connection.source].address;
        connection.generation = connection.generation.wrapping_add(1) & 0x7fff_ffff;
        let token = u64::from(connection.generation) << 32 | slot as u64;
        let opened = net::connect_tcp(address, self.plan.source_address);
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
                connection.reader.reset();
                connection.frames = message::Reader::new();
                connection.head.clear();
                match &self.plan.sources[connection.source].how {
                    How::Post(_) => connection.open = true,
                    How::Websocket(opening) => {
                        opening.write(Values::default(), &mut connection.unsent);
                        self.flush(slot);
                    }
                }
                true
            }
            Err(error) => {
                self.errors.add(&format!("publishing: {error}"), 1);
                connection.reopen_us = now_us + REOPEN_US;
                false
            }
        }
    }

    fn handle_event(&mut self, token: u64, event: &Event, input: &mut [u8]) {
        let slot = token as u32 as usize;
        let connection = &self.connections[slot];
        if connection.fd == NONE || u64::from(connection.generation) != token >> 32 {
            return;
        }
        if event.readable || event.hangup {
            self.read(slot, event.hangup, input);
        }
        self.flush(slot);
        self.pump(slot);
    }

    fn read(&mut self, slot: usize, hangup: bool, input: &mut [u8]) {
        let fd = self.connections[slot].fd;
        loop {
            match self.epoll.recv(fd, input) {
                Ok(None) => return,
                Ok(Some(0)) => {
                    let done = self.connections[slot].reader.handle_end();
                    if let Some(done) = done {
                        self.handle_answer(slot, done.status);
                    }
                    return self.fail(slot, "the server closed the connection");
                }
                Ok(Some(count)) => {
                    self.counters.add(Counter::BytesReceived, count as u64);
                    if let Err(cause) = self.handle_bytes(slot, &mut input[..count]) {
                        return self.fail(slot, &cause.to_string());
                    }
                    if count < input.len() && !hangup {
                        return;
                    }
                }
                Err(error) => return self.fail(slot, &error.to_string()),
            }
        }
    }

    fn handle_bytes(&mut self, slot: usize, bytes: &mut [u8]) -> Result<(), Fault> {
        let source = self.connections[slot].source;
        if matches!(self.plan.sources[source].how, How::Websocket(_)) {
            return self.handle_frames(slot, bytes);
        }
        let mut bytes = &*bytes;
        loop {
            let handled = self.connections[slot]
                .reader
                .handle(&mut bytes, RequestKind::default());
            match handled? {
                None => return Ok(()),
                Some(done) => {
                    self.handle_answer(slot, done.status);
                    if !done.keep_alive {
                        return Err(Fault::Ended);
                    }
                }
            }
        }
    }

    /// Reads a WebSocket: first the handshake response, then pings. Ignores other frames, which are meant for receivers.
    fn handle_frames(&mut self, slot: usize, bytes: &mut [u8]) -> Result<(), Fault> {
        let connection = &mut self.connections[slot];
        let mut used = 0;
        if !connection.open {
            let How::Websocket(opening) = &self.plan.sources[connection.source].how else {
                return Ok(());
            };
            let before = connection.head.len();
            connection.head.extend_from_slice(bytes);
            let Some(head_bytes) = opening.check(&connection.head)? else {
                return Ok(());
            };
            used = head_bytes - before;
            connection.open = true;
        }
        let rules = Rules::new(
            Role::Client,
            FRAME_BYTES_MAX,
            FRAME_BYTES_MAX as usize,
            false,
        );
        loop {
            let step = connection.frames.handle(&mut bytes[used..], &rules)?;
            used += step.consumed;
            match step.event {
                None => return Ok(()),
                Some(message::Event::Ping(payload)) => {
                    let out = &mut connection.unsent;
                    self.masks.write(Opcode::Pong, &payload, out);
                }
                Some(message::Event::Close { .. }) => {
                    return Err(Fault::PublisherClosed);
                }
                Some(message::Event::Message { .. } | message::Event::Pong(_)) => {}
            }
        }
    }

    fn handle_answer(&mut self, slot: usize, status: u16) {
        let Some(sent) = self.connections[slot].sent.take() else {
            return;
        };
        if (200..300).contains(&status) {
            let took_us = self.clock.now_us().saturating_sub(sent.due_us);
            self.answers.saturating_record(took_us);
            self.counters.increment(Counter::Published);
            let index = (sent.group as usize).min(self.plan.groups as usize);
            self.streams[index].confirmed = sent.sequence;
        } else {
            self.counters.increment(Counter::PublishFailures);
            let text = format!("publishing: the answer was status {status}");
            self.errors.add(&text, 1);
        }
    }

    /// Closes a connection. A message without a response may have been published.
    fn fail(&mut self, slot: usize, cause: &str) {
        let now_us = self.clock.now_us();
        let connection = &mut self.connections[slot];
        if connection.sent.take().is_some() {
            self.counters.increment(Counter::PublishFailures);
            self.errors.add(&format!("publishing: {cause}"), 1);
            connection.reopen_us = now_us + REOPEN_US;
        }
        if !connection.open {
            // The server refused the WebSocket.
            self.errors.add(&format!("publishing: {cause}"), 1);
            connection.reopen_us = now_us + REOPEN_US;
        }
        connection.open = false;
        connection.unsent.clear();
        let fd = std::mem::replace(&mut connection.fd, NONE);
        if fd != NONE {
            self.epoll.close(fd);
        }
    }

    fn flush(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        if connection.fd == NONE || connection.unsent.is_empty() {
            return;
        }
        match self.epoll.send_one(connection.fd, &connection.unsent) {
            Ok(None) => {}
            Ok(Some(count)) => {
                self.counters.add(Counter::BytesSent, count as u64);
                connection.unsent.drain(..count);
            }
            Err(error) => self.fail(slot, &error.to_string()),
        }
    }

    fn scan(&mut self, now_us: u64) {
        for slot in 0..self.connections.len() {
            let sent = self.connections[slot].sent;
            if sent.is_some_and(|sent| now_us.saturating_sub(sent.sent_us) > self.plan.timeout_us) {
                self.counters.increment(Counter::Timeouts);
                self.fail(slot, "no answer within --timeout");
            }
            self.pump(slot);
        }
    }

    fn report(&mut self, link: &mut Link, stage: Stage) -> Result<(), Error> {
        let counters = self.counters.since(&self.reported);
        self.reported = self.counters;
        let mut confirmed = Vec::new();
        if stage == Stage::Settled {
            for (index, stream) in self.streams.iter().enumerate() {
                let group = u32::try_from(index)
                    .ok()
                    .filter(|&group| group < self.plan.groups);
                if stream.confirmed != 0 {
                    confirmed.push((group.unwrap_or(ALL), stream.confirmed));
                }
            }
        }
        let report = Report {
            stage,
            measured_us: self.measured_us(),
            counters,
            publish: take_recorded(&mut self.answers),
            publishes: std::mem::take(&mut self.publishes),
            confirmed,
            errors: self.errors.take(),
            ..Report::default()
        };
        link.send(&report)
            .map_err(Error::system("writing to the parent's pipe"))
    }
}
