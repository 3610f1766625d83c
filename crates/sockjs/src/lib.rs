//! SockJS: what paths name, what frames say, and what waits for a client between its requests.
//!
//! Nothing here knows a socket, a clock or a setting; time is an argument.
//!
//! - [`place`]: what a path below the one of SockJS names.
//! - [`frame`]: frames as they are written, and messages of clients.
//! - [`queue`]: messages of a session for a client that polls, or whose response is a stream.

#![forbid(unsafe_code)]

pub mod frame;
pub mod place;
pub mod queue;
