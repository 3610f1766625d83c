//! Finds or creates the stream and its consumer, and compares them with the messages that were read before.

use super::consumer::{Consumer, Held, Past, Proof, Stage, Trust, last_of};
use super::copy::{Copy, Verdict};
use super::session::{Link, Session, Step};
use super::writer::{Published, Write};
use super::{
    CONSUMER_SID, DUPLICATES_NS, HEARTBEAT_NS, LOSS_DOUBT_MS_MAX, Nats, OTHER_MESSAGE, Question,
    no_responders,
};
use crate::epoch::epoch_after;
use crate::exchange::{Event, Place};
use crate::jetstream::{ConsumerAnswer, NewStream, StreamAnswer, ordered_consumer};
use crate::rfc3339;
use crate::wire::{self, Message};

/// Maximum number of consecutive requests for a new epoch. After that the bridge reads the log under its old epoch, so that a
/// server that never grants a new one does not prevent reading.
const EPOCH_REQUESTS_MAX: u32 = 5;

/// Reason for closing the connection: the leader is cut off and has not noticed it.
const NO_MAJORITY: &str = "the leader of the log does not reach a majority of its servers";

impl Nats {
    /// Handles the description of the stream, or the response to its creation or update.
    pub(super) fn on_stream(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        no_responders(&message)?;
        let answer: StreamAnswer = serde_json::from_slice(message.payload).map_err(|error| {
            format!(
                "cannot parse the description of stream {}: {error}",
                self.stream
            )
        })?;
        if let Some(error) = &answer.error {
            match self.link.step() {
                Some(Step::Stream) if error.code == 404 => {
                    self.create_stream(now_ms);
                    return Ok(());
                }
                Some(Step::NewEpoch) => self.log.is_epoch_fixed |= error.code < 500,
                _ => {}
            }
            return Err(format!("stream {}: {}", self.stream, error.description));
        }
        match self.link.step() {
            Some(Step::Stream | Step::NewEpoch) => self.on_description(&answer, now_ms),
            Some(Step::NewStream) => {
                // Several nodes may create the stream at the same time, and each response repeats the request of its own node.
                // Request the description of the stream that exists.
                self.go_to(Step::Stream, now_ms);
                self.ask_for_stream();
                Ok(())
            }
            _ if self.link.proof() == Some(Proof::Stream) => self.on_same_stream(&answer, now_ms),
            _ => Ok(()),
        }
    }

    fn create_stream(&mut self, now_ms: u64) {
        let new = NewStream {
            name: &self.stream,
            subjects: &format!("{}.>", self.options.prefix),
            // NATS refuses a duplicate window that is longer than the maximum age of messages.
            age_ns_max: (self.options.age_ms_max * 1_000_000).max(DUPLICATES_NS),
            bytes_max: self.options.bytes_max,
            replicas: self.options.replicas,
            duplicates_ns: DUPLICATES_NS,
        };
        let new = new.to_json();
        self.go_to(Step::NewStream, now_ms);
        self.ask("STREAM.CREATE", Question::Stream, &new);
    }

    /// Compares the stream with the messages that were read, and creates a consumer.
    fn on_description(&mut self, answer: &StreamAnswer, now_ms: u64) -> Result<(), String> {
        let Some(epoch) = answer.epoch() else {
            return Err(format!(
                "stream {}: the response has no creation time",
                self.stream
            ));
        };
        if !answer.has_majority() {
            return Err(NO_MAJORITY.to_owned());
        }
        self.log.epoch = epoch;
        self.log.is_replicated = answer.is_replicated();
        self.past
            .allow_batches(self.server_info.has_batched_gets && answer.allows_direct());
        let last = answer.state.last_seq;
        let lost = self.log.later().or_else(|| self.log.lost(last));
        let is_sure = self.log.loss.is_confirmed() || self.log.is_replaced;
        if lost.is_none() {
            self.log.loss.clear();
            self.log.epochs_requested = 0;
        } else if self.log.is_replicated && !is_sure {
            // A leader that was just elected may describe fewer messages than it has. A probe shows whether the log is really
            // shorter.
            self.log.loss.suspect(now_ms);
            self.go_to(Step::End, now_ms);
            self.probe_end();
            return Ok(());
        }
        if let Some(place) = lost
            && !self.log.is_epoch_fixed
            && self.log.epochs_requested < EPOCH_REQUESTS_MAX
            && !matches!(self.link.step(), Some(Step::NewEpoch))
            && let unix_ms = self.options.zero_unix_ms + now_ms
            && let epoch = epoch_after([place.epoch, epoch], unix_ms, self.consumers)
            && let Some(config) = answer.config_of_epoch(epoch)
        {
            self.begin_epoch(place, last, &config, now_ms);
            return Ok(());
        }
        self.begin_consumer(answer, now_ms);
        Ok(())
    }

