//! Handing connections to other workers.

use std::sync::Arc;

use fermata_io::handover::Inbox;

use crate::admin::stats::Shared;

/// Inboxes of the workers, and the number of connections of each worker.
pub(crate) struct Handover {
    /// Inboxes, by slot.
    pub inboxes: Arc<Vec<Inbox>>,
    /// Spread keep-alive connections evenly; if false, only a retiring worker hands over.
    pub balances: bool,
    pub shared: Shared,
}
