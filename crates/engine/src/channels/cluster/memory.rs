//! The memory that the master sets up before it forks: the outbox and the members table, with handles on both for the workers and
//! the bridge.

use fermata_cluster::{Address, AddressError};
use fermata_config::Settings;
use fermata_hub::{Config, ConfigError, Layout, OpenError, Owner, Ring};
use fermata_io::wake::Waker;
use fermata_io::{clock, random, shm};

use super::past::{Pages, PastReader};
use super::pending::Pending;
use super::state::{NODES_MAX, State};

/// Minimum size of the outbox in bytes; it holds at least eight events of maximum size.
const OUTBOX_BYTES_MIN: usize = 4 << 20;
const OUTBOX_EVENTS_MIN: usize = 8;
/// Length of the prefix of an event's name in the outbox: the worker's slot (2 bytes), and a kind
/// (1 byte).
pub(super) const MARK_BYTES: usize = 3;
/// Kind of a presence message, see `presence`.
pub(super) const MARK_NOTE: u8 = 2;
/// Kind of a message for one socket, see `direct`.
pub(super) const MARK_DIRECT: u8 = 3;
/// Kind of a message for all workers of the other servers.
pub(super) const MARK_WORKERS: u8 = 4;
/// Length of the header of a message for one socket: its type and the slot of the worker.
pub(super) const DIRECT_HEAD_BYTES: usize = 3;
/// Maximum length of a presence message: type, server and user.
const NOTE_BYTES_MAX: usize = 1 + 8 + fermata_hub::USER_BYTES_MAX;
/// The outbox slot in which the bridge reads.
pub(super) const READER_SLOT: u32 = 0;

/// Slot number in records of workers that need no reply.
pub(super) const NOBODY: u16 = u16::MAX;

/// Size of the record area of the members table: the minimum, as the table stores no records.
const MEMBERS_RING_BYTES: usize = 4096;

/// Maximum length of an application name, which is part of each record in the log.
const APPLICATION_CHARS_MAX: usize = 32;

/// Why the bridge cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The setting `cluster` is invalid.
    #[error("cluster: {0}")]
    Address(#[from] AddressError),
    /// No memory or descriptors.
    #[error("cluster: memory for the outbox: {0}")]
    Io(#[from] std::io::Error),
    /// Invalid sizes.
    #[error("cluster: memory for the outbox: {0}")]
    Config(#[from] ConfigError),
    /// The outbox ring cannot be opened.
    #[error("cluster: memory for the outbox: {0}")]
    Open(#[from] OpenError),
}

/// The master's handle, from which the handles of workers and the bridge are made.
pub(crate) struct Cluster {
    pub(super) servers: Vec<Address>,
    pub(super) ring: Ring,
    /// Presence of the complete cluster, with one slot per server. This ring contains no records.
    pub(super) members: Ring,
    pub(super) state: State,
    pub(super) pages: Pages,
    /// Wakes the bridge.
    pub(super) waker: Waker,
    /// Identifies this server in the cluster.
    pub(super) node: u64,
    /// Identifies this outbox among all outboxes.
    pub(super) name: String,
    /// Time in milliseconds within which a second event with the same channel and name is dropped; `None` = off.
    pub(super) once_ms: Option<u64>,
    /// Fingerprint of the application, as stored in records.
    pub(super) application: Option<String>,
}

/// A worker's handle.
pub(crate) struct Outbox {
    pub(super) ring: Ring,
    pub(super) members: Ring,
    pub(super) state: State,
    pub(super) waker: Waker,
    pub(super) pending: Pending,
    pub(super) past: PastReader,
    /// Reused buffer for prefix and name of the record being published; its capacity is the maximum
    /// event size.
    pub(super) name: Vec<u8>,
    /// See [`Cluster::node`].
    pub(super) node: u64,
}

impl Cluster {
    /// Creates the outbox if a cluster is set, with a reply queue for each of `slots` workers.
    /// Called before the first fork.
    pub fn open(
        settings: &Settings,
        slots: u16,
        owner: Owner,
        (once_ms, secrets): (Option<u64>, Option<&str>),
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
            // Only the bridge reads; writers need no slot.
            workers_max: READER_SLOT + 1,
            history_count_max: 0,
            history_age_ms_max: 0,
            members_max: 1,
            leave_delay_ms: 0,
        };
        let memory = shm::Shared::anonymous(Layout::new(&config)?.words())?;
        let epoch = random::u64();
        let mut ring = Ring::create(memory.words(), &config, epoch, random::u64())?;
        // The master owns the reader. It outlives every bridge, so the reader's position stays where a killed bridge left it.
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
        let state = State::open(slots)?;
        Ok(Some(Cluster {
            servers,
            once_ms,
            application: application(&settings.cluster_application, secrets),
            ring,
            members,
            state,
            pages: Pages::open(record_bytes_max)?,
            waker: Waker::new()?,
            node: epoch,
            name: format!("{epoch:016x}"),
        }))
    }

    /// Converts the master's handle to a worker's handle.
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

    /// Notes that the bridge process has exited.
    pub fn bridge_ended(&mut self, owner: &Owner, pid: u32) {
        self.worker_ended(owner, Owner::MASTER_SLOT, pid);
        self.state.set_away(clock::monotonic_ms());
    }

    /// Notes that a worker has exited, possibly while holding the lock.
    pub fn worker_ended(&mut self, owner: &Owner, slot: u32, pid: u32) {
        // On failure, the next publisher detects the dead owner too.
        let _ = self.ring.worker_ended(owner, slot, pid, 0);
        let _ = self.members.worker_ended(owner, slot, pid, 0);
    }
}

/// Returns the name in the setting, or the fingerprint of secrets.
fn application(name: &str, secrets: Option<&str>) -> Option<String> {
    if name.is_empty() {
        secrets.map(str::to_owned)
    } else {
        // The name becomes a NATS header.
        let is_plain = |it: &char| it.is_ascii_alphanumeric() || "-_.".contains(*it);
        let name = name.chars().map(|it| if is_plain(&it) { it } else { '_' });
        Some(name.take(APPLICATION_CHARS_MAX).collect())
    }
}

impl Outbox {
    /// Returns the reader of missed records that the ring no longer has.
    pub fn past(&mut self) -> &mut PastReader {
        &mut self.past
    }

    /// Returns the presence table of the complete cluster.
    pub fn members(&mut self) -> &mut Ring {
        &mut self.members
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Answer;
    use super::*;

    #[test]
    fn replies_to_the_worker_of_each_slot() {
        const SLOTS: u16 = 3;
        let settings = Settings {
            cluster: Some("nats://127.0.0.1:1".to_owned()),
            ..Settings::default()
        };
        let master = crate::channels::memory::owner(Owner::MASTER_SLOT);
        let mut cluster = Cluster::open(&settings, SLOTS, master, (None, None))
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
}
