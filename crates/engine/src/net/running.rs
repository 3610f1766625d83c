//! Whether new requests are taken.

/// Why the worker takes no new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Running {
    /// It does take them.
    Serving,
    /// Requests that have begun are finished, then it stops.
    Draining { until_ms: u64 },
    /// As draining, but PHP cannot run any more: only what is already written goes out.
    Retired { until_ms: u64 },
}
