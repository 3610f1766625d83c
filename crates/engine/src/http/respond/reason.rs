//! The reason phrase of an answer (RFC 9112, section 4).

use crate::id::RequestId;

/// A reason phrase that its program has given an answer.
#[derive(Debug)]
pub(crate) struct Reason {
    /// The request that is answered.
    pub handle: RequestId,
    pub status: u16,
    pub phrase: Box<[u8]>,
}
