//! Older messages, for clients that missed more than their node retains.
//!
//! Channels are searched one after another. Each question is a request to the JetStream API. Up to NATS 2.10, the stream's
//! leader responds with one message. From 2.11 on, any copy responds with many messages. A lagging copy lacks the newest
//! messages and reports the end of a channel too early, so the leader is queried for the messages after that. The messages of a
//! copy are accepted as complete: copies that lack messages in the middle were seen only with older versions.

use std::collections::VecDeque;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::json;

use super::headers::{HEADER_APPLICATION, HEADER_CONTENT, HEADER_EXCEPT, HEADER_NAME, PROBE};
use super::session::Liveness;
use crate::decimal;
use crate::exchange::{
    Content, Event, Options, PAST_REQUESTS_MAX, PastRequest, Place, Received, read_except,
};
use crate::jetstream::{ApiError, StreamAnswer, api};
use crate::past::Collector;
use crate::rfc3339;
use crate::subject::escape;
use crate::wire::{self, Message};

/// Time without a response after which a question may be lost. Either the stream has no leader, or a slow connection delays the
/// response. The node then sends a PING, and repeats the question if the PONG arrives before the response. A timer alone could
/// repeat questions faster than a slow connection transmits the responses.
const ASK_AGAIN_MS: u64 = 1_000;
/// Number of messages in the first question of a channel. It starts low, because messages after `up_to` are discarded, and
/// doubles with each question.
const BATCH_FIRST: u64 = 16;
/// Maximum number of messages per question.
const BATCH_MAX: u64 = 256;
/// Bytes after which a batch ends.
const BATCH_BYTES_MAX: u64 = 1 << 20;

/// Requests for older messages that wait for the log. At most [`PAST_REQUESTS_MAX`].
#[derive(Default)]
pub(super) struct Pasts {
    open: Vec<OpenPast>,
    /// Number of the last question. Responses to earlier questions are ignored.
    questions: u64,
    /// True if this user has no permission to request messages.
    is_forbidden: bool,
    /// True if the server and the stream allow many messages per question.
    has_batches: bool,
}

/// A request for older messages.
struct OpenPast {
    collector: Collector,
    source: Source,
    question: Question,
}

/// Source of the remaining messages of a request.
#[derive(Clone, Copy)]
enum Source {
    /// Any copy. `batch` is the number of messages in the next question. It is one if the stream allows no batches.
    Copy { batch: u64 },
    /// The leader. The copy has reported the end of this channel, but may lag behind the leader.
    Leader,
    /// The description of the stream. All messages were received, and the description shows which ones the stream has removed
    /// since.
    Description,
}

/// The question that was sent last.
struct Question {
    number: u64,
    form: Form,
    asked_ms: u64,
    /// Number of the PING that was sent because the response is late.
    ping: Option<u64>,
    /// True if the question was sent more than once. Messages that have already arrived may then arrive again.
    is_repeated: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Single,
    Batch { messages: u64 },
    Description,
}

/// Parts of the bridge that [`Pasts`] uses.
pub(super) struct Desk<'a> {
    pub options: &'a Options,
    pub stream: &'a str,
    pub epoch: u64,
    pub output: &'a mut Vec<u8>,
    pub events: &'a mut VecDeque<Event>,
}

/// A stored message.
struct Older<'a> {
    seq: u64,
    unix_ms: u64,
    message: Message<'a>,
}

impl Pasts {
    /// Sets whether the described stream allows batches.
    pub fn allow_batches(&mut self, has_batches: bool) {
        self.has_batches = has_batches;
    }

    /// Returns true if another request may be made.
    pub fn has_room(&self) -> bool {
        self.open.len() < PAST_REQUESTS_MAX
    }

    /// Makes a request.
    pub fn ask(&mut self, request: PastRequest, desk: &mut Desk<'_>, now_ms: u64) {
        let collector = Collector::new(request);
        // The positions of another epoch belong to other messages.
        if collector.request.epoch != desk.epoch || self.is_forbidden {
            let (id, entries) = collector.fail();
            return desk.events.push_back(Event::Past { id, entries });
        }
        self.open.push(OpenPast {
            collector,
            source: Source::Copy { batch: BATCH_FIRST },
            question: Question {
                number: 0,
                form: Form::Single,
                asked_ms: now_ms,
                ping: None,
                is_repeated: false,
            },
        });
        self.ask_next(self.open.len() - 1, desk, now_ms);
    }

