//! Answers: of handlers and of the server itself, from memory, from files and as streams.

pub(crate) mod answer;
pub(crate) mod choose;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod outgoing;
pub(crate) mod pushed;
pub(crate) mod stream;
pub(crate) mod tree;
