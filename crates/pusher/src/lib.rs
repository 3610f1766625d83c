//! The Pusher protocol, version 7, as state machines: clients' WebSockets, and the HTTP API for applications.
//!
//! This crate has no socket, clock or thread. Time is an argument, and functions take and return bytes. Input is untrusted. Every
//! limit is a field of [`Limits`].
//!
//! - [`App`], [`Limits`]: an application with its key, secret and limits.
//! - [`channel`], [`socket_id`]: names of channels and connections.
//! - [`connection`]: one client's WebSocket: messages in, actions out.
//! - [`frame`]: messages of the server.
//! - [`auth`]: signatures of subscriptions, users and HTTP requests.
//! - [`api`]: the HTTP API: requests in, calls out.
//! - [`webhook`]: events of channels for an application's backend.
//!
//! # Decisions and their price
//!
//! **A message on the ring is neutral and encoded once.** The ring holds an event's name and data under the channel's
//! name. [`frame::event`] encodes one WebSocket message for all subscribers of a worker, so other protocols can read
//! the same channel. Price: a client event on a presence channel has its sender's user in its name
//! ([`frame::RingName`]), because the ring has no field for it.

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
