//! GRIP as state machines: what a backend tells the edge, what is published, and how both travel.
//!
//! Nothing here knows a socket, a clock or a thread; time is an argument. Input is hostile: every bound has a
//! name, and `fuzzing` holds the promises that each parser keeps for any bytes.
//!
//! - [`instruct`]: what an origin's response asks for, as headers or as JSON; [`last`] and [`prefix`] beside it.
//! - [`item`], [`filter`], [`patch`], [`template`]: what is published, and what each subscriber gets of it.
//! - [`reliable`]: order, duplicates, and who has missed something.
//! - [`sig`]: `Grip-Sig`, made and checked.
//! - [`ws_control`], [`over_http`]: WebSockets with control messages, and carried over HTTP.
//! - [`control`], [`command`], [`stats`]: the ports of publishers and dashboards.
//! - [`packet`], [`tnetstring`], [`value`], [`zmtp`]: what these ports speak over ZeroMQ.

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
