//! The consumer: the subscription by which the server delivers the stream in order.
//!
//! A consumer starts in [`Stage::Proving`]. The stream may be deleted and recreated between its description and the
//! consumer's creation, so messages are held until the description is confirmed. On a replicated stream the consumer
//! reads one copy, which must also match the leader's last message. After both proofs the consumer is [`Stage::Live`].

use super::copy::{Copy, Mark, Verdict};
use super::log::{Log, Reached};
use crate::exchange::Event;
use crate::jetstream::{Delivery, StreamAnswer};
use crate::rfc3339;

/// A consumer of this connection.
pub(super) struct Consumer {
    /// First stream sequence for which the consumer was created.
    pub from: u64,
    /// Sequence of the consumer's last delivery. Deliveries are numbered without holes.
    pub seq: u64,
    /// Time of the last message or heartbeat.
    pub heard_ms: u64,
    /// Time of the last message.
    pub given_ms: u64,
    pub trust: Trust,
    /// The delivered copy, compared with the leader's.
    pub copy: Copy,
    pub past: Past,
    pub stage: Stage,
}

/// Whether messages of a consumer may be passed on.
pub(super) enum Stage {
    /// Messages are held until the proofs are complete.
    Proving { proof: Proof, held: Held },
    /// Messages are passed on as they arrive.
    Live(Live),
}

/// The proof for which a consumer waits. The proofs come in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The response to the consumer's creation.
    Creation,
    /// A second description of the stream, with the same epoch.
    Stream,
    /// A delivered message that equals the leader's last message.
    Copy,
}

/// Relation between the log's messages and those that were read before.
///
/// | From | Event | To |
/// |---|---|---|
/// | `Unproven` | the leader has the same message as the copy | `Settled` |
/// | `Checking` | first delivery: the same message, or another position | `Settled` |
/// | `Checking` | first delivery: another message, the copy not compared yet | `Doubted` |
/// | `Checking` | first delivery: another message, nothing to compare | log replaced |
/// | `Doubted` | the leader has the same message as the copy, or the consumer would go live | log replaced |
///
/// If the leader has another message than the copy, the connection ends. Nothing is lost if messages were still held. If the
/// consumer was live, `Unproven` reads again from the start; in any other state the log counts as replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// No message was read before this consumer, and the consumer's copy was not compared yet.
    Unproven,
    /// The last message read before is requested again, for comparison.
    Checking,
    /// The message that was read before differs. Either this copy is wrong, or the log was replaced.
    Doubted,
    /// Reading continues at the position where it stopped.
    Settled,
}

/// Result of comparing a delivery with the last message read before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Checked {
    /// Not requested for comparison.
    New,
    /// The log has the same message. Or it has a different message, in a copy that was not compared yet.
    Known,
    /// The log has another message.
    Replaced,
}

/// Messages of a consumer that is not proven yet. The server's flow control limits their number, because its request is not
/// answered before the proof.
pub(super) struct Held {
    /// Position before this consumer. It is restored if the consumer is abandoned.
    pub before: Option<Reached>,
    pub events: Vec<Event>,
    /// Reply subject of the flow-control request.
    pub stalled: Option<Vec<u8>>,
}

/// The past: messages that the log had when the consumer was created.
pub(super) struct Past {
    /// Last sequence of the past.
    pub until: u64,
    /// True if some positions up to and including `until` may have no message. The past then ends when the server reports that
    /// no message is pending.
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

/// Monitors the leader of a replicated stream. A consumer still delivers after its server has lost the majority.
pub(super) struct Leader {
    /// Time of the last request to describe the stream.
    pub asked_ms: u64,
    /// Time of the last description by a leader with a majority.
    pub heard_ms: u64,
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

    /// Compares a message of a replicated stream with the leader's.
    pub fn compare(&mut self, mark: Mark, now_ms: u64) -> Option<Verdict> {
        self.given_ms = now_ms;
        self.copy.give(mark)
    }

    /// Compares the first delivery with the last message read before.
    pub fn check(&mut self, delivery: &Delivery, reached: Reached) -> Checked {
        if self.trust != Trust::Checking {
            return Checked::New;
        }
        self.trust = Trust::Settled;
        if delivery.stream_seq != reached.place.seq {
            return Checked::New;
        }
        if reached.stored_ms == Some(delivery.unix_ms()) {
            return Checked::Known;
        }
        // The leader's last message shows whether the copy is wrong or the log was replaced.
        if self.copy.awaited_ms().is_none() {
            return Checked::Replaced;
        }
        self.trust = Trust::Doubted;
        Checked::Known
    }

    /// Ends a doubt in favour of the copy. Returns true if the log was replaced.
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
            heard_ms: now_ms,
        };
        self.heard_ms = now_ms;
        let live = Stage::Live(Live {
            leader,
            is_ready: false,
        });
        match std::mem::replace(&mut self.stage, live) {
            Stage::Proving { held, .. } => Some(held),
            Stage::Live(_) => None,
        }
    }

    /// Returns true if messages wait for an answer to the server's flow control.
    pub fn has_stalled(&self) -> bool {
        matches!(&self.stage, Stage::Proving { held, .. } if held.stalled.is_some())
    }
}

impl Past {
    /// Records the server's report that no messages are pending. The report is used only if the past may have holes. Otherwise the
    /// past ends with its last message.
    pub fn note_drained(&mut self, is_drained: bool) {
        self.is_drained |= is_drained && self.may_have_holes;
    }

    /// Checks whether the log has removed all messages of the past.
    pub fn note_expired(&mut self, answer: &StreamAnswer) {
        self.is_drained |= answer.state.first_seq > self.until;
    }

    /// Returns true if everything up to `until` was delivered or removed.
    pub fn is_given(&self, reached: Option<Reached>) -> bool {
        self.is_drained || reached.is_some_and(|it| it.place.seq >= self.until)
    }
}

/// Returns the leader's last message, if a consumer that starts at `from` must deliver that message.
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

/// Cause of an end: deliveries of the consumer are missing.
pub(super) const HOLE: &str = "deliveries of the consumer are missing";
