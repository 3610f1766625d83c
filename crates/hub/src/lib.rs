//! Channels as logs: the shared-memory ring, presence, and the fan-out of one worker.
//!
//! A publish appends one record to a [`Ring`] in memory that every worker process maps. Each worker reads the ring once
//! with its [`Reader`] and passes the records to its [`Local`] fan-out. `Local` encodes a record once per wire format;
//! each subscriber is a cursor into that encoded log. The same ring serves replays ([`Ring::replay`]) and holds the
//! presence table ([`Ring::join`], [`Ring::leave`], [`Ring::sweep`]).
//!
//! This crate has no sockets, no clock and no wire formats. Wall-clock time is an argument (`unix_ms`), and the
//! caller's [`Encode`] produces the bytes of a format.
//!
//! Any process may be killed at any instruction. Changes of shared memory are ordered such that the next owner of the
//! lock can complete or revert them. Every value read from shared memory is checked before use. Damaged memory leads to
//! an error or a reported gap, never to a panic, an endless loop or a wrong slice.
//!
//! # Inside
//!
//! Four kinds of tests verify these properties:
//!
//! - a kill before every store (`tests/crash.rs`),
//! - a server whose processes are killed at random under a seed (`tests/simulation.rs`),
//! - the atomics in every order of the memory model (`tests/loom.rs`),
//! - 70 workers with 200 publishers (`tests/many.rs`).
//!
//! `tests/cost.rs` counts instructions to verify that the cost of a publish does not depend on idle clients.
//!
//! # Decisions and their price
//!
//! **A channel is a log, a subscriber a cursor.** Slow clients, replay, history and fan-out are one mechanism, and a
//! subscriber costs a few bytes. Price: one ring for all channels, so a busy channel shortens the history of a quiet
//! one.
//!
//! **Shared memory without `unsafe` in hub.** The ring is `AtomicU64` words. Price: payloads are copied word by word,
//! which is slower than `memcpy` and far from being the bottleneck.

#![forbid(unsafe_code)]

mod backlog;
mod consumer;
mod follower;
mod hash;
mod id;
mod layout;
mod local;
mod lock;
mod log;
mod log_index;
mod past;
mod presence;
mod reader;
mod record;
mod replay;
mod ring;
mod sleepers;
mod stream_counts;
#[cfg(test)]
mod tests;
mod words;

pub use backlog::{AHEAD_MS_MAX, Backlog, Missed};
pub use consumer::Consumer;
pub use follower::{Follower, Previous};
pub use hash::ChannelHasher;
pub use id::{ID_BYTES_MAX, IdRef, Ids};
pub use layout::{Config, ConfigError, INFO_BYTES_MAX, Layout, USER_BYTES_MAX, WORKERS_MAX};
pub use local::{
    Direct, Encode, Gathered, Local, LocalConfig, PayloadSpan, SLICES_MAX, SubId, view_channel,
};
pub use lock::{LockError, Owner};
pub use log::{LogBegin, PAST_UNKNOWN};
pub use past::{FromLog, PAST_MS_MAX, Past, PastRange};
pub use presence::{
    Departure, EachMember, EachPresent, Joined, LeaveData, Presence, PresenceError, Present, Swept,
};
pub use reader::{Read, Reader};
pub use record::{CHANNEL_BYTES_MAX, Kind, LogPlace, Message, Record, Seq, Subscriber};
pub use replay::{Replay, ReplayRange};
pub use ring::{HEAD_WORDS, OpenError, PublishError, Ring};
pub use sleepers::Slots;
pub use stream_counts::Traffic;
