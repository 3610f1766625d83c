//! For whoever runs the server: the control socket, figures, metrics, the access log, spans, handlers that hold the loop.

pub(crate) mod blocking;
pub(crate) mod control;
pub(crate) mod json;
pub(crate) mod metrics;
pub(crate) mod otlp;
pub(crate) mod publisher;
pub mod stats;
pub(crate) mod trace;
