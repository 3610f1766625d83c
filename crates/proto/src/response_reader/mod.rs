//! Reading HTTP/1 responses: the side of a client.
//!
//! What two readers could take differently is refused, or one response could be made to contain another client's.

mod head;
mod reader;
#[cfg(test)]
mod tests;

pub use head::{Body, HEAD_BYTES_MAX, HEADERS_COUNT_MAX, Head, HeadError, RequestKind};
pub use reader::{Event, ResponseError, ResponseReader};
