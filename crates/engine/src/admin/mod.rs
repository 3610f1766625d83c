//! For whoever runs the server: the control socket, figures, metrics, the access log, handlers that hold the loop.

pub(crate) mod blocking;
pub(crate) mod control;
pub(crate) mod metrics;
pub(crate) mod publisher;
pub mod stats;
pub(crate) mod trace;
