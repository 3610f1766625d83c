//! State machines for GRIP: instructions of backends, published items, and the transports of items.
//!
//! This crate has no socket, clock or thread; time is an argument. Input is untrusted: every limit is a named constant,
//! and `fuzzing` checks the properties of each parser for any input.
//!
//! - [`instruct`]: instructions in an origin's response, as headers or JSON; [`last`] and [`prefix`] belong to it.
//! - [`item`], [`filter`], [`patch`], [`template`]: published items, and the content for each subscriber.
//! - [`reliable`]: order, duplicates, and missed items.
//! - [`sig`]: creates and verifies `Grip-Sig`.
//! - [`ws_control`], [`over_http`]: WebSockets with control messages, and WebSockets over HTTP.
//! - [`control`], [`command`], [`stats`]: the ports for publishers and dashboards.
//! - [`packet`], [`tnetstring`], [`value`], [`zmtp`]: the formats and the ZeroMQ protocol of these ports.

#![forbid(unsafe_code)]

pub mod command;
pub mod control;
pub mod encoding;
pub mod filter;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod instruct;
pub mod item;
pub mod last;
pub mod over_http;
pub mod packet;
pub mod params;
pub mod patch;
pub mod prefix;
pub mod reliable;
pub mod sig;
pub mod spelling;
pub mod stats;
pub mod template;
pub mod tnetstring;
pub mod value;
pub mod ws_control;
pub mod zmtp;
