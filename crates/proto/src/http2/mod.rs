//! HTTP/2 (RFC 9113) for either end of a connection, with extended CONNECT (RFC 8441) and priorities (RFC 9218).
//!
//! [`Connection`] is fed bytes and gives events; what it has to say goes into the one output buffer of its embedder. It knows
//! no socket and no clock, and holds no body: DATA is lent from the input, and what is to be sent stays with the embedder until
//! a window and its turn have come. So a stream is less than a hundred bytes, and an event that goes to many streams is
//! encoded once: each costs nine bytes of header beside it.
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
//!             // `message` holds the head. Here the answer is there at once.
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
//! # What an embedder owes
//!
//! - [`Connection::handle`] until the input is consumed, then output as [`Connection::next_ready`] gives turns, while there is
//!   room in its buffer. It reads no more from a peer that does not take what the buffer holds: that bounds the answers
//!   to PING and SETTINGS, which come at the rate of [`Limits`].
//! - [`Connection::release`] once for each stream it was told of, also when that was reset. Until then the stream counts.
//! - [`Connection::consumed`] for each byte of DATA it was given, once it has room for more.
//! - [`Connection::tick`] about once a second while there are streams or SETTINGS wait for their acknowledgement.
//! - After an error: to send what is in the buffer, and to close.
//!
//! # Decisions and their price
//!
//! **No memory of streams that are over.** The last sixteen numbers tell what was reset here, whose frames are ignored, from
//! what has ended. Of an older one DATA is answered with RST_STREAM, which counts as a flood only in thousands.
//!
//! **The encoder is without a table.** A repeated head costs its bytes again; none of them memory.
//!
//! **Refused requests are answered with their status and an empty body**, then reset: a person sees 431 rather than nothing.

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

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It opens streams.
    Client,
    /// It answers them.
    Server,
}
