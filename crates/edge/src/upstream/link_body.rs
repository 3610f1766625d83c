//! Body of a GRIP link's response, which is forwarded to a held stream.

use fermata_grip::instruct::Instruct;

/// A body that is being forwarded to a held client.
pub(crate) struct LinkBody {
    pub pending: Vec<u8>,
    pub has_ended: bool,
    pub(crate) instruct: Box<Instruct>,
}

impl LinkBody {
    /// Returns true if more can be read from the origin.
    pub fn wants_more(&self) -> bool {
        !self.has_ended && self.pending.len() < PENDING_BYTES_MAX
    }
}

/// Maximum number of bytes queued for a client. Above it, the edge stops reading from the origin.
pub(crate) const PENDING_BYTES_MAX: usize = 64 * 1024;
