//! What a worker knows of the others that it hands connections to.

use std::sync::Arc;

use fermata_io::handover::Inbox;

use crate::admin::stats::Shared;

/// Where connections are handed over, and how many each worker has.
pub(crate) struct Handover {
    /// By slot.
    pub inboxes: Arc<Vec<Inbox>>,
    /// Connections that stay are spread evenly; otherwise only those of a worker that retires are handed over.
    pub balances: bool,
    pub shared: Shared,
}
