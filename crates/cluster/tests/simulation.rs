//! Bridges of several nodes and a log that speaks NATS, in one thread and under a seed: connections are cut at any byte, bridges
//! die, the log restarts, forgets old messages, is made anew, and has a copy that lacks messages. Meanwhile nodes ask for older
//! messages, which the log gives one by one or many at once, from a copy that lags behind, and sometimes not at all.
//!
//! Repeat a run with `FERMATA_TEST_SEED`.

#![allow(clippy::unwrap_used)]

mod options;

use std::collections::{HashMap, HashSet, VecDeque};

use fermata_cluster::{Bridge, Content, Event, Options, Outgoing, PastEntry, PastRequest, Place};
use fermata_testkit::Random;

const NODES: usize = 3;

fn below(random: &mut Random, end: u64) -> u64 {
    random.within(0..end as usize) as u64
}

/// What may go wrong besides connections and bridges.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Log {
    Keeps,
    Forgets,
    LosesItsEnd,
    IsMadeAnew,
    /// It gives what it has, and takes nothing for a while.
    Refuses,
    /// Three servers have it, of which one lacks messages for ever and numbers those behind them anew: NATS 2.9.10.
    HasBadCopy,
}

#[derive(Clone)]
struct Stored {
    at_ns: u64,
    subject: Vec<u8>,
    head: Vec<u8>,
    data: Vec<u8>,
}

/// The log's server, as far as a bridge can tell.
#[derive(Default)]
struct Server {
    life: u64,
    description: String,
    now_ns: u64,
    exists: bool,
    is_full: bool,
    /// Places, of any life, of messages by which a bridge has found out whether the log takes some.
    probes: HashSet<u64>,
    first: u64,
    stored: Vec<Stored>,
    /// Several servers have it.
    is_replicated: bool,
    /// Messages that the bad copy lacks: the place of the first, and how many.
    lacks: Option<(u64, u64)>,
    /// What decides on which server a consumer lives.
    consumers: u64,
    known: HashMap<Vec<u8>, u64>,
    connections: HashMap<usize, Connection>,
    /// It gives many older messages at once, of a copy that lags behind.
    has_batches: bool,
    /// Questions about older messages, of which one in a few has no answer while there are faults.
    questions: u64,
    is_forgetful: bool,
}

#[derive(Default)]
struct Connection {
    input: Vec<u8>,
    output: Vec<u8>,
    /// Where the consumer delivers to, its next message, and how many it was given.
    consumer: Option<(Vec<u8>, u64, u64)>,
    /// It reads the bad copy.
    is_bad: bool,
}

impl Server {
    fn last(&self) -> u64 {
        self.first + self.stored.len() as u64 - 1
    }

    /// The place of the last record.
    fn last_record(&self) -> u64 {
        let is_record = |stored: &Stored| !stored.data.is_empty();
        let count = self.stored.iter().rposition(is_record);
        count.map_or(0, |at| self.first + at as u64)
    }

    fn delete(&mut self) {
        self.exists = false;
        self.description.clear();
        self.stored.clear();
        self.known.clear();
        for connection in self.connections.values_mut() {
            connection.consumer = None;
        }
    }

    /// Newest messages are gone that were acknowledged, as after a loss of power.
    fn lose_end(&mut self, count: u64) {
        self.stored.truncate(self.stored.len() - count as usize);
        let last = self.last();
        self.known.retain(|_, seq| *seq <= last);
        self.connections.clear();
    }

    fn open(&mut self, node: usize) {
        let version = if self.has_batches { "2.11.0" } else { "2.9.10" };
        let info = format!(
            "INFO {{\"version\":\"{version}\",\"headers\":true,\"jetstream\":true,\"max_payload\":4096}}\r\n"
        );
        let connection = Connection {
            output: info.into_bytes(),
            ..Connection::default()
        };
        self.connections.insert(node, connection);
    }

