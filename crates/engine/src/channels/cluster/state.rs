//! Words in shared memory that the bridge writes and workers read: whether the log is reachable, presence of the cluster, and a
//! queue of replies per worker.
//!
//! Each word is atomic. There are no locks: a queue has one writer and one reader, and a reader repeats the read of a cause if a
//! counter shows a concurrent write.

use std::sync::atomic::{AtomicU64, Ordering};

use fermata_hub::LogPlace;
use fermata_io::{clock, shm};

use super::figures::ClusterFigures;

/// Maximum number of servers with members at the same time.
pub(super) const NODES_MAX: u32 = 64;

/// Maximum number of records of one worker that wait for a reply.
pub(super) const PENDING_MAX: usize = 1024;

/// Capacity of a worker's queue of replies. The replacement of a killed bridge repeats some replies.
pub(super) const ANSWERS_MAX: usize = 2 * PENDING_MAX;
const ANSWER_WORDS: usize = 4;

/// Words per cache line. Workers do not share a cache line.
const LINE: usize = 8;
const STATE: usize = 0;
const AWAY_SINCE_MS: usize = 1;
const BEAT_MS: usize = 2;
/// Five words.
const FIGURES: usize = 3;
/// 1 if a server of the cluster uses presence, otherwise 0.
const USED: usize = LINE;
/// 1 if the members of other servers are known, otherwise 0.
const KNOWN: usize = LINE + 1;
/// Log position up to which the cluster's presence table is current: epoch and sequence number.
const APPLIED_EPOCH: usize = LINE + 2;
const APPLIED_SEQ: usize = LINE + 3;
/// Log position of the last decision, and the decision; see [`State::decision`].
const DECIDED_EPOCH: usize = LINE + 4;
const DECIDED_SEQ: usize = LINE + 5;
const DECIDED: usize = LINE + 6;
/// 1 if a comparison of the presence tables was requested, otherwise 0.
const COMPARE: usize = LINE + 7;
/// Per server with members: its number (0 = none) and the time of its last message.
const NODES: usize = 2 * LINE;
const NODE_WORDS: usize = 2;
/// Why the log is unreachable: a write counter (odd during a write), the length and the text.
const CAUSE: usize = NODES + NODES_MAX as usize * NODE_WORDS;
const CAUSE_TEXT: usize = CAUSE + 2;
const CAUSE_BYTES_MAX: usize = 512;
/// Flag that the log was reachable since the server started, and the start time.
const HAS_BEEN_READY: usize = CAUSE_TEXT + CAUSE_BYTES_MAX / 8;
const BEGAN_UNIX_MS: usize = HAS_BEEN_READY + 1;
/// Slot, plus 1, of the worker for which the bridge waits. 0 means none.
const BLOCKED: usize = HAS_BEEN_READY + 2;
const QUEUES: usize = CAUSE_TEXT + CAUSE_BYTES_MAX / 8 + LINE - 2;
/// Maximum attempts to read a cause that is being written.
const CAUSE_READS_MAX: usize = 4;
/// Layout of a worker's queue: the number of replies written and the number read, each on its own cache line, then the replies.
const WRITTEN: usize = 0;
const TAKEN: usize = LINE;
const ANSWERS: usize = 2 * LINE;
const QUEUE_WORDS: usize = ANSWERS + ANSWERS_MAX * ANSWER_WORDS;

const STATE_READY: u64 = 1;
/// Time in milliseconds without a heartbeat after which the log counts as unreachable. The bridge sends four heartbeats within this
/// time.
pub(super) const BEAT_MS_MAX: u64 = 3_000;

const OUTCOME_ACCEPTED: u64 = 1;
const OUTCOME_REFUSED: u64 = 2;
const OUTCOME_UNKNOWN: u64 = 3;
const OUTCOME_TOO_LARGE: u64 = 4;

