//! The memory between workers and the bridge: the outbox, what became of each worker's records, and whether the log is there.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use fermata_cluster::{Address, AddressError};
use fermata_config::Settings;
use fermata_hub::{Config, ConfigError, Layout, LogPlace, OpenError, Owner, Ring};
use fermata_io::wake::Waker;
use fermata_io::{clock, random, shm};

use super::figures::ClusterFigures;
use super::past::{Pages, PastReader};
use crate::id::PublishId;

/// Least bytes of the outbox; it holds eight of the largest events at least.
const OUTBOX_BYTES_MIN: usize = 4 << 20;
const OUTBOX_EVENTS_MIN: usize = 8;
/// What stands before an event's name in the outbox: the worker's slot (2 bytes), and whether there is a name.
pub(super) const MARK_BYTES: usize = 3;
/// In the place of whether there is a name: it is a note about who is present, see `presence`.
pub(super) const MARK_NOTE: u8 = 2;
/// It is a message for one socket, see `direct`.
pub(super) const MARK_DIRECT: u8 = 3;
/// It is a message for all workers of the other servers.
pub(super) const MARK_WORKERS: u8 = 4;
/// What a message for one socket has before its data: what it is, and the slot of the worker.
pub(super) const DIRECT_HEAD_BYTES: usize = 3;
/// Longest note: what it is, a server and a user.
const NOTE_BYTES_MAX: usize = 1 + 8 + fermata_hub::USER_BYTES_MAX;
/// Servers that may have members at the same time.
pub(super) const NODES_MAX: u32 = 64;
/// The slot of the outbox that the bridge reads in.
pub(super) const READER_SLOT: u32 = 0;

/// In the place of the slot of a worker that waits for no answer.
pub(super) const NOBODY: u16 = u16::MAX;

/// Most records of one worker that wait for an answer.
pub(super) const PENDING_MAX: usize = 1024;
/// Answers that a worker may leave unread. A bridge that was killed leaves the next one to answer some again.
const ANSWERS_MAX: usize = 2 * PENDING_MAX;
const ANSWER_WORDS: usize = 4;

/// Bytes for records of the table of members, which has none: the least that there may be.
const MEMBERS_RING_BYTES: usize = 4096;

/// Words per cache line: workers do not share one.
const LINE: usize = 8;
const STATE: usize = 0;
const AWAY_SINCE_MS: usize = 1;
const BEAT_MS: usize = 2;
/// Five of them.
const FIGURES: usize = 3;
/// Since when somebody asks for presence (0 = nobody), whether the members of other servers are known, the place of the log up
/// to which the table of the cluster is, what was decided at a place, and whether tables are to be compared.
const USED: usize = LINE;
const KNOWN: usize = LINE + 1;
const APPLIED_EPOCH: usize = LINE + 2;
const APPLIED_SEQ: usize = LINE + 3;
const DECIDED_EPOCH: usize = LINE + 4;
const DECIDED_SEQ: usize = LINE + 5;
const DECIDED: usize = LINE + 6;
const COMPARE: usize = LINE + 7;
/// Per server that has members its name (0 = none) and when something was heard of it.
const NODES: usize = 2 * LINE;
const NODE_WORDS: usize = 2;
/// Why the log is away: how often that was written (odd while it is), its length, its text.
const CAUSE: usize = NODES + NODES_MAX as usize * NODE_WORDS;
const CAUSE_TEXT: usize = CAUSE + 2;
const CAUSE_BYTES_MAX: usize = 512;
const QUEUES: usize = CAUSE_TEXT + CAUSE_BYTES_MAX / 8 + LINE - 2;
/// How often a cause is read that is being written, before it is left out.
const CAUSE_READS_MAX: usize = 4;
/// Of a worker's queue: how many answers were written and read, on lines of their own, then the answers.
const WRITTEN: usize = 0;
const TAKEN: usize = LINE;
const ANSWERS: usize = 2 * LINE;
const QUEUE_WORDS: usize = ANSWERS + ANSWERS_MAX * ANSWER_WORDS;

const STATE_READY: u64 = 1;
/// How long a bridge may say nothing before the log counts as gone: it goes round its loop every two seconds at least.
pub(super) const BEAT_MS_MAX: u64 = 10_000;

