//! What was asked of the server and is not answered.

use crate::past::Collector;

/// A request that awaits its reply; the server replies in order.
pub(super) enum Pending {
    Hello,
    Select,
    Load(usize),
    Open,
    /// These records, by their places in the outbox.
    Append(Vec<u64>),
    Read,
    Past(Box<Collector>),
}
