//! A server behind GRIP edges: where they are, whether a request came through one, what such a request is answered
//! with, and publishing to them.
//!
//! Sockets here are blocking ones with a deadline: they belong to a command, or to a thread beside a server's loop.

#![forbid(unsafe_code)]

pub mod address;
pub mod answer;
pub mod client;
pub mod courier;
pub mod edges;
mod pending;
mod reply;
mod tls;

pub use address::{Address, Transport};
pub use client::{Client, PublishError};
pub use courier::{Courier, Figures, Item, Next, Source};
pub use edges::Edges;
