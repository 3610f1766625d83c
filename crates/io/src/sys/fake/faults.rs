//! Faults of the fake network, and counters of calls.

/// Frequency of faults, each in thousandths of the affected calls.
///
/// All faults except `reset` and `abort` are harmless: a correct engine delivers the same bytes despite them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// `recv` returns fewer bytes than available; the rest is reported again.
    pub short_read: u32,
    /// `send` accepts only a part; space is reported again.
    pub short_write: u32,
    /// `recv`, `send` or `accept` would block although readiness was reported.
    pub would_block: u32,
    /// `wait` reports a stream as ready for all operations although nothing happened.
    pub spurious: u32,
    /// `wait` reports events in random order.
    pub shuffle: bool,
    /// `recv` or `send` fails because the connection was reset.
    pub reset: u32,
    /// `accept` fails because the connection was aborted in the queue.
    pub abort: u32,
}

impl Faults {
    /// No faults.
    pub const NONE: Faults = Faults {
        short_read: 0,
        short_write: 0,
        would_block: 0,
        spurious: 0,
        shuffle: false,
        reset: 0,
        abort: 0,
    };

    /// Every harmless fault, frequently.
    pub const HARMLESS: Faults = Faults {
        short_read: 300,
        short_write: 300,
        would_block: 200,
        spurious: 100,
        shuffle: true,
        ..Faults::NONE
    };

    /// Harmless faults and broken connections.
    pub const HOSTILE: Faults = Faults {
        reset: 10,
        abort: 50,
        ..Faults::HARMLESS
    };
}

/// Number of calls by kind. A real driver would make a system call for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// Calls of `wait`.
    pub waits: u64,
    /// Calls of `wait` without events.
    pub idle_waits: u64,
    /// Calls of `accept`.
    pub accepts: u64,
    /// Calls of `recv`.
    pub recvs: u64,
    /// Calls of `send` and `send_one`.
    pub sends: u64,
    /// Calls that add or remove a watch.
    pub watches: u64,
}
