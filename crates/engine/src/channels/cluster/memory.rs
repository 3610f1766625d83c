//! The memory between workers and the bridge: the outbox, what became of each worker's last record, and whether the log is there.

use std::sync::atomic::{AtomicU64, Ordering};

use fermata_cluster::{Address, AddressError};
use fermata_config::Settings;
use fermata_hub::{Config, ConfigError, Layout, LogPlace, OpenError, Owner, Ring};
use fermata_io::wake::Waker;
use fermata_io::{clock, random, shm};

/// Least bytes of the outbox; it holds eight of the largest events at least.
const OUTBOX_BYTES_MIN: usize = 4 << 20;
const OUTBOX_EVENTS_MIN: usize = 8;
/// What stands before an event's name in the outbox: the worker's slot (2 bytes), and whether there is a name.
pub(super) const MARK_BYTES: usize = 3;
/// The slot of the outbox that the bridge reads in.
pub(super) const READER_SLOT: u32 = 0;

/// Words per cache line: workers do not share one.
const LINE: usize = 8;
const STATE: usize = 0;
const AWAY_SINCE_MS: usize = 1;
const ANSWERS: usize = LINE;

const STATE_READY: u64 = 1;

const OUTCOME_ACCEPTED: u64 = 1;
const OUTCOME_REFUSED: u64 = 2;

/// Why the bridge cannot be.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The setting.
    #[error("cluster: {0}")]
    Address(#[from] AddressError),
    /// Something else is set that does not work over machines.
    #[error("cluster: {0}")]
    Contradiction(&'static str),
    /// Another server than PHP's.
    #[error(
        "cluster: only servers that PHP programs start can share channels with other machines; unset it here"
    )]
    OtherProgram,
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
    pub(super) state: State,
    /// Wakes the bridge.
    pub(super) waker: Waker,
    /// Tells this outbox from all others.
    pub(super) name: String,
}

/// A worker's part.
pub(crate) struct Outbox {
    pub(super) ring: Ring,
    pub(super) state: State,
    pub(super) waker: Waker,
}

impl Cluster {
    /// Makes the outbox, when the settings ask for a cluster. Called before anything is forked.
    pub fn open(
        settings: &Settings,
        slots: u16,
        owner: Owner,
    ) -> Result<Option<Cluster>, ClusterError> {
        let Some(servers) = &settings.cluster else {
            return Ok(None);
        };
        let servers = Address::list(servers)?;
        if settings.grip_url.is_some() {
            let cause = "edges in front (grip_url) are told what this machine publishes alone; leave one of the two out";
            return Err(ClusterError::Contradiction(cause));
        }
        let record_bytes_max = settings.event_bytes_max + MARK_BYTES;
        let config = Config {
            ring_bytes: OUTBOX_BYTES_MIN.max(record_bytes_max * OUTBOX_EVENTS_MIN),
            index_buckets: 1,
            record_bytes_max,
            workers_max: u32::from(slots),
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
        let words = shm::Shared::anonymous(ANSWERS + usize::from(slots) * LINE)?.words();
        let state = State { words };
        state.set_away(clock::monotonic_ms());
        Ok(Some(Cluster {
            servers,
            ring,
            state,
            waker: Waker::new()?,
            name: format!("{epoch:016x}"),
        }))
    }

    /// A worker's part.
    pub fn into_outbox(self) -> Outbox {
        Outbox {
            ring: self.ring,
            state: self.state,
            waker: self.waker,
        }
    }

    /// The bridge process has ended: nobody talks to the log.
    pub fn bridge_ended(&self) {
        self.state.set_away(clock::monotonic_ms());
    }

    /// A worker has ended: it may have died with the lock.
    pub fn worker_ended(&mut self, owner: &Owner, slot: u32, pid: u32) {
        // The next publisher finds out as well when this fails.
        let _ = self.ring.worker_ended(owner, slot, pid, 0);
    }
}

impl State {
    pub fn set_ready(&self) {
        self.words[STATE].store(STATE_READY, Ordering::Release);
    }

    /// The log is gone since now, if it was there.
    pub fn set_away(&self, now_ms: u64) {
        if self.is_ready() || self.words[AWAY_SINCE_MS].load(Ordering::Relaxed) == 0 {
            self.words[AWAY_SINCE_MS].store(now_ms, Ordering::Relaxed);
        }
        self.words[STATE].store(0, Ordering::Release);
    }

    pub fn is_ready(&self) -> bool {
        self.words[STATE].load(Ordering::Acquire) == STATE_READY
    }

    /// For how long the log has been gone.
    pub fn away_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.words[AWAY_SINCE_MS].load(Ordering::Relaxed))
    }

    /// Says what became of a worker's record. A worker has one at a time.
    pub fn answer(&self, slot: u16, outbox: u64, answer: Answer) {
        let Some(line) = self.line(slot) else {
            return;
        };
        // Of one that its worker does not wait for any more.
        if outbox < line[0].load(Ordering::Relaxed) {
            return;
        }
        let (outcome, place) = match answer {
            Answer::Accepted(place) => (OUTCOME_ACCEPTED, place),
            Answer::Refused => (OUTCOME_REFUSED, LogPlace { epoch: 0, seq: 0 }),
        };
        line[1].store(outcome, Ordering::Relaxed);
        line[2].store(place.epoch, Ordering::Relaxed);
        line[3].store(place.seq, Ordering::Relaxed);
        line[0].store(outbox, Ordering::Release);
    }

    /// What became of it, if that is known.
    pub fn answer_of(&self, slot: u16, outbox: u64) -> Option<Answer> {
        let line = self.line(slot)?;
        if line[0].load(Ordering::Acquire) != outbox {
            return None;
        }
        let place = LogPlace {
            epoch: line[2].load(Ordering::Relaxed),
            seq: line[3].load(Ordering::Relaxed),
        };
        match line[1].load(Ordering::Relaxed) {
            OUTCOME_ACCEPTED => Some(Answer::Accepted(place)),
            _ => Some(Answer::Refused),
        }
    }

    fn line(&self, slot: u16) -> Option<&'static [AtomicU64]> {
        let at = ANSWERS + usize::from(slot) * LINE;
        self.words.get(at..at + LINE)
    }
}
