//! Layout of the shared words, computed only from the configuration.
//!
//! No size or offset is read from shared memory, so damaged memory cannot move a section.

use thiserror::Error;

use crate::record::{CHANNEL_BYTES_MAX, HEADER_WORDS, PLACE_WORDS, SUBSCRIBER_WORDS};
use crate::words::words_for;

/// Maximum length of a user name in the presence table, in bytes. The minimum is one byte.
pub const USER_BYTES_MAX: usize = if cfg!(loom) { 8 } else { 255 };
/// Maximum length of a user's presence information (`info`), in bytes.
pub const INFO_BYTES_MAX: usize = if cfg!(loom) { 8 } else { 1024 };
/// Maximum number of worker slots. Each has one bit in the words of sleeping workers (`sleepers`), which share a cache
/// line.
pub const WORKERS_MAX: u32 = 256;

/// Minimum size of a ring, in records of maximum size.
const RING_RECORDS_MIN: usize = 4;
/// Maximum number of words in a ring (8 GiB); keeps every sum of positions far from overflow.
const RING_WORDS_MAX: usize = 1 << 30;
/// Maximum size of one record (name and data together) in bytes. Its length fits in 32 bits.
const RECORD_BYTES_MAX: usize = 1 << 28;
/// Maximum number of presence entries.
const MEMBERS_MAX: u32 = 1 << 24;
/// Maximum number of index buckets.
const BUCKETS_MAX: usize = 1 << 28;

/// Words per cache line. Words that different processes write often are on different lines.
const LINE: usize = 8;

// Header words. The words of the first cache line change only when the server starts or stops.
/// `MAGIC_WORD` in a complete ring; 0 while the ring is created.
pub(crate) const MAGIC: usize = 0;
pub(crate) const VERSION: usize = 1;
/// Fingerprint of the layout.
pub(crate) const SHAPE: usize = 2;
/// Number that event ids contain, to distinguish this ring from earlier rings.
pub(crate) const EPOCH: usize = 3;
pub(crate) const HASH_KEY: usize = 4;
/// Id of the boot of the machine in which the ring was last used (see `Ring::adopt`). 0 means never.
pub(crate) const BOOT: usize = 5;
/// 1 after a regular shutdown (see `Ring::close`), otherwise 0.
pub(crate) const CLEAN: usize = 6;
/// Slot and process id of the lock's owner; 0 = free.
pub(crate) const LOCK: usize = LINE;
/// Position after the newest record. The lock's owner writes the words of this cache line.
pub(crate) const HEAD: usize = 2 * LINE;
/// Position of a complete record that is being published; meaningful only while equal to `HEAD`.
pub(crate) const PENDING: usize = 2 * LINE + 1;
/// Lower bound of the cursors of all live workers. A publish recomputes it if it needs room beyond this position.
pub(crate) const SAFE: usize = 2 * LINE + 2;
/// Nonzero while the presence table is being changed.
pub(crate) const DIRTY: usize = 2 * LINE + 3;
/// Epoch of the log that records come from (see `log`). 0 means that there is no log, or that its epoch is not known yet.
pub(crate) const LOG_EPOCH: usize = 2 * LINE + 4;
/// Log position of the newest record.
pub(crate) const LOG_SEQ: usize = 2 * LINE + 5;
/// Log position after which the ring's records start.
pub(crate) const LOG_FLOOR: usize = 2 * LINE + 6;
/// Position from which records of the log are live; `u64::MAX` while the log's past is read (see `log`).
pub(crate) const LOG_LIVE: usize = 2 * LINE + 7;
/// Position of the oldest record.
pub(crate) const TAIL: usize = 3 * LINE;
/// Log position of the end of the past; meaningful while `LOG_LIVE` is `u64::MAX`.
pub(crate) const LOG_PAST: usize = 3 * LINE + 1;
/// Ring position from which the records come from the present log.
pub(crate) const LOG_BEGUN: usize = 3 * LINE + 2;
/// Log position up to which the log was read, including positions without a record in the ring.
pub(crate) const LOG_SEEN: usize = 3 * LINE + 3;
/// One bit per sleeping worker that a publish has to wake. This is the first of several words.
pub(crate) const SLEEPING: usize = 4 * LINE;
const SLOTS: usize = 5 * LINE;

