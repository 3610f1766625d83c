//! Requests and their answers: routing, bodies, files, and what a request says of its client.

pub(crate) mod body;
pub mod files;
pub(crate) mod forwarded;
pub(crate) mod request;
pub(crate) mod respond;
pub mod router;
