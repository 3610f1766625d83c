//! The running state of a worker.

use fermata_io::Deadline;

/// The running state of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// The worker accepts requests.
    Serving,
    /// The worker completes started requests, then stops.
    Draining { until: Deadline },
    /// Draining after PHP has become unusable: the worker only sends output that is already
    /// written.
    Retired { until: Deadline },
}
