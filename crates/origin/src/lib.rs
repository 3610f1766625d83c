//! A server behind GRIP edges: their addresses, verification of requests, responses that hold a client, and publishing.
//!
//! Sockets here are blocking, with a deadline. They belong to a command, or to a thread next to a server's event loop.
//!
//! In a PHP server `fm_hold` uses it first. `Worker::opening` returns what the client receives before the edge holds
//! it, and the ids that let the edge detect missed events (`channels/opening.rs` of the engine). Worker 0 has a thread
//! per edge (`Courier`) that reads the ring itself: a `Follower` of the hub has no slot, so no publisher waits for it,
//! and `pump` unparks it. The position of each edge is in shared memory. The replacement of worker 0 continues from
//! there, and the master publishes the rest after the last worker has exited.

#![forbid(unsafe_code)]

pub mod address;
pub mod answer;
pub mod client;
pub mod courier;
pub mod edges;
mod pending;
pub mod post;
mod tls;

pub use address::{Address, Transport};
pub use client::{Client, PublishError};
pub use courier::{Courier, Figures, Next, Source};
pub use edges::Edges;
pub use pending::Item;
pub use post::{ANSWER_BYTES_MAX, HttpPoster, PostError};
pub use tls::TlsError;
