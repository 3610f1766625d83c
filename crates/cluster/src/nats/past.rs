//! Older messages, for clients that come back after more than their node has.
//!
//! The stream's leader alone surely has them all, and gives one for each question. From 2.11 on any copy gives many. One that lags
//! behind lacks the newest, and says that there are no more: so the leader is asked for what follows. What a copy has given is
//! taken: those that were seen to lack something in the middle are of older versions.

use serde::Deserialize;
use serde_json::json;

use super::{HEADER_CONTENT, HEADER_EXCEPT, HEADER_NAME, Nats, OpenPast, PROBE};
use crate::decimal;
use crate::exchange::{
    Content, Event, PAST_REQUESTS_MAX, PastRequest, Place, Received, read_except,
};
use crate::jetstream::{ApiError, StreamAnswer, api};
use crate::past::Collector;
use crate::rfc3339;
use crate::subject::escape;
use crate::wire::{self, Message};

/// A question that has no answer after this time may be forgotten, since nobody leads, or the answer stands behind much else on a
/// slow connection: it is asked again when a `PING` that is sent then is answered first. To ask by the clock alone would put more
/// before each answer than arrives meanwhile.
const ASK_AGAIN_MS: u64 = 1_000;
/// Messages that are asked for at once: few at first, since all behind `up_to` are given in vain, and twice as many each time.
const BATCH_FIRST: u64 = 16;
const BATCH_MAX: u64 = 256;
/// Bytes after which a batch ends.
const BATCH_BYTES_MAX: u64 = 1 << 20;

impl Nats {
    /// Whether another part of the past may be asked for.
    pub fn can_ask_past(&self) -> bool {
        self.is_live() && self.pasts.open.len() < PAST_REQUESTS_MAX
    }

    /// Asks for a part of the past.
    pub fn ask_past(&mut self, request: PastRequest, now_ms: u64) {
        let collector = Collector::new(request);
        if collector.request.epoch != self.epoch || self.pasts.is_forbidden {
            let (id, entries) = collector.fail();
            return self.events.push_back(Event::Past { id, entries });
        }
        self.pasts.open.push(OpenPast {
            collector,
            question: 0,
            asked_ms: now_ms,
            ping: None,
            is_repeated: false,
            is_batched: false,
            batch: BATCH_FIRST,
            is_at_end: false,
            is_ending: false,
        });
        self.ask_next(self.pasts.open.len() - 1, now_ms);
    }

    fn ask_next(&mut self, at: usize, now_ms: u64) {
        self.pasts.questions += 1;
        let has_batches = self.pasts.has_batches;
        let open = &mut self.pasts.open[at];
        (open.question, open.is_repeated) = (self.pasts.questions, false);
        open.is_batched = has_batches && !open.is_at_end && !open.is_ending;
        self.put_question(at, now_ms);
    }

    fn put_question(&mut self, at: usize, now_ms: u64) {
        let open = &mut self.pasts.open[at];
        (open.asked_ms, open.ping) = (now_ms, None);
        let reply = format!("{}.r.h.{}", self.options.inbox, open.question);
        let (subject, body) = match open.is_ending {
            true => (api("STREAM.INFO", &self.stream), Vec::new()),
            false => {
                let mut subject = format!("{}.", self.options.prefix).into_bytes();
                escape(
                    &open.collector.request.channels[open.collector.channel],
                    &mut subject,
                );
                let subject = String::from_utf8_lossy(&subject);
                let mut body = json!({ "seq": open.collector.at + 1, "next_by_subj": subject });
                let verb = match open.is_batched {
                    true => {
                        body["batch"] = open.batch.into();
                        body["max_bytes"] = BATCH_BYTES_MAX.into();
                        "DIRECT.GET"
                    }
                    false => "STREAM.MSG.GET",
                };
                (api(verb, &self.stream), body.to_string().into_bytes())
            }
        };
        let reply = Some(reply.as_bytes());
        wire::publish(&mut self.output, subject.as_bytes(), reply, [], &body);
    }

