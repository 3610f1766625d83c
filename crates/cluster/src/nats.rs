//! NATS JetStream as the log: a stream for all channels of an application, published to by messages with an id, and read by an
//! ordered consumer.
//!
//! A stream may refuse messages and give those that it has: it is full and discards none, or has no quorum. The connection stays
//! then and is read from, and the log counts as there again when it has taken a message without content, which is tried until it
//! is taken.

use std::collections::VecDeque;

use serde_json::json;

use crate::exchange::{
    ANSWER_MS_MAX, Content, Event, IN_FLIGHT_MAX, Login, Options, Outgoing, PING_MS, Place,
    Received, Rejected, SILENCE_MS_MAX, UNSENT_BYTES_MAX, answer_due_ms, read_except, retry_ms,
};
use crate::flight::Flight;
use crate::jetstream::{
    ConsumerAnswer, Delivery, Info, NewStream, PublishAnswer, StreamAnswer, api, ordered_consumer,
};
use crate::link::Told;
use crate::subject::{escape, unescape};
use crate::wire::{self, Message, Operation};

/// The log's own sign of life on a consumer, and how long there may be none: a consumer ends with its stream or server, while
/// the connection lives.
const HEARTBEAT_NS: u64 = 2_000_000_000;
const CONSUMER_SILENCE_MS_MAX: u64 = 7_000;
/// How long the log knows a record that it has had.
const DUPLICATES_NS: u64 = 120_000_000_000;
/// Before the stream's name: where NATS says that it was changed.
const UPDATED: &[u8] = b"$JS.EVENT.ADVISORY.STREAM.UPDATED.";

const HEADER_NAME: &str = "Fermata-Name";
const HEADER_CONTENT: &str = "Fermata-Content";
const HEADER_EXCEPT: &str = "Fermata-Except";
const HEADER_ID: &str = "Nats-Msg-Id";

/// In the place of the content: none, its sender wanted to see whether the log takes something.
const PROBE: &[u8] = b"probe";

/// The connection.
enum Link {
    /// None; tried again at this time.
    Down { retry_ms: u64 },
    /// The caller opens it.
    Opening { until_ms: u64 },
    /// It is open.
    Up { step: Step, since_ms: u64 },
}

/// What the log is asked for, one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Info,
    /// The caller makes it speak TLS.
    Secure,
    Stream,
    NewStream,
    NewEpoch,
    Consumer,
    /// Whether the log that the consumer reads is the one that was described before.
    SameStream,
    /// Live, from this place of the log on.
    Live,
}

/// Whether the log takes messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    /// As far as is known.
    Taken,
    /// It has refused one; it is asked again at this time, or at once on a new connection.
    Refused { retry_ms: u64 },
    /// It was asked.
    Asked { sent_ms: u64 },
}

/// A log may be deleted and made anew after it was described and before the consumer begins, which then reads the new one. What
/// comes until that is ruled out waits here; NATS sends no more than it may without an answer to its flow control.
struct Early {
    /// Where the reader stood before.
    reached: Option<Place>,
    reached_ms: Option<u64>,
    events: Vec<Event>,
    /// The reply subject of the flow control that is owed an answer.
    stalled: Option<Vec<u8>>,
}

/// See the module.
pub(crate) struct Nats {
    options: Options,
    stream: String,
    link: Link,
    server: usize,
    failures: u32,
    told: Told,
    login: Login,
    /// What the server has given to be signed.
    nonce: String,
    /// Everything up to here was given to the caller.
    reached: Option<Place>,
    /// When the log has stored the message of that place: no other message has both. `None` when that is not known.
    reached_ms: Option<u64>,
    /// What the consumer gives before the log is known to be the one that was described.
    early: Option<Early>,
    /// The message of that place is asked for once more, to see that it is the same.
    is_checking: bool,
    /// It was another one: what was read up to there is not what the log has now.
    has_lost: bool,
    /// The log's end when the connection began: what is before it is the past.
    past_until: u64,
    /// The log itself has said that nothing is left to give: its newest messages may have been deleted.
    is_drained: bool,
    is_ready: bool,
    epoch: u64,
    /// The log does not take a new epoch.
    is_epoch_fixed: bool,
    payload_max: u64,
    /// Which consumer is listened to; what an older one still sends is ignored.
    consumer: u64,
    consumer_seq: u64,
    /// Lasts over connections.
    write: Write,
    /// Refusals since a record was taken.
    refusals: u32,
    /// Messages without content that the log has taken.
    probes: u64,
    flight: Flight,
    /// Of the record that is being written, reused.
    subject: Vec<u8>,
    reply: Vec<u8>,
    id: Vec<u8>,
    input: Vec<u8>,
    output: Vec<u8>,
    events: VecDeque<Event>,
    heard_ms: u64,
    /// When bytes came the last time of a message that had begun before.
    arrived_ms: u64,
    consumer_heard_ms: u64,
    asked_ms: u64,
}