/// The log's reply about a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Stored at this position.
    Accepted(LogPlace),
    /// Refused.
    Refused,
    /// Refused permanently: larger than the log accepts.
    TooLarge {
        /// Size in bytes, including headers that the log counts.
        bytes: u64,
        /// The log's limit in bytes.
        max: u64,
    },
    /// Too old to be sent, or to be sent again; the log may have stored it in an earlier attempt.
    Unknown,
}

/// Event for clients when the number of a user's connections has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Nothing,
    Join,
    Leave,
    /// New info of a user who is present.
    Change,
}

/// State that the bridge writes and workers read.
#[derive(Clone, Copy)]
pub(super) struct State {
    words: &'static [AtomicU64],
}

impl State {
    /// Maps the words, with a reply queue for each of `slots` worker slots. The log counts as unreachable.
    pub fn open(slots: u16) -> std::io::Result<State> {
        let words = shm::Shared::anonymous(QUEUES + usize::from(slots) * QUEUE_WORDS)?.words();
        let state = State { words };
        state.set_away(clock::monotonic_ms());
        state.words[BEGAN_UNIX_MS].store(clock::unix_ms(), Ordering::Relaxed);
        Ok(state)
    }

    /// Words on the heap of a test, with queues for two workers.
    #[cfg(test)]
    pub fn of_test() -> State {
        let words: Vec<AtomicU64> = (0..QUEUES + 2 * QUEUE_WORDS)
            .map(|_| AtomicU64::new(0))
            .collect();
        State {
            words: words.leak(),
        }
    }

    pub fn set_ready(&self) {
        self.words[HAS_BEEN_READY].store(1, Ordering::Relaxed);
        self.words[STATE].store(STATE_READY, Ordering::Release);
    }

    /// Returns true if the log was reachable since the server started.
    pub fn has_been_ready(&self) -> bool {
        self.words[HAS_BEEN_READY].load(Ordering::Relaxed) != 0
    }

    /// Returns the time at which the server started.
    pub fn began_unix_ms(&self) -> u64 {
        self.words[BEGAN_UNIX_MS].load(Ordering::Relaxed)
    }

    /// Marks the log as unreachable from now on, if it was reachable.
    pub fn set_away(&self, now_ms: u64) {
        if self.says_ready() || self.words[AWAY_SINCE_MS].load(Ordering::Relaxed) == 0 {
            self.words[AWAY_SINCE_MS].store(now_ms, Ordering::Relaxed);
        }
        self.words[STATE].store(0, Ordering::Release);
    }

    /// Sets why the log is unreachable, for [`State::cause`]. Only the bridge writes it.
    pub fn set_cause(&self, text: &str) {
        let mut end = text.len().min(CAUSE_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text.as_bytes()[..end];
        // A bridge killed during this write has left the counter odd.
        let version = self.words[CAUSE].load(Ordering::Relaxed) | 1;
        self.words[CAUSE].store(version, Ordering::SeqCst);
        self.words[CAUSE + 1].store(end as u64, Ordering::SeqCst);
        for (word, bytes) in self.words[CAUSE_TEXT..].iter().zip(text.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(whole), Ordering::SeqCst);
        }
        self.words[CAUSE].store(version + 1, Ordering::SeqCst);
    }

    /// Returns why the log is unreachable, if known.
    pub fn cause(&self) -> Option<String> {
        for _ in 0..CAUSE_READS_MAX {
            let version = self.words[CAUSE].load(Ordering::SeqCst);
            let len = self.words[CAUSE + 1].load(Ordering::SeqCst) as usize;
            let words = self.words[CAUSE_TEXT..][..CAUSE_BYTES_MAX / 8].iter();
            let mut text: Vec<u8> = words
                .flat_map(|word| word.load(Ordering::SeqCst).to_ne_bytes())
                .collect();
            text.truncate(len);
            if version.is_multiple_of(2) && self.words[CAUSE].load(Ordering::SeqCst) == version {
                return String::from_utf8(text).ok().filter(|text| !text.is_empty());
            }
        }
        None
    }

