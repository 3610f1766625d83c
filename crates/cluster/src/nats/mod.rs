//! The log in NATS JetStream. One stream stores the messages of all channels of an application. The bridge publishes each
//! record with an id, by which the server drops duplicates, and reads the stream through an ordered consumer.
//!
//! A stream may refuse new messages while it delivers stored ones: it is full and configured to discard new messages, or its
//! servers have no quorum. After a refusal the connection stays open, and reading continues. The log counts as unreachable
//! until it has stored a probe, which is a message without content.
//!
//! On a replicated stream, the server that runs the consumer delivers its own copy, which may differ from the leader's. The
//! bridge holds all messages back until one of them equals the leader's last message. It repeats this comparison once a second:
//! see [`copy`].
//!
//! # States
//!
//! [`Link`] owns the connection. Each [`Step`] of an open connection waits for one response. The last step, [`Step::Reading`],
//! owns the [`consumer`]. [`writer`] and [`log`] own the state that outlives a connection. All deadlines are in one table in
//! [`deadlines`].

mod connecting;
mod consumer;
mod copy;
mod deadlines;
mod headers;
mod log;
mod past;
mod publishing;
mod reading;
mod session;
mod stream;
mod writer;

use std::collections::VecDeque;

use self::log::Log;
use self::past::{Desk, Pasts};
use self::session::{Link, Liveness, Session, Step};
use self::writer::{Write, Writer};
use crate::address::Address;
use crate::exchange::{
    ANSWER_MS_MAX, Event, IN_FLIGHT_MAX, Login, Options, PastRequest, Place, UNSENT_BYTES_MAX,
    retry_ms,
};
use crate::link::ReportedCauses;
use crate::wire::{self, Message, Operation};

/// Interval at which the server sends heartbeats while the consumer has nothing to deliver.
const HEARTBEAT_NS: u64 = 1_000_000_000;
/// Maximum time without a message or heartbeat of the consumer. After that the bridge closes the connection and tries the next
/// server. If the stream or the consumer's server is lost, the consumer stops while the connection stays open.
const CONSUMER_SILENCE_MS_MAX: u64 = 4_000;
/// Interval at which the bridge requests a description of a replicated stream from its leader. Deliveries do not show that the
/// stream has a leader: a server that is cut off from the majority continues to deliver its copy.
const LEADER_POLL_MS: u64 = 1_000;
/// Maximum time without a description by a leader that reaches a majority. After that the bridge tries the next server.
const LEADER_SILENCE_MS_MAX: u64 = 3_000;
/// Maximum time without a delivery while the leader has a newer message. After that the bridge tries the next server, because a
/// new consumer may read another copy.
const COPY_SILENCE_MS_MAX: u64 = 5_000;
/// Age of the oldest unacknowledged record at which the bridge stops sending. It resumes when the log acknowledges that record.
/// If the leader has failed, the record is lost, and the next leader could store later records before it. An election takes at
/// least three seconds, so sending stops before there is a next leader.
const ORDER_MS_MAX: u64 = 2_000;
/// Maximum time to wait for the server's INFO, and for the description of the stream, if several servers are configured. After
/// that the bridge tries the next server.
const OTHERS_MS: u64 = 3_000;
/// Maximum time to wait until a probe shows whether a replicated log has lost its newest messages. If the log still refuses the
/// probe after that time, the messages count as lost.
const LOSS_DOUBT_MS_MAX: u64 = 30_000;
/// Time without a response after which a request is repeated. NATS drops requests while the stream has no leader, for some
/// seconds after a server has failed.
const ASK_AGAIN_MS: u64 = 500;
/// Time without a response after which the creation of a consumer is repeated. The time is longer than [`ASK_AGAIN_MS`],
/// because the repetition abandons a consumer that may already exist, only delayed by a slow connection.
const ASK_AGAIN_FOR_CONSUMER_MS: u64 = 1_500;
/// Consumer number N has the subscription number `CONSUMER_SID + N`. Lower numbers are those of the handshake's subscriptions.
const CONSUMER_SID: u64 = 10;
/// Time for which the stream stores the ids of messages (`duplicate_window`). A record that is sent again within this time is
/// stored only once.
const DUPLICATES_NS: u64 = 120_000_000_000;
/// Subject prefix of the advisory that a stream was updated.
const UPDATED: &[u8] = b"$JS.EVENT.ADVISORY.STREAM.UPDATED.";
/// Subject prefix of the advisory that a stream was deleted.
const DELETED: &[u8] = b"$JS.EVENT.ADVISORY.STREAM.DELETED.";

