//! NATS JetStream as the log: a stream for all channels of an application, published to by messages with an id, and read by an
//! ordered consumer.
//!
//! A stream may refuse messages and give those that it has: it is full and discards none, or has no quorum. The connection stays
//! then and is read from, and the log counts as there again when it has taken a message without content, which is tried until it
//! is taken.
//!
//! Of a stream on several servers the consumer reads a copy. It is compared with the leader's before anything of it is passed on,
//! and once a second from then on: see [`copy`].

mod connecting;
mod copy;
mod past;
mod reading;
mod stream;
mod writing;

use std::collections::VecDeque;

use self::copy::Copy;
use crate::exchange::{
    ANSWER_MS_MAX, Event, IN_FLIGHT_MAX, Login, Options, PING_MS, Place, SILENCE_MS_MAX,
    UNSENT_BYTES_MAX, answer_due_ms, retry_ms,
};
use crate::flight::Flight;
use crate::jetstream::api;
use crate::link::ReportedCauses;
use crate::past::Collector;
use crate::wire::{self, Message, Operation};

/// The log's own sign of life on a consumer, and how long there may be none: a consumer ends with its stream or server, while
/// the connection lives.
const HEARTBEAT_NS: u64 = 1_000_000_000;
const CONSUMER_SILENCE_MS_MAX: u64 = 4_000;
/// How often the leader of a stream on several servers is asked whether it leads most of them, and how long it may not: the
/// consumer lives on any one of them, and does not know.
const LEADER_LOOK_MS: u64 = 1_000;
const LEADER_SILENCE_MS_MAX: u64 = 3_000;
/// How long a copy may give nothing while the leader has more.
const COPY_SILENCE_MS_MAX: u64 = 5_000;
/// How long a record may be on its way before no more are sent after it. What is sent to a leader that has gone is lost, and the
/// next one would take what comes later first; its election takes three seconds at least.
const ORDER_MS_MAX: u64 = 2_000;
/// How long a server is waited for that has not said what the log is, when there are others.
const OTHERS_MS: u64 = 3_000;
/// How long a log of several servers that seems to have lost its end may refuse to be asked for it, before it counts as lost.
const LOSS_DOUBT_MS_MAX: u64 = 30_000;
/// NATS forgets a question that comes while nobody leads, which is some seconds long after a server has gone: it is asked again
/// so often. A consumer that was asked for in vain is left and another one made, which is not to happen on a slow connection.
const ASK_AGAIN_MS: u64 = 500;
const ASK_AGAIN_FOR_CONSUMER_MS: u64 = 1_500;
/// By what the server names the subscription of the first consumer; each has the next number.
const CONSUMER_SID: u64 = 10;
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
    /// It is open. What the step needs to know was asked for last at `asked_ms`.
    Up {
        step: Step,
        since_ms: u64,
        asked_ms: u64,
    },
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
    /// Whether the log has lost its end, or its leader does not know it yet.
    End,
    Consumer,
    /// Whether the log that the consumer reads is the one that was described before.
    SameStream,
    /// Whether the copy that the consumer reads has what the leader has.
    SameCopy,
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
    /// A request to write is on its way.
    Probing { sent_ms: u64 },
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

/// Requests for the past that are on their way.
#[derive(Default)]
struct Pasts {
    open: Vec<OpenPast>,
    /// Questions so far: an answer to an earlier one is ignored.
    questions: u64,
    /// This user may not ask.
    is_forbidden: bool,
    /// The server gives many messages for one question, and the stream lets it.
    has_batches: bool,
}

/// One that the log answers.
struct OpenPast {
    collector: Collector,
    question: u64,
    asked_ms: u64,
    /// The `PING`, by its number, that was sent when there was no answer in time.
    ping: Option<u64>,
    /// It was asked more than once: messages may come that were given before.
    is_repeated: bool,
    /// The question is for many messages, and for how many the next such question will be.
    is_batched: bool,
    batch: u64,
    /// The copy that gives many at once has no more of this channel: the leader is asked for what it may lack.
    is_at_end: bool,
    /// All channels were gone through: what the stream has removed meanwhile is left to know.
    is_ending: bool,
}

