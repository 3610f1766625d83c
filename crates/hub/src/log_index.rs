//! What a process remembers of where places of the log lie in the ring (see `log`).

use std::collections::VecDeque;

use crate::record::Seq;

/// Where places of the log lie, ascending; only what the ring holds.
#[derive(Default)]
pub(crate) struct LogIndex {
    pub(crate) epoch: u64,
    /// Positions of records, and the place that the ring had reached before each.
    pub(crate) marks: VecDeque<(Seq, u64)>,
    /// Everything before this position was looked at.
    pub(crate) at: Seq,
    /// The place that was reached there.
    pub(crate) reached: u64,
    /// Records since the last mark.
    pub(crate) since: usize,
}
