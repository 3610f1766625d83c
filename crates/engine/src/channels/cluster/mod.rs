//! Channels across machines: workers publish to an outbox, and a bridge process connects outbox and
//! ring to a shared log.
//!
//! A worker appends to the outbox, and its publisher waits until the log has acknowledged the
//! record. So a completed publish is in the log. Many records may be in flight at the same time.
//! The bridge process reads the log in order and appends to the ring, from which workers serve
//! clients as without a cluster. The protocol state machine is `fermata_cluster::Bridge`; this
//! module has its sockets, memory and process.

mod access;
mod bridge;
mod direct;
mod facts;
mod figures;
mod history;
mod identity;
mod memory;
mod once;
mod outbox;
mod past;
mod pending;
mod presence;
mod state;

pub(crate) use bridge::Process;
pub use figures::ClusterFigures;
pub use history::{History, HistoryError, HistoryReader};
pub(crate) use identity::new_identity;
pub use memory::ClusterError;
pub(crate) use memory::{Cluster, Outbox};
pub use outbox::{Ack, Publishing};
pub use pending::Publisher;
