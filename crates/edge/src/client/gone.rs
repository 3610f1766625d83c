//! `gone` links, by which origins are notified that a client left.

use std::collections::HashMap;

use fermata_engine::RequestId;

use crate::client::source::Source;

/// `gone` links of held clients.
#[derive(Default)]
pub(crate) struct GoneLinks {
    pub(crate) links: HashMap<RequestId, Box<(Source, Vec<u8>)>>,
    /// Notifications in progress.
    pub(crate) notifying: usize,
    pub(crate) last: u64,
}
