//! A process's index from log positions to ring positions (see `log`).

use std::collections::VecDeque;

use crate::record::Seq;

/// Marks in ascending order, only of records in the ring.
#[derive(Default)]
pub(crate) struct LogIndex {
    pub(crate) epoch: u64,
    /// Ring positions of records, with the log position reached before each.
    pub(crate) marks: VecDeque<(Seq, u64)>,
    /// Every record before this ring position is indexed.
    pub(crate) at: Seq,
    /// The log position reached at `at`.
    pub(crate) reached: u64,
    /// Number of records since the last mark.
    pub(crate) since: usize,
}