    /// Records a heartbeat of the bridge.
    pub fn beat(&self, now_ms: u64) {
        self.words[BEAT_MS].store(now_ms, Ordering::Relaxed);
    }

    /// Adds the counters of a turn. Workers read this cache line, so it is not written for each
    /// record.
    pub fn count(&self, mut turn: ClusterFigures) {
        for (word, count) in self.words[FIGURES..].iter().zip(turn.counters()) {
            if *count > 0 {
                word.fetch_add(*count, Ordering::Relaxed);
            }
        }
    }

    pub fn figures(&self, now_ms: u64) -> ClusterFigures {
        let mut figures = ClusterFigures {
            is_ready: self.is_ready(now_ms) && self.blocked_by().is_none(),
            ..ClusterFigures::default()
        };
        for (word, count) in self.words[FIGURES..].iter().zip(figures.counters()) {
            *count = word.load(Ordering::Relaxed);
        }
        figures
    }

    /// Sets the slot of the worker for which the bridge has waited so long that clients get no
    /// events.
    pub fn set_blocked(&self, slot: Option<u32>) {
        let word = slot.map_or(0, |slot| u64::from(slot) + 1);
        self.words[BLOCKED].store(word, Ordering::Relaxed);
    }

    /// Returns the slot of the worker for which the bridge waits.
    pub fn blocked_by(&self) -> Option<u32> {
        let word = self.words[BLOCKED].load(Ordering::Relaxed);
        word.checked_sub(1).map(|slot| slot as u32)
    }

    /// Returns the time since the last heartbeat in milliseconds, if it exceeds the limit.
    pub fn stuck_ms(&self, now_ms: u64) -> Option<u64> {
        Some(self.silence_ms(now_ms)).filter(|silence_ms| *silence_ms >= BEAT_MS_MAX)
    }

    /// Returns true if the log is reachable and the bridge is not stuck.
    pub fn is_ready(&self, now_ms: u64) -> bool {
        self.says_ready() && self.silence_ms(now_ms) < BEAT_MS_MAX
    }

    /// Returns the time for which the log has been unreachable.
    pub fn away_ms(&self, now_ms: u64) -> u64 {
        if self.says_ready() {
            self.silence_ms(now_ms)
        } else {
            now_ms.saturating_sub(self.words[AWAY_SINCE_MS].load(Ordering::Relaxed))
        }
    }

    pub fn says_ready(&self) -> bool {
        self.words[STATE].load(Ordering::Acquire) == STATE_READY
    }