/// Sizes and limits of a ring and its presence table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Bytes for records; rounded up to a power of two. At least four records of the maximum size.
    pub ring_bytes: usize,
    /// Number of buckets of the channel index; rounded up to a power of two. Optimal is about one per channel in use.
    pub index_buckets: usize,
    /// Maximum size of one record's name and data together, in bytes.
    pub record_bytes_max: usize,
    /// Number of worker slots, 1..=256.
    pub workers_max: u32,
    /// Maximum number of records per channel in a replay.
    pub history_count_max: usize,
    /// Maximum age of a record in a replay, in milliseconds.
    pub history_age_ms_max: u64,
    /// Maximum number of (channel, user) pairs present simultaneously over all workers.
    pub members_max: u32,
    /// Time for which a user without connections counts as present, in milliseconds. A reconnect within it is not
    /// announced.
    pub leave_delay_ms: u64,
}

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// The ring is too small for its records.
    #[error(
        "ring_bytes is {bytes}, but records of up to {record_bytes_max} bytes need at least {min}"
    )]
    RingTooSmall {
        /// The configured size in bytes.
        bytes: usize,
        /// The configured maximum record size.
        record_bytes_max: usize,
        /// The minimum size for that record size.
        min: usize,
    },
    /// A value is out of range.
    #[error("{name} is {value}, but must be {min} to {max}")]
    OutOfRange {
        /// The field of [`Config`].
        name: &'static str,
        /// Its value.
        value: u64,
        /// The minimum.
        min: u64,
        /// The maximum.
        max: u64,
    },
}

/// Sections of the shared memory for one [`Config`].
#[derive(Clone, Debug)]
pub struct Layout {
    pub(crate) buckets: usize,
    pub(crate) buckets_len: usize,
    pub(crate) ring: usize,
    pub(crate) ring_words: usize,
    /// Maximum number of words of one record.
    pub(crate) record_words_max: usize,
    pub(crate) record_bytes_max: usize,
    pub(crate) workers_max: u32,
    pub(crate) presence: PresenceLayout,
    words: usize,
}

/// Sections of the presence table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PresenceLayout {
    /// Header words of the table.
    pub(crate) header: usize,
    /// Bucket heads of the index by channel.
    pub(crate) by_channel: usize,
    /// Bucket heads of the index by source.
    pub(crate) by_source: usize,
    /// Bucket heads of the index by channel and user.
    pub(crate) by_key: usize,
    /// Number of bucket heads in each of the three indexes.
    pub(crate) buckets_len: usize,
    pub(crate) entries: usize,
    pub(crate) entry_words: usize,
    pub(crate) members_max: usize,
    pub(crate) workers_max: usize,
}

/// Header words of the presence table (see `presence`).
pub(crate) const PRESENCE_HEADER_WORDS: usize = LINE;
/// Fixed words of a presence entry (see `presence`).
pub(crate) const ENTRY_FIXED_WORDS: usize = 17;