impl Nats {
    /// A bridge that has given everything up to `reached`; it connects at once. `reached_ms` is what [`Received::unix_ms`] was
    /// there, if that is known.
    pub fn new(
        options: Options,
        reached: Option<Place>,
        reached_ms: Option<u64>,
        now_ms: u64,
    ) -> Nats {
        Nats {
            stream: format!("FERMATA_{}", options.prefix),
            options,
            link: Link::Down { retry_ms: now_ms },
            server: 0,
            failures: 0,
            told: Told::default(),
            login: Login::default(),
            nonce: String::new(),
            reached,
            reached_ms,
            early: None,
            is_checking: false,
            has_lost: false,
            past_until: 0,
            is_drained: false,
            is_ready: false,
            epoch: 0,
            is_epoch_fixed: false,
            payload_max: 0,
            consumer: 0,
            consumer_seq: 0,
            write: Write::Taken,
            refusals: 0,
            probes: 0,
            flight: Flight::default(),
            subject: Vec::new(),
            reply: Vec::new(),
            id: Vec::new(),
            input: Vec::new(),
            output: Vec::new(),
            events: VecDeque::new(),
            heard_ms: now_ms,
            arrived_ms: now_ms,
            consumer_heard_ms: now_ms,
            asked_ms: now_ms,
        }
    }

    pub fn set_login(&mut self, login: Login) {
        self.login = login;
    }

    /// The connection is open.
    pub fn handle_connected(&mut self, now_ms: u64) {
        self.link = Link::Up {
            step: Step::Info,
            since_ms: now_ms,
        };
        self.heard_ms = now_ms;
        self.arrived_ms = now_ms;
        self.asked_ms = now_ms;
    }

    /// The connection speaks TLS.
    pub fn handle_secured(&mut self, now_ms: u64) {
        if self.step() == Some(Step::Secure) {
            (self.heard_ms, self.arrived_ms, self.asked_ms) = (now_ms, now_ms, now_ms);
            self.introduce(now_ms);
        }
    }

    /// The connection could not be opened, or the other side has closed it.
    pub fn handle_closed(&mut self, cause: &str, now_ms: u64) {
        self.end(cause, now_ms);
    }

    /// Bytes have come.
    pub fn handle_input(&mut self, bytes: &[u8], now_ms: u64) {
        self.heard_ms = now_ms;
        let mut input = std::mem::take(&mut self.input);
        let has_begun = !input.is_empty();
        input.extend_from_slice(bytes);
        let mut taken = 0;
        let mut failure = None;
        while matches!(self.link, Link::Up { .. }) {
            match wire::parse(&input[taken..]) {
                Ok(None) => break,
                Ok(Some((operation, len))) => {
                    taken += len;
                    if let Err(cause) = self.on_operation(operation, now_ms) {
                        failure = Some(cause);
                        break;
                    }
                    // Whoever is on the way could have put it there.
                    if self.step() == Some(Step::Secure) && taken < input.len() {
                        failure = Some("there is something in the clear before TLS".to_owned());
                        break;
                    }
                }
                Err(error) => {
                    failure = Some(error.to_string());
                    break;
                }
            }
        }
        match failure {
            Some(cause) => self.fail(&cause, now_ms),
            None if matches!(self.link, Link::Up { .. }) => {
                if has_begun {
                    self.arrived_ms = now_ms;
                }
                input.drain(..taken);
                self.input = input;
            }
            None => {}
        }
    }

    /// Time has passed: call it when [`Nats::due_ms`] says.
    pub fn handle_time(&mut self, now_ms: u64) {
        match self.link {
            Link::Down { retry_ms } if retry_ms <= now_ms => {
                self.link = Link::Opening {
                    until_ms: now_ms + ANSWER_MS_MAX,
                };
                self.events.push_back(Event::Connect(self.server));
            }
            Link::Opening { until_ms } if until_ms <= now_ms => {
                self.fail("the connection was not opened in time", now_ms);
            }
            Link::Up { .. } => self.look_at_answers(now_ms),
            _ => {}
        }
    }

