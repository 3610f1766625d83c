//! Figures about a running server: what workers count, and how it is read.
//!
//! A worker counts in plain fields of its own (`Counts`) and copies them to shared memory
//! (`Shared`) when a turn ends and the last copy is older than `REPORT_MS`; after its last turn it
//! wakes once more to copy the rest. So counting costs an addition, figures are at most that old,
//! and a sleeping server sleeps. Any worker answers for all of them (`Snapshot`).

mod counts;
mod prometheus;
#[cfg(test)]
mod reference;
mod report;
mod shared;
mod snapshot;
mod table;

pub use report::EdgeOpen;
pub use shared::{BusyChannel, Shared, SlowClient};
pub use snapshot::{Figures, Snapshot, TableFigures, WorkerFigures, fetch};
pub use table::{Counter, Figure, Gauge, Merge, Unit};

pub(crate) use counts::Counts;
pub(crate) use prometheus::CONTENT_TYPE as PROMETHEUS;
pub use report::Reporter;

/// Tells what the tables have that all processes of the server share, in the order in which they were made.
pub type Tables = dyn Fn() -> Vec<TableFigures>;

/// Appends figures to the text for Prometheus.
pub type MoreMetrics = dyn Fn(&Snapshot, &mut String);
