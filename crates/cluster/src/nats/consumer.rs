//! The consumer: the subscription through which the server delivers the stream in order.
//!
//! A new consumer is in [`Stage::Proving`], and its messages are held back until two proofs succeed. First, a second
//! description of the stream has the epoch of the first one: the stream may have been deleted and recreated just before the
//! consumer was created. Second, on a replicated stream, a delivered message equals the leader's last message: the consumer
//! reads one copy, which may be wrong. The consumer is then [`Stage::Live`], and the held messages and all later ones are
//! passed on.

use super::copy::{Copy, Mark, Verdict};
use super::log::{Log, Reached};
use crate::exchange::Event;
use crate::jetstream::{Delivery, StreamAnswer};
use crate::rfc3339;

/// A consumer of this connection.
pub(super) struct Consumer {
    /// Stream sequence at which the consumer starts.
    pub from: u64,
    /// Number of the last delivery. The server numbers the deliveries of a consumer without holes, so a skipped number is a
    /// lost message.
    pub seq: u64,
    /// Time of the last message or heartbeat of the consumer.
    pub received_ms: u64,
    /// Time of the last delivered message, on a replicated stream.
    pub given_ms: u64,
    /// Whether the log still has the messages that were read before this consumer.
    pub trust: Trust,
    /// Recent deliveries, for the comparison with the leader.
    pub copy: Copy,
    /// Messages that must be delivered before the log counts as ready.
    pub past: Past,
    pub stage: Stage,
}

/// Whether messages of a consumer are held back or passed on.
pub(super) enum Stage {
    /// Messages are held until the proofs are complete.
    Proving { proof: Proof, held: Held },
    /// Messages are passed on as they arrive.
    Live(Live),
}

/// The proof that a consumer waits for, in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The response to the consumer's creation.
    Creation,
    /// A second description of the stream, which must have the same epoch.
    Stream,
    /// A delivered message, which must equal the leader's last message.
    Copy,
}

/// Whether the log still has the messages that this node read before. A log that was replaced has other messages at the same
/// positions.
///
/// | From | Event | To |
/// |---|---|---|
/// | `Unproven` | the leader's message equals the copy's | `Settled` |
/// | `Checking` | the first delivery is the message read last, or has another position | `Settled` |
/// | `Checking` | the first delivery differs from the message read last; the copy is still to be compared with the leader | `Doubted` |
/// | `Checking` | the first delivery differs from the message read last; no comparison is pending | log replaced |
/// | `Doubted` | the leader's message equals the copy's, or the consumer is about to go live | log replaced |
///
/// If the leader's message differs from the copy's, the copy is wrong, and the connection is closed. Messages that were still
/// held are dropped, and nothing else changes. A live consumer has already passed messages of the wrong copy on: after
/// `Unproven`, the next consumer reads from the start, and after any other state the log counts as replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// No message was read before this consumer, and the consumer's copy was not compared yet.
    Unproven,
    /// The consumer starts with the message that was read last, so that the first delivery can be compared with it.
    Checking,
    /// The first delivery differs from the message that was read last. Either this copy is wrong, or the log was replaced. The
    /// comparison with the leader decides.
    Doubted,
    /// No comparison with earlier messages is pending. Reading continues where it stopped.
    Settled,
}

/// Result of comparing a delivery with the message that was read last.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Checked {
    /// A message that was not read before.
    New,
    /// The message that was read last, or a different message in a copy that was not compared with the leader yet. It is not
    /// passed on.
    Known,
    /// The log has a different message at the position that was read last.
    Replaced,
}

/// Messages of a consumer that is not proven yet. Flow control limits their number: the server stops delivering until its
/// flow-control request is answered, and the bridge answers it only after the proofs.
pub(super) struct Held {
    /// Position that was reached before this consumer. It is restored if the consumer is abandoned, because the held messages
    /// are then dropped.
    pub before: Option<Reached>,
    pub events: Vec<Event>,
    /// Reply subject of the flow-control request, if the server waits for an answer.
    pub stalled: Option<Vec<u8>>,
}

/// Messages that the stream already had when the consumer was created. The log counts as ready only after their delivery.
pub(super) struct Past {
    /// Sequence of the last of these messages.
    pub until: u64,
    /// True if some sequences up to and including `until` may have no message. The message `until` may then never arrive.
    /// Instead, the server's report that no message is pending shows that all were delivered.
    pub may_have_holes: bool,
    /// True if the server has reported that no message is pending.
    pub is_drained: bool,
}

