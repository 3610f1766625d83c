//! Monitoring and operation: control socket, counters, metrics, access log, spans, and blocking
//! handlers.

pub(crate) mod blocking;
pub(crate) mod control;
pub(crate) mod json;
pub(crate) mod metrics;
pub(crate) mod otlp;
pub(crate) mod publisher;
pub mod stats;
pub(crate) mod trace;
