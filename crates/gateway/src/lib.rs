//! `fermata hub`: channels for clients of two existing protocols, Pusher and Mercure. No PHP and no backend is involved.
//!
//! The engine holds the clients, as it holds any WebSocket or event stream. Each protocol is a separate crate
//! (`fermata-pusher`, `fermata-mercure`) that parses messages and decides what is sent. This crate joins engine and
//! protocols. [`HubBuilder`] adds the same protocols to a server that also runs a PHP application.
//!
//! # Inside
//!
//! - [`settings`] reads the file, the environment and the options.
//! - `start.rs` configures the engine and forks. In each worker a [`Hub`] (`gateway.rs`) handles its own events, either
//!   alone or next to a PHP application (`hub_builder.rs`).
//! - `sockets.rs` handles messages of WebSocket clients, `questions.rs` the HTTP API of publishers.
//! - `names.rs` maps a channel to its name on the ring, which starts with the application. An event is published under
//!   that name, and each worker encodes one frame for all its subscribers.
//! - Presence is the engine's: it counts users over tabs and workers, and announces a departure once, when the last
//!   connection closes. That also holds for connections of a killed worker.
//! - `sockjs/` serves Pusher clients that cannot open WebSockets.
//! - `mercure/` implements Mercure. All updates share one channel of the ring. Each worker selects the recipients once
//!   per group of equal subscribers (the engine's views).
//! - `worker_counts.rs` counts subscriptions and signed-in users over all workers. `watching.rs` finds the clients that
//!   watch a user.
//! - Worker 0 sends subscription counts to subscribers (`counting.rs`) and webhooks to backends (`webhooks/`).
//! - In a cluster the first worker of each server publishes its server's counts (`nodes.rs`, `servers.rs`). One server
//!   does the work that must happen once per cluster. A publisher's response waits for the log (`publishing.rs`).
//!
//! # Decisions and their price
//!
//! **Counts are sent, not shared.** Each worker sends its changes to the other workers, at most once per [`SEND_MS`]
//! milliseconds. Price: a worker's counts of channels may be out of date by this time, and each worker stores the counts
//! of all workers. After a crash, the clients of the killed worker stay counted until its replacement sends its hello,
//! some milliseconds later.

#![forbid(unsafe_code)]

mod counting;
mod counts;
mod fingerprint;
mod gateway;
mod hub_builder;
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
mod worker_counts;
mod written;

pub use fermata_mercure::update::Update;
pub use gateway::Hub;
pub use hub_builder::{HubBuilder, Opening};
pub use names::is_own;
pub use posting::open_post;
pub use sockets::engine_id;
pub use start::{StartError, run};

/// Time in milliseconds for which changes of counts are collected before they are sent to the other workers.
const SEND_MS: u64 = 20;
