//! SockJS: paths, frames, and messages that wait for a client between its requests.
//!
//! This crate has no socket, clock or setting. Time is an argument.
//!
//! - [`place`]: parses a path below the prefix of SockJS.
//! - [`frame`]: encodes frames and decodes clients' messages.
//! - [`queue`]: messages of a session for a client that polls, or whose response is a stream.

#![forbid(unsafe_code)]

pub mod frame;
pub mod place;
pub mod queue;
