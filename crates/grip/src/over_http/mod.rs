//! WebSocket over HTTP: the events of a WebSocket are sent in the bodies of requests and responses.

mod event;
mod headers;
mod outbox;

pub use event::{Event, EventError, LINE_BYTES_MAX, decode, encode};
pub use headers::{
    HeaderError, KEEP_ALIVE_MIN_DEFAULT_S, KeepAlive, MEDIA_TYPE, Reply, is_forwarded, meta_headers,
};
pub use outbox::{AcceptError, Accepted, Full, Outbox};
