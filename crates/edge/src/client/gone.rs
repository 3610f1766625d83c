//! Links by which origins are told that a client has left.

use std::collections::HashMap;

use fermata_engine::RequestId;

use crate::client::source::Source;

/// Clients whose origin is to be told when they leave.
#[derive(Default)]
pub(crate) struct GoneLinks {
    pub(crate) links: HashMap<RequestId, Box<(Source, Vec<u8>)>>,
    /// Being told.
    pub(crate) telling: usize,
    pub(crate) last: u64,
}
