//! Starts the real server and talks to it in raw bytes: the library of the black-box tests, never shipped.
//!
//! [`Server`] runs `php -d extension=fermata.so script.php` as a child, follows its log and kills the whole process
//! group when dropped. [`Connection`] sends raw bytes and parses responses strictly, so a sloppy server fails a test
//! even where a browser would forgive it. [`sse::Stream`] reads an event stream and [`sse::Follower`] resumes one
//! like a browser; [`websocket::Socket`] sends arbitrary frames.
//!
//! Tests never sleep to synchronize. They wait for a condition with [`wait_until`], which fails after [`deadline`]:
//! far longer than any correct run needs, even on a busy machine. Random choices come from [`Random`], which prints
//! its seed and accepts a given one.
//!
//! Environment: `FERMATA_EXTENSION` (path of `fermata.so`; default `build/fermata.so`), `FERMATA_COMMAND` (path of
//! `fermata`; default `build/fermata`), `FERMATA_PHP` (the PHP binary; default `php`), `FERMATA_IO` (the backend
//! under test; default `epoll`), `FERMATA_TEST_SEED`, `FERMATA_TEST_DEADLINE_S`.

#![forbid(unsafe_code)]

mod callgrind;
mod client;
mod directory;
mod generated;
pub mod install;
mod listening;
mod log;
mod log_server;
mod mutation;
mod nats;
mod nats_cluster;
mod php;
mod ports;
mod process;
mod random;
mod redis;
mod redis_cluster;
mod relay;
mod response;
mod sentences;
mod server;
pub mod sse;
mod wait;
pub mod websocket;

pub use callgrind::instructions;
pub use client::{Connection, End, ReadError, Target, reset_on_close};
pub use directory::Directory;
pub use generated::generated;
pub use listening::Listening;
pub use log::{Line, Log};
pub use log_server::LogServer;
pub use mutation::run_mutations;
pub use nats::{Nats, ask_nats};
pub use nats_cluster::NatsCluster;
pub use php::{Php, ScriptOutput, command_path, extension_path, workspace_root};
pub use ports::free_port;
pub use process::{Signal, is_running, send_signal};
pub use random::Random;
pub use redis::{Redis, Sentinel};
pub use redis_cluster::RedisCluster;
pub use relay::Relay;
pub use response::{Chunked, Framing, Head, Response, parse_head};
pub use sentences::sentences;
pub use server::{Builder, Exited, Server};
pub use wait::{deadline, holds_until, wait_until};
