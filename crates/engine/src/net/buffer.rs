//! The one buffer that sockets are read into, and how far it is parsed.

use crate::net::index::ConnectionIndex;

/// The bytes of one connection at a time: what is left of them when the next is read goes to its `inbox`.
pub(crate) struct Input {
    pub bytes: Vec<u8>,
    /// What of them is being parsed.
    pub current: Option<Current>,
}

/// Input that is being parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Current {
    pub index: ConnectionIndex,
    /// Parsed bytes at the front of `input`.
    pub at: usize,
    /// Bytes in `input`.
    pub filled: usize,
    /// Requests taken from it.
    pub requests: u32,
}

impl Input {
    /// With room for `bytes_max`: what waits of a head, and one read behind it.
    pub fn new(bytes_max: usize) -> Input {
        Input {
            bytes: vec![0; bytes_max],
            current: None,
        }
    }

    /// Begins to parse `filled` bytes of a connection.
    pub fn begin(&mut self, index: ConnectionIndex, filled: usize) {
        self.current = Some(Current {
            index,
            at: 0,
            filled,
            requests: 0,
        });
    }

    /// Parsing goes on at `at`.
    #[inline]
    pub fn advance(&mut self, at: usize) {
        if let Some(current) = &mut self.current {
            current.at = at;
        }
    }

    /// What was taken from it counts as so many requests: behind enough of them, others get their turn.
    #[inline]
    pub fn count(&mut self, requests: u32) {
        if let Some(current) = &mut self.current {
            current.requests = current.requests.saturating_add(requests);
        }
    }
}
