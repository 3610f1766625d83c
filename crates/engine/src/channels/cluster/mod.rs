//! Channels over many machines: an outbox to which workers publish, and the process that bridges it and the ring to a log.
//!
//! A worker appends to the outbox, and its publisher waits until the log has acknowledged the record, so a publish that has
//! returned is in the log. Records of many handlers are on their way at the same time. The bridge process reads the log in its order and appends to the ring, from which workers serve clients as ever. The
//! state machine is `fermata_cluster::Bridge`; here are its sockets, its memory and its life.

mod access;
mod bridge;
mod direct;
mod figures;
mod history;
mod identity;
mod memory;
mod once;
mod outbox;
mod past;
mod presence;

pub(crate) use bridge::Process;
pub use figures::ClusterFigures;
pub use history::{History, HistoryError, HistoryReader};
pub(crate) use identity::new_identity;
pub(crate) use memory::{Cluster, Outbox};
pub use memory::{ClusterError, Publisher};
pub use outbox::{Ack, Publishing};
