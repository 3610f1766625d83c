//! The Mercure protocol, <https://mercure.rocks/spec>, in the version of today's clients (0.x): no socket and no clock here.
//!
//! [`request::read`] tells what a request asks for: to subscribe, to publish, to list subscriptions; or how it is refused.
//! A [`token`] says what its bearer may read and write, by [`selector`]s. An [`update`] is what is published; it is kept as
//! one record with all of its topics. [`audience`] knows which subscribers get which update, [`subscription`] how
//! subscribing itself is told. [`origin`] is what pages of other sites may do.

#![forbid(unsafe_code)]

pub mod audience;
mod form;
pub mod origin;
pub mod request;
pub mod selector;
pub mod subscription;
pub mod token;
pub mod update;

pub use request::{Hub, Outcome, Request};

/// Where the hub is, below the host.
pub const PATH: &str = "/.well-known/mercure";

/// Most topics of an update, and of a subscriber.
pub const TOPICS_MAX: usize = 128;

/// Longest topic or selector, in bytes.
pub const TOPIC_BYTES_MAX: usize = 2048;
