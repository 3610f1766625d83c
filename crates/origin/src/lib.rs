//! A server behind GRIP edges: their addresses, verification of requests, responses that hold a client, and publishing.
//!
//! Sockets here are blocking, with a deadline. They belong to a command, or to a thread next to a server's event loop.
//!
//! # Use in a PHP server
//!
//! `fm_hold` calls `Worker::opening` (`channels/opening.rs` of the engine). It returns the bytes that the client receives
//! before the edge holds it, and the ids by which the edge detects missed events.
//!
//! Worker 0 has one thread per edge ([`edge_publisher`]), which reads the ring through a `Follower` of the hub. A `Follower`
//! has no slot in the ring, so no publisher waits for it. `pump` unparks the thread when there are new events. The position of
//! each edge is in shared memory, so that the replacement of worker 0 continues from there. After the last worker has exited,
//! the master publishes the remaining events.

#![forbid(unsafe_code)]

pub mod address;
pub mod answer;
pub mod client;
pub mod edge_publisher;
pub mod edges;
mod pending;
pub mod post;
mod tls;

pub use address::{Address, Transport};
pub use client::{Client, PublishError};
pub use edge_publisher::{EdgePublisher, Figures, Next, Source};
pub use edges::Edges;
pub use pending::Item;
pub use post::{ANSWER_BYTES_MAX, HttpPoster, PostError};
pub use tls::TlsError;