const OUTCOME_ACCEPTED: u64 = 1;
const OUTCOME_REFUSED: u64 = 2;
const OUTCOME_UNKNOWN: u64 = 3;

/// Why the bridge cannot be.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The setting.
    #[error("cluster: {0}")]
    Address(#[from] AddressError),
    /// Memory or descriptors.
    #[error("cluster: memory for the outbox: {0}")]
    Io(#[from] std::io::Error),
    /// Sizes.
    #[error("cluster: memory for the outbox: {0}")]
    Config(#[from] ConfigError),
    /// The ring of the outbox.
    #[error("cluster: memory for the outbox: {0}")]
    Open(#[from] OpenError),
}

/// What the log has said of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It has it.
    Accepted(LogPlace),
    /// It does not take it.
    Refused,
    /// It was too old to be sent, or sent once more: the log may have it from before.
    Unknown,
}

/// What clients are told when a count of a user has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Nothing,
    Join,
    Leave,
}

/// Words that the bridge writes and workers read.
#[derive(Clone, Copy)]
pub(super) struct State {
    words: &'static [AtomicU64],
}

/// The master's part, from which workers and the bridge get theirs.
pub(crate) struct Cluster {
    pub(super) servers: Vec<Address>,
    pub(super) ring: Ring,
    /// Presence of the whole cluster, with a slot for each server; no records.
    pub(super) members: Ring,
    pub(super) state: State,
    pub(super) pages: Pages,
    /// Wakes the bridge.
    pub(super) waker: Waker,
    /// Tells this server from all others.
    pub(super) node: u64,
    /// Tells this outbox from all others.
    pub(super) name: String,
    /// For how long an event is left out whose channel has had one with the same name, if at all.
    pub(super) once_ms: Option<u64>,
}

/// A worker's part.
pub(crate) struct Outbox {
    pub(super) ring: Ring,
    pub(super) members: Ring,
    pub(super) state: State,
    pub(super) waker: Waker,
    pub(super) pending: Pending,
    pub(super) past: PastReader,
    /// Mark and name of the record that is being published, reused: as long as an event may be at most.
    pub(super) name: Vec<u8>,
    /// See [`Cluster::node`].
    pub(super) node: u64,
}

impl Cluster {
    /// Makes the outbox, with a queue of answers for each of so many slots of workers, when the settings ask for a cluster. Called
    /// before anything is forked.
    pub fn open(
        settings: &Settings,
        slots: u16,
        owner: Owner,
        once_ms: Option<u64>,
    ) -> Result<Option<Cluster>, ClusterError> {
        let Some(servers) = &settings.cluster else {
            return Ok(None);
        };
        let servers = Address::list(servers)?;
        let record_bytes_max =
            (settings.event_bytes_max + DIRECT_HEAD_BYTES).max(NOTE_BYTES_MAX) + MARK_BYTES;
        let config = Config {
            ring_bytes: OUTBOX_BYTES_MIN.max(record_bytes_max * OUTBOX_EVENTS_MIN),
            index_buckets: 1,
            record_bytes_max,
            // The bridge alone reads; who only writes needs no slot.
            workers_max: READER_SLOT + 1,
            history_count_max: 0,
            history_age_ms_max: 0,
            members_max: 1,
            leave_delay_ms: 0,
        };
        let memory = shm::Shared::anonymous(Layout::new(&config)?.words())?;
        let epoch = random::u64();
        let mut ring = Ring::create(memory.words(), &config, epoch, random::u64())?;
        // The master lives as long as any bridge: the place of the reader stays where a dead one has left it.
        let reader = Owner {
            slot: READER_SLOT,
            ..owner
        };
        ring.worker_started(&reader, 0)
            .map_err(std::io::Error::other)?;
        let config = Config {
            ring_bytes: MEMBERS_RING_BYTES,
            record_bytes_max: 1,
            workers_max: NODES_MAX,
            members_max: settings.members_max as u32,
            ..config
        };
        let memory = shm::Shared::anonymous(Layout::new(&config)?.words())?;
        let mut members = Ring::create(memory.words(), &config, epoch, random::u64())?;
        members.leave_announcements_to_caller();
        let words = shm::Shared::anonymous(QUEUES + usize::from(slots) * QUEUE_WORDS)?.words();
        let state = State { words };
        state.set_away(clock::monotonic_ms());
        Ok(Some(Cluster {
            servers,
            once_ms,
            ring,
            members,
            state,
            pages: Pages::open(record_bytes_max)?,
            waker: Waker::new()?,
            node: epoch,
            name: format!("{epoch:016x}"),
        }))
    }

    /// A worker's part.
    pub fn into_outbox(self) -> Outbox {
        Outbox {
            ring: self.ring,
            members: self.members,
            state: self.state,
            waker: self.waker,
            pending: Pending::default(),
            past: PastReader::new(self.pages),
            name: Vec::new(),
            node: self.node,
        }
    }

    /// The bridge process has ended: nobody talks to the log.
    pub fn bridge_ended(&mut self, owner: &Owner, pid: u32) {
        self.worker_ended(owner, Owner::MASTER_SLOT, pid);
        self.state.set_away(clock::monotonic_ms());
    }

    /// A worker has ended: it may have died with the lock.
    pub fn worker_ended(&mut self, owner: &Owner, slot: u32, pid: u32) {
        // The next publisher finds out as well when this fails.
        let _ = self.ring.worker_ended(owner, slot, pid, 0);
        let _ = self.members.worker_ended(owner, slot, pid, 0);
    }
}

impl Outbox {
    /// What clients have missed that the ring has no more.
    pub fn past(&mut self) -> &mut PastReader {
        &mut self.past
    }

    /// Presence of the whole cluster.
    pub fn members(&mut self) -> &mut Ring {
        &mut self.members
    }
}

impl State {
    pub fn set_ready(&self) {
        self.words[STATE].store(STATE_READY, Ordering::Release);
    }

    /// The log is gone since now, if it was there.
    pub fn set_away(&self, now_ms: u64) {
        if self.says_ready() || self.words[AWAY_SINCE_MS].load(Ordering::Relaxed) == 0 {
            self.words[AWAY_SINCE_MS].store(now_ms, Ordering::Relaxed);
        }
        self.words[STATE].store(0, Ordering::Release);
    }

    /// Why the log is not there, for [`State::cause`]. The bridge alone writes it.
    pub fn set_cause(&self, text: &str) {
        let mut end = text.len().min(CAUSE_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text.as_bytes()[..end];
        // A bridge that was killed here has left it odd.
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

    /// Why the log is not there, as far as that is known.
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

    /// The bridge is not stuck.
    pub fn beat(&self, now_ms: u64) {
        self.words[BEAT_MS].store(now_ms, Ordering::Relaxed);
    }

    /// Adds what the bridge has counted in a turn: workers read this line, so it is not written once a record.
    pub fn count(&self, mut turn: ClusterFigures) {
        for (word, count) in self.words[FIGURES..].iter().zip(turn.counters()) {
            if *count > 0 {
                word.fetch_add(*count, Ordering::Relaxed);
            }
        }
    }

    pub fn figures(&self, now_ms: u64) -> ClusterFigures {
        let mut figures = ClusterFigures {
            is_ready: self.is_ready(now_ms),
            ..ClusterFigures::default()
        };
        for (word, count) in self.words[FIGURES..].iter().zip(figures.counters()) {
            *count = word.load(Ordering::Relaxed);
        }
        figures
    }

    /// Whether the log is there, and a bridge that goes on.
    pub fn is_ready(&self, now_ms: u64) -> bool {
        self.says_ready() && self.silence_ms(now_ms) < BEAT_MS_MAX
    }

    /// For how long the log has been gone.
    pub fn away_ms(&self, now_ms: u64) -> u64 {
        match self.says_ready() {
            true => self.silence_ms(now_ms),
            false => now_ms.saturating_sub(self.words[AWAY_SINCE_MS].load(Ordering::Relaxed)),
        }
    }

    pub fn says_ready(&self) -> bool {
        self.words[STATE].load(Ordering::Acquire) == STATE_READY
    }

    fn silence_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.words[BEAT_MS].load(Ordering::Relaxed))
    }

    /// Some server has members: from now on tables are compared, and servers shown to live.
    pub fn use_presence(&self) {
        self.words[USED].store(1, Ordering::Relaxed);
    }

    pub fn is_presence_used(&self) -> bool {
        self.words[USED].load(Ordering::Relaxed) != 0
    }

    /// Whether the members of other servers are known.
    pub fn is_presence_known(&self) -> bool {
        self.words[KNOWN].load(Ordering::Acquire) != 0
    }

    pub fn set_presence_known(&self) {
        self.words[KNOWN].store(1, Ordering::Release);
    }

    /// Nothing is known of other servers.
    pub fn forget_presence(&self) {
        for at in KNOWN..NODES + NODES_MAX as usize * NODE_WORDS {
            self.words[at].store(0, Ordering::Release);
        }
    }

    /// Whether the table of the cluster has what the log says at a place.
    pub fn is_applied(&self, place: LogPlace) -> bool {
        self.words[APPLIED_EPOCH].load(Ordering::Relaxed) == place.epoch
            && self.words[APPLIED_SEQ].load(Ordering::Relaxed) >= place.seq
    }

    pub fn set_applied(&self, place: LogPlace) {
        self.words[APPLIED_SEQ].store(place.seq, Ordering::Relaxed);
        self.words[APPLIED_EPOCH].store(place.epoch, Ordering::Release);
    }

    /// What a bridge before has decided at a place, and may not have finished.
    pub fn decision(&self, place: LogPlace) -> Option<Decision> {
        let is_it = self.words[DECIDED_EPOCH].load(Ordering::Acquire) == place.epoch
            && self.words[DECIDED_SEQ].load(Ordering::Relaxed) == place.seq;
        is_it.then(|| match self.words[DECIDED].load(Ordering::Relaxed) {
            1 => Decision::Join,
            2 => Decision::Leave,
            _ => Decision::Nothing,
        })
    }

    pub fn decide(&self, place: LogPlace, decision: Decision) {
        let word = match decision {
            Decision::Nothing => 0,
            Decision::Join => 1,
            Decision::Leave => 2,
        };
        self.words[DECIDED_EPOCH].store(0, Ordering::Release);
        self.words[DECIDED].store(word, Ordering::Relaxed);
        self.words[DECIDED_SEQ].store(place.seq, Ordering::Relaxed);
        self.words[DECIDED_EPOCH].store(place.epoch, Ordering::Release);
    }

    /// The tables of this machine and of the cluster may differ.
    pub fn want_compare(&self) {
        self.words[COMPARE].store(1, Ordering::Relaxed);
    }

    pub fn is_compare_wanted(&self) -> bool {
        self.words[COMPARE].load(Ordering::Relaxed) != 0
    }

    pub fn take_compare_wanted(&self) -> bool {
        self.words[COMPARE].swap(0, Ordering::Relaxed) != 0
    }

    /// Servers that have members: slot, name, and when something was heard of each.
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

    /// The slot of a server, which it gets if it has none; `None`: all are taken.
    pub fn claim_slot(&self, node: u64, now_ms: u64) -> Option<u32> {
        if let Some(slot) = self.slot_of(node) {
            return Some(slot);
        }
        let is_free = |slot: &u32| self.words[node_word(*slot)].load(Ordering::Relaxed) == 0;
        let slot = (0..NODES_MAX).find(is_free)?;
        self.words[node_word(slot) + 1].store(now_ms, Ordering::Relaxed);
        self.words[node_word(slot)].store(node, Ordering::Relaxed);
        Some(slot)
    }

    pub fn forget_node(&self, slot: u32) {
        self.words[node_word(slot)].store(0, Ordering::Relaxed);
    }

    /// Something was heard of a server.
    pub fn hear(&self, node: u64, now_ms: u64) {
        if let Some(slot) = self.slot_of(node) {
            self.words[node_word(slot) + 1].store(now_ms, Ordering::Relaxed);
        }
    }

    /// Nothing could be heard until now.
    pub fn hear_all(&self, now_ms: u64) {
        for (slot, ..) in self.nodes() {
            self.words[node_word(slot) + 1].store(now_ms, Ordering::Relaxed);
        }
    }

    /// Says what became of a worker's record. `false` when its queue is full, or there is none.
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
            Answer::Unknown => (OUTCOME_UNKNOWN, LogPlace { epoch: 0, seq: 0 }),
        };
        let words = answer_words(queue, written);
        for (word, value) in words.iter().zip([outbox, outcome, place.epoch, place.seq]) {
            word.store(value, Ordering::Relaxed);
        }
        // A bridge that is killed before this has said nothing.
        queue[WRITTEN].store(written.wrapping_add(1), Ordering::Release);
        true
    }

    /// Whether a worker has answers to read.
    pub fn has_answers(&self, slot: u16) -> bool {
        self.queue(slot).is_some_and(|queue| {
            queue[WRITTEN].load(Ordering::Acquire) != queue[TAKEN].load(Ordering::Relaxed)
        })
    }

    /// Takes a worker's oldest answer: which record it is about, and what it says.
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

