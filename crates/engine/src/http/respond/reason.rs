//! Reason phrases of responses (RFC 9112, section 4).

use crate::id::RequestId;

/// A custom reason phrase of a response.
#[derive(Debug)]
pub(crate) struct Reason {
    /// The answered request.
    pub handle: RequestId,
    pub status: u16,
    pub phrase: Box<[u8]>,
}
