//! Whether new requests are taken.

use fermata_io::Deadline;

/// Why the worker takes no new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// It does take them.
    Serving,
    /// Requests that have begun are finished, then it stops.
    Draining { until: Deadline },
    /// As draining, but PHP cannot run any more: only what is already written goes out.
    Retired { until: Deadline },
}