    fn look_at_answers(&mut self, now_ms: u64) {
        if now_ms.saturating_sub(self.heard_ms) >= SILENCE_MS_MAX {
            self.fail("the connection is silent", now_ms);
        } else if now_ms >= self.step_due_ms() {
            let server = &self.options.servers[self.server];
            let cause = match self.step() {
                Some(Step::Info) if server.is_tls => {
                    "no answer in time; if its handshake_first is true, set it to auto or false"
                }
                Some(Step::Info) => {
                    "no answer in time; if it speaks TLS at this port, write tls:// in cluster"
                }
                _ => "no answer in time",
            };
            self.fail(cause, now_ms);
        } else if now_ms >= self.consumer_due_ms() {
            self.fail("the consumer is silent", now_ms);
        } else if now_ms >= self.record_due_ms() {
            // It may answer everything else.
            self.write = Write::Refused { retry_ms: now_ms };
            self.fail("a record was not acknowledged in time", now_ms);
        } else if self.is_live()
            && matches!(self.write, Write::Refused { retry_ms } if retry_ms <= now_ms)
        {
            self.ask_to_write(now_ms);
        } else if now_ms.saturating_sub(self.asked_ms) >= PING_MS {
            self.asked_ms = now_ms;
            // Not in the clear, and the handshake has a time of its own.
            if self.step() != Some(Step::Secure) {
                self.output.extend_from_slice(b"PING\r\n");
            }
        }
    }

    /// When `handle_time` is to be called at the latest.
    pub fn due_ms(&self) -> u64 {
        match self.link {
            Link::Down { retry_ms } => retry_ms,
            Link::Opening { until_ms } => until_ms,
            Link::Up { .. } => {
                let next_write = match self.write {
                    Write::Refused { retry_ms } if self.is_live() => retry_ms,
                    _ => u64::MAX,
                };
                (self.heard_ms + SILENCE_MS_MAX)
                    .min(self.step_due_ms())
                    .min(self.consumer_due_ms())
                    .min(self.record_due_ms())
                    .min(next_write)
                    .min(self.asked_ms + PING_MS)
            }
        }
    }

    /// Whether another record of the outbox may be handed over.
    pub fn can_send(&self) -> bool {
        self.is_live()
            && self.write == Write::Taken
            && self.flight.len() < IN_FLIGHT_MAX
            && self.output.len() < UNSENT_BYTES_MAX
    }

    /// Sends a record of the outbox to the log. Records are handed over in their order.
    pub fn send(&mut self, record: &Outgoing<'_>, now_ms: u64) {
        self.flight.push(record.outbox, now_ms, false);
        let start = self.output.len();
        self.subject.clear();
        self.subject
            .extend_from_slice(self.options.prefix.as_bytes());
        self.subject.push(b'.');
        escape(record.channel, &mut self.subject);
        let mut number = [0; DIGITS_MAX];
        let number = decimal(record.outbox, &mut number);
        self.reply.clear();
        self.reply.extend_from_slice(self.options.inbox.as_bytes());
        self.reply.extend_from_slice(b".r.p.");
        self.reply.extend_from_slice(number);
        self.id.clear();
        self.id.extend_from_slice(self.options.outbox.as_bytes());
        self.id.push(b'-');
        self.id.extend_from_slice(number);
        let except = record
            .except
            .map(|(worker, key)| format!("{worker:016x}{key:016x}"));
        let headers = [
            Some((HEADER_ID, &self.id[..])),
            record.content.text().map(|text| (HEADER_CONTENT, text)),
            record.name.map(|name| (HEADER_NAME, name)),
            except
                .as_ref()
                .map(|except| (HEADER_EXCEPT, except.as_bytes())),
        ];
        wire::publish(
            &mut self.output,
            &self.subject,
            Some(&self.reply),
            headers.into_iter().flatten(),
            record.data,
        );
        // It counts headers as well, not the line before them.
        if (self.output.len() - start) as u64 > self.payload_max {
            self.output.truncate(start);
            let cause = format!(
                "the event is larger than the log allows (max_payload of NATS: {} bytes)",
                self.payload_max
            );
            self.reject(record.outbox, cause);
        }
    }

    /// Takes a record of the outbox that is not to be sent any more.
    pub fn discard(&mut self, outbox: u64, now_ms: u64) {
        self.flight.push(outbox, now_ms, true);
        self.flight.settle(outbox);
    }