    fn take(&mut self, node: usize, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(&node) else {
            return;
        };
        connection.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut connection.input);
        while let Some((line_end, content)) = next_operation(&input) {
            let line = String::from_utf8(input[..line_end].to_vec()).unwrap();
            let content: Vec<u8> = input[content.clone()].to_vec();
            let taken = match content.is_empty() && !line.contains("PUB") {
                true => line_end + 2,
                false => line_end + 2 + content.len() + 2,
            };
            input.drain(..taken);
            self.run(node, &line, &content);
        }
        self.connections.get_mut(&node).unwrap().input = input;
    }

    fn run(&mut self, node: usize, line: &str, content: &[u8]) {
        let fields: Vec<&str> = line.split(' ').collect();
        let connection = self.connections.get_mut(&node).unwrap();
        match fields[0] {
            "PING" => connection.output.extend_from_slice(b"PONG\r\n"),
            "PUB" => {
                let reply = if fields.len() == 4 { fields[2] } else { "" };
                self.ask(node, fields[1], reply, content);
            }
            "HPUB" => {
                let head_len = fields[3].parse().unwrap();
                let (head, data) = content.split_at(head_len);
                self.store(node, fields[1], fields[2], head, data);
            }
            _ => {}
        }
    }

    fn answer(&mut self, node: usize, to: &str, text: &str) {
        let output = &mut self.connections.get_mut(&node).unwrap().output;
        output.extend_from_slice(format!("MSG {to} 1 {}\r\n{text}\r\n", text.len()).as_bytes());
    }

    fn describe(&mut self, node: usize, to: &str) {
        let (time, copies) = match self.is_replicated {
            true => (
                format!(",\"last_ts\":\"{}\"", time_text(self.now_ns)),
                ",\"cluster\":{\"replicas\":[{\"active\":1},{\"active\":1}]}",
            ),
            false => (String::new(), ""),
        };
        let text = format!(
            "{{\"created\":\"life {}\",\"config\":{{\"description\":\"{}\",\"allow_direct\":true}},\"state\":{{\"first_seq\":{},\"last_seq\":{}{time}}}{copies}}}",
            self.life,
            self.description,
            self.first,
            self.last()
        );
        self.answer(node, to, &text);
    }

    fn ask(&mut self, node: usize, subject: &str, reply: &str, content: &[u8]) {
        if subject.starts_with("$JS.API.STREAM.INFO.") {
            match self.exists {
                true => self.describe(node, reply),
                false => self.answer(
                    node,
                    reply,
                    "{\"error\":{\"code\":404,\"description\":\"none\"}}",
                ),
            }
        } else if subject.starts_with("$JS.API.STREAM.CREATE.") {
            // The second one finds it there.
            if !std::mem::replace(&mut self.exists, true) {
                self.life += 1;
                self.first = 1;
            }
            self.describe(node, reply);
        } else if subject.starts_with("$JS.API.STREAM.UPDATE.") {
            let text = String::from_utf8(content.to_vec()).unwrap();
            let description = text.split("\"description\":\"").nth(1).unwrap();
            self.description = description.split('"').next().unwrap().to_owned();
            for connection in self.connections.values_mut() {
                let text = "MSG $JS.EVENT.ADVISORY.STREAM.UPDATED.FERMATA_app 3 2\r\n{}\r\n";
                connection.output.extend_from_slice(text.as_bytes());
            }
            self.describe(node, reply);
        } else if subject.starts_with("$JS.API.STREAM.MSG.GET.") {
            self.give_older(node, reply, content, false);
        } else if subject.starts_with("$JS.API.DIRECT.GET.") {
            self.give_older(node, reply, content, true);
        } else if subject.starts_with("$JS.API.CONSUMER.CREATE.") {
            if !self.exists {
                return self.answer(
                    node,
                    reply,
                    "{\"error\":{\"code\":404,\"description\":\"none\"}}",
                );
            }
            let text = String::from_utf8(content.to_vec()).unwrap();
            let value = |key: &str| value(&text, key);
            let from: u64 = value("opt_start_seq").parse().unwrap();
            let consumer = (
                value("deliver_subject").into_bytes(),
                from.max(self.first),
                0,
            );
            self.answer(node, reply, "{}");
            self.consumers += 1;
            let connection = self.connections.get_mut(&node).unwrap();
            connection.is_bad = self.is_replicated && self.consumers.is_multiple_of(3);
            connection.consumer = Some(consumer);
        }
    }

    /// What it has of a subject from a place on: the first, or as many as are asked for.
    fn give_older(&mut self, node: usize, reply: &str, content: &[u8], is_batched: bool) {
        self.questions += 1;
        if self.is_forgetful && self.questions.is_multiple_of(5) {
            return;
        }
        let text = String::from_utf8(content.to_vec()).unwrap();
        let from: u64 = value(&text, "seq").parse().unwrap();
        let subject = value(&text, "next_by_subj");
        let lag = if is_batched { self.questions % 4 } else { 0 };
        let places = from.max(self.first)..=self.last().saturating_sub(lag);
        let found = places.filter_map(|seq| {
            let stored = &self.stored[(seq - self.first) as usize];
            (stored.subject == subject.as_bytes()).then_some((seq, stored))
        });
        let found: Vec<(u64, &Stored)> = match self.exists {
            true => found.collect(),
            false => Vec::new(),
        };
        let mut output = String::new();
        let mut say = |head: &str, data: &str| {
            let (head_len, len) = (head.len(), head.len() + data.len());
            output += &format!("HMSG {reply} 1 {head_len} {len}\r\n{head}{data}\r\n");
        };
        match found.first() {
            None if is_batched => say("NATS/1.0 404 Message Not Found\r\n\r\n", ""),
            None => {
                let text = "{\"error\":{\"code\":404,\"description\":\"no message found\"}}";
                return self.answer(node, reply, text);
            }
            Some((seq, stored)) if !is_batched => {
                let [head, data] = [&stored.head, &stored.data].map(|bytes| base64(bytes));
                let time = time_text(stored.at_ns);
                let text = format!(
                    "{{\"message\":{{\"seq\":{seq},\"hdrs\":\"{head}\",\"data\":\"{data}\",\"time\":\"{time}\"}}}}"
                );
                return self.answer(node, reply, &text);
            }
            Some(_) => {
                let batch: usize = value(&text, "batch").parse().unwrap();
                for (at, (seq, stored)) in found.iter().enumerate().take(batch) {
                    let head = String::from_utf8(stored.head.clone()).unwrap();
                    let headers = head.strip_prefix("NATS/1.0\r\n").unwrap();
                    let time = time_text(stored.at_ns);
                    let pending = found.len() - at - 1;
                    let head = format!(
                        "NATS/1.0\r\nNats-Sequence: {seq}\r\nNats-Time-Stamp: {time}\r\nNats-Num-Pending: {pending}\r\n{headers}"
                    );
                    say(&head, &String::from_utf8(stored.data.clone()).unwrap());
                }
                let pending = found.len().saturating_sub(batch);
                let head = format!("NATS/1.0 204 EOB\r\nNats-Num-Pending: {pending}\r\n\r\n");
                say(&head, "");
            }
        }
        let connection = self.connections.get_mut(&node).unwrap();
        connection.output.extend_from_slice(output.as_bytes());
    }

    fn store(&mut self, node: usize, subject: &str, reply: &str, head: &[u8], data: &[u8]) {
        if !self.exists {
            let output = &mut self.connections.get_mut(&node).unwrap().output;
            output.extend_from_slice(
                format!("HMSG {reply} 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n").as_bytes(),
            );
            return;
        }
        let text = String::from_utf8(head.to_vec()).unwrap();
        let id = text
            .split("Nats-Msg-Id: ")
            .nth(1)
            .unwrap()
            .lines()
            .next()
            .unwrap();
        let (seq, is_known) = match self.known.get(id.as_bytes()) {
            Some(seq) => (*seq, true),
            None if self.is_full => {
                let text = "{\"error\":{\"code\":503,\"description\":\"maximum bytes exceeded\"}}";
                return self.answer(node, reply, text);
            }
            None => {
                if text.contains("Fermata-Content: probe") {
                    self.probes.insert(self.last() + 1);
                }
                self.now_ns += 1_000_000;
                self.stored.push(Stored {
                    at_ns: self.now_ns,
                    subject: subject.as_bytes().to_vec(),
                    head: head.to_vec(),
                    data: data.to_vec(),
                });
                self.known.insert(id.as_bytes().to_vec(), self.last());
                (self.last(), false)
            }
        };
        let text = format!("{{\"stream\":\"S\",\"seq\":{seq},\"duplicate\":{is_known}}}");
        self.answer(node, reply, &text);
    }

    /// The consumer says that it lives, and what it has given.
    fn beat(&mut self, node: usize) {
        let Some(connection) = self.connections.get_mut(&node) else {
            return;
        };
        if let Some((deliver_to, _, given)) = &connection.consumer {
            let head =
                format!("NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: {given}\r\n\r\n");
            let deliver_to = String::from_utf8_lossy(deliver_to);
            let text = format!(
                "HMSG {deliver_to} 1 {} {}\r\n{head}\r\n",
                head.len(),
                head.len()
            );
            connection.output.extend_from_slice(text.as_bytes());
        }
    }

    /// Pushes a message to a consumer.
    fn push(&mut self, node: usize) -> bool {
        let (first, mut last) = (self.first, self.last());
        let Some(connection) = self.connections.get_mut(&node) else {
            return false;
        };
        let lacks = self.lacks.filter(|_| connection.is_bad);
        last -= lacks.map_or(0, |(_, count)| count);
        let Some((_, next, given)) = &mut connection.consumer else {
            return false;
        };
        *next = (*next).max(first);
        if *next > last {
            return false;
        }
        let skipped = lacks.filter(|(at, _)| *next >= *at);
        let at = *next - first + skipped.map_or(0, |(_, count)| count);
        let message = &self.stored[at as usize];
        *given += 1;
        let line = format!(
            "HMSG {} 1 $JS.ACK.S.C.1.{next}.{given}.{}.{} {} {}\r\n",
            String::from_utf8_lossy(&message.subject),
            message.at_ns,
            last - *next,
            message.head.len(),
            message.head.len() + message.data.len()
        );
        *next += 1;
        connection.output.extend_from_slice(line.as_bytes());
        connection.output.extend_from_slice(&message.head);
        connection.output.extend_from_slice(&message.data);
        connection.output.extend_from_slice(b"\r\n");
        true
    }
}

