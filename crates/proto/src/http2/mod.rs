//! HTTP/2 (RFC 9113) for clients and servers, with extended CONNECT (RFC 8441) and priorities (RFC 9218).
//!
//! [`Connection`] turns received bytes into events and appends frames to the caller's output buffer. It does no I/O, has no clock
//! and stores no body. DATA is borrowed from the input; the caller stores bytes to send until a window is open and the stream has
//! its turn. A stream therefore needs less than a hundred bytes. An event for many streams is encoded once; each stream adds nine
//! bytes of frame header.
//!
//! ```
//! use fermata_proto::http2::{Connection, Event, Limits, Message, Rest};
//!
//! # fn demo(received: &[u8]) -> Result<Vec<u8>, fermata_proto::http2::Violation> {
//! let (limits, mut message, mut out) = (Limits::default(), Message::new(), Vec::new());
//! let mut connection = Connection::server(&limits, 0, &mut out);
//! let mut at = 0;
//! while at < received.len() {
//!     let step = connection.handle(&received[at..], 0, &limits, &mut message, &mut out)?;
//!     at += step.consumed;
//!     match step.event {
//!         Some(Event::Request { stream, .. }) => {
//!             // `message` holds the head. This example responds immediately.
//!             let fields = [(&b"content-length"[..], &b"2"[..])];
//!             connection.send_head(stream, 200, fields.into_iter(), false, &mut out);
//!             connection.send_data(stream, b"hi", Rest::End, &mut out);
//!             connection.release(stream, &limits, &mut out);
//!         }
//!         Some(Event::Data { stream, data, .. }) => {
//!             let len = data.len();
//!             connection.consumed(stream, len, &limits, &mut out);
//!         }
//!         _ => {}
//!     }
//! }
//! # Ok(out)
//! # }
//! ```
//!
//! # Duties of the caller
//!
//! - Call [`Connection::handle`] until the input is consumed. Then send output in the order of
//!   [`Connection::next_ready`] while the output buffer has room. Do not read from a peer that does not accept the
//!   buffered output: this bounds the acknowledgements of PING and SETTINGS, whose rate [`Limits`] limits.
//! - Call [`Connection::release`] once for each stream that an event announced, even if the stream was reset. The
//!   stream counts until then.
//! - Call [`Connection::consumed`] for each received byte of DATA, as soon as there is room for more.
//! - Call [`Connection::tick`] about once a second while there are streams or unacknowledged SETTINGS.
//! - After an error, send the buffered output and close.
//!
//! # Decisions and their price
//!
//! **No memory for closed streams.** The last sixteen identifiers distinguish streams that this side reset, whose
//! frames are ignored, from streams that ended. DATA for an older stream is answered with RST_STREAM; only thousands of
//! them count as a flood.
//!
//! **The encoder has no dynamic table.** A repeated head is sent in full each time, but needs no memory.
//!
//! **Rejected requests get a response with their status and an empty body**, followed by RST_STREAM, so that a browser
//! shows 431 instead of nothing.

mod client;
mod connection;
mod error;
mod flood;
pub mod frame;
pub mod hpack;
mod limits;
mod message;
mod priority;
mod receive;
mod send;
mod settings;
mod streams;
#[cfg(test)]
mod tests;

pub use connection::{Connection, Event, Origin, Step, StreamId};
pub use error::{ErrorCode, Violation};
pub use flood::{Flood, Rate};
pub use limits::Limits;
pub use message::Message;
pub use priority::Priority;
pub use send::{DataFrame, OpenError, Opening, Ready, Rest, TURN_BYTES, is_of_connection};

/// Side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opens streams with requests.
    Client,
    /// Responds to requests.
    Server,
}
