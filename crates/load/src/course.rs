//! Plan of a run: the processes to start, and the steps with held clients.

use crate::clock::Clock;
use crate::error::Error;
use crate::groups::GroupSizes;
use crate::link::Link;
use crate::report::Rates;

/// Role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Works independently until it is done.
    Exchanger,
    /// Holds clients.
    Receiver,
    /// Publishes between the start and stop commands.
    Publisher,
}

/// Work of a process.
pub(crate) type Work = Box<dyn FnOnce(Clock, &mut Link) -> Result<(), Error>>;

/// A process to start.
pub(crate) struct Job {
    pub role: Role,
    pub work: Work,
}

/// A step of a run with receivers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub name: String,
    pub hold_us: u64,
    /// Publishing rates during the step.
    pub rates: Rates,
}

/// Course of a run with receivers after all clients are connected.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    /// Steps in order. Each starts when the messages of the previous step have arrived.
    pub steps: Vec<Step>,
    /// Maximum time to wait for published messages at the end.
    pub settle_us: u64,
    pub sizes: GroupSizes,
}

impl Course {
    /// Course of a run without receivers.
    pub const NONE: Self = Self {
        steps: Vec::new(),
        settle_us: 0,
        sizes: GroupSizes {
            clients: 0,
            groups: 0,
        },
    };
}
