//! The Pusher protocol, version 7, as state machines: what a client's WebSocket says, and what applications ask over HTTP.
//!
//! Nothing here knows a socket, a clock or a thread; time is an argument, and bytes go in and come out. Input is hostile:
//! every bound is a field of [`Limits`].
//!
//! - [`App`], [`Limits`]: an application with its key, secret and bounds.
//! - [`channel`], [`socket_id`]: the names of channels and of connections.
//! - [`connection`]: one client's WebSocket: messages in, what is to be done out.
//! - [`frame`]: the messages a server sends.
//! - [`auth`]: signatures of subscriptions, of users and of HTTP requests.
//! - [`api`]: the HTTP API: requests in, what is asked out.
//! - [`webhook`]: what an application is told of its channels.
//!
//! # Decisions and their price
//!
//! **A message on the ring is neutral, a frame is made from it once.** The ring has an event's name and data under the
//! channel's name; [`frame::event`] makes one WebSocket message of them for all subscribers of a worker, so other
//! protocols may read the same channel. Price: a client event on a presence channel has to carry its sender's user in
//! the name ([`frame::RingName`]), since the ring has no field for it.

#![forbid(unsafe_code)]

pub mod api;
mod app;
pub mod auth;
pub mod channel;
pub mod connection;
pub mod frame;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod socket_id;
mod target;
pub mod webhook;

pub use app::{App, AppError, ClientEvents, Limits, Resume, Secret};