    fn ask_next(&mut self, at: usize, desk: &mut Desk<'_>, now_ms: u64) {
        self.questions += 1;
        let open = &mut self.open[at];
        open.question = Question {
            number: self.questions,
            form: match open.source {
                Source::Copy { batch } if self.has_batches => Form::Batch { messages: batch },
                Source::Copy { .. } | Source::Leader => Form::Single,
                Source::Description => Form::Description,
            },
            asked_ms: now_ms,
            ping: None,
            is_repeated: false,
        };
        open.put_question(desk);
    }

    /// Handles a response to the question `number`.
    pub fn on_answer(
        &mut self,
        number: &[u8],
        message: Message<'_>,
        desk: &mut Desk<'_>,
        now_ms: u64,
    ) -> Result<(), String> {
        let number = std::str::from_utf8(number)
            .ok()
            .and_then(|text| text.parse::<u64>().ok());
        let numbers = self.open.iter().map(|open| Some(open.question.number));
        let Some(at) = numbers.into_iter().position(|it| it == number) else {
            return Ok(());
        };
        let next = match self.open[at].question.form {
            Form::Description => {
                self.finish(at, message, desk);
                return Ok(());
            }
            Form::Batch { messages } => self.on_batched(at, messages, message, desk.options)?,
            Form::Single => self.open[at].on_single(message, desk.options)?,
        };
        let open = &mut self.open[at];
        match next {
            Next::Message => {}
            Next::Given => {
                // More messages of this batch follow, so the time without a response restarts.
                (open.question.asked_ms, open.question.ping) = (now_ms, None);
                return Ok(());
            }
            Next::Channel => {
                open.source = if open.collector.next_channel() {
                    Source::Copy { batch: BATCH_FIRST }
                } else {
                    Source::Description
                };
            }
            Next::Nothing => {
                self.fail(at, desk);
                return Ok(());
            }
        }
        self.ask_next(at, desk, now_ms);
        Ok(())
    }

    /// Handles a message of a batch of up to `messages`, or its end.
    fn on_batched(
        &mut self,
        at: usize,
        messages: u64,
        message: Message<'_>,
        options: &Options,
    ) -> Result<Next, String> {
        let [seq, time, pending] = message.headers([HEADER_SEQ, HEADER_TIME, HEADER_PENDING]);
        let open = &mut self.open[at];
        match message.status() {
            None => {}
            // The batch is complete, and the copy has further messages.
            Some((204, _)) if pending != Some(b"0") => {
                let batch = (messages * 2).min(BATCH_MAX);
                open.source = Source::Copy { batch };
                return Ok(Next::Message);
            }
            // The copy has no further message of this channel, but may lag behind the leader.
            Some((204 | 404, _)) => {
                open.source = Source::Leader;
                return Ok(Next::Message);
            }
            // The stream refuses batches, although the server's version supports them.
            Some(_) => {
                self.has_batches = false;
                return Ok(Next::Message);
            }
        }
        let seq = seq.and_then(decimal::read);
        let unix_ns = time.and_then(|time| rfc3339::unix_ns(std::str::from_utf8(time).ok()?));
        let (Some(seq), Some(unix_ns)) = (seq, unix_ns) else {
            return Err(NOT_AS_GIVEN.to_owned());
        };
        if open.question.is_repeated && seq <= open.collector.at {
            return Ok(Next::Given);
        }
        let older = Older {
            seq,
            unix_ms: unix_ns / 1_000_000,
            message,
        };
        Ok(match open.take(&older, options)? {
            // A server before 2.11 ignores `batch`. It sends one message without this header, and no end of the batch.
            Next::Message if pending.is_some() => Next::Given,
            next => next,
        })
    }

