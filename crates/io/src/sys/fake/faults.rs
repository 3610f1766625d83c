//! What the network does wrong, and how often it was called.

/// How often the network misbehaves, each in thousandths of the calls it concerns.
///
/// All but `reset` and `abort` are harmless: a correct engine delivers the same bytes under them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// `recv` returns fewer bytes than are there; the rest is reported again.
    pub short_read: u32,
    /// `send` takes only a part; room is reported again.
    pub short_write: u32,
    /// `recv`, `send` or `accept` would block although something was reported.
    pub would_block: u32,
    /// `wait` reports a stream as ready for everything although nothing happened.
    pub spurious: u32,
    /// `wait` reports events in random order.
    pub shuffle: bool,
    /// `recv` or `send` finds the connection reset.
    pub reset: u32,
    /// `accept` fails because the connection was aborted in the queue.
    pub abort: u32,
}

impl Faults {
    /// A perfect network.
    pub const NONE: Faults = Faults {
        short_read: 0,
        short_write: 0,
        would_block: 0,
        spurious: 0,
        shuffle: false,
        reset: 0,
        abort: 0,
    };

    /// Every harmless fault, often.
    pub const HARMLESS: Faults = Faults {
        short_read: 300,
        short_write: 300,
        would_block: 200,
        spurious: 100,
        shuffle: true,
        ..Faults::NONE
    };

    /// Harmless ones, and connections that break.
    pub const HOSTILE: Faults = Faults {
        reset: 10,
        abort: 50,
        ..Faults::HARMLESS
    };
}

/// How often the driver was called: the system calls a real one would have made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// Calls of `wait`.
    pub waits: u64,
    /// Calls of `wait` that found nothing to report.
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