/// A number or word of a flat JSON object.
fn value(text: &str, key: &str) -> String {
    let rest = text.split(&format!("\"{key}\":")).nth(1).unwrap();
    let value = rest.split([',', '}']).next().unwrap();
    value.trim_matches('"').to_owned()
}

/// RFC 4648, 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = word >> (18 - 6 * at) & 63;
            text.push(match at <= chunk.len() {
                true => DIGITS[digit as usize] as char,
                false => '=',
            });
        }
    }
    text
}

/// RFC 3339, for the first day of 1970.
fn time_text(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    format!(
        "1970-01-01T{:02}:{:02}:{:02}.{:09}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        ns % 1_000_000_000
    )
}

/// The end of the first line, and where its content lies.
fn next_operation(input: &[u8]) -> Option<(usize, std::ops::Range<usize>)> {
    let end = input.windows(2).position(|two| two == b"\r\n")?;
    let line = std::str::from_utf8(&input[..end]).unwrap();
    if !line.starts_with("PUB") && !line.starts_with("HPUB") {
        return Some((end, 0..0));
    }
    let len: usize = line.rsplit(' ').next().unwrap().parse().unwrap();
    (input.len() >= end + 4 + len).then_some((end, end + 2..end + 2 + len))
}

/// What a node delivered to its clients, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Delivered {
    Gap(Place),
    Event(Place, Vec<u8>),
}

