//! A server behind GRIP edges: where they are, whether a request came through one, what such a request is answered
//! with, and publishing to them.
//!
//! Sockets here are blocking ones with a deadline: they belong to a command, or to a thread beside a server's loop.
//!
//! In a PHP server `fm_hold` asks it first: `Worker::opening` gives what the client gets before the edge has it, and the
//! ids by which the edge finds out what came between (`channels/opening.rs` of the engine).
//! Worker 0 has a thread per edge (`Courier`) that reads the ring by itself: a `Follower` of the hub has no slot, so no
//! publisher waits for it, and `pump` unparks it. How far each edge has come is in shared memory, for the worker that takes
//! the place of worker 0, and for the master, which tells the rest when the last worker has ended.

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
pub use post::{ANSWER_BYTES_MAX, PostError, Poster};
pub use tls::TlsError;