/// Records of this worker that are in the outbox, and what is known of them.
#[derive(Default)]
pub(crate) struct Pending {
    records: HashMap<PublishId, Waiting>,
    /// Answered requests that were not reported yet; some may have been taken or forgotten meanwhile. The owner of one
    /// is read from its record alone: what a publisher gave may be an address, and means nothing once that has gone on.
    over: VecDeque<PublishId>,
}

/// One that is told when the log has answered, by a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publisher {
    /// A handler of the program.
    Program(u64),
    /// What serves clients beside it.
    Beside(u64),
}

impl Publisher {
    pub(super) fn of_program(self) -> Option<u64> {
        match self {
            Publisher::Program(number) => Some(number),
            Publisher::Beside(_) => None,
        }
    }

    pub(super) fn beside_program(self) -> Option<u64> {
        match self {
            Publisher::Beside(number) => Some(number),
            Publisher::Program(_) => None,
        }
    }
}

struct Waiting {
    /// `None` = one that polls.
    publisher: Option<Publisher>,
    answer: Option<Answer>,
}

impl Pending {
    pub fn is_full(&self) -> bool {
        self.records.len() >= PENDING_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn add(&mut self, id: PublishId, publisher: Option<Publisher>) {
        let answer = None;
        self.records.insert(id, Waiting { publisher, answer });
    }

    /// Notes what the bridge has said. Of records that nobody waits for any more it is dropped.
    pub fn take_answers(&mut self, state: State, slot: u16) {
        while let Some((outbox, answer)) = state.next_answer(slot) {
            let id = PublishId::new(outbox);
            if let Some(waiting) = self.records.get_mut(&id)
                && waiting.answer.replace(answer).is_none()
                && waiting.publisher.is_some()
            {
                self.over.push_back(id);
            }
        }
    }

    /// Whether somebody may have to be told, which [`Pending::next_over`] knows.
    pub fn has_news(&self) -> bool {
        !self.over.is_empty()
    }

    /// The publisher of the next one that has an answer, of those that have such a number.
    pub fn next_over(&mut self, number_of: fn(Publisher) -> Option<u64>) -> Option<u64> {
        let mut at = 0;
        while let Some(id) = self.over.get(at) {
            let publisher = self.records.get(id).and_then(|waiting| waiting.publisher);
            let number = publisher.and_then(number_of);
            if publisher.is_some() && number.is_none() {
                at += 1;
                continue;
            }
            self.over.remove(at);
            if number.is_some() {
                return number;
            }
        }
        None
    }

    /// What became of a record, once.
    pub fn take(&mut self, id: PublishId) -> Option<Answer> {
        let answer = self.records.get(&id)?.answer?;
        self.records.remove(&id);
        Some(answer)
    }

    /// It is no longer awaited.
    pub fn forget(&mut self, id: PublishId) {
        self.records.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let words: Vec<AtomicU64> = (0..QUEUES + 2 * QUEUE_WORDS)
            .map(|_| AtomicU64::new(0))
            .collect();
        State {
            words: words.leak(),
        }
    }

    #[test]
    fn a_worker_of_each_slot_writes_and_is_answered() {
        const SLOTS: u16 = 3;
        let settings = Settings {
            cluster: Some("nats://127.0.0.1:1".to_owned()),
            ..Settings::default()
        };
        let master = crate::channels::memory::owner(Owner::MASTER_SLOT);
        let mut cluster = Cluster::open(&settings, SLOTS, master, None)
            .expect("there is memory")
            .expect("a cluster is set");
        let mut consumer = cluster.ring.consume(READER_SLOT);
        for slot in 0..SLOTS {
            let worker = Owner {
                slot: u32::from(slot),
                ..master
            };
            let message = fermata_hub::Message {
                channel: b"c",
                kind: fermata_hub::Kind::Message,
                name: None,
                data: b"data",
            };
            let published = cluster.ring.publish(&worker, &message, 0);
            assert!(published.is_ok(), "slot {slot}: {published:?}");
            assert!(cluster.state.answer(slot, 1, Answer::Refused), "{slot}");
            cluster.worker_ended(&master, worker.slot, worker.pid + 1);
        }
        assert!(!cluster.state.answer(SLOTS, 1, Answer::Refused));
        let mut record = fermata_hub::Record::empty();
        let is_read = || consumer.read_next(&mut record) == fermata_hub::Read::Record;
        assert_eq!(
            std::iter::repeat_with(is_read).take_while(|it| *it).count(),
            3
        );
    }

    #[test]
    fn a_bridge_that_hangs_is_not_ready() {
        let state = state();
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

    #[test]
    fn answers_come_in_their_order_to_their_worker_and_are_bounded() {
        let (state, mut pending) = (state(), Pending::default());
        let accepted = |seq| Answer::Accepted(LogPlace { epoch: 7, seq });
        for round in 0..3 {
            for number in 1..=PENDING_MAX as u64 {
                pending.add(PublishId::new(number), Some(Publisher::Program(number + 1)));
                assert!(state.answer(1, number, accepted(number)), "round {round}");
            }
            assert!(pending.is_full() && !state.has_answers(0) && state.has_answers(1));
            pending.take_answers(state, 1);
            for number in 1..=PENDING_MAX as u64 {
                assert_eq!(pending.next_over(Publisher::of_program), Some(number + 1));
                let outcome = pending.take(PublishId::new(number));
                assert_eq!(outcome, Some(accepted(number)));
            }
            assert!(pending.is_empty() && !pending.has_news());
        }
        // A worker that reads none, and one that is none.
        let taken = (0..2 * ANSWERS_MAX as u64)
            .filter(|number| state.answer(0, *number, Answer::Refused))
            .count();
        assert_eq!(taken, ANSWERS_MAX);
        assert!(!state.answer(NOBODY, 1, Answer::Unknown));
        // What nobody waits for is dropped, and a second answer tells nothing new.
        let [first, second] = [1, 2].map(PublishId::new);
        pending.add(first, Some(Publisher::Program(5)));
        pending.add(second, Some(Publisher::Program(6)));
        pending.forget(first);
        for answer in [Answer::Unknown, Answer::Refused] {
            state.answer(1, 1, answer);
            state.answer(1, 2, answer);
        }
        pending.take_answers(state, 1);
        assert_eq!(
            (
                pending.next_over(Publisher::of_program),
                pending.next_over(Publisher::of_program)
            ),
            (Some(6), None)
        );
        assert_eq!(
            (pending.take(first), pending.take(second)),
            (None, Some(Answer::Refused))
        );
    }

    #[test]
    fn nobody_is_told_of_a_record_that_is_taken_or_forgotten_already() {
        let (state, mut pending) = (state(), Pending::default());
        let publishers = [
            Some(Publisher::Program(11)),
            Some(Publisher::Program(12)),
            None,
            Some(Publisher::Beside(14)),
            Some(Publisher::Program(15)),
        ];
        for (publisher, number) in publishers.into_iter().zip(1..) {
            pending.add(PublishId::new(number), publisher);
            state.answer(1, number, Answer::Refused);
        }
        pending.take_answers(state, 1);
        let taken = pending.take(PublishId::new(1));
        assert_eq!(taken, Some(Answer::Refused));
        pending.forget(PublishId::new(2));
        assert_eq!(
            (
                pending.next_over(Publisher::of_program),
                pending.next_over(Publisher::of_program)
            ),
            (Some(15), None)
        );
        assert!(pending.has_news());
        assert_eq!(
            (
                pending.next_over(Publisher::beside_program),
                pending.next_over(Publisher::beside_program)
            ),
            (Some(14), None)
        );
        assert!(!pending.has_news());
    }
}