/// A client of NATS.
pub(crate) struct Nats {
    options: Options,
    /// Name of the stream.
    stream: String,
    login: Login,
    link: Link,
    liveness: Liveness,
    server_info: ServerInfo,
    /// Index of the server in [`Options::servers`].
    server: usize,
    /// Connections that ended since the log was last live.
    failures: u32,
    reported: ReportedCauses,
    /// True if the notice was reported that the configured servers form no NATS cluster.
    is_standalone_reported: bool,
    log: Log,
    writer: Writer,
    past: Pasts,
    /// Number in the reply subjects of the current step. Each step has a new number. Responses with another number are ignored,
    /// because they may describe an earlier state.
    question: u64,
    /// Number of the current consumer. Each consumer has a new number.
    consumers: u64,
    input: Vec<u8>,
    output: Vec<u8>,
    events: VecDeque<Event>,
}

/// Fields of the server's INFO.
#[derive(Default)]
struct ServerInfo {
    /// Text that the client has to sign.
    nonce: String,
    /// True if the server's version returns many stored messages per request.
    has_batched_gets: bool,
    /// Maximum bytes of a message, with headers.
    payload_max: u64,
}

/// A request whose response belongs to the current step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Stream,
    Consumer,
    End,
    Leader,
}

impl Question {
    const ALL: [Question; 4] = [
        Question::Stream,
        Question::Consumer,
        Question::End,
        Question::Leader,
    ];

    /// Token in the reply subject.
    fn token(self) -> char {
        match self {
            Question::Stream => 's',
            Question::Consumer => 'k',
            Question::End => 'e',
            Question::Leader => 'l',
        }
    }
}