    /// Handles the description of the stream, which is requested after the last message. The request fails if the stream was
    /// recreated or has deleted messages. Messages that the stream has removed since become a gap.
    fn finish(&mut self, at: usize, message: Message<'_>, desk: &mut Desk<'_>) {
        let answer: Option<StreamAnswer> = serde_json::from_slice(message.payload).ok();
        let answer = answer.filter(|answer| {
            answer.error.is_none()
                && answer.epoch() == Some(desk.epoch)
                && answer.state.num_deleted == 0
        });
        let Some(answer) = answer else {
            return self.fail(at, desk);
        };
        let mut open = self.open.swap_remove(at);
        open.collector
            .miss(answer.state.first_seq.saturating_sub(1));
        let (id, entries) = open.collector.finish();
        desk.events.push_back(Event::Past { id, entries });
    }

    /// Reports everything that a request covers as missing.
    fn fail(&mut self, at: usize, desk: &mut Desk<'_>) {
        let (id, entries) = self.open.swap_remove(at).collector.fail();
        desk.events.push_back(Event::Past { id, entries });
    }

    /// Handles that the user has no permission for batches. Messages are then requested one by one.
    pub fn end_batches(&mut self, desk: &mut Desk<'_>, now_ms: u64) {
        self.has_batches = false;
        for at in 0..self.open.len() {
            if matches!(self.open[at].question.form, Form::Batch { .. }) {
                self.ask_next(at, desk, now_ms);
            }
        }
    }

    /// Handles that the user has no permission to request messages. All requests then fail until the connection ends.
    pub fn forbid(&mut self, desk: &mut Desk<'_>) {
        self.is_forbidden = true;
        let notice = "this user of NATS may not ask for stored messages ($JS.API.STREAM.MSG.GET): clients that come back after \
                      more than history_bytes_max has are told that messages may be missing";
        desk.events.push_back(Event::Notice(notice.to_owned()));
        while !self.open.is_empty() {
            self.fail(0, desk);
        }
    }

    /// Drops all requests at the end of a connection. The caller may repeat them on the next one.
    pub fn drop_all(&mut self, events: &mut VecDeque<Event>) {
        let open = std::mem::take(&mut self.open);
        let lost = open
            .into_iter()
            .map(|open| Event::PastLost(open.collector.request.id));
        events.extend(lost);
        self.is_forbidden = false;
    }

    /// Returns the time at which the oldest question may be lost.
    pub fn due_ms(&self) -> u64 {
        let questions = self.open.iter().map(|open| &open.question);
        let asked_ms = questions
            .filter(|it| it.ping.is_none())
            .map(|it| it.asked_ms);
        asked_ms
            .min()
            .map_or(u64::MAX, |asked_ms| asked_ms + ASK_AGAIN_MS)
    }

    /// Sends a PING after late questions. The server responds in order, so a response that has not arrived before the PONG is
    /// lost.
    pub fn doubt(&mut self, liveness: &mut Liveness, output: &mut Vec<u8>, now_ms: u64) {
        liveness.ping(output, now_ms);
        for open in &mut self.open {
            let question = &mut open.question;
            if question.ping.is_none() && question.asked_ms + ASK_AGAIN_MS <= now_ms {
                question.ping = Some(liveness.pings);
            }
        }
    }

    /// Repeats the questions that were sent before the PING that was just answered. The questions keep their numbers, so that a
    /// late response from a slow server is still used.
    pub fn ask_again(&mut self, pongs: u64, desk: &mut Desk<'_>, now_ms: u64) {
        for open in &mut self.open {
            let question = &mut open.question;
            if question.ping.is_some_and(|ping| ping <= pongs) {
                question.is_repeated = true;
                (question.asked_ms, question.ping) = (now_ms, None);
                open.put_question(desk);
            }
        }
    }
}

impl OpenPast {
    fn put_question(&self, desk: &mut Desk<'_>) {
        let reply = format!("{}.r.h.{}", desk.options.inbox, self.question.number);
        let (verb, body) = match self.question.form {
            Form::Description => ("STREAM.INFO", Vec::new()),
            Form::Single => ("STREAM.MSG.GET", self.next_message(desk).to_string().into()),
            Form::Batch { messages } => {
                let mut body = self.next_message(desk);
                body["batch"] = messages.into();
                body["max_bytes"] = BATCH_BYTES_MAX.into();
                ("DIRECT.GET", body.to_string().into())
            }
        };
        let subject = api(verb, desk.stream);
        let reply = Some(reply.as_bytes());
        wire::publish(desk.output, subject.as_bytes(), reply, [], &body);
    }