struct Node {
    bridge: Bridge,
    lives: u32,
    /// Records that are not released yet, the newest last, and how many of them were handed over.
    outbox: VecDeque<(u64, Vec<u8>)>,
    handed: usize,
    written: u64,
    accepted: HashMap<u64, Place>,
    delivered: Vec<Delivered>,
    /// When the last of them was stored.
    reached_ms: Option<u64>,
    is_ready: bool,
    /// What was asked for of the past and is not answered, and how many were and had something.
    asked: HashMap<u64, PastRequest>,
    questions: u64,
    answers: u64,
    log: Log,
}

/// Records of an outbox are of these in turn.
const CHANNELS: [&[u8]; 2] = [b"a room.of *", b"another"];

fn channel_of(outbox: u64) -> &'static [u8] {
    CHANNELS[(outbox % 2) as usize]
}

/// The same of an event's data.
fn channel_of_data(data: &[u8]) -> &'static [u8] {
    let text = std::str::from_utf8(data).unwrap();
    let (_, outbox) = text.split_once(':').unwrap();
    channel_of(outbox.parse().unwrap())
}

fn options(node: usize, life: u32) -> Options {
    Options {
        inbox: format!("_INBOX.{node}x{life}"),
        outbox: format!("n{node}"),
        events_max: 100_000,
        ..options::options("nats://a,nats://b")
    }
}

impl Node {
    fn new(node: usize, log: Log) -> Node {
        Node {
            asked: HashMap::new(),
            questions: 0,
            answers: 0,
            log,
            bridge: Bridge::new(options(node, 0), None, None, 0),
            lives: 1,
            outbox: VecDeque::new(),
            handed: 0,
            written: 0,
            accepted: HashMap::new(),
            delivered: Vec::new(),
            reached_ms: None,
            is_ready: false,
        }
    }

    fn reached(&self) -> Option<Place> {
        self.delivered.last().map(|it| match it {
            Delivered::Gap(place) | Delivered::Event(place, _) => *place,
        })
    }

    /// The process is killed and started again: only what is in shared memory is left.
    fn kill(&mut self, node: usize, now_ms: u64) {
        self.bridge = Bridge::new(
            options(node, self.lives),
            self.reached(),
            self.reached_ms,
            now_ms,
        );
        self.lives += 1;
        self.handed = 0;
        self.is_ready = false;
        self.asked.clear();
    }

