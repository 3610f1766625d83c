//! HTTP/1.1, multipart forms, Server-Sent Events and WebSocket as state machines: bytes in, spans, events and bytes out.
//!
//! Nothing here knows a socket, a clock or a thread; time is an argument. Input is hostile: a message that two
//! parsers could read differently is refused, never guessed at, and every bound has a name. Each parser is
//! written so that any split of the input gives the same result; `fuzzing` holds the checks of that.
//!
//! `ws` checks handshakes, assembles and compresses messages and follows the closing handshake for either end.
//! No socket, no clock, no allocation per request; every function can be fed one byte at a time and gives the same result,
//! which property tests and fuzz targets check.
//!
//! # Decisions and their price
//!
//! **Strict parsing.** Request smuggling needs two readings. Price: a few ancient or home-made clients get 400; the log
//! says why.

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