    fn silence_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.words[BEAT_MS].load(Ordering::Relaxed))
    }

    /// Notes that a server has members: from now on servers compare tables and send heartbeats.
    pub fn use_presence(&self) {
        self.words[USED].store(1, Ordering::Relaxed);
    }

    pub fn is_presence_used(&self) -> bool {
        self.words[USED].load(Ordering::Relaxed) != 0
    }

    /// Returns true if the members of other servers are known.
    pub fn is_presence_known(&self) -> bool {
        self.words[KNOWN].load(Ordering::Acquire) != 0
    }

    pub fn set_presence_known(&self) {
        self.words[KNOWN].store(1, Ordering::Release);
    }

    /// Removes everything known about other servers.
    pub fn forget_presence(&self) {
        for at in KNOWN..NODES + NODES_MAX as usize * NODE_WORDS {
            self.words[at].store(0, Ordering::Release);
        }
    }

    /// Returns true if the cluster table contains the log up to a position.
    pub fn is_applied(&self, place: LogPlace) -> bool {
        self.words[APPLIED_EPOCH].load(Ordering::Relaxed) == place.epoch
            && self.words[APPLIED_SEQ].load(Ordering::Relaxed) >= place.seq
    }

    pub fn set_applied(&self, place: LogPlace) {
        self.words[APPLIED_SEQ].store(place.seq, Ordering::Relaxed);
        self.words[APPLIED_EPOCH].store(place.epoch, Ordering::Release);
    }

    /// Returns the decision of a previous bridge at a position, which it may not have completed.
    pub fn decision(&self, place: LogPlace) -> Option<Decision> {
        let is_it = self.words[DECIDED_EPOCH].load(Ordering::Acquire) == place.epoch
            && self.words[DECIDED_SEQ].load(Ordering::Relaxed) == place.seq;
        is_it.then(|| match self.words[DECIDED].load(Ordering::Relaxed) {
            1 => Decision::Join,
            2 => Decision::Leave,
            3 => Decision::Change,
            _ => Decision::Nothing,
        })
    }

    pub fn decide(&self, place: LogPlace, decision: Decision) {
        let word = match decision {
            Decision::Nothing => 0,
            Decision::Join => 1,
            Decision::Leave => 2,
            Decision::Change => 3,
        };
        // Clear the epoch first and set it last. If the bridge is killed in between, its
        // replacement finds no decision, not one decision with the position of another.
        self.words[DECIDED_EPOCH].store(0, Ordering::Release);
        self.words[DECIDED].store(word, Ordering::Relaxed);
        self.words[DECIDED_SEQ].store(place.seq, Ordering::Relaxed);
        self.words[DECIDED_EPOCH].store(place.epoch, Ordering::Release);
    }

    /// Requests a comparison of this machine's presence table with the table of the cluster.
    pub fn want_compare(&self) {
        self.words[COMPARE].store(1, Ordering::Relaxed);
    }

    pub fn is_compare_wanted(&self) -> bool {
        self.words[COMPARE].load(Ordering::Relaxed) != 0
    }

    pub fn take_compare_wanted(&self) -> bool {
        self.words[COMPARE].swap(0, Ordering::Relaxed) != 0
    }

    /// Returns the servers with members: slot, name, and time of the last message.
    pub fn nodes(&self) -> impl Iterator<Item = (u32, u64, u64)> {
        let words = self.words;
        (0..NODES_MAX).filter_map(move |slot| {
            let at = node_word(slot);
            let node = words[at].load(Ordering::Relaxed);
            (node != 0).then(|| (slot, node, words[at + 1].load(Ordering::Relaxed)))
        })
    }

    pub fn node_of(&self, slot: u32) -> Option<u64> {
        self.nodes().find(|it| it.0 == slot).map(|it| it.1)
    }

    pub fn slot_of(&self, node: u64) -> Option<u32> {
        self.nodes().find(|it| it.1 == node).map(|it| it.0)
    }

    /// Returns the slot of a server, assigning one if necessary; `None` if all are used.
    pub fn claim_slot(&self, node: u64, now_ms: u64) -> Option<u32> {
        if let Some(slot) = self.slot_of(node) {
            return Some(slot);
        }
        let is_free = |slot: &u32| self.words[node_word(*slot)].load(Ordering::Relaxed) == 0;
        let slot = (0..NODES_MAX).find(is_free)?;
        // Store the time first: a server with the time of the slot's previous server would count as
        // silent if the bridge was killed in between.
        self.words[node_word(slot) + 1].store(now_ms, Ordering::Relaxed);
        self.words[node_word(slot)].store(node, Ordering::Relaxed);
        Some(slot)
    }

    pub fn forget_node(&self, slot: u32) {
        self.words[node_word(slot)].store(0, Ordering::Relaxed);
    }

    /// Notes that a message of a server was received.
    pub fn hear(&self, node: u64, now_ms: u64) {
        if let Some(slot) = self.slot_of(node) {
            self.words[node_word(slot) + 1].store(now_ms, Ordering::Relaxed);
        }
    }

    /// Restarts the measurement of silence for all servers, because this server could not receive
    /// their heartbeats until now.
    pub fn hear_all(&self, now_ms: u64) {
        for (slot, ..) in self.nodes() {
            self.words[node_word(slot) + 1].store(now_ms, Ordering::Relaxed);
        }
    }

    /// Sends the result of a record to a worker. Returns false if its queue is full or missing.
    pub fn answer(&self, slot: u16, outbox: u64, answer: Answer) -> bool {
        let Some(queue) = self.queue(slot) else {
            return false;
        };
        let written = queue[WRITTEN].load(Ordering::Relaxed);
        let taken = queue[TAKEN].load(Ordering::Acquire);
        if written.wrapping_sub(taken) >= ANSWERS_MAX as u64 {
            return false;
        }
        let (outcome, place) = match answer {
            Answer::Accepted(place) => (OUTCOME_ACCEPTED, place),
            Answer::Refused => (OUTCOME_REFUSED, LogPlace { epoch: 0, seq: 0 }),
            Answer::TooLarge { bytes, max } => {
                let (epoch, seq) = (bytes, max);
                (OUTCOME_TOO_LARGE, LogPlace { epoch, seq })
            }
            Answer::Unknown => (OUTCOME_UNKNOWN, LogPlace { epoch: 0, seq: 0 }),
        };
        let words = answer_words(queue, written);
        for (word, value) in words.iter().zip([outbox, outcome, place.epoch, place.seq]) {
            word.store(value, Ordering::Relaxed);
        }
        // Release: the worker sees the complete reply. If the bridge is killed before this store,
        // the worker receives nothing, and the replacement of the bridge sends the reply again.
        queue[WRITTEN].store(written.wrapping_add(1), Ordering::Release);
        true
    }

    /// Returns true if a worker has unread replies.
    pub fn has_answers(&self, slot: u16) -> bool {
        self.queue(slot).is_some_and(|queue| {
            queue[WRITTEN].load(Ordering::Acquire) != queue[TAKEN].load(Ordering::Relaxed)
        })
    }

    /// Removes a worker's oldest reply; returns the record's position and the reply.
    pub fn next_answer(&self, slot: u16) -> Option<(u64, Answer)> {
        let queue = self.queue(slot)?;
        let taken = queue[TAKEN].load(Ordering::Relaxed);
        if queue[WRITTEN].load(Ordering::Acquire) == taken {
            return None;
        }
        let words = answer_words(queue, taken);
        let word = |at: usize| words[at].load(Ordering::Relaxed);
        let answer = match word(1) {
            OUTCOME_ACCEPTED => Answer::Accepted(LogPlace {
                epoch: word(2),
                seq: word(3),
            }),
            OUTCOME_REFUSED => Answer::Refused,
            OUTCOME_TOO_LARGE => Answer::TooLarge {
                bytes: word(2),
                max: word(3),
            },
            _ => Answer::Unknown,
        };
        let outbox = word(0);
        queue[TAKEN].store(taken.wrapping_add(1), Ordering::Release);
        Some((outbox, answer))
    }

    fn queue(&self, slot: u16) -> Option<&'static [AtomicU64]> {
        let at = QUEUES + usize::from(slot) * QUEUE_WORDS;
        self.words.get(at..at + QUEUE_WORDS)
    }
}

fn node_word(slot: u32) -> usize {
    NODES + slot as usize * NODE_WORDS
}

fn answer_words(queue: &[AtomicU64], number: u64) -> &[AtomicU64] {
    let at = ANSWERS + (number as usize % ANSWERS_MAX) * ANSWER_WORDS;
    &queue[at..at + ANSWER_WORDS]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_a_stuck_bridge_as_not_ready() {
        let state = State::of_test();
        state.set_away(100);
        state.beat(1_000);
        assert!(!state.is_ready(1_000), "it has not said so");
        state.set_ready();
        assert!(state.is_ready(1_000 + BEAT_MS_MAX - 1));
        assert!(!state.is_ready(1_000 + BEAT_MS_MAX));
        assert_eq!(state.away_ms(1_000 + BEAT_MS_MAX), BEAT_MS_MAX);
        state.beat(20_000);
        assert!(state.is_ready(20_000), "it goes on");
        state.set_away(21_000);
        assert_eq!(
            (state.is_ready(21_000), state.away_ms(21_500)),
            (false, 500)
        );
    }
}
