//! What workers tell the one with the stats socket.

use std::collections::HashMap;
use std::path::PathBuf;

use fermata_engine::WireId;

/// The worker itself, among those that tell; no wire has this number.
pub(crate) const OWN: u64 = 0;

/// The wire of a worker that tells.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(crate) path: PathBuf,
    pub(crate) wire: Option<WireId>,
    pub(crate) out: Vec<u8>,
}

impl Feed {
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            wire: None,
            out: Vec::new(),
        }
    }
}

/// The wires of workers that tell.
#[derive(Debug, Default)]
pub(crate) struct Feeders {
    pub(crate) listener: Option<WireId>,
    pub(crate) inputs: HashMap<WireId, Vec<u8>>,
}
