//! State machines for HTTP/1.1, HTTP/2, multipart forms, Server-Sent Events and WebSocket.
//!
//! The crate does no I/O: callers pass bytes and the current time, and receive spans, events and bytes. It has no socket, clock or
//! thread.
//!
//! - Input is hostile. A message that two parsers could read differently is rejected, and every limit is a named
//!   constant or setting.
//! - Parsers accept input split at any byte and return the same result for every split. Property tests and the fuzz
//!   targets in `fuzzing` check this.
//! - The HTTP/1 parser allocates nothing per request.
//!
//! `ws` checks handshakes, assembles and compresses messages, and runs the closing handshake for clients and servers.
//!
//! # Decisions and their price
//!
//! **Strict parsing.** Request smuggling needs two parsers that read one message differently. Cost: a few old or home-made clients
//! receive 400; the log contains the reason.

#![forbid(unsafe_code)]

pub mod chunk;
pub mod chunked;
pub mod conditions;
pub mod date;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod http1;
pub mod http2;
pub mod multipart;
pub mod negotiate;
pub mod number;
pub mod percent;
pub mod proxy;
pub mod range;
mod refusal;
pub mod response;
pub mod response_reader;
mod span;
pub mod sse;
pub mod traceparent;
pub mod ws;

pub use refusal::Refusal;
pub use span::Span;