    /// Requests a new epoch for a stream that has lost messages. The stream will assign the positions after `last` a second
    /// time, and the new epoch distinguishes these positions from the lost ones on every node.
    fn begin_epoch(&mut self, lost: Place, last: u64, config: &[u8], now_ms: u64) {
        let cause = if lost.epoch == self.log.epoch {
            format!("{last} is its last one now, {} was read", lost.seq)
        } else {
            "it is an older copy of the log that was read".to_owned()
        };
        let notice = format!(
            "the log has lost messages that it had acknowledged ({cause}): it gets a new epoch, and clients are told that \
             messages may be missing",
        );
        self.events.push_back(Event::Notice(notice));
        self.log.epochs_requested += 1;
        self.go_to(Step::NewEpoch, now_ms);
        self.ask("STREAM.UPDATE", Question::Stream, config);
    }

    /// Creates a consumer that continues after the last message that was read.
    fn begin_consumer(&mut self, answer: &StreamAnswer, now_ms: u64) {
        let (first, last) = (answer.state.first_seq.max(1), answer.state.last_seq);
        let before = self.log.reached;
        let stored_ms = rfc3339::unix_ns(&answer.state.last_ts).map(|ns| ns / 1_000_000);
        let place = self.log.place(last);
        let mut events = vec![Event::LogEnd { place, stored_ms }];
        let past_max = self.options.past_max;
        let mut from = self.log.start(first, last, past_max, &mut events);
        self.log.is_replaced = false;
        // The log may have lost messages and stored as many others at their positions. So start with the message that was read
        // last, if its stored time is known, and compare it.
        let is_known = self.log.reached.is_some_and(|it| it.stored_ms.is_some());
        let trust = match before {
            None => Trust::Unproven,
            Some(_) if is_known && from > first => Trust::Checking,
            Some(_) => Trust::Settled,
        };
        from -= u64::from(trust == Trust::Checking);
        let mut copy = Copy::default();
        if let Some(mark) = last_of(answer, &self.log, from) {
            copy.expect(mark, now_ms);
        }
        let consumer = Consumer {
            from,
            seq: 0,
            received_ms: now_ms,
            given_ms: now_ms,
            trust,
            copy,
            past: Past {
                until: last,
                may_have_holes: !self.log.is_replicated || answer.state.num_deleted > 0,
                is_drained: false,
            },
            stage: Stage::Proving {
                proof: Proof::Creation,
                held: Held {
                    before,
                    events,
                    stalled: None,
                },
            },
        };
        self.consumers += 1;
        let deliver_to = format!("{}.c{}", self.options.inbox, self.consumers);
        // Subscribe by the exact name: nats-server 2.9 does not count a wildcard as interest in a consumer's subject.
        let subscribe = format!("SUB {deliver_to} {}\r\n", self.consumer_sid());
        self.output.extend_from_slice(subscribe.as_bytes());
        let body = ordered_consumer(&self.stream, &deliver_to, from, HEARTBEAT_NS);
        self.go_to(Step::Reading(Box::new(consumer)), now_ms);
        self.ask("CONSUMER.CREATE", Question::Consumer, &body);
    }

    /// Returns the subscription number of the current consumer. Each consumer has a new number, so that late messages of earlier
    /// consumers are recognized.
    pub(super) fn consumer_sid(&self) -> u64 {
        CONSUMER_SID + self.consumers
    }

    /// Abandons a consumer that is not proven. Its messages were not passed on. The caller changes the step.
    pub(super) fn leave_consumer(&mut self) {
        let Some(held) = self.link.held_mut() else {
            return;
        };
        self.log.reached = held.before;
        let end = format!("UNSUB {}\r\n", self.consumer_sid());
        self.output.extend_from_slice(end.as_bytes());
        // Messages with the old number are ignored from now on.
        self.consumers += 1;
    }

    /// Abandons the consumer that is being created, and returns to the step that describes the stream. The step's deadline does
    /// not change.
    pub(super) fn retry_consumer(&mut self) {
        self.leave_consumer();
        self.question += 1;
        if let Link::Up(session) = &mut self.link {
            session.step = Step::Stream;
        }
    }

    /// Makes the consumer wait for its next proof.
    fn advance(&mut self, next: Proof, now_ms: u64) {
        if let Link::Up(session) = &mut self.link
            && let Step::Reading(consumer) = &mut session.step
            && let Stage::Proving { proof, .. } = &mut consumer.stage
        {
            *proof = next;
        }
        self.restart_step(now_ms);
    }

    /// Restarts the step's deadlines. Responses to earlier requests are ignored from now on.
    fn restart_step(&mut self, now_ms: u64) {
        self.question += 1;
        if let Link::Up(Session {
            since_ms, asked_ms, ..
        }) = &mut self.link
        {
            (*since_ms, *asked_ms) = (now_ms, now_ms);
        }
    }

    pub(super) fn on_consumer(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        no_responders(&message)?;
        let answer: ConsumerAnswer = serde_json::from_slice(message.payload)
            .map_err(|error| format!("cannot parse the response about a consumer: {error}"))?;
        if let Some(error) = answer.error {
            return Err(format!(
                "cannot create a consumer of stream {}: {}",
                self.stream, error.description
            ));
        }
        if self.link.proof() != Some(Proof::Creation) {
            return Ok(());
        }
        if let Some(consumer) = self.link.consumer_mut() {
            // Messages that the server has delivered do not count as pending, although some of them may not have arrived yet. So
            // the report is used only if all of them have arrived.
            let is_current = answer.delivered.consumer_seq <= consumer.seq;
            let is_drained = answer.num_pending == Some(0) && is_current;
            consumer.past.note_drained(is_drained);
        }
        self.advance(Proof::Stream, now_ms);
        self.ask_for_stream();
        Ok(())
    }