impl Layout {
    /// Checks the configuration and computes all sections.
    ///
    /// # Errors
    /// [`ConfigError`] has the invalid field.
    pub fn new(config: &Config) -> Result<Layout, ConfigError> {
        range(
            "workers_max",
            u64::from(config.workers_max),
            1,
            u64::from(WORKERS_MAX),
        )?;
        range(
            "members_max",
            u64::from(config.members_max),
            1,
            u64::from(MEMBERS_MAX),
        )?;
        range(
            "index_buckets",
            config.index_buckets as u64,
            1,
            BUCKETS_MAX as u64,
        )?;
        range(
            "record_bytes_max",
            config.record_bytes_max as u64,
            1,
            RECORD_BYTES_MAX as u64,
        )?;
        range(
            "ring_bytes",
            config.ring_bytes as u64,
            1,
            (RING_WORDS_MAX * LINE) as u64,
        )?;
        // Name and data are padded to words separately. Together they need at most one word more than if they were padded once.
        let plain_words_max = HEADER_WORDS
            + words_for(CHANNEL_BYTES_MAX)
            + words_for(config.record_bytes_max)
            + 1
            + SUBSCRIBER_WORDS;
        let ring_words = words_for(config.ring_bytes).next_power_of_two();
        if ring_words < RING_RECORDS_MIN * plain_words_max {
            return Err(ConfigError::RingTooSmall {
                bytes: config.ring_bytes,
                record_bytes_max: config.record_bytes_max,
                min: RING_RECORDS_MIN * plain_words_max * LINE,
            });
        }
        let workers = config.workers_max as usize;
        let buckets_len = config.index_buckets.next_power_of_two();
        let buckets = SLOTS + workers * LINE;
        let ring = buckets + buckets_len.next_multiple_of(LINE);
        let presence = PresenceLayout::new(ring + ring_words, config.members_max as usize, workers);
        Ok(Layout {
            buckets,
            buckets_len,
            ring,
            ring_words,
            record_words_max: plain_words_max + PLACE_WORDS,
            record_bytes_max: config.record_bytes_max,
            workers_max: config.workers_max,
            words: presence.end(),
            presence,
        })
    }

    /// Returns the number of words of shared memory for the ring and its tables. Untouched words need no physical memory.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Returns the index of the word that contains the process id of the worker in `slot`. The word is 0 without a worker.
    pub(crate) fn slot_pid(&self, slot: u32) -> usize {
        SLOTS + slot as usize * LINE
    }

    /// Returns the index of the word that contains the cursor of the worker in `slot`.
    pub(crate) fn slot_cursor(&self, slot: u32) -> usize {
        self.slot_pid(slot) + 1
    }

    /// Returns a number derived from all sizes, to detect a file that was made with other sizes.
    pub(crate) fn fingerprint(&self) -> u64 {
        let sizes = [
            self.buckets_len,
            self.ring_words,
            // Use the value from before log positions existed, so that older history files stay valid.
            self.record_words_max - PLACE_WORDS,
            self.workers_max as usize,
            self.presence.members_max,
            self.presence.entry_words,
        ];
        sizes.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, &size| {
            (sum ^ size as u64)
                .wrapping_mul(0x0000_0100_0000_01b3)
                .rotate_left(29)
        })
    }
}

impl PresenceLayout {
    fn new(at: usize, members_max: usize, workers_max: usize) -> PresenceLayout {
        let buckets_len = members_max.next_power_of_two();
        let by_channel = at + PRESENCE_HEADER_WORDS;
        let by_source = by_channel + buckets_len;
        let by_key = by_source + buckets_len;
        let entries = (by_key + buckets_len).next_multiple_of(LINE);
        let text = words_for(CHANNEL_BYTES_MAX)
            + words_for(USER_BYTES_MAX)
            + 2 * words_for(INFO_BYTES_MAX);
        let entry_words = (ENTRY_FIXED_WORDS + workers_max + text).next_multiple_of(LINE);
        PresenceLayout {
            header: at,
            by_channel,
            by_source,
            by_key,
            buckets_len,
            entries,
            entry_words,
            members_max,
            workers_max,
        }
    }

    fn end(&self) -> usize {
        self.entries + self.members_max * self.entry_words
    }
}

fn range(name: &'static str, value: u64, min: u64, max: u64) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        Ok(())
    } else {
        Err(ConfigError::OutOfRange {
            name,
            value,
            min,
            max,
        })
    }
}
