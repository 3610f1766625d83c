//! Responses of handlers and of the server itself: from memory, files and streams.

pub(crate) mod answer;
pub(crate) mod choose;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod interim;
pub(crate) mod outgoing;
pub(crate) mod pushed;
pub(crate) mod reason;
pub(crate) mod refuse;
pub(crate) mod sending;
pub(crate) mod stream;
pub(crate) mod streams;
pub(crate) mod trailers;
pub(crate) mod tree;

/// The request is not open any more: its client has disconnected, or it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request is gone: its client has left or it has been answered")]
pub struct Gone;