    /// Handles the second description of the stream.
    fn on_same_stream(&mut self, answer: &StreamAnswer, now_ms: u64) -> Result<(), String> {
        if answer.epoch() != Some(self.log.epoch) {
            return Err(
                "the log was recreated or changed while its consumer was created".to_owned(),
            );
        }
        let Some(consumer) = self.link.consumer_mut() else {
            return Ok(());
        };
        consumer.past.note_expired(answer);
        // The server waits for an answer before it delivers the awaited message. Go live now, which answers it, and compare a
        // later message.
        if consumer.copy.awaited_ms().is_none() || consumer.has_stalled() {
            return self.go_live(now_ms);
        }
        self.advance(Proof::Copy, now_ms);
        Ok(())
    }

    /// Passes on the messages that were held, and all that follow.
    pub(super) fn go_live(&mut self, now_ms: u64) -> Result<(), String> {
        let Some(consumer) = self.link.consumer_mut() else {
            return Ok(());
        };
        // Without a comparison the copy counts as correct. If it differs from the messages that were read, the log was
        // replaced.
        if consumer.resolve_doubt() {
            self.log.is_replaced = true;
            return Err(OTHER_MESSAGE.to_owned());
        }
        if let Some(held) = consumer.go_live(now_ms) {
            self.events.extend(held.events);
            // The answer to the flow-control request was delayed until now.
            if let Some(reply) = held.stalled {
                wire::publish(&mut self.output, &reply, None, [], b"");
            }
        }
        self.restart_step(now_ms);
        self.log.loss.set_confirmed(false);
        // A log that has refused messages may refuse them again. Only a probe that it stores resets the delay of reconnects.
        match self.writer.state {
            Write::Accepting | Write::Stalled => self.failures = 0,
            Write::Refused { .. } | Write::Probing { .. } => self.probe_write(now_ms),
        }
        self.note_ready();
        Ok(())
    }

    /// Handles the response to a probe for the log's end. The leader stores the probe after all messages that it already has.
    pub(super) fn on_end(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        let since_ms = self.log.loss.since_ms();
        let has_expired = since_ms.is_some_and(|it| now_ms.saturating_sub(it) >= LOSS_DOUBT_MS_MAX);
        match self.read_answer(&message, now_ms)? {
            Published::Stored { seq, .. } => {
                self.writer.probes += 1;
                // The log has assigned the probe a position that this node already knows, so it has lost the message that was
                // at this position.
                let is_shorter = seq <= self.log.floor();
                self.log
                    .loss
                    .set_confirmed(is_shorter || self.log.later().is_some());
            }
            Published::Later(_) | Published::Never(_) if has_expired => {
                self.log.loss.set_confirmed(true);
            }
            // The probe is repeated until it is stored or the suspicion expires.
            Published::Later(_) | Published::Never(_) => return Ok(()),
        }
        self.go_to(Step::Stream, now_ms);
        self.ask_for_stream();
        Ok(())
    }

    /// Handles the leader's description, which is requested every [`LEADER_POLL_MS`](super::LEADER_POLL_MS).
    pub(super) fn on_leader(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        // Only a leader with a majority counts. If none responds for `LEADER_SILENCE_MS_MAX`, the connection ends.
        let answer: Option<StreamAnswer> = serde_json::from_slice(message.payload).ok();
        let Some(answer) = answer.filter(|it| it.error.is_none() && it.has_majority()) else {
            return Ok(());
        };
        if answer.epoch() != Some(self.log.epoch) {
            return Err("the stream was changed".to_owned());
        }
        let Some(consumer) = self.link.consumer_mut() else {
            return Ok(());
        };
        if let Stage::Live(live) = &mut consumer.stage {
            live.leader.received_ms = now_ms;
        }
        if let Some(mark) = last_of(&answer, &self.log, consumer.from)
            && consumer.copy.expect(mark, now_ms) == Some(Verdict::Different)
        {
            return Err(self.on_other_copy(mark.seq));
        }
        consumer.past.note_expired(&answer);
        self.note_ready();
        Ok(())
    }

    /// Reports [`Event::Ready`] when the log accepts records and all messages were delivered that the stream had when the
    /// consumer was created.
    pub(super) fn note_ready(&mut self) {
        let reached = self.log.reached;
        let Some(consumer) = self.link.consumer_mut() else {
            return;
        };
        let is_there = self.writer.state == Write::Accepting && consumer.past.is_given(reached);
        if is_there
            && let Stage::Live(live) = &mut consumer.stage
            && !std::mem::replace(&mut live.is_ready, true)
        {
            self.reported.clear();
            self.events.push_back(Event::Ready);
        }
    }
}