    pub(super) fn on_past(
        &mut self,
        question: &[u8],
        message: Message<'_>,
        now_ms: u64,
    ) -> Result<(), String> {
        let number = std::str::from_utf8(question)
            .ok()
            .and_then(|text| text.parse::<u64>().ok());
        let Some(at) = self
            .pasts
            .open
            .iter()
            .position(|open| Some(open.question) == number)
        else {
            return Ok(());
        };
        let goes_on = match self.pasts.open[at].is_ending {
            true => return self.end_past(at, message),
            false if self.pasts.open[at].is_batched => self.on_batched(at, message)?,
            false => self.on_past_message(at, message)?,
        };
        match goes_on {
            Next::Message => {}
            Next::Given => {
                let open = &mut self.pasts.open[at];
                (open.asked_ms, open.ping) = (now_ms, None);
                return Ok(());
            }
            Next::Channel => {
                let open = &mut self.pasts.open[at];
                open.is_ending = !open.collector.next_channel();
                (open.is_at_end, open.batch) = (false, BATCH_FIRST);
            }
            Next::Nothing => {
                self.fail_past(at);
                return Ok(());
            }
        }
        self.ask_next(at, now_ms);
        Ok(())
    }

    fn on_past_message(&mut self, at: usize, message: Message<'_>) -> Result<Next, String> {
        if message.status().is_some_and(|(code, _)| code == 503) {
            return Ok(Next::Nothing);
        }
        let answer: StoredAnswer = serde_json::from_slice(message.payload)
            .map_err(|error| format!("the answer about an older message: {error}"))?;
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
        self.take_older(at, (stored.seq, unix_ms), message)
    }

    /// A message of many, or the end of them.
    fn on_batched(&mut self, at: usize, message: Message<'_>) -> Result<Next, String> {
        let [seq, time, pending] = message.headers([HEADER_SEQ, HEADER_TIME, HEADER_PENDING]);
        let open = &mut self.pasts.open[at];
        match message.status() {
            None => {}
            Some((204, _)) if pending != Some(b"0") => {
                open.batch = (open.batch * 2).min(BATCH_MAX);
                return Ok(Next::Message);
            }
            Some((204 | 404, _)) => {
                open.is_at_end = true;
                return Ok(Next::Message);
            }
            // The stream gives none in this way, whatever the version promises.
            Some(_) => {
                self.pasts.has_batches = false;
                return Ok(Next::Message);
            }
        }
        let seq = seq.and_then(decimal::read);
        let unix_ns = time.and_then(|time| rfc3339::unix_ns(std::str::from_utf8(time).ok()?));
        let (Some(seq), Some(unix_ns)) = (seq, unix_ns) else {
            return Err(NOT_AS_GIVEN.to_owned());
        };
        let open = &self.pasts.open[at];
        if open.is_repeated && seq <= open.collector.at {
            return Ok(Next::Given);
        }
        Ok(
            match self.take_older(at, (seq, unix_ns / 1_000_000), message)? {
                // An older server among those that have the stream: it gives one, and does not say that there are no more.
                Next::Message if pending.is_some() => Next::Given,
                next => next,
            },
        )
    }