    /// Asks for a part of what it was told.
    fn ask_past(&mut self, random: &mut Random, now_ms: u64) {
        let Some(reached) = self.reached().filter(|_| self.bridge.can_ask_past()) else {
            return;
        };
        let up_to = below(random, reached.seq + 1);
        let request = PastRequest {
            id: self.questions,
            epoch: reached.epoch ^ u64::from(below(random, 20) == 0),
            // Few enough that they are given in time, one by one.
            after: up_to - below(random, up_to.min(200) + 1),
            up_to,
            oldest_ms: 0,
            events_max: [5, 100_000][below(random, 2) as usize],
            bytes_max: 1 << 20,
            channels: [&CHANNELS[..], &CHANNELS[1..]][below(random, 2) as usize]
                .iter()
                .map(|name| name.to_vec())
                .collect(),
            events_only: below(random, 2) == 0,
        };
        self.questions += 1;
        self.asked.insert(request.id, request.clone());
        self.bridge.ask_past(request, now_ms);
    }

    /// What was told and is asked for is there, or is said to be missing.
    fn check_past(&mut self, id: u64, entries: &[PastEntry]) {
        let request = self.asked.remove(&id).expect("it was asked for");
        let (mut at, mut gap, mut events) = (request.after, 0, HashMap::new());
        for entry in entries {
            let seq = match entry {
                PastEntry::Gap(up_to) => {
                    gap = *up_to;
                    *up_to
                }
                PastEntry::Event(received) => {
                    assert_eq!(received.place.epoch, request.epoch);
                    assert_eq!(received.channel, channel_of_data(&received.data));
                    assert!(request.channels.contains(&received.channel));
                    events.insert(received.place.seq, &received.data);
                    received.place.seq
                }
            };
            assert!(at < seq && seq <= request.up_to, "{request:?}: {entries:?}");
            at = seq;
        }
        assert!(events.len() <= request.events_max);
        let (mut count, mut told) = (0, HashMap::new());
        for delivered in &self.delivered {
            if let Delivered::Event(place, data) = delivered
                && place.epoch == request.epoch
            {
                told.insert(place.seq, data);
            }
        }
        for (seq, data) in told {
            let is_wanted = request
                .channels
                .iter()
                .any(|it| it == channel_of_data(data));
            if !(request.after < seq && seq <= request.up_to && is_wanted) {
                continue;
            }
            count += 1;
            // Another message may stand there: a bad copy has told this one.
            let given = events.get(&seq);
            assert!(
                given.is_none_or(|given| *given == data) || self.log == Log::HasBadCopy,
                "{seq}: {request:?}"
            );
            assert!(
                given.is_some() || seq <= gap || self.log == Log::HasBadCopy,
                "{seq} is left out in silence: {request:?}: {entries:?}"
            );
        }
        // Nothing is missing that the log has.
        let is_of_this_log = self.reached().is_some_and(|it| it.epoch == request.epoch);
        if matches!(self.log, Log::Keeps | Log::Refuses)
            && is_of_this_log
            && count <= request.events_max
        {
            assert!(gap == 0, "{request:?}: {entries:?}");
        }
        self.answers += u64::from(!events.is_empty());
    }

    fn publish(&mut self, node: usize) {
        self.written += 1;
        let data = format!("{node}:{}", self.written).into_bytes();
        self.outbox.push_back((self.written, data));
    }

    fn hand_over(&mut self, now_ms: u64) {
        while self.bridge.can_send() && self.handed < self.outbox.len() {
            let (outbox, data) = &self.outbox[self.handed];
            self.handed += 1;
            let record = Outgoing {
                outbox: *outbox,
                content: Content::Event,
                channel: channel_of(*outbox),
                name: None,
                data,
                except: Some((7, *outbox)),
            };
            self.bridge.send(&record, now_ms);
        }
    }