/// See the module.
pub(crate) struct Nats {
    options: Options,
    stream: String,
    link: Link,
    server: usize,
    failures: u32,
    reported: ReportedCauses,
    login: Login,
    /// What the server has given to be signed.
    nonce: String,
    /// Its version has them.
    has_batched_gets: bool,
    /// Everything up to here was given to the caller.
    reached: Option<Place>,
    /// When the log has stored the message of that place: no other message has both. `None` when that is not known.
    reached_ms: Option<u64>,
    /// What the consumer gives before the log is known to be the one that was described.
    early: Option<Early>,
    /// The message of that place is asked for once more, to see that it is the same.
    is_checking: bool,
    /// It is another one: either this copy is not the log's, or what was read is not what the log has now.
    is_doubted: bool,
    /// What was read up to there is not what the log has now.
    has_lost: bool,
    /// What the consumer gives, compared with what the leader has.
    copy: Copy,
    /// Nothing had been read before this consumer, and its copy was not found to be the leader's yet.
    is_first: bool,
    /// When the consumer gave a message the last time.
    given_ms: u64,
    /// The log ends before what was read, as far as it says, since this time.
    doubted_ms: Option<u64>,
    /// What it says is so.
    is_end_sure: bool,
    /// Several servers have the log.
    is_replicated: bool,
    /// When its leader was last asked whether it leads most of them, and when it last did.
    looked_ms: u64,
    leader_heard_ms: u64,
    /// Messages may be missing at the log's end.
    may_have_holes: bool,
    /// The log's end when the connection began: what is before it is the past.
    past_until: u64,
    /// The log itself has said that nothing is left to give: its newest messages may have been deleted.
    is_drained: bool,
    is_ready: bool,
    epoch: u64,
    /// The log does not take a new epoch.
    is_epoch_fixed: bool,
    payload_max: u64,
    /// Stands in where an answer is to go: one to a question of an earlier step is ignored, it may tell of what was before.
    question: u64,
    /// Which consumer is listened to; what an older one still sends is ignored.
    consumer: u64,
    consumer_seq: u64,
    /// From where it was asked for messages.
    consumer_from: u64,
    /// Records are not acknowledged: none are sent after them.
    is_unanswered: bool,
    /// Lasts over connections.
    write: Write,
    /// Refusals since a record was taken.
    refusals: u32,
    /// Messages without content that the log has taken.
    probes: u64,
    flight: Flight,
    pasts: Pasts,
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
    /// How many `PING`s were sent on this connection, and how many of them were answered.
    pings: u64,
    pongs: u64,
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
            reported: ReportedCauses::default(),
            login: Login::default(),
            nonce: String::new(),
            has_batched_gets: false,
            reached,
            reached_ms,
            early: None,
            is_checking: false,
            is_doubted: false,
            has_lost: false,
            copy: Copy::default(),
            is_first: false,
            given_ms: now_ms,
            doubted_ms: None,
            is_end_sure: false,
            is_replicated: false,
            looked_ms: now_ms,
            leader_heard_ms: now_ms,
            may_have_holes: true,
            past_until: 0,
            is_drained: false,
            is_ready: false,
            epoch: 0,
            is_epoch_fixed: false,
            payload_max: 0,
            question: 0,
            consumer: 0,
            consumer_seq: 0,
            consumer_from: 0,
            is_unanswered: false,
            write: Write::Taken,
            refusals: 0,
            probes: 0,
            flight: Flight::default(),
            pasts: Pasts::default(),
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
            pings: 0,
            pongs: 0,
        }
    }

    pub fn set_login(&mut self, login: Login) {
        self.login = login;
    }

    /// The connection is open.
    pub fn handle_connected(&mut self, now_ms: u64) {
        self.go_to(Step::Info, now_ms);
        self.heard_ms = now_ms;
        self.arrived_ms = now_ms;
        self.asked_ms = now_ms;
        (self.pings, self.pongs) = (0, 0);
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
                    // Anything between us and the server could have put it there.
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
                let server = self.options.servers[self.server].clone();
                self.events.push_back(Event::Connect(Box::new(server)));
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
                Some(Step::SameCopy) => LAGS,
                _ => "no answer in time",
            };
            self.fail(cause, now_ms);
        } else if now_ms >= self.ask_again_ms() {
            self.ask_again(now_ms);
        } else if now_ms >= self.consumer_due_ms() {
            self.fail("the consumer is silent", now_ms);
        } else if now_ms >= self.copy_due_ms() {
            self.fail(LAGS, now_ms);
        } else if now_ms >= self.leader_due_ms() {
            self.fail("no leader of the log has most of its servers", now_ms);
        } else if now_ms >= self.look_due_ms() {
            self.looked_ms = now_ms;
            self.ask(&api("STREAM.INFO", &self.stream), "l", b"");
        } else if now_ms >= self.order_due_ms() {
            self.is_unanswered = true;
            self.is_ready = false;
            let server = &self.options.servers[self.server];
            self.tell_away(format!("{server}: the log does not acknowledge records"));
        } else if now_ms >= self.record_due_ms() {
            // It may answer everything else.
            self.write = Write::Refused { retry_ms: now_ms };
            self.fail("a record was not acknowledged in time", now_ms);
        } else if self.is_live()
            && matches!(self.write, Write::Refused { retry_ms } if retry_ms <= now_ms)
        {
            self.ask_to_write(now_ms);
        } else if now_ms >= self.past_due_ms() {
            self.doubt_pasts(now_ms);
        } else if now_ms.saturating_sub(self.asked_ms) >= PING_MS {
            // Not in the clear, and the handshake has a time of its own.
            match self.step() {
                Some(Step::Secure) => self.asked_ms = now_ms,
                _ => self.ping(now_ms),
            }
        }
    }

    fn ping(&mut self, now_ms: u64) {
        self.asked_ms = now_ms;
        self.pings += 1;
        self.output.extend_from_slice(b"PING\r\n");
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
                    .min(self.ask_again_ms())
                    .min(self.consumer_due_ms())
                    .min(self.copy_due_ms())
                    .min(self.leader_due_ms())
                    .min(self.look_due_ms())
                    .min(self.order_due_ms())
                    .min(self.record_due_ms())
                    .min(next_write)
                    .min(self.past_due_ms())
                    .min(self.asked_ms + PING_MS)
            }
        }
    }

    /// Whether another record of the outbox may be handed over.
    pub fn can_send(&self) -> bool {
        self.is_live()
            && self.write == Write::Taken
            && !self.is_unanswered
            && self.flight.len() < IN_FLIGHT_MAX
            && self.output.len() < UNSENT_BYTES_MAX
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

    /// When the consumer must have given what the leader has.
    fn copy_due_ms(&self) -> u64 {
        match self.copy.awaited_ms() {
            Some(since_ms) if self.is_live() => answer_due_ms(
                since_ms.max(self.given_ms),
                COPY_SILENCE_MS_MAX,
                self.arrived_ms,
            ),
            _ => u64::MAX,
        }
    }

    /// When the log's leader must have had most of its servers.
    fn leader_due_ms(&self) -> u64 {
        match self.is_live() && self.is_replicated {
            true => answer_due_ms(self.leader_heard_ms, LEADER_SILENCE_MS_MAX, self.arrived_ms),
            false => u64::MAX,
        }
    }

    /// When it is asked.
    fn look_due_ms(&self) -> u64 {
        match self.is_live() && self.is_replicated {
            true => self.looked_ms + LEADER_LOOK_MS,
            false => u64::MAX,
        }
    }

    /// When nothing more is sent before what was sent is acknowledged.
    fn order_due_ms(&self) -> u64 {
        match self.flight.oldest_sent_ms() {
            Some(sent_ms) if self.is_live() && !self.is_unanswered => {
                answer_due_ms(sent_ms, ORDER_MS_MAX, self.arrived_ms)
            }
            _ => u64::MAX,
        }
    }

    /// When the log must have said what it was asked for.
    fn step_due_ms(&self) -> u64 {
        let Link::Up { step, since_ms, .. } = self.link else {
            return u64::MAX;
        };
        let silence_ms = match step {
            Step::Live => return u64::MAX,
            Step::Info | Step::Stream if self.options.servers.len() > 1 => OTHERS_MS,
            _ => ANSWER_MS_MAX,
        };
        answer_due_ms(since_ms, silence_ms, self.arrived_ms)
    }

    /// When a question counts as forgotten: one that may be asked twice.
    fn ask_again_ms(&self) -> u64 {
        let Link::Up { step, asked_ms, .. } = self.link else {
            return u64::MAX;
        };
        let silence_ms = match step {
            Step::Stream | Step::SameStream | Step::End => ASK_AGAIN_MS,
            Step::Consumer => ASK_AGAIN_FOR_CONSUMER_MS,
            _ => return u64::MAX,
        };
        answer_due_ms(asked_ms, silence_ms, self.arrived_ms)
    }

    fn ask_again(&mut self, now_ms: u64) {
        // It may have been made all the same: another one is, and this one is not listened to.
        if self.step() == Some(Step::Consumer) {
            self.leave_consumer();
            self.step_back();
        }
        if let Link::Up { asked_ms, .. } = &mut self.link {
            *asked_ms = now_ms;
        }
        match self.step() {
            Some(Step::End) => self.ask_for_end(),
            _ => self.ask_for_stream(),
        }
    }

    /// When the log must have said what became of a record, or whether it takes any.
    fn record_due_ms(&self) -> u64 {
        let sent_ms = match self.write {
            Write::Probing { sent_ms } => Some(sent_ms),
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
            Operation::Pong => {
                self.pongs += 1;
                self.ask_pasts_again(now_ms);
            }
            Operation::Ok => {}
            Operation::Error(text) => self.on_error(&String::from_utf8_lossy(text), now_ms)?,
            Operation::Info(json) if self.step() == Some(Step::Info) => {
                self.on_info(json, now_ms)?;
            }
            // It tells of other servers from time to time.
            Operation::Info(_) => {}
            Operation::Message(message) => self.on_message(message, now_ms)?,
        }
        Ok(())
    }

    fn step(&self) -> Option<Step> {
        match self.link {
            Link::Up { step, .. } => Some(step),
            _ => None,
        }
    }

    /// What is asked after this, is asked for this step.
    fn go_to(&mut self, step: Step, now_ms: u64) {
        self.question += 1;
        self.link = Link::Up {
            step,
            since_ms: now_ms,
            asked_ms: now_ms,
        };
    }

    /// Back to asking for the stream, in the time that the step has left.
    fn step_back(&mut self) {
        self.question += 1;
        if let Link::Up { step, .. } = &mut self.link {
            *step = Step::Stream;
        }
    }

    /// The number of the question that a message answers, if it is the one that is open.
    fn answers(&self, number: &[u8]) -> bool {
        number == self.question.to_string().as_bytes()
    }

    fn on_message(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        let inbox = self.options.inbox.as_bytes();
        let own = message
            .subject
            .strip_prefix(inbox)
            .and_then(|rest| rest.strip_prefix(b"."));
        if message.sid > CONSUMER_SID && message.sid != self.consumer_sid() {
            return Ok(());
        }
        match own {
            Some(own) if own.starts_with(b"r.s.") => match self.answers(&own[4..]) {
                true => self.on_stream(message, now_ms),
                false => Ok(()),
            },
            Some(own) if own.starts_with(b"r.k.") => match self.answers(&own[4..]) {
                true => self.on_consumer(message, now_ms),
                false => Ok(()),
            },
            Some(own) if own.starts_with(b"r.e.") => match self.answers(&own[4..]) {
                true => self.on_end(message, now_ms),
                false => Ok(()),
            },
            Some(own) if own.starts_with(b"r.l.") => match self.answers(&own[4..]) {
                true => self.on_leader(message, now_ms),
                false => Ok(()),
            },
            Some(own) if own.starts_with(b"r.h.") => self.on_past(&own[4..], message, now_ms),
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
                self.consumer_heard_ms = now_ms;
                self.on_control(message, now_ms)
            }
            _ if message.subject.starts_with(UPDATED) => match self.step() {
                Some(Step::NewEpoch) => Ok(()),
                // Its epoch may be another one now.
                _ => Err("the stream was changed".to_owned()),
            },
            // A delivered message has the subject that it was published to.
            _ => {
                self.consumer_heard_ms = now_ms;
                self.on_delivery(message, now_ms)
            }
        }
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
        // Each server has its try before any is waited for longer.
        let rounds = self.failures / self.options.servers.len() as u32;
        let retry_ms = now_ms + retry_ms(rounds);
        self.failures = self.failures.saturating_add(1);
        self.link = Link::Down { retry_ms };
        self.is_end_sure = false;
        self.is_unanswered = false;
        self.copy.clear();
        if let Write::Probing { .. } = self.write {
            self.write = Write::Refused { retry_ms };
        }
        self.is_ready = false;
        self.leave_consumer();
        self.drop_pasts();
        self.input = Vec::new();
        self.output.clear();
        self.events.extend(self.flight.clear().map(Event::Released));
        self.events.push_back(Event::Rewind);
        self.tell_away(text);
    }
}

/// Said of a log that has another message where one was read.
const OTHER_MESSAGE: &str = "the log has another message where it was read";
/// Said of a copy that does not come to what the leader has.
const LAGS: &str = "its copy of the log lacks messages that the leader has";

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
