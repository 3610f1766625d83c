//! Connections of workers to the worker with the stats socket.

use std::collections::HashMap;
use std::path::PathBuf;

use fermata_engine::WireId;

/// Number of the worker itself, in place of the number of a connection.
pub(crate) const OWN: u64 = 0;

/// Connection of a worker to the worker with the stats socket.
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

/// Connections from other workers.
#[derive(Debug, Default)]
pub(crate) struct Feeders {
    pub(crate) listener: Option<WireId>,
    pub(crate) inputs: HashMap<WireId, Vec<u8>>,
}
