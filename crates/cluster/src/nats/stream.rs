//! The stream and the consumer that reads it: found or made, and whether they are those of before.

use super::copy::{Mark, Verdict};
use super::writing::Published;
use super::{
    CONSUMER_SID, DUPLICATES_NS, Early, HEARTBEAT_NS, LOSS_DOUBT_MS_MAX, Nats, OTHER_MESSAGE, Step,
    Write, no_responders,
};
use crate::exchange::{Event, Place};
use crate::jetstream::{ConsumerAnswer, NewStream, StreamAnswer, api, ordered_consumer};
use crate::rfc3339;
use crate::wire::{self, Message};

/// Said of a leader that is cut off and does not know it yet.
const NO_MAJORITY: &str = "the leader of the log does not reach most of its servers";

impl Nats {
    pub(super) fn on_stream(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
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
                self.go_to(Step::NewStream, now_ms);
                self.ask(&api("STREAM.CREATE", &self.stream), "s", &new);
                return Ok(());
            }
            (Some(error), step) => {
                self.is_epoch_fixed |= step == Some(Step::NewEpoch) && error.code < 500;
                return Err(format!("stream {}: {}", self.stream, error.description));
            }
            (None, Some(Step::SameStream)) => return self.go_live(&answer, now_ms),
            (None, Some(Step::NewStream)) => {
                // Another node may have made it at the same time, and each is told of its own.
                self.go_to(Step::Stream, now_ms);
                self.ask_for_stream();
                return Ok(());
            }
            (None, Some(Step::Stream | Step::NewEpoch)) => {}
            (None, _) => return Ok(()),
        }
        if answer.created.is_empty() {
            return Err(format!(
                "stream {}: the answer does not say when it was made",
                self.stream
            ));
        }
        if !answer.has_majority() {
            return Err(NO_MAJORITY.to_owned());
        }
        self.epoch = answer.epoch();
        self.is_replicated = answer.is_replicated();
        self.pasts.has_batches = self.has_batched_gets && answer.allows_direct();
        let last = answer.state.last_seq;
        let lost = self
            .reached
            .filter(|place| place.epoch == self.epoch && (place.seq > last || self.has_lost));
        if lost.is_none() {
            self.doubted_ms = None;
        } else if self.is_replicated && !self.is_end_sure && !self.has_lost {
            self.doubted_ms.get_or_insert(now_ms);
            self.go_to(Step::End, now_ms);
            self.ask_for_end();
            return Ok(());
        }
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
            self.go_to(Step::NewEpoch, now_ms);
            self.ask(&api("STREAM.UPDATE", &self.stream), "s", &config);
            return Ok(());
        }
        self.begin_consumer(&answer, now_ms);
        Ok(())
    }

    /// Has a consumer made that gives what is not known yet.
    fn begin_consumer(&mut self, answer: &StreamAnswer, now_ms: u64) {
        let (first, last) = (answer.state.first_seq.max(1), answer.state.last_seq);
        self.is_first = self.reached.is_none();
        self.early = Some(Early {
            reached: self.reached,
            reached_ms: self.reached_ms,
            events: Vec::new(),
            stalled: None,
        });
        let mut from = self.begin_at(first, last);
        self.has_lost = false;
        // What was lost may have been replaced by as many others meanwhile.
        self.is_checking = self.reached_ms.is_some() && from > first;
        from -= u64::from(self.is_checking);
        self.consumer_from = from;
        self.may_have_holes = !self.is_replicated || answer.state.num_deleted > 0;
        self.past_until = last;
        self.is_drained = false;
        self.is_doubted = false;
        self.copy.clear();
        if let Some(mark) = self.last_of(answer) {
            self.copy.expect(mark, now_ms);
        }
        self.consumer += 1;
        self.consumer_seq = 0;
        let deliver_to = format!("{}.c{}", self.options.inbox, self.consumer);
        // By its own name: nats-server 2.9 sees no interest in a consumer's subject by a wildcard.
        let subscribe = format!("SUB {deliver_to} {}\r\n", self.consumer_sid());
        self.output.extend_from_slice(subscribe.as_bytes());
        let body = ordered_consumer(&self.stream, &deliver_to, from, HEARTBEAT_NS);
        self.go_to(Step::Consumer, now_ms);
        self.ask(&api("CONSUMER.CREATE", &self.stream), "k", &body);
    }

    /// By what the server names the subscription of the consumer that is listened to.
    pub(super) fn consumer_sid(&self) -> u64 {
        CONSUMER_SID + self.consumer
    }

    /// The consumer that begins is not waited for: what it has given was not passed on.
    pub(super) fn leave_consumer(&mut self) {
        if let Some(early) = self.early.take() {
            (self.reached, self.reached_ms) = (early.reached, early.reached_ms);
            let end = format!("UNSUB {}\r\n", self.consumer_sid());
            self.output.extend_from_slice(end.as_bytes());
            // What it still sends is nobody's.
            self.consumer += 1;
        }
    }

    /// From where the log is read that has messages `first..=last`.
    pub(super) fn begin_at(&mut self, first: u64, last: u64) -> u64 {
        let epoch = self.epoch;
        let oldest = first - 1;
        let floor = match self.reached {
            None => last.saturating_sub(self.options.past_max).max(oldest),
            Some(place) if place.epoch != epoch => {
                let notice = "the log was made anew or has lost messages: clients are told that messages may be missing";
                self.give(Event::Notice(notice.to_owned()));
                last.saturating_sub(self.options.past_max).max(oldest)
            }
            Some(place) if place.seq > last || self.has_lost => {
                let notice = format!(
                    "the log has lost messages that it had acknowledged ({last} is its last one, {} was read) and takes no new \
                     epoch: connected clients are told that messages may be missing; clients that are away may not be",
                    place.seq
                );
                self.give(Event::Notice(notice));
                last.min(place.seq)
            }
            Some(place) if place.seq < oldest => {
                let notice = format!(
                    "the log has removed messages that were not read, {} of them: clients are told that messages may be \
                     missing",
                    oldest - place.seq
                );
                self.give(Event::Notice(notice));
                oldest
            }
            Some(place) => return place.seq + 1,
        };
        self.begin(floor);
        floor + 1
    }

    pub(super) fn begin(&mut self, floor: u64) {
        let place = Place {
            epoch: self.epoch,
            seq: floor,
        };
        self.reached = Some(place);
        self.reached_ms = None;
        self.give(Event::Begin(place));
    }

    /// Tells of something that was read.
    pub(super) fn give(&mut self, event: Event) {
        match &mut self.early {
            Some(early) => early.events.push(event),
            None => self.events.push_back(event),
        }
    }

    pub(super) fn on_consumer(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
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
        self.is_drained |= self.may_have_holes
            && answer.num_pending == Some(0)
            && answer.delivered.consumer_seq <= self.consumer_seq;
        self.go_to(Step::SameStream, now_ms);
        self.ask_for_stream();
        Ok(())
    }

    pub(super) fn go_live(&mut self, answer: &StreamAnswer, now_ms: u64) -> Result<(), String> {
        if answer.epoch() != self.epoch {
            return Err("the log was made anew or changed while its consumer was made".to_owned());
        }
        self.note_expired(answer);
        let is_compared = self.copy.awaited_ms().is_none();
        let has_stalled = self.early.as_ref().is_some_and(|it| it.stalled.is_some());
        match is_compared || has_stalled {
            true => self.begin_live(now_ms),
            false => {
                self.go_to(Step::SameCopy, now_ms);
                Ok(())
            }
        }
    }

    /// What the consumer has given so far is passed on, and what it gives from now on.
    pub(super) fn begin_live(&mut self, now_ms: u64) -> Result<(), String> {
        if std::mem::take(&mut self.is_doubted) {
            self.has_lost = true;
            return Err(OTHER_MESSAGE.to_owned());
        }
        if let Some(early) = self.early.take() {
            self.events.extend(early.events);
            if let Some(reply) = early.stalled {
                wire::publish(&mut self.output, &reply, None, [], b"");
            }
        }
        self.go_to(Step::Live, now_ms);
        self.consumer_heard_ms = now_ms;
        (self.looked_ms, self.leader_heard_ms) = (now_ms, now_ms);
        self.is_end_sure = false;
        match self.write {
            Write::Taken => self.failures = 0,
            _ => self.ask_to_write(now_ms),
        }
        self.note_ready();
        Ok(())
    }

    /// The last message of the leader, if the consumer has to give it.
    fn last_of(&self, answer: &StreamAnswer) -> Option<Mark> {
        let state = &answer.state;
        let is_there = state.last_seq >= state.first_seq && state.num_deleted == 0;
        if !self.is_replicated || !is_there || state.last_seq < self.consumer_from {
            return None;
        }
        let unix_ns = rfc3339::unix_ns(&state.last_ts)?;
        let seq = state.last_seq;
        Some(Mark { seq, unix_ns })
    }

    /// What the log does not have any more is not waited for.
    fn note_expired(&mut self, answer: &StreamAnswer) {
        self.is_drained |= answer.state.first_seq > self.past_until;
    }

    /// Where the log ends: what its leader has acknowledged is behind everything that it had.
    pub(super) fn on_end(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        let is_tired = self
            .doubted_ms
            .is_some_and(|since_ms| now_ms.saturating_sub(since_ms) >= LOSS_DOUBT_MS_MAX);
        match self.read_answer(&message, now_ms)? {
            Published::Stored(seq) => {
                self.probes += 1;
                self.is_end_sure = self.reached.is_some_and(|place| seq <= place.seq);
            }
            Published::Later(_) | Published::Never(_) if is_tired => self.is_end_sure = true,
            // It is asked again.
            Published::Later(_) | Published::Never(_) => return Ok(()),
        }
        self.go_to(Step::Stream, now_ms);
        self.ask_for_stream();
        Ok(())
    }

    /// The leader of a log on several servers.
    pub(super) fn on_leader(&mut self, message: Message<'_>, now_ms: u64) -> Result<(), String> {
        // While nobody leads there is no answer, or one that is none.
        let answer: Option<StreamAnswer> = serde_json::from_slice(message.payload).ok();
        let Some(answer) = answer.filter(|it| it.error.is_none() && it.has_majority()) else {
            return Ok(());
        };
        if answer.epoch() != self.epoch {
            return Err("the stream was changed".to_owned());
        }
        self.leader_heard_ms = now_ms;
        if let Some(mark) = self.last_of(&answer)
            && self.copy.expect(mark, now_ms) == Some(Verdict::Different)
        {
            return Err(self.on_other_copy(mark.seq));
        }
        self.note_expired(&answer);
        self.note_ready();
        Ok(())
    }

    /// The log is there when it has given what it had as the connection began.
    pub(super) fn note_ready(&mut self) {
        let is_past_given = self
            .reached
            .is_some_and(|place| place.seq >= self.past_until);
        let is_there = self.is_live() && self.write == Write::Taken && !self.is_unanswered;
        if is_there && (is_past_given || self.is_drained) && !self.is_ready {
            self.is_ready = true;
            self.reported.clear();
            self.events.push_back(Event::Ready);
        }
    }
}