    /// Returns the body of a question for the next message of the channel.
    fn next_message(&self, desk: &Desk<'_>) -> serde_json::Value {
        let Collector {
            request, channel, ..
        } = &self.collector;
        let mut subject = format!("{}.", desk.options.prefix).into_bytes();
        escape(&request.channels[*channel], &mut subject);
        let subject = String::from_utf8_lossy(&subject);
        json!({ "seq": self.collector.at + 1, "next_by_subj": subject })
    }

    fn on_single(&mut self, message: Message<'_>, options: &Options) -> Result<Next, String> {
        if message.status().is_some_and(|(code, _)| code == 503) {
            return Ok(Next::Nothing);
        }
        let answer: StoredAnswer = serde_json::from_slice(message.payload)
            .map_err(|error| format!("cannot parse an older message: {error}"))?;
        let stored = match (answer.message, answer.error) {
            (Some(stored), _) => stored,
            (None, Some(error)) if error.code == 404 => return Ok(Next::Channel),
            (None, _) => return Ok(Next::Nothing),
        };
        let Some((head, payload, unix_ms)) = stored.parts() else {
            return Err(NOT_AS_GIVEN.to_owned());
        };
        let message = Message {
            subject: b"",
            sid: 0,
            reply: None,
            head: &head,
            payload: &payload,
        };
        let older = Older {
            seq: stored.seq,
            unix_ms,
            message,
        };
        self.take(&older, options)
    }

    /// Collects a message.
    fn take(&mut self, older: &Older<'_>, options: &Options) -> Result<Next, String> {
        let (seq, message) = (older.seq, &older.message);
        let collector = &mut self.collector;
        // A batch may have messages after the requested range.
        if seq > collector.request.up_to {
            return Ok(Next::Channel);
        }
        if seq <= collector.at {
            return Err(NOT_AS_GIVEN.to_owned());
        }
        collector.at = seq;
        let content = message.header(HEADER_CONTENT);
        let is_own = options.is_own(message.header(HEADER_APPLICATION));
        let content = if is_own && content != Some(PROBE) {
            Content::read(content)
        } else {
            None
        };
        let place = Place {
            epoch: collector.request.epoch,
            seq,
        };
        let channel = collector.request.channels[collector.channel].clone();
        let goes_on = collector.look(content, || Received {
            place,
            content: content.unwrap_or_default(),
            channel,
            name: message.header(HEADER_NAME).map(<[u8]>::to_vec),
            data: message.payload.to_vec(),
            except: message.header(HEADER_EXCEPT).and_then(read_except),
            unix_ms: older.unix_ms,
        });
        Ok(match goes_on {
            true if seq < collector.request.up_to => Next::Message,
            true => Next::Channel,
            false => Next::Nothing,
        })
    }
}

/// The next question of a request.
enum Next {
    /// A question for the channel's next message.
    Message,
    /// No question is sent, because further messages of the batch follow.
    Given,
    /// A question for the next channel.
    Channel,
    /// No question is sent, because the request fails.
    Nothing,
}

/// Headers that the server adds to each message of a batch.
const HEADER_SEQ: &str = "Nats-Sequence";
const HEADER_TIME: &str = "Nats-Time-Stamp";
const HEADER_PENDING: &str = "Nats-Num-Pending";
const NOT_AS_GIVEN: &str = "malformed older message";

#[derive(Deserialize)]
struct StoredAnswer {
    error: Option<ApiError>,
    message: Option<Stored>,
}

/// A stored message in the response to STREAM.MSG.GET.
#[derive(Deserialize)]
struct Stored {
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
    #[serde(default)]
    time: String,
}

impl Stored {
    /// Returns headers, content, and Unix time in milliseconds.
    fn parts(&self) -> Option<(Vec<u8>, Vec<u8>, u64)> {
        let unix_ns = rfc3339::unix_ns(&self.time)?;
        Some((
            BASE64_STANDARD.decode(&self.hdrs).ok()?,
            BASE64_STANDARD.decode(&self.data).ok()?,
            unix_ns / 1_000_000,
        ))
    }
}
