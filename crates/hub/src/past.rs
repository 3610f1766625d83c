//! Access to records that the ring has overwritten, but its log may still have.

use crate::record::{LogPlace, Record};

/// Maximum time in milliseconds that a client waits for records of the log. Afterwards the client receives a gap.
pub const PAST_MS_MAX: u64 = 5_000;

/// The part of the log that a client needs for its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastRange {
    /// Log position before the first record.
    pub after: LogPlace,
    /// Log position of the last record of the part. The ring continues after it.
    pub up_to: u64,
    /// Maximum number of records; the newest are selected.
    pub count_max: usize,
    /// Time before which records are not history, in milliseconds since 1970.
    pub oldest_ms: u64,
}

/// The next item from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// The record was filled in.
    Record,
    /// Records up to this position are missing, or exceed the limits of history.
    Gap {
        /// Greater than `PastRange::after`.
        up_to: u64,
    },
    /// The range contains no further records up to this position.
    End {
        /// Greater than `PastRange::after`.
        up_to: u64,
    },
    /// The request is in progress, or has to be repeated.
    Waiting,
}

/// A source of records in the log.
pub trait FromLog {
    /// Fills in the first record of any of these channels in the range, with its log position.
    fn next(&mut self, channels: &[Box<[u8]>], range: &PastRange, record: &mut Record) -> Past;
}
