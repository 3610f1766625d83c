//! What a run is: the processes to start, and how it goes on with clients that are held.

use crate::clock::Clock;
use crate::error::Error;
use crate::groups::GroupSizes;
use crate::link::Link;
use crate::report::Rates;

/// What a process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Works by itself to the end.
    Exchanger,
    /// Holds clients.
    Receiver,
    /// Publishes between the commands to begin and to stop.
    Publisher,
}

/// What a process does.
pub(crate) type Work = Box<dyn FnOnce(Clock, &mut Link) -> Result<(), Error>>;

/// A process to start.
pub(crate) struct Job {
    pub role: Role,
    pub work: Work,
}

/// A part of a run with receivers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub name: String,
    pub hold_us: u64,
    /// What is published meanwhile.
    pub rates: Rates,
}

/// How a run with receivers goes on after everybody is connected.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    /// What follows one after the other, each when the messages of the one before have arrived.
    pub steps: Vec<Step>,
    /// How long to wait for what was published and has not come.
    pub settle_us: u64,
    pub sizes: GroupSizes,
}

impl Course {
    /// Of a run without receivers.
    pub const NONE: Self = Self {
        steps: Vec::new(),
        settle_us: 0,
        sizes: GroupSizes {
            clients: 0,
            groups: 0,
        },
    };
}
