//! The shared input buffer of a worker, and the parsing position.

use crate::net::index::ConnectionIndex;

/// Input of one connection at a time: unparsed bytes move to its `inbox` before the next connection
/// is read.
pub(crate) struct Input {
    pub bytes: Vec<u8>,
    /// The part that is being parsed.
    pub current: Option<Current>,
}

/// Input that is being parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    pub index: ConnectionIndex,
    /// Number of parsed bytes at the front of `input`.
    pub at: usize,
    /// Number of bytes in `input`.
    pub filled: usize,
    /// Number of requests parsed from the input.
    pub requests: u32,
}

impl Input {
    /// Creates a buffer of `bytes_max`: the largest head that can wait in an inbox, plus one read.
    pub fn new(bytes_max: usize) -> Input {
        Input {
            bytes: vec![0; bytes_max],
            current: None,
        }
    }

    /// Starts to parse `filled` bytes of a connection.
    pub fn begin(&mut self, index: ConnectionIndex, filled: usize) {
        self.current = Some(Current {
            index,
            at: 0,
            filled,
            requests: 0,
        });
    }

    /// Moves the parsing position to `at`.
    #[inline]
    pub fn advance(&mut self, at: usize) {
        if let Some(current) = &mut self.current {
            current.at = at;
        }
    }

    /// Counts other work as this number of requests. After a maximum number of requests, other
    /// clients are served.
    #[inline]
    pub fn count(&mut self, requests: u32) {
        if let Some(current) = &mut self.current {
            current.requests = current.requests.saturating_add(requests);
        }
    }
}
