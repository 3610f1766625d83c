//! Client-side parser for HTTP/1 responses.
//!
//! Rejects a response that two parsers could read differently, because an attacker could hide a response for another client in it.

mod head;
mod reader;
#[cfg(test)]
mod tests;

pub use head::{Body, HEAD_BYTES_MAX, HEADERS_COUNT_MAX, Head, HeadError, RequestKind};
pub use reader::{Event, ResponseError, ResponseReader};
