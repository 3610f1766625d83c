//! ZHTTP (rfc.zeromq.org 33): requests and responses as messages of ZeroMQ, for backends that speak no HTTP.
//!
//! [`packet`] reads a response that comes whole, for targets `zhttpreq/…`. An [`Exchange`] is one session of a target
//! `zhttp/…`: numbered packets both ways, as much of a body at a time as the other end has given credit for, and
//! WebSockets, whose [`frames`] it turns into packets and back.

mod exchange;
mod frames;
pub mod packet;

pub use exchange::{Condition, Event, Exchange, Opening, WINDOW_BYTES, cancel};
