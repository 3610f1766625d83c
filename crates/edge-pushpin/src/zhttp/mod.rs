//! ZHTTP (rfc.zeromq.org 33): requests and responses as ZeroMQ messages, for backends without HTTP.
//!
//! [`packet`] parses a complete response, for targets `zhttpreq/…`. An [`Exchange`] is one session of a target
//! `zhttp/…`. It has numbered packets in both directions, and body parts within the credit of the other end. It
//! converts the [`frames`] of WebSockets to packets and back.

mod exchange;
mod frames;
pub mod packet;

pub use exchange::{Condition, Event, Exchange, Opening, WINDOW_BYTES, cancel};
