//! The body of a link's answer that is passed on to a held stream.

use fermata_grip::instruct::Instruct;

/// A body on its way to a held client.
pub(crate) struct LinkBody {
    pub pending: Vec<u8>,
    pub has_ended: bool,
    pub(crate) instruct: Box<Instruct>,
}

impl LinkBody {
    /// Whether the origin is to be read on.
    pub fn wants_more(&self) -> bool {
        !self.has_ended && self.pending.len() < PENDING_BYTES_MAX
    }
}

/// Bytes that wait for a client before the origin is read on.
pub(crate) const PENDING_BYTES_MAX: usize = 64 * 1024;