    fn take_events(&mut self, node: usize, server: &mut Server, is_reachable: bool, now_ms: u64) {
        while let Some(event) = self.bridge.poll_event() {
            match event {
                Event::Connect(_) if is_reachable => {
                    server.open(node);
                    self.bridge.handle_connected(now_ms);
                }
                Event::Connect(_) => self.bridge.handle_closed("refused", now_ms),
                Event::Disconnect => {
                    server.connections.remove(&node);
                }
                Event::Begin(place) => {
                    self.delivered.push(Delivered::Gap(place));
                    self.reached_ms = None;
                }
                Event::Record(record) => {
                    assert_eq!(record.channel, channel_of_data(&record.data));
                    assert_eq!(record.except.map(|it| it.0), Some(7));
                    self.delivered
                        .push(Delivered::Event(record.place, record.data));
                    self.reached_ms = Some(record.unix_ms);
                }
                Event::Accepted { outbox, place } => {
                    let before = self.accepted.insert(outbox, place);
                    assert!(
                        before.is_none_or(|before| before == place || before.epoch != place.epoch)
                    );
                }
                Event::Rejected(rejected) => panic!("{rejected:?}"),
                Event::Released(outbox) => {
                    while self.outbox.front().is_some_and(|(it, _)| *it <= outbox) {
                        self.outbox.pop_front();
                        self.handed -= 1;
                    }
                }
                Event::Rewind => self.handed = 0,
                Event::Ready => self.is_ready = true,
                Event::Away(_) => self.is_ready = false,
                Event::Past { id, entries } => self.check_past(id, &entries),
                Event::PastLost(id) => {
                    self.asked.remove(&id).expect("it was asked for");
                }
                Event::Secure | Event::Notice(_) => {}
            }
        }
    }
}

/// How many questions about older messages had an answer with some.
fn simulate(seed: u64, log: Log) -> u64 {
    let mut random = Random::new(seed);
    let mut server = Server {
        first: 1,
        is_replicated: log == Log::HasBadCopy,
        // The copies of newer versions have all.
        has_batches: log != Log::HasBadCopy && below(&mut random, 2) == 0,
        is_forgetful: true,
        ..Server::default()
    };
    let mut nodes: Vec<Node> = (0..NODES).map(|at| Node::new(at, log)).collect();
    let mut now_ms = 0;
    let mut is_reachable = true;
    let steps = 4_000;
    // The long quiet at the end lets everything arrive.
    for step in 0..steps + 20_000 {
        let has_faults = step < steps;
        if !has_faults {
            (is_reachable, server.is_full) = (true, false);
            server.is_forgetful = false;
            if is_at_rest(&server, &nodes) {
                break;
            }
        }
        now_ms += below(&mut random, 20);
        if has_faults {
            match below(&mut random, 400) {
                0 => is_reachable = !is_reachable,
                1 => server.connections.clear(),
                2 if log == Log::Forgets => {
                    let count = below(&mut random, server.stored.len() as u64 + 1);
                    server.stored.drain(..count as usize);
                    server.first += count;
                }
                3 if log == Log::IsMadeAnew => server.delete(),
                3..7 if log == Log::Refuses => server.is_full = !server.is_full,
                4..9 if log == Log::HasBadCopy && server.lacks.is_none() => {
                    let count = below(&mut random, 30.min(server.last() + 1));
                    server.lacks = (count > 0).then_some((server.last() + 1 - count, count));
                }
                4 if log == Log::LosesItsEnd => {
                    let count = below(&mut random, 30.min(server.stored.len() as u64) + 1);
                    server.lose_end(count);
                }
                _ => {}
            }
        }
        let at = below(&mut random, NODES as u64) as usize;
        let node = &mut nodes[at];
        if has_faults {
            match below(&mut random, 200) {
                0 => {
                    server.connections.remove(&at);
                }
                1 => {
                    server.connections.remove(&at);
                    node.kill(at, now_ms);
                }
                2..80 => node.publish(at),
                80..90 => node.ask_past(&mut random, now_ms),
                _ => {}
            }
        }
        if node.bridge.due_ms() <= now_ms {
            node.bridge.handle_time(now_ms);
        }
        node.take_events(at, &mut server, is_reachable, now_ms);
        node.hand_over(now_ms);
        node.take_events(at, &mut server, is_reachable, now_ms);
        let sent = node.bridge.transmit();
        let count = below(&mut random, sent.len().min(3000) as u64 + 1) as usize;
        let bytes: Vec<u8> = sent.drain(..count).collect();
        server.take(at, &bytes);
        for _ in 0..below(&mut random, 8) {
            server.push(at);
        }
        if below(&mut random, 20) == 0 {
            server.beat(at);
        }
        match server.connections.get_mut(&at) {
            None => node.bridge.handle_closed("cut", now_ms),
            Some(connection) => {
                let count =
                    below(&mut random, connection.output.len().min(3000) as u64 + 1) as usize;
                let bytes: Vec<u8> = connection.output.drain(..count).collect();
                node.bridge.handle_input(&bytes, now_ms);
            }
        }
        node.take_events(at, &mut server, is_reachable, now_ms);
    }
    check(&server, &nodes, log);
    nodes.iter().map(|node| node.answers).sum()
}

