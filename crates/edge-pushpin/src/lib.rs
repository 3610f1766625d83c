//! Parsers, encoders and state machines for the features of the edge that only Pushpin's users need.
//!
//! This crate has no socket, clock, thread, setting or client request; time is an argument.
//!
//! - [`zhttp`]: requests, responses and WebSockets as ZeroMQ messages.
//! - [`state`]: sessions of an external service: their ids, the rules that find them, and updates for the service.
//! - [`stats`]: clients by channel and route for stats packets, and their exchange between workers.
//! - [`line`]: requests to services from workers without ports.
//! - [`form`]: forms as browsers encode them.

#![forbid(unsafe_code)]

pub mod form;
pub mod line;
pub mod state;
pub mod stats;
pub mod zhttp;
