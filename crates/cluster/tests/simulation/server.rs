//! A fake NATS server with one stream.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

#[derive(Clone)]
pub(super) struct Stored {
    pub(super) at_ns: u64,
    pub(super) subject: Vec<u8>,
    pub(super) head: Vec<u8>,
    pub(super) data: Vec<u8>,
}

/// A fake NATS server with one stream.
#[derive(Default)]
pub(super) struct Server {
    pub(super) life: u64,
    pub(super) description: String,
    pub(super) now_ns: u64,
    pub(super) exists: bool,
    pub(super) is_full: bool,
    /// Sequences of probes, in any incarnation of the stream.
    pub(super) probes: HashSet<u64>,
    pub(super) first: u64,
    pub(super) stored: Vec<Stored>,
    /// True if several servers have the stream.
    pub(super) is_replicated: bool,
    /// First sequence and number of messages that the bad copy lacks.
    pub(super) lacks: Option<(u64, u64)>,
    /// Number of consumers, which determines the copy that a consumer reads.
    pub(super) consumers: u64,
    pub(super) known: HashMap<Vec<u8>, u64>,
    pub(super) connections: HashMap<usize, Connection>,
    /// True if the server returns batches of older messages, from a lagging copy.
    pub(super) has_batches: bool,
    /// Number of requests for older messages. Some get no response while there are faults.
    pub(super) questions: u64,
    pub(super) is_forgetful: bool,
}

#[derive(Default)]
pub(super) struct Connection {
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    /// Delivery subject, next message, and number of deliveries.
    pub(super) consumer: Option<(Vec<u8>, u64, u64)>,
    /// True if the consumer reads the bad copy.
    pub(super) is_bad: bool,
}

impl Server {
    pub(super) fn last(&self) -> u64 {
        self.first + self.stored.len() as u64 - 1
    }

    /// Sequence of the last record.
    pub(super) fn last_record(&self) -> u64 {
        let is_record = |stored: &Stored| !stored.data.is_empty();
        let count = self.stored.iter().rposition(is_record);
        count.map_or(0, |at| self.first + at as u64)
    }

    pub(super) fn has_consumer(&self, node: usize) -> bool {
        let connection = self.connections.get(&node);
        connection.is_some_and(|connection| connection.consumer.is_some())
    }

    pub(super) fn delete(&mut self) {
        self.exists = false;
        self.description.clear();
        self.stored.clear();
        self.known.clear();
        for connection in self.connections.values_mut() {
            connection.consumer = None;
        }
    }

    /// Loses the newest acknowledged messages, as after a power failure.
    pub(super) fn lose_end(&mut self, count: u64) {
        self.stored.truncate(self.stored.len() - count as usize);
        let last = self.last();
        self.known.retain(|_, seq| *seq <= last);
        self.connections.clear();
    }

    pub(super) fn open(&mut self, node: usize) {
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

    pub(super) fn take(&mut self, node: usize, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(&node) else {
            return;
        };
        connection.input.extend_from_slice(bytes);
        let mut input = std::mem::take(&mut connection.input);
        while let Some((line_end, content)) = next_operation(&input) {
            let line = String::from_utf8(input[..line_end].to_vec()).unwrap();
            let content: Vec<u8> = input[content.clone()].to_vec();
            let taken = if content.is_empty() && !line.contains("PUB") {
                line_end + 2
            } else {
                line_end + 2 + content.len() + 2
            };
            input.drain(..taken);
            self.run(node, &line, &content);
        }
        self.connections.get_mut(&node).unwrap().input = input;
    }

    pub(super) fn run(&mut self, node: usize, line: &str, content: &[u8]) {
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

    pub(super) fn answer(&mut self, node: usize, to: &str, text: &str) {
        let output = &mut self.connections.get_mut(&node).unwrap().output;
        output.extend_from_slice(format!("MSG {to} 1 {}\r\n{text}\r\n", text.len()).as_bytes());
    }

    pub(super) fn describe(&mut self, node: usize, to: &str) {
        let (time, copies) = if self.is_replicated {
            (
                format!(",\"last_ts\":\"{}\"", time_text(self.now_ns)),
                ",\"cluster\":{\"replicas\":[{\"active\":1},{\"active\":1}]}",
            )
        } else {
            (String::new(), "")
        };
        let text = format!(
            "{{\"created\":\"2026-11-22T{:02}:{:02}:00Z\",\"config\":{{\"description\":\"{}\",\"allow_direct\":true}},\"state\":{{\"first_seq\":{},\"last_seq\":{}{time}}}{copies}}}",
            self.life / 60 % 24,
            self.life % 60,
            self.description,
            self.first,
            self.last()
        );
        self.answer(node, to, &text);
    }

    pub(super) fn ask(&mut self, node: usize, subject: &str, reply: &str, content: &[u8]) {
        if subject.starts_with("$JS.API.STREAM.INFO.") {
            if self.exists {
                self.describe(node, reply)
            } else {
                self.answer(
                    node,
                    reply,
                    "{\"error\":{\"code\":404,\"description\":\"none\"}}",
                )
            }
        } else if subject.starts_with("$JS.API.STREAM.CREATE.") {
            // After the first request, the stream exists.
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

    /// Returns stored messages of a subject from a sequence on, either the first one or a batch.
    pub(super) fn give_older(
        &mut self,
        node: usize,
        reply: &str,
        content: &[u8],
        is_batched: bool,
    ) {
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
        let found: Vec<(u64, &Stored)> = if self.exists {
            found.collect()
        } else {
            Vec::new()
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
                let [head, data] =
                    [&stored.head, &stored.data].map(|bytes| BASE64_STANDARD.encode(bytes));
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

    pub(super) fn store(
        &mut self,
        node: usize,
        subject: &str,
        reply: &str,
        head: &[u8],
        data: &[u8],
    ) {
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

    /// Sends a heartbeat with the number of deliveries.
    pub(super) fn beat(&mut self, node: usize) {
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
    pub(super) fn push(&mut self, node: usize) -> bool {
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

/// Value of a field of a flat JSON object.
pub(super) fn value(text: &str, key: &str) -> String {
    let rest = text.split(&format!("\"{key}\":")).nth(1).unwrap();
    let value = rest.split([',', '}']).next().unwrap();
    value.trim_matches('"').to_owned()
}

/// Formats a time of 1970-01-01 (RFC 3339).
pub(super) fn time_text(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    format!(
        "1970-01-01T{:02}:{:02}:{:02}.{:09}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        ns % 1_000_000_000
    )
}

/// Returns the end of the first line, and the range of the content after it.
pub(super) fn next_operation(input: &[u8]) -> Option<(usize, std::ops::Range<usize>)> {
    let end = input.windows(2).position(|two| two == b"\r\n")?;
    let line = std::str::from_utf8(&input[..end]).unwrap();
    if !line.starts_with("PUB") && !line.starts_with("HPUB") {
        return Some((end, 0..0));
    }
    let len: usize = line.rsplit(' ').next().unwrap().parse().unwrap();
    (input.len() >= end + 4 + len).then_some((end, end + 2..end + 2 + len))
}
