//! Statistics of a running server.
//!
//! A worker counts in private fields (`Counts`). It copies them to shared memory (`Shared`) at the
//! end of a turn if the last copy is older than `REPORT_MS`; after its last turn it wakes once to
//! copy the rest. So counting costs an addition, counters have at most that age, and an idle server
//! sleeps. Any worker can report for all of them (`Snapshot`).

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

/// Returns the statistics of all shared tables, in the order of their creation.
pub type Tables = dyn Fn() -> Vec<TableFigures>;

/// Appends further metrics to Prometheus text.
pub type MoreMetrics = dyn Fn(&Snapshot, &mut String);
