//! `fermata hub`: channels for clients of protocols that exist already: Pusher's and Mercure's.
//!
//! The engine holds the clients as it holds any WebSocket; a protocol is a crate of its own (`fermata-pusher`, `fermata-mercure`), which
//! decides what a message means and what is sent. This crate joins the two: no PHP, no backend. [`Doors`] is the same
//! beside the routes of a program.
//!
//! # Inside
//!
//! [`settings`] is the file, the environment and the options. `start` configures the engine and forks; in each worker a
//! [`Hub`] (`gateway.rs`) takes the events that are its own, beside a program (`beside.rs`) or alone. `sockets.rs` is what clients say, `questions.rs` what publishers ask over HTTP.
//! An event is published to the ring under the channel's name with its application in front (`names.rs`), and one frame
//! is made of it for all subscribers of a worker.
//! Presence in a channel is the engine's: users over tabs and workers, announced once when the last one has gone,
//! also when their worker was killed.
//! `sockjs/` serves clients of Pusher whose WebSockets do not get through.
//! `mercure/` is the door for Mercure: all its updates are one channel of the ring, and which subscribers get which is
//! decided once per worker and group of equal subscribers (the engine's views).
//! How many are subscribed to a channel, and which users have signed in, is known to every worker by what the others tell
//! it (`census.rs`); `watching.rs` has the clients that want to know of users.
//! Worker 0 tells subscribers that number where the application wants it (`counting.rs`), and backends what has happened to
//! channels (`webhooks/`).
//!
//! In a cluster the first worker of each server tells the others what its workers count (`nodes.rs`, `servers.rs`), one server
//! does what is done once, and who publishes is answered when the log has it (`publishing.rs`).
//!
//! # Decisions and their price
//!
//! **Counts are told, not shared.** Each worker tells the others what has changed, at most every [`TELL_MS`]. Price: counts
//! of channels are that old, each worker keeps those of all, and until a killed worker's replacement says hello, some
//! milliseconds, its clients are still counted.

#![forbid(unsafe_code)]

mod beside;
mod census;
mod counting;
mod counts;
mod gateway;
mod membership;
mod mercure;
mod names;
mod nodes;
mod posting;
mod posts;
mod publishing;
mod questions;
mod servers;
pub mod settings;
mod sockets;
mod sockjs;
mod start;
mod watching;
mod webhooks;
mod written;

pub use beside::{Doors, Opening};
pub use fermata_mercure::update::Update;
pub use gateway::Hub;
pub use names::is_own;
pub use posting::open_post;
pub use start::{StartError, run};

/// How long changes of counts are collected before the other workers are told.
const TELL_MS: u64 = 20;