    /// Looks at a message that stands at a place and was stored at a time.
    fn take_older(
        &mut self,
        at: usize,
        (seq, unix_ms): (u64, u64),
        message: Message<'_>,
    ) -> Result<Next, String> {
        let collector = &mut self.pasts.open[at].collector;
        if seq > collector.request.up_to {
            return Ok(Next::Channel);
        }
        if seq <= collector.at {
            return Err(NOT_AS_GIVEN.to_owned());
        }
        collector.at = seq;
        let content = message.header(HEADER_CONTENT);
        let content = match content == Some(PROBE) {
            true => None,
            false => Content::read(content),
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
            unix_ms,
        });
        Ok(match goes_on {
            true if seq < collector.request.up_to => Next::Message,
            true => Next::Channel,
            false => Next::Nothing,
        })
    }

    /// Is the stream still the same, and does it still have what was asked for?
    fn end_past(&mut self, at: usize, message: Message<'_>) -> Result<(), String> {
        let answer: Option<StreamAnswer> = serde_json::from_slice(message.payload).ok();
        let answer = answer.filter(|answer| {
            answer.error.is_none() && answer.epoch() == self.epoch && answer.state.num_deleted == 0
        });
        let Some(answer) = answer else {
            self.fail_past(at);
            return Ok(());
        };
        let mut open = self.pasts.open.swap_remove(at);
        open.collector
            .miss(answer.state.first_seq.saturating_sub(1));
        let (id, entries) = open.collector.finish();
        self.events.push_back(Event::Past { id, entries });
        Ok(())
    }

    fn fail_past(&mut self, at: usize) {
        let (id, entries) = self.pasts.open.swap_remove(at).collector.fail();
        self.events.push_back(Event::Past { id, entries });
    }

    /// The user may not ask for many messages at once: one after the other is asked for.
    pub(super) fn end_batches(&mut self, now_ms: u64) {
        self.pasts.has_batches = false;
        for at in 0..self.pasts.open.len() {
            if self.pasts.open[at].is_batched {
                self.ask_next(at, now_ms);
            }
        }
    }

    /// The user may not ask for messages: nothing older is to be had.
    pub(super) fn forbid_past(&mut self) {
        self.pasts.is_forbidden = true;
        let notice = "this user of NATS may not ask for stored messages ($JS.API.STREAM.MSG.GET): clients that come back after \
                      more than history_bytes_max has are told that messages may be missing";
        self.events.push_back(Event::Notice(notice.to_owned()));
        while !self.pasts.open.is_empty() {
            self.fail_past(0);
        }
    }

    /// The connection has ended: they may be asked again on the next one.
    pub(super) fn drop_pasts(&mut self) {
        let open = std::mem::take(&mut self.pasts.open);
        let lost = open
            .into_iter()
            .map(|open| Event::PastLost(open.collector.request.id));
        self.events.extend(lost);
        self.pasts.is_forbidden = false;
    }

    /// When a question counts as one that may be forgotten.
    pub(super) fn past_due_ms(&self) -> u64 {
        let asked = self.pasts.open.iter().filter(|open| open.ping.is_none());
        let oldest = asked.map(|open| open.asked_ms).min();
        oldest.map_or(u64::MAX, |asked_ms| asked_ms + ASK_AGAIN_MS)
    }

    /// Asks whether answers are on their way: they stand before that to this `PING`.
    pub(super) fn doubt_pasts(&mut self, now_ms: u64) {
        self.ping(now_ms);
        for open in &mut self.pasts.open {
            if open.ping.is_none() && open.asked_ms + ASK_AGAIN_MS <= now_ms {
                open.ping = Some(self.pings);
            }
        }
    }

    /// What was asked well before a `PING` that is answered now is asked again. It stays the same question: an answer that comes
    /// all the same, from a server that takes its time, counts.
    pub(super) fn ask_pasts_again(&mut self, now_ms: u64) {
        for at in 0..self.pasts.open.len() {
            let open = &mut self.pasts.open[at];
            if open.ping.is_some_and(|ping| ping <= self.pongs) {
                open.is_repeated = true;
                self.put_question(at, now_ms);
            }
        }
    }
}

/// What is asked for next.
enum Next {
    Message,
    /// Nothing: more is on its way.
    Given,
    Channel,
    /// It is not to be had.
    Nothing,
}

/// What a message of many is given with.
const HEADER_SEQ: &str = "Nats-Sequence";
const HEADER_TIME: &str = "Nats-Time-Stamp";
const HEADER_PENDING: &str = "Nats-Num-Pending";
const NOT_AS_GIVEN: &str = "an older message is not as NATS gives it";

#[derive(Deserialize)]
struct StoredAnswer {
    error: Option<ApiError>,
    message: Option<Stored>,
}

/// A message as NATS gives it from its store.
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
    /// Headers, content, and when it was stored.
    fn parts(&self) -> Option<(Vec<u8>, Vec<u8>, u64)> {
        let unix_ns = rfc3339::unix_ns(&self.time)?;
        Some((
            base64(&self.hdrs)?,
            base64(&self.data)?,
            unix_ns / 1_000_000,
        ))
    }
}

/// RFC 4648, 4, with padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for chunk in digits.chunks(4) {
        let mut word = 0u32;
        for &digit in chunk {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            word = word << 6 | u32::from(value);
        }
        word <<= 6 * (4 - chunk.len());
        let [_, first, second, third] = word.to_be_bytes();
        let len = match chunk.len() {
            1 => return None,
            len => len - 1,
        };
        bytes.extend_from_slice(&[first, second, third][..len]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_messages_are_read_as_go_writes_them() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("TQ==", b"M"),
            ("TWE=", b"Ma"),
            ("TWFu", b"Man"),
            ("+/+/", &[0xfb, 0xff, 0xbf]),
        ] {
            assert_eq!(base64(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["T", "TQ-=", "TWFuT"] {
            assert_eq!(base64(text), None, "{text}");
        }
    }
}
