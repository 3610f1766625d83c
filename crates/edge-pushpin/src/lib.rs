//! What only Pushpin's users need of the edge, as parsers, encoders and state machines.
//!
//! Nothing here knows a socket, a clock, a thread, a setting or a client's request; time is an argument.
//!
//! - [`zhttp`]: requests, responses and WebSockets as messages of ZeroMQ.
//! - [`state`]: sessions of an outside service: their ids, rules that find them, and what the service is told.
//! - [`stats`]: clients by channel and route, as stats packets have them, and how workers tell each other.
//! - [`line`]: how workers without ports ask services.
//! - [`form`]: forms as browsers write them.

#![forbid(unsafe_code)]

pub mod form;
pub mod line;
pub mod state;
pub mod stats;
pub mod zhttp;
