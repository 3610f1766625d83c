//! HTTP/1.1 towards backends: reading responses, keeping connections, and when a request may be sent again.
//!
//! A backend is trusted more than a client, but not with framing: what two readers could take differently is refused,
//! or one response could be made to contain another client's.

mod exchange;
mod head;
mod pool;

pub use exchange::{Event, Exchange, ResponseError};
pub use head::{Body, HEAD_BYTES_MAX, HEADERS_COUNT_MAX, Head, HeadError};
pub use pool::{Failure, Limits, Pool, Sent, may_retry};

#[cfg(test)]
mod tests;