/// Whether every node has sent all it has and reads the end of the log that there is now: one that has not noticed yet that its
/// log is gone is still where that one ended.
fn is_at_rest(server: &Server, nodes: &[Node]) -> bool {
    let epoch = |node: &Node| node.reached().map(|place| place.epoch);
    nodes.iter().enumerate().all(|(at, node)| {
        let connection = server.connections.get(&at);
        let reads = connection.is_some_and(|connection| connection.consumer.is_some());
        let seq = node.reached().map(|place| place.seq);
        reads
            && node.is_ready
            && node.outbox.is_empty()
            && node.asked.is_empty()
            && seq.is_some_and(|seq| seq >= server.last_record())
            && epoch(node) == epoch(&nodes[0])
    })
}

fn check(server: &Server, nodes: &[Node], log: Log) {
    assert!(
        is_at_rest(server, nodes),
        "a node has not come to rest: {:?}",
        nodes
            .iter()
            .map(|node| (node.is_ready, node.outbox.len(), node.reached()))
            .collect::<Vec<_>>()
    );
    for (at, node) in nodes.iter().enumerate() {
        assert_eq!(
            node.accepted.len() as u64,
            node.written,
            "node {at}: every record is accepted"
        );
        // One order without holes, except behind a gap.
        for pair in node.delivered.windows(2) {
            let (Delivered::Gap(before) | Delivered::Event(before, _)) = &pair[0];
            if let Delivered::Event(place, _) = &pair[1] {
                assert_eq!(place.epoch, before.epoch);
                assert!(place.seq > before.seq, "node {at}");
                let skipped = before.seq + 1..place.seq;
                assert!(
                    skipped.clone().all(|seq| server.probes.contains(&seq)),
                    "node {at}: a hole at {skipped:?}"
                );
            }
        }
        // A place is of one event for ever; what a bad copy has given is followed by a gap.
        let mut data_of = HashMap::new();
        for event in &node.delivered {
            if let Delivered::Event(place, data) = event {
                let before = data_of.insert(place, data);
                assert!(
                    log == Log::HasBadCopy || before.is_none_or(|before| before == data),
                    "node {at}: {place:?}"
                );
            }
        }
        let gaps = node
            .delivered
            .iter()
            .filter(|it| matches!(it, Delivered::Gap(_)))
            .count();
        if matches!(log, Log::Keeps | Log::Refuses) {
            assert_eq!(gaps, 1, "node {at}: only the beginning");
        }
        // What it has told of the present log is what the log has.
        let end = node
            .delivered
            .iter()
            .rev()
            .take_while(|it| matches!(it, Delivered::Event(..)));
        for event in end {
            if let Delivered::Event(place, data) = event
                && place.seq >= server.first
            {
                assert_eq!(
                    *data,
                    server.stored[(place.seq - server.first) as usize].data
                );
            }
        }
        // Each record is in the log once, where its publisher was told that it is.
        if matches!(log, Log::Keeps | Log::Refuses) {
            for (outbox, place) in &node.accepted {
                let stored = &server.stored[(place.seq - server.first) as usize];
                assert_eq!(stored.data, format!("{at}:{outbox}").into_bytes());
            }
        }
    }
    let mut all: Vec<&[u8]> = server
        .stored
        .iter()
        .map(|stored| &stored.data[..])
        .filter(|data| !data.is_empty())
        .collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "a record is in the log twice");
    if matches!(log, Log::Keeps | Log::Refuses) {
        assert_eq!(
            count as u64,
            nodes.iter().map(|node| node.written).sum::<u64>()
        );
    }
}

fn run(log: Log) {
    let seed = Random::seed_from_environment();
    let mut answers = 0;
    for round in 0..40 {
        let seed = seed.wrapping_add(round);
        println!("round {round}: FERMATA_TEST_SEED={seed}");
        answers += simulate(seed, log);
    }
    assert!(answers > 20, "{answers} were given something of the past");
}

#[test]
fn a_log_that_keeps_everything_is_the_same_everywhere() {
    run(Log::Keeps);
}

#[test]
fn a_log_that_refuses_messages_for_a_while_has_each_once_in_the_end() {
    run(Log::Refuses);
}

/// A node on the bad copy went on without what it lacks.
#[test]
fn a_copy_that_lacks_messages_is_left_or_told_as_a_gap() {
    run(Log::HasBadCopy);
}

#[test]
fn what_the_log_has_forgotten_is_a_gap() {
    run(Log::Forgets);
}

