//! Held clients that verify published messages: the scenarios `sse`, `hold` and `ws broadcast`.

pub(crate) mod client;
pub(crate) mod publisher;
pub(crate) mod receiver;
mod sse;