/// Destination of a message in this node's inbox, determined by the tokens after the inbox name.
enum Inbox<'a> {
    /// `r.KIND.NUMBER`
    Step(Question, &'a [u8]),
    /// `r.h.NUMBER`
    Past(&'a [u8]),
    /// `r.w`
    Probe,
    /// `r.p.OUTBOX`
    Record(&'a [u8]),
    /// `cNUMBER`: a heartbeat or flow-control request of the consumer. Stored messages arrive under the subjects to which they
    /// were published, so they are not recognized by the inbox.
    Control,
}

impl<'a> Inbox<'a> {
    fn read(tokens: &'a [u8]) -> Option<Inbox<'a>> {
        if tokens.starts_with(b"c") {
            return Some(Inbox::Control);
        }
        if tokens == b"r.w" {
            return Some(Inbox::Probe);
        }
        let (kind, rest) = match tokens.strip_prefix(b"r.")? {
            [kind, b'.', rest @ ..] => (char::from(*kind), rest),
            _ => return None,
        };
        match kind {
            'h' => Some(Inbox::Past(rest)),
            'p' => Some(Inbox::Record(rest)),
            _ => {
                let question = Question::ALL.into_iter().find(|it| it.token() == kind)?;
                Some(Inbox::Step(question, rest))
            }
        }
    }
}

impl Nats {
    /// Creates a bridge that continues after the position `reached`, or `None` if nothing was read. `reached_ms` is the
    /// [`Received::unix_ms`](crate::Received::unix_ms) of the record at that position, if known. The first connection is due
    /// immediately.
    pub fn new(
        options: Options,
        reached: Option<Place>,
        reached_ms: Option<u64>,
        now_ms: u64,
    ) -> Nats {
        Nats {
            stream: format!("FERMATA_{}", options.prefix),
            options,
            login: Login::default(),
            link: Link::Down { retry_ms: now_ms },
            liveness: Liveness::new(now_ms),
            server_info: ServerInfo::default(),
            server: 0,
            failures: 0,
            reported: ReportedCauses::default(),
            is_standalone_reported: false,
            log: Log::new(reached, reached_ms),
            writer: Writer::new(),
            past: Pasts::default(),
            question: 0,
            consumers: 0,
            input: Vec::new(),
            output: Vec::new(),
            events: VecDeque::new(),
        }
    }

    pub fn set_login(&mut self, login: Login) {
        self.login = login;
    }

    /// Handles that the connection is open.
    pub fn handle_connected(&mut self, now_ms: u64) {
        self.go_to(Step::Info, now_ms);
        self.liveness = Liveness::new(now_ms);
    }

    /// Handles that the TLS handshake has finished.
    pub fn handle_secured(&mut self, now_ms: u64) {
        if self.is_securing() {
            self.liveness.restart(now_ms);
            self.introduce(now_ms);
        }
    }

    /// Handles that the connection failed to open, or that the server has closed it.
    pub fn handle_closed(&mut self, cause: &str, now_ms: u64) {
        self.end(cause, now_ms);
    }

    /// Processes received bytes.
    pub fn handle_input(&mut self, bytes: &[u8], now_ms: u64) {
        self.liveness.note_received(now_ms);
        let mut input = std::mem::take(&mut self.input);
        let has_begun = !input.is_empty();
        input.extend_from_slice(bytes);
        match self.process(&input, now_ms) {
            Err(cause) => self.fail(&cause, now_ms),
            Ok(taken) if self.link.is_up() => {
                // Only bytes that continue an incomplete message extend the timeouts of responses.
                if has_begun {
                    self.liveness.note_arrival(now_ms);
                }
                input.drain(..taken);
                self.input = input;
            }
            Ok(_) => {}
        }
    }

    /// Handles all complete operations of `input`. Returns their length in bytes, or the reason why the connection must end.
    fn process(&mut self, input: &[u8], now_ms: u64) -> Result<usize, String> {
        let mut taken = 0;
        while self.link.is_up() {
            match wire::parse(&input[taken..]) {
                Ok(None) => break,
                Ok(Some((operation, len))) => {
                    taken += len;
                    self.on_operation(operation, now_ms)?;
                    // Bytes before the handshake are not authenticated. An attacker on the network path could have inserted
                    // them.
                    if self.is_securing() && taken < input.len() {
                        return Err("the server sent data in the clear before TLS".to_owned());
                    }
                }
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(taken)
    }

    /// Handles deadlines that have passed. The caller calls it at [`Nats::due_ms`] at the latest.
    pub fn handle_time(&mut self, now_ms: u64) {
        match self.link {
            Link::Down { retry_ms } if retry_ms <= now_ms => {
                self.link = Link::Opening {
                    until_ms: now_ms + ANSWER_MS_MAX,
                };
                let server = self.server().clone();
                self.events.push_back(Event::Connect(Box::new(server)));
            }
            Link::Opening { until_ms } if until_ms <= now_ms => {
                self.fail("the connection was not opened in time", now_ms);
            }
            Link::Up(_) => self.handle_deadlines(now_ms),
            Link::Down { .. } | Link::Opening { .. } => {}
        }
    }

    /// Returns the time of the next deadline, at which `handle_time` must be called.
    pub fn due_ms(&self) -> u64 {
        match &self.link {
            Link::Down { retry_ms } => *retry_ms,
            Link::Opening { until_ms } => *until_ms,
            Link::Up(session) => self.session_due_ms(session),
        }
    }

    /// Returns true if another record of the outbox may be passed to `send`.
    pub fn can_send(&self) -> bool {
        self.link.is_live()
            && self.writer.state == Write::Accepting
            && self.writer.in_flight.len() < IN_FLIGHT_MAX
            && self.output.len() < UNSENT_BYTES_MAX
    }

    /// Returns true if another request for older messages may be made.
    pub fn can_ask_past(&self) -> bool {
        self.link.is_live() && self.past.has_room()
    }

    /// Requests older messages.
    pub fn ask_past(&mut self, request: PastRequest, now_ms: u64) {
        let (past, mut desk) = self.past();
        past.ask(request, &mut desk, now_ms);
    }

    /// Releases a record of the outbox without sending it.
    pub fn discard(&mut self, outbox: u64, now_ms: u64) {
        // Add it to the queue, because records are released in the order of the outbox.
        self.writer.in_flight.push(outbox, now_ms, true, 0);
        self.writer.in_flight.settle(outbox);
    }

    /// Returns the next event. Call it after every other method until it returns `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        // Report acknowledgements before the release of their records.
        event.or_else(|| self.writer.in_flight.released().map(Event::Released))
    }

    /// Returns the bytes for the connection. The caller removes from the front those bytes that it has written.
    pub fn transmit(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Returns the requests for older messages, and the parts of the bridge that they use.
    fn past(&mut self) -> (&mut Pasts, Desk<'_>) {
        let desk = Desk {
            options: &self.options,
            stream: &self.stream,
            epoch: self.log.epoch,
            output: &mut self.output,
            events: &mut self.events,
        };
        (&mut self.past, desk)
    }

    fn server(&self) -> &Address {
        &self.options.servers[self.server]
    }

    fn is_securing(&self) -> bool {
        matches!(self.link.step(), Some(Step::Secure))
    }

    fn on_operation(&mut self, operation: Operation<'_>, now_ms: u64) -> Result<(), String> {
        match operation {
            Operation::Ping => self.output.extend_from_slice(b"PONG\r\n"),
            Operation::Pong => {
                // NATS answers in order. A request that was sent before this PONG's PING and has no response is lost.
                self.liveness.pongs += 1;
                let pongs = self.liveness.pongs;
                let (past, mut desk) = self.past();
                past.ask_again(pongs, &mut desk, now_ms);
            }
            Operation::Ok => {}
            Operation::Error(text) => self.on_error(&String::from_utf8_lossy(text), now_ms)?,
            Operation::Info(json) if matches!(self.link.step(), Some(Step::Info)) => {
                self.on_info(json, now_ms)?;
            }
            Operation::Info(json) => self.on_news(json)?,
            Operation::Message(message) => self.on_message(message, now_ms)?,
        }
        Ok(())
    }

    /// Enters a step. Responses to requests of earlier steps are ignored from now on.
    fn go_to(&mut self, step: Step, now_ms: u64) {
        self.question += 1;
        self.link = Link::Up(Session {
            step,
            since_ms: now_ms,
            asked_ms: now_ms,
        });
    }

    fn on_message(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        // A late message of an abandoned consumer.
        if message.sid > CONSUMER_SID && message.sid != self.consumer_sid() {
            return Ok(());
        }
        let inbox = self.options.inbox.as_bytes();
        let own = message
            .subject
            .strip_prefix(inbox)
            .and_then(|rest| rest.strip_prefix(b"."));
        match own.and_then(Inbox::read) {
            Some(Inbox::Step(question, number)) => {
                // A late response to a request of an earlier step.
                if number != self.question.to_string().as_bytes() {
                    return Ok(());
                }
                match question {
                    Question::Stream => self.on_stream(message, now_ms),
                    Question::Consumer => self.on_consumer(message, now_ms),
                    Question::End => self.on_end(message, now_ms),
                    Question::Leader => self.on_leader(message, now_ms),
                }
            }
            Some(Inbox::Past(number)) => {
                let (past, mut desk) = self.past();
                past.on_answer(number, message, &mut desk, now_ms)
            }
            Some(Inbox::Probe) => self.on_probed(message, now_ms),
            Some(Inbox::Record(outbox)) => {
                let outbox = std::str::from_utf8(outbox)
                    .ok()
                    .and_then(|text| text.parse().ok());
                self.on_published(
                    outbox.ok_or("response to an unknown record")?,
                    message,
                    now_ms,
                )
            }
            Some(Inbox::Control) => {
                self.hear_consumer(now_ms);
                self.on_control(message, now_ms)
            }
            None if message.subject.starts_with(UPDATED) => match self.link.step() {
                // The bridge itself has requested this update, and its response describes the stream.
                Some(Step::NewEpoch) => Ok(()),
                // Another node or program has changed the stream, perhaps its epoch. Connect again, which reads the new
                // description.
                _ => Err("the stream was changed".to_owned()),
            },
            None if message.subject.starts_with(DELETED) => {
                Err("the stream was deleted".to_owned())
            }
            None => {
                self.hear_consumer(now_ms);
                self.on_delivery(message, now_ms)
            }
        }
    }

    fn hear_consumer(&mut self, now_ms: u64) {
        if let Some(consumer) = self.link.consumer_mut() {
            consumer.received_ms = now_ms;
        }
    }

    /// Closes the connection from this side.
    fn fail(&mut self, cause: &str, now_ms: u64) {
        self.events.push_back(Event::Disconnect);
        self.end(cause, now_ms);
    }

    /// Handles the end of the connection. The next server is tried after a delay that grows with each round.
    fn end(&mut self, cause: &str, now_ms: u64) {
        if matches!(self.link, Link::Down { .. }) {
            return;
        }
        let text = format!("{}: {cause}", self.server());
        let count = self.options.servers.len();
        self.server = (self.server + 1) % count;
        // All servers of a round are tried with the same delay.
        let rounds = self.failures / count as u32;
        let retry_ms = now_ms + retry_ms(rounds);
        self.failures = self.failures.saturating_add(1);
        // Restore the position before the held messages. They are in the consumer, which ends with the link.
        self.leave_consumer();
        self.link = Link::Down { retry_ms };
        // A probe confirms the log's end for one connection only. The next leader may have more messages.
        self.log.loss.set_confirmed(false);
        self.writer.end(retry_ms);
        self.past.drop_all(&mut self.events);
        self.input = Vec::new();
        self.output.clear();
        self.rewind();
        self.report(text);
    }
}

/// Reason for closing the connection: the log has a different message at a position that was read.
const OTHER_MESSAGE: &str = "the log has another message where it was read";
/// Reason for closing the connection: the consumer's copy lacks messages that the leader has.
const LAGS: &str = "its copy of the log lacks messages that the leader has";

/// Subject of the advisory that a stream was updated.
fn updated(stream: &str) -> String {
    format!("{}{stream}", String::from_utf8_lossy(UPDATED))
}

/// Subject of the advisory that a stream was deleted.
fn deleted(stream: &str) -> String {
    format!("{}{stream}", String::from_utf8_lossy(DELETED))
}

/// Returns an error if the server reports that no program serves the request's subject (status 503).
fn no_responders(message: &Message<'_>) -> Result<(), String> {
    match message.status() {
        Some((503, _)) => Err("the stream does not exist or has no leader".to_owned()),
        _ => Ok(()),
    }
}