#[test]
fn what_is_published_in_the_place_of_lost_messages_has_other_places() {
    run(Log::LosesItsEnd);
}

#[test]
fn a_log_that_was_made_anew_is_a_gap() {
    run(Log::IsMadeAnew);
}

/// Everything that a node and the log have for each other, until `stops` of what the node sends.
fn converse(
    node: &mut Node,
    at: usize,
    server: &mut Server,
    now_ms: u64,
    stops: impl Fn(&[u8]) -> bool,
) {
    for _ in 0..100 {
        node.bridge.handle_time(now_ms);
        node.take_events(at, server, true, now_ms);
        node.hand_over(now_ms);
        let sent = std::mem::take(node.bridge.transmit());
        let is_end = stops(&sent);
        server.take(at, &sent);
        if is_end {
            return;
        }
        while server.push(at) {}
        server.beat(at);
        if let Some(connection) = server.connections.get_mut(&at) {
            let bytes = std::mem::take(&mut connection.output);
            node.bridge.handle_input(&bytes, now_ms);
        }
        node.take_events(at, server, true, now_ms);
    }
}

#[test]
fn a_log_that_is_made_anew_while_a_consumer_is_made_is_another_one() {
    let mut server = Server {
        first: 1,
        ..Server::default()
    };
    let mut nodes: Vec<Node> = (0..2).map(|at| Node::new(at, Log::IsMadeAnew)).collect();
    nodes[0].publish(0);
    converse(&mut nodes[0], 0, &mut server, 0, |_| false);
    assert_eq!(server.last(), 1);
    // The second one has asked what the log is, and what it sends next makes its consumer.
    let asks = |sent: &[u8]| String::from_utf8_lossy(sent).contains("STREAM.INFO");
    converse(&mut nodes[1], 1, &mut server, 0, asks);
    let connection = server.connections.get_mut(&1).unwrap();
    let described = std::mem::take(&mut connection.output);
    // Meanwhile somebody deletes the log, and the first node makes it anew and publishes to it.
    server.delete();
    server.connections.remove(&0);
    nodes[0].bridge.handle_closed("cut", 0);
    nodes[0].publish(0);
    nodes[0].publish(0);
    converse(&mut nodes[0], 0, &mut server, 60_000, |_| false);
    assert_eq!((server.life, server.last()), (2, 2));
    nodes[1].bridge.handle_input(&described, 60_000);
    for turn in 1..10 {
        converse(&mut nodes[1], 1, &mut server, 60_000 + turn * 1_000, |_| {
            false
        });
    }
    let events = |node: &Node| -> Vec<Delivered> {
        let is_event = |it: &&Delivered| matches!(it, Delivered::Event(..));
        node.delivered.iter().filter(is_event).cloned().collect()
    };
    let of_second_log = &events(&nodes[0])[1..];
    assert_eq!(of_second_log.len(), 2);
    assert!(nodes[1].is_ready);
    assert_eq!(
        nodes[1].reached().map(|place| place.epoch),
        nodes[0].reached().map(|place| place.epoch)
    );
    assert!(
        events(&nodes[1])
            .iter()
            .all(|it| of_second_log.contains(it))
    );
}

/// The places are the same, the messages are others.
#[test]
fn older_messages_of_a_log_that_was_made_anew_meanwhile_are_a_gap() {
    let mut server = Server {
        first: 1,
        ..Server::default()
    };
    let mut node = Node::new(0, Log::IsMadeAnew);
    for _ in 0..5 {
        node.publish(0);
    }
    converse(&mut node, 0, &mut server, 0, |_| false);
    let reached = node.reached().unwrap();
    assert_eq!(reached.seq, 5);
    let request = PastRequest {
        id: 0,
        epoch: reached.epoch,
        after: 1,
        up_to: 5,
        oldest_ms: 0,
        events_max: 100,
        bytes_max: 1 << 20,
        channels: CHANNELS.iter().map(|name| name.to_vec()).collect(),
        events_only: false,
    };
    node.asked.insert(0, request.clone());
    node.bridge.ask_past(request, 0);
    // Before the question comes there.
    let mut other = Node::new(1, Log::IsMadeAnew);
    server.delete();
    for _ in 0..5 {
        other.publish(1);
    }
    converse(&mut other, 1, &mut server, 0, |_| false);
    assert_eq!((server.life, server.last()), (2, 5));
    converse(&mut node, 0, &mut server, 10, |_| false);
    assert!(node.asked.is_empty());
    assert_eq!(node.answers, 0);
}