    /// What comes next; call it until there is nothing, after every other call.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        event.or_else(|| self.flight.released().map(Event::Released))
    }

    /// Bytes for the connection: what was sent is taken off their front.
    pub fn transmit(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// When the consumer must have spoken.
    fn consumer_due_ms(&self) -> u64 {
        match self.is_live() {
            true => answer_due_ms(
                self.consumer_heard_ms,
                CONSUMER_SILENCE_MS_MAX,
                self.arrived_ms,
            ),
            false => u64::MAX,
        }
    }

    /// When the log must have said what it was asked for.
    fn step_due_ms(&self) -> u64 {
        match self.link {
            Link::Up { step, since_ms } if step != Step::Live => {
                answer_due_ms(since_ms, ANSWER_MS_MAX, self.arrived_ms)
            }
            _ => u64::MAX,
        }
    }

    /// When the log must have said what became of a record, or whether it takes any.
    fn record_due_ms(&self) -> u64 {
        let sent_ms = match self.write {
            Write::Asked { sent_ms } => Some(sent_ms),
            _ => self.flight.oldest_sent_ms(),
        };
        sent_ms.map_or(u64::MAX, |sent_ms| {
            answer_due_ms(sent_ms, ANSWER_MS_MAX, self.arrived_ms)
        })
    }

    fn is_live(&self) -> bool {
        matches!(
            self.link,
            Link::Up {
                step: Step::Live,
                ..
            }
        )
    }

    fn on_operation(&mut self, operation: Operation<'_>, now_ms: u64) -> Result<(), String> {
        match operation {
            Operation::Ping => self.output.extend_from_slice(b"PONG\r\n"),
            Operation::Pong | Operation::Ok => {}
            Operation::Error(text) => self.on_error(&String::from_utf8_lossy(text))?,
            Operation::Info(json) if self.step() == Some(Step::Info) => {
                self.on_info(json, now_ms)?;
            }
            // It tells of other servers from time to time.
            Operation::Info(_) => {}
            Operation::Message(message) => self.on_message(message, now_ms)?,
        }
        Ok(())
    }

    fn on_error(&mut self, text: &str) -> Result<(), String> {
        if text.contains(&updated(&self.stream)) {
            let notice = "this user of NATS may not learn that the stream was changed: after the log has lost messages, ids of \
                          this server and of others may differ until it connects again";
            self.events.push_back(Event::Notice(notice.to_owned()));
            return Ok(());
        }
        if text.to_ascii_lowercase().contains("auth") {
            let hint = self.login.hint(&self.options.servers[self.server]);
            return Err(format!("the server refuses us: {text}; {hint}"));
        }
        self.is_epoch_fixed |= self.step() == Some(Step::NewEpoch);
        Err(format!("the server says {text}"))
    }

    fn step(&self) -> Option<Step> {
        match self.link {
            Link::Up { step, .. } => Some(step),
            _ => None,
        }
    }

    fn go_to(&mut self, step: Step, now_ms: u64) {
        let since_ms = now_ms;
        self.link = Link::Up { step, since_ms };
    }

    fn on_info(&mut self, json: &[u8], now_ms: u64) -> Result<(), String> {
        let info: Info = serde_json::from_slice(json).map_err(|error| format!("INFO: {error}"))?;
        let is_tls = self.options.servers[self.server].is_tls;
        if info.tls_required && !is_tls {
            return Err("the server wants TLS; write tls:// in cluster".to_owned());
        }
        if is_tls && !info.tls_required && !info.tls_available {
            return Err(
                "the server has no TLS at this port; set it up there, or write nats:// in cluster"
                    .to_owned(),
            );
        }
        if !info.headers || !info.jetstream {
            let version = info.version;
            return Err(format!(
                "the server (NATS {version}) has no JetStream; start it with -js"
            ));
        }
        let server = &self.options.servers[self.server];
        if self.login.of(server).credentials.is_some() && info.nonce.is_empty() {
            return Err(
                "the server knows no users by their keys; set them up there, or leave cluster_credentials out"
                    .to_owned(),
            );
        }
        self.nonce = info.nonce;
        self.payload_max = info.max_payload;
        if is_tls {
            self.events.push_back(Event::Secure);
            self.go_to(Step::Secure, now_ms);
        } else {
            self.introduce(now_ms);
        }
        Ok(())
    }

    /// Says who this is, and asks for the stream.
    fn introduce(&mut self, now_ms: u64) {
        let login = self.login.of(&self.options.servers[self.server]);
        let mut options = json!({
            "verbose": false,
            "pedantic": false,
            "lang": "rust",
            "name": "fermata",
            "version": env!("CARGO_PKG_VERSION"),
            "protocol": 1,
            "headers": true,
            "no_responders": true,
        });
        if let Some(credentials) = &login.credentials {
            // Of any 32 bytes a key can be made.
            let (public, signature) = credentials.key.sign(&self.nonce).unwrap_or_default();
            match credentials.jwt.is_empty() {
                true => options["nkey"] = public.into(),
                false => options["jwt"] = credentials.jwt.as_str().into(),
            }
            options["sig"] = signature.into();
        } else if !login.user.is_empty() {
            options["user"] = login.user.into();
            options["pass"] = login.password.into();
        } else if !login.password.is_empty() {
            options["auth_token"] = login.password.into();
        }
        let connect = format!(
            "CONNECT {options}\r\nSUB {}.r.> 1\r\nSUB {} 3\r\n",
            self.options.inbox,
            updated(&self.stream)
        );
        self.output.extend_from_slice(connect.as_bytes());
        self.ask(&api("STREAM.INFO", &self.stream), "s", b"");
        self.go_to(Step::Stream, now_ms);
    }

    fn ask(&mut self, subject: &str, what: &str, body: &[u8]) {
        let reply = format!("{}.r.{what}", self.options.inbox);
        wire::publish(
            &mut self.output,
            subject.as_bytes(),
            Some(reply.as_bytes()),
            [],
            body,
        );
    }

    fn on_message(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        let inbox = self.options.inbox.as_bytes();
        let own = message
            .subject
            .strip_prefix(inbox)
            .and_then(|rest| rest.strip_prefix(b"."));
        match own {
            Some(b"r.s") => self.on_stream(message, now_ms),
            Some(b"r.k") => self.on_consumer(message, now_ms),
            Some(b"r.w") => self.on_asked_to_write(message, now_ms),
            Some(own) if own.starts_with(b"r.p.") => {
                let outbox = std::str::from_utf8(&own[4..])
                    .ok()
                    .and_then(|text| text.parse().ok());
                self.on_published(
                    outbox.ok_or("an answer to nothing that was published")?,
                    message,
                    now_ms,
                )
            }
            Some(own) if own.starts_with(b"c") => {
                if own[1..] == *self.consumer.to_string().as_bytes() {
                    self.consumer_heard_ms = now_ms;
                    self.on_control(message)
                } else {
                    Ok(())
                }
            }
            _ if message.subject.starts_with(UPDATED) => match self.step() {
                Some(Step::NewEpoch) => Ok(()),
                // Its epoch may be another one now.
                _ => Err("the stream was changed".to_owned()),
            },
            // A delivered message has the subject that it was published to.
            _ => {
                self.consumer_heard_ms = now_ms;
                self.on_delivery(message)
            }
        }
    }

    fn on_stream(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        no_responders(&message)?;
        let answer: StreamAnswer = serde_json::from_slice(message.payload)
            .map_err(|error| format!("the answer about stream {}: {error}", self.stream))?;
        match (&answer.error, self.step()) {
            (Some(error), Some(Step::Stream)) if error.code == 404 => {
                let new = NewStream {
                    name: &self.stream,
                    subjects: &format!("{}.>", self.options.prefix),
                    age_ns_max: (self.options.age_ms_max * 1_000_000).max(DUPLICATES_NS),
                    bytes_max: self.options.bytes_max,
                    replicas: self.options.replicas,
                    duplicates_ns: DUPLICATES_NS,
                };
                let new = new.to_json();
                self.ask(&api("STREAM.CREATE", &self.stream), "s", &new);
                self.go_to(Step::NewStream, now_ms);
                return Ok(());
            }
            (Some(error), step) => {
                self.is_epoch_fixed |= step == Some(Step::NewEpoch) && error.code < 500;
                return Err(format!("stream {}: {}", self.stream, error.description));
            }
            (None, Some(Step::SameStream)) => return self.go_live(&answer, now_ms),
            (None, Some(Step::Stream | Step::NewStream | Step::NewEpoch)) => {}
            (None, _) => return Ok(()),
        }
        if answer.created.is_empty() {
            return Err(format!(
                "stream {}: the answer does not say when it was made",
                self.stream
            ));
        }
        self.epoch = answer.epoch();
        let (first, last) = (answer.state.first_seq.max(1), answer.state.last_seq);
        let lost = self
            .reached
            .filter(|place| place.epoch == self.epoch && (place.seq > last || self.has_lost));
        if let Some(place) = lost
            && !self.is_epoch_fixed
            && self.step() != Some(Step::NewEpoch)
            && let Some(config) = answer.config_of_next_epoch()
        {
            // Places behind `last` are given out again: what has them is to be known as of another log, on every node.
            let notice = format!(
                "the log has lost messages that it had acknowledged ({last} is its last one now, {} was read): it gets a new \
                 epoch, and clients are told that messages may be missing",
                place.seq
            );
            self.events.push_back(Event::Notice(notice));
            self.ask(&api("STREAM.UPDATE", &self.stream), "s", &config);
            self.go_to(Step::NewEpoch, now_ms);
            return Ok(());
        }
        let mut from = self.begin_at(first, last);
        self.has_lost = false;
        // What was lost may have been replaced by as many others meanwhile.
        self.is_checking = self.reached_ms.is_some() && from > first;
        from -= u64::from(self.is_checking);
        self.past_until = last;
        self.is_drained = false;
        self.consumer += 1;
        self.consumer_seq = 0;
        let deliver_to = format!("{}.c{}", self.options.inbox, self.consumer);
        // By its own name: nats-server 2.9 sees no interest in a consumer's subject by a wildcard.
        self.output
            .extend_from_slice(format!("SUB {deliver_to} 2\r\n").as_bytes());
        let body = ordered_consumer(&self.stream, &deliver_to, from, HEARTBEAT_NS);
        self.ask(&api("CONSUMER.CREATE", &self.stream), "k", &body);
        self.early = Some(Early {
            reached: self.reached,
            reached_ms: self.reached_ms,
            events: Vec::new(),
            stalled: None,
        });
        self.go_to(Step::Consumer, now_ms);
        Ok(())
    }

    /// From where the log is read that has messages `first..=last`.
    fn begin_at(&mut self, first: u64, last: u64) -> u64 {
        let epoch = self.epoch;
        let oldest = first - 1;
        let floor = match self.reached {
            None => last.saturating_sub(self.options.past_max).max(oldest),
            Some(place) if place.epoch != epoch => {
                let notice = "the log was made anew or has lost messages: clients are told that messages may be missing";
                self.events.push_back(Event::Notice(notice.to_owned()));
                last.saturating_sub(self.options.past_max).max(oldest)
            }
            Some(place) if place.seq > last || self.has_lost => {
                let notice = format!(
                    "the log has lost messages that it had acknowledged ({last} is its last one, {} was read) and takes no new \
                     epoch: connected clients are told that messages may be missing; clients that are away may not be",
                    place.seq
                );
                self.events.push_back(Event::Notice(notice));
                last.min(place.seq)
            }
            Some(place) if place.seq < oldest => {
                let notice = format!(
                    "the log has removed messages that were not read, {} of them: clients are told that messages may be \
                     missing",
                    oldest - place.seq
                );
                self.events.push_back(Event::Notice(notice));
                oldest
            }
            Some(place) => return place.seq + 1,
        };
        self.begin(floor);
        floor + 1
    }

    fn begin(&mut self, floor: u64) {
        let place = Place {
            epoch: self.epoch,
            seq: floor,
        };
        self.reached = Some(place);
        self.reached_ms = None;
        self.give(Event::Begin(place));
    }

    /// Tells of something that was read.
    fn give(&mut self, event: Event) {
        match &mut self.early {
            Some(early) => early.events.push(event),
            None => self.events.push_back(event),
        }
    }

    fn on_consumer(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        no_responders(&message)?;
        let answer: ConsumerAnswer = serde_json::from_slice(message.payload)
            .map_err(|error| format!("the answer about a consumer: {error}"))?;
        if let Some(error) = answer.error {
            return Err(format!(
                "a consumer of stream {}: {}",
                self.stream, error.description
            ));
        }
        if self.step() != Some(Step::Consumer) {
            return Ok(());
        }
        // Messages may have come before this answer; those that it has given since are not among the pending ones.
        self.is_drained |=
            answer.num_pending == Some(0) && answer.delivered.consumer_seq <= self.consumer_seq;
        self.ask(&api("STREAM.INFO", &self.stream), "s", b"");
        self.go_to(Step::SameStream, now_ms);
        Ok(())
    }

    fn go_live(&mut self, answer: &StreamAnswer, now_ms: u64) -> Result<(), String> {
        if answer.epoch() != self.epoch {
            return Err("the log was made anew or changed while its consumer was made".to_owned());
        }
        if let Some(early) = self.early.take() {
            self.events.extend(early.events);
            if let Some(reply) = early.stalled {
                wire::publish(&mut self.output, &reply, None, [], b"");
            }
        }
        self.go_to(Step::Live, now_ms);
        self.consumer_heard_ms = now_ms;
        match self.write {
            Write::Taken => self.failures = 0,
            _ => self.ask_to_write(now_ms),
        }
        self.note_ready();
        Ok(())
    }

    /// The log is there when it has given what it had as the connection began.
    fn note_ready(&mut self) {
        let is_past_given = self
            .reached
            .is_some_and(|place| place.seq >= self.past_until);
        let is_there = self.is_live() && self.write == Write::Taken;
        if is_there && (is_past_given || self.is_drained) && !self.is_ready {
            self.is_ready = true;
            self.told.clear();
            self.events.push_back(Event::Ready);
        }
    }

    /// The server itself speaks on the consumer's subject: it lives, or asks how fast it may go on.
    fn on_control(&mut self, message: Message<'_>) -> Result<(), String> {
        let Some((status, _)) = message.status() else {
            return Ok(());
        };
        if status != 100 {
            return Err(format!("the consumer has ended with status {status}"));
        }
        let stalled = message.header("Nats-Consumer-Stalled");
        match (message.reply.or(stalled), &mut self.early) {
            (Some(reply), Some(early)) => early.stalled = Some(reply.to_vec()),
            (Some(reply), None) => wire::publish(&mut self.output, reply, None, [], b""),
            (None, _) => {}
        }
        let last = message.header("Nats-Last-Consumer");
        let last = last.and_then(|text| std::str::from_utf8(text).ok()?.parse::<u64>().ok());
        match last {
            Some(last) if last > self.consumer_seq => {
                return Err("the log has sent messages that did not arrive".to_owned());
            }
            // It speaks without having been stalled when it has nothing to give.
            Some(_) if stalled.is_none() => {
                self.is_drained = true;
                self.note_ready();
            }
            _ => {}
        }
        Ok(())
    }

    fn on_delivery(&mut self, message: Message<'_>) -> Result<(), String> {
        let delivery = message.reply.and_then(Delivery::read);
        let (Some(delivery), Some(reached)) = (delivery, self.reached) else {
            return Err("a message that was not asked for".to_owned());
        };
        // The first ones may come before the consumer's answer.
        if !matches!(
            self.step(),
            Some(Step::Consumer | Step::SameStream | Step::Live)
        ) {
            return Err("a message before there is a consumer".to_owned());
        }
        if delivery.consumer_seq != self.consumer_seq + 1 {
            return Err("the log has sent messages that did not arrive".to_owned());
        }
        self.consumer_seq = delivery.consumer_seq;
        self.is_drained |= delivery.pending == 0;
        if std::mem::take(&mut self.is_checking) && delivery.stream_seq == reached.seq {
            if self.reached_ms != Some(delivery.unix_ms()) {
                self.has_lost = true;
                return Err("the log has another message where it was read".to_owned());
            }
            self.note_ready();
            return Ok(());
        }
        if delivery.stream_seq <= reached.seq {
            return Err("the log has gone back".to_owned());
        }
        if delivery.stream_seq > reached.seq + 1 {
            let notice = format!(
                "the log has removed messages that were not read, {} of them: clients are told that messages may be missing",
                delivery.stream_seq - reached.seq - 1
            );
            self.give(Event::Notice(notice));
            self.begin(delivery.stream_seq - 1);
        }
        let place = Place {
            epoch: self.epoch,
            seq: delivery.stream_seq,
        };
        self.reached = Some(place);
        self.reached_ms = Some(delivery.unix_ms());
        let prefix = self.options.prefix.as_bytes();
        let token = message
            .subject
            .strip_prefix(prefix)
            .and_then(|rest| rest.strip_prefix(b"."));
        let content = message.header(HEADER_CONTENT);
        if content == Some(PROBE) {
            self.note_ready();
            return Ok(());
        }
        let content = Content::read(content);
        match token.and_then(unescape).zip(content) {
            Some((channel, content)) => self.give(Event::Record(Received {
                place,
                content,
                channel,
                name: message.header(HEADER_NAME).map(<[u8]>::to_vec),
                data: message.payload.to_vec(),
                except: message.header(HEADER_EXCEPT).and_then(read_except),
                unix_ms: delivery.unix_ms(),
            })),
            None => {
                let subject = String::from_utf8_lossy(message.subject).into_owned();
                let notice = format!(
                    "a message is left out: its subject {subject:?} is no channel, or its content is not known"
                );
                self.give(Event::Notice(notice));
            }
        }
        self.note_ready();
        Ok(())
    }

    fn on_published(
        &mut self,
        outbox: u64,
        message: Message<'_>,
        now_ms: u64,
    ) -> Result<(), String> {
        if !self.flight.is_awaited(outbox) {
            // Of a connection before, or twice, or of what is sent again when the log takes messages.
            return Ok(());
        }
        match self.read_answer(&message, now_ms)? {
            Published::Later(cause) => self.on_refused(&cause, now_ms),
            Published::Never(cause) => self.reject(outbox, format!("the log: {cause}")),
            Published::Stored(seq) => {
                let place = Place {
                    epoch: self.epoch,
                    seq,
                };
                self.refusals = 0;
                self.events.push_back(Event::Accepted { outbox, place });
                self.flight.settle(outbox);
            }
        }
        Ok(())
    }

    fn read_answer(&mut self, message: &Message<'_>, now_ms: u64) -> Result<Published, String> {
        if let Err(cause) = no_responders(message) {
            // They may answer everything else.
            self.write = Write::Refused { retry_ms: now_ms };
            return Err(cause);
        }
        let answer: PublishAnswer = serde_json::from_slice(message.payload)
            .map_err(|error| format!("the answer to a publish: {error}"))?;
        Ok(match answer.error {
            None => Published::Stored(answer.seq),
            // It has no leader at the moment, or is overloaded, or full.
            Some(error) if error.code >= 500 => Published::Later(error.description),
            Some(error) => Published::Never(error.description),
        })
    }

    /// Asks the log to take a message that is none.
    fn ask_to_write(&mut self, now_ms: u64) {
        self.write = Write::Asked { sent_ms: now_ms };
        let subject = format!("{}.-", self.options.prefix);
        let reply = format!("{}.r.w", self.options.inbox);
        // The same until it is taken, so that it is there once.
        let id = format!("{}-w{}", self.options.inbox, self.probes);
        wire::publish(
            &mut self.output,
            subject.as_bytes(),
            Some(reply.as_bytes()),
            [(HEADER_ID, id.as_bytes()), (HEADER_CONTENT, PROBE)],
            b"",
        );
    }

    fn on_asked_to_write(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        if !matches!(self.write, Write::Asked { .. }) {
            return Ok(());
        }
        match self.read_answer(&message, now_ms)? {
            Published::Later(cause) => self.on_refused(&cause, now_ms),
            // It says of each record what is wrong with it.
            Published::Never(_) | Published::Stored(_) => {
                self.probes += 1;
                self.write = Write::Taken;
                self.failures = 0;
                self.note_ready();
            }
        }
        Ok(())
    }

    /// The log takes no messages for a while. What was sent is sent again.
    fn on_refused(&mut self, words: &str, now_ms: u64) {
        if self.flight.len() > 0 {
            self.events.extend(self.flight.clear().map(Event::Released));
            self.events.push_back(Event::Rewind);
        }
        let retry_ms = now_ms + retry_ms(self.refusals);
        self.write = Write::Refused { retry_ms };
        self.refusals = self.refusals.saturating_add(1);
        self.is_ready = false;
        let server = &self.options.servers[self.server];
        let cause = format!("{server}: the log does not take messages: {words}");
        self.tell_away(cause);
    }

    fn tell_away(&mut self, cause: String) {
        if self.told.add(&cause) {
            self.events.push_back(Event::Away(cause));
        }
    }

    fn reject(&mut self, outbox: u64, cause: String) {
        self.events
            .push_back(Event::Rejected(Rejected { outbox, cause }));
        self.flight.settle(outbox);
    }

    /// This side has had enough of the connection.
    fn fail(&mut self, cause: &str, now_ms: u64) {
        self.events.push_back(Event::Disconnect);
        self.end(cause, now_ms);
    }

    fn end(&mut self, cause: &str, now_ms: u64) {
        if matches!(self.link, Link::Down { .. }) {
            return;
        }
        let server = &self.options.servers[self.server];
        let text = format!("{server}: {cause}");
        self.server = (self.server + 1) % self.options.servers.len();
        let retry_ms = now_ms + retry_ms(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.link = Link::Down { retry_ms };
        if let Write::Asked { .. } = self.write {
            self.write = Write::Refused { retry_ms };
        }
        self.is_ready = false;
        if let Some(early) = self.early.take() {
            (self.reached, self.reached_ms) = (early.reached, early.reached_ms);
        }
        self.input = Vec::new();
        self.output.clear();
        self.events.extend(self.flight.clear().map(Event::Released));
        self.events.push_back(Event::Rewind);
        self.tell_away(text);
    }
}

/// What the log says of a message.
enum Published {
    Stored(u64),
    /// It does not take it now, and why.
    Later(String),
    Never(String),
}

const DIGITS_MAX: usize = 20;

/// A number as text, at the end of the buffer.
fn decimal(mut number: u64, buffer: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        buffer[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[at..];
        }
    }
}

/// Where NATS says that a stream was changed.
fn updated(stream: &str) -> String {
    format!("{}{stream}", String::from_utf8_lossy(UPDATED))
}

fn no_responders(message: &Message<'_>) -> Result<(), String> {
    match message.status() {
        Some((503, _)) => Err("there is no stream, or nobody leads it at the moment".to_owned()),
        _ => Ok(()),
    }
}