/// A consumer whose messages are passed on.
pub(super) struct Live {
    pub leader: Leader,
    /// True if [`Event::Ready`] was reported.
    pub is_ready: bool,
}

/// Times of the requests by which the bridge monitors the leader of a replicated stream. The consumer delivers even if its
/// server has lost the majority.
pub(super) struct Leader {
    /// Time of the last request to describe the stream.
    pub asked_ms: u64,
    /// Time of the last description by a leader with a majority.
    pub received_ms: u64,
}

impl Consumer {
    /// Counts a delivery. Returns an error if an earlier delivery is missing.
    pub fn count(&mut self, delivery: &Delivery) -> Result<(), String> {
        if delivery.consumer_seq != self.seq + 1 {
            return Err(HOLE.to_owned());
        }
        self.seq = delivery.consumer_seq;
        self.past.note_drained(delivery.pending == 0);
        Ok(())
    }

    /// Records a delivered message of a replicated stream. Returns the result of the comparison if the leader's last message
    /// has this position.
    pub fn compare(&mut self, mark: Mark, now_ms: u64) -> Option<Verdict> {
        self.given_ms = now_ms;
        self.copy.give(mark)
    }

    /// Compares the first delivery with the message that was read last.
    pub fn check(&mut self, delivery: &Delivery, reached: Reached) -> Checked {
        if self.trust != Trust::Checking {
            return Checked::New;
        }
        self.trust = Trust::Settled;
        if delivery.stream_seq != reached.place.seq {
            return Checked::New;
        }
        // The stored time identifies the message: no other message of the log has the same position and time.
        if reached.stored_ms == Some(delivery.unix_ms()) {
            return Checked::Known;
        }
        // A wrong copy looks like a replaced log. A pending comparison with the leader will show which of the two this is.
        if self.copy.awaited_ms().is_none() {
            return Checked::Replaced;
        }
        self.trust = Trust::Doubted;
        Checked::Known
    }

    /// Called when the copy counts as correct. Returns true if the state was [`Trust::Doubted`], because the log was then
    /// replaced.
    pub fn resolve_doubt(&mut self) -> bool {
        let is_doubted = self.trust == Trust::Doubted;
        if is_doubted {
            self.trust = Trust::Settled;
        }
        is_doubted
    }

    /// Starts to pass messages on. Returns the messages that were held.
    pub fn go_live(&mut self, now_ms: u64) -> Option<Held> {
        let leader = Leader {
            asked_ms: now_ms,
            received_ms: now_ms,
        };
        self.received_ms = now_ms;
        let live = Stage::Live(Live {
            leader,
            is_ready: false,
        });
        match std::mem::replace(&mut self.stage, live) {
            Stage::Proving { held, .. } => Some(held),
            Stage::Live(_) => None,
        }
    }

    /// Returns true if the server delivers nothing until its flow-control request is answered.
    pub fn has_stalled(&self) -> bool {
        matches!(&self.stage, Stage::Proving { held, .. } if held.stalled.is_some())
    }
}

impl Past {
    /// Records whether the server reports that no message is pending. A lagging copy also reports this before it has all
    /// messages. So the report counts only if the message `until` may be missing; otherwise that message is awaited.
    pub fn note_drained(&mut self, is_drained: bool) {
        self.is_drained |= is_drained && self.may_have_holes;
    }

    /// Handles a description. If the log has removed all of these messages, none of them will be delivered.
    pub fn note_expired(&mut self, answer: &StreamAnswer) {
        self.is_drained |= answer.state.first_seq > self.until;
    }

    /// Returns true if all of these messages were delivered or removed.
    pub fn is_given(&self, reached: Option<Reached>) -> bool {
        self.is_drained || reached.is_some_and(|it| it.place.seq >= self.until)
    }
}

/// Returns the leader's last message, which a consumer that starts at `from` must deliver. Returns `None` if the log is not
/// replicated, is empty, has deleted messages, or ends before `from`.
pub(super) fn last_of(answer: &StreamAnswer, log: &Log, from: u64) -> Option<Mark> {
    let state = &answer.state;
    let is_there = state.last_seq >= state.first_seq && state.num_deleted == 0;
    if !log.is_replicated || !is_there || state.last_seq < from {
        return None;
    }
    let unix_ns = rfc3339::unix_ns(&state.last_ts)?;
    let seq = state.last_seq;
    Some(Mark { seq, unix_ns })
}

/// Reason for closing the connection: deliveries of the consumer are missing.
pub(super) const HOLE: &str = "deliveries of the consumer are missing";
