//! Held clients that verify what is published to them: the scenarios `sse`, `hold` and `ws broadcast`.

pub(crate) mod client;
pub(crate) mod publisher;
pub(crate) mod receiver;
mod sse;
