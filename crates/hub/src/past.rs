//! What a ring has no more and the log that its records come from may have.

use crate::record::{LogPlace, Record};

/// How long a client waits for what the log has, in milliseconds, before it is told that something is missing.
pub const PAST_MS_MAX: u64 = 5_000;

/// The part of the log that a client needs of its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastRange {
    /// What comes after this place.
    pub after: LogPlace,
    /// And not after this one: there the ring goes on.
    pub up_to: u64,
    /// Most records, the newest ones.
    pub count_max: usize,
    /// Records before this moment are no history, in milliseconds since 1970.
    pub oldest_ms: u64,
}

/// What comes next from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Past {
    /// The record that was filled in.
    Record,
    /// Something up to this place is missing, or not history any more.
    Gap {
        /// Behind `PastRange::after`.
        up_to: u64,
    },
    /// There is nothing more up to this place.
    End {
        /// Behind `PastRange::after`.
        up_to: u64,
    },
    /// It was asked for, or has to be asked for again.
    Waiting,
}

/// A source of what the log has.
pub trait FromLog {
    /// Fills in the first record of any of these channels in the range, with its place.
    fn next(&mut self, channels: &[Box<[u8]>], range: &PastRange, record: &mut Record) -> Past;
}
