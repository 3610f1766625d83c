//! Tasks that the handling of an event adds. The edge runs them after the event, in the order in which they were added.

use std::collections::VecDeque;

use fermata_engine::RequestId;

use crate::client::source::{ExchangeKey, Owner, Source};
use crate::upstream::exchange::Purpose;

/// A task of this turn.
pub(super) enum Task {
    /// Start an exchange.
    Ask(Ask),
    /// Start the exchange of a client's request, or share the exchange of an equal request.
    Share(RequestId, Source),
    /// End an exchange whose response is not needed.
    Abandon(ExchangeKey),
    /// Filter and deliver the queued items of a client.
    Filter(RequestId),
    /// Start the filter queries of clients that wait for the limit of concurrent queries.
    FilterTurns,
}

/// An exchange to start.
pub(super) struct Ask {
    pub owner: Owner,
    pub source: Source,
    /// Channels and the ids of the last items that the client has received.
    pub last_ids: Vec<(Vec<u8>, Vec<u8>)>,
    pub purpose: Purpose,
    /// Time at which the exchange fails, on the clock of the engine; `u64::MAX` = never.
    pub deadline_ms: u64,
}

impl Ask {
    /// Creates an exchange for a response.
    pub fn new(owner: Owner, source: Source) -> Self {
        Self {
            owner,
            source,
            last_ids: Vec::new(),
            purpose: Purpose::Plain,
            deadline_ms: u64::MAX,
        }
    }

    /// Adds the last ids that the client received.
    pub fn behind(self, last_ids: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        Self { last_ids, ..self }
    }
}

/// Queue of tasks. Each task belongs to a client or exchange that was served in this turn, which limits the number of tasks.
#[derive(Default)]
pub(super) struct Tasks(VecDeque<Task>);

impl Tasks {
    pub fn add(&mut self, task: Task) {
        self.0.push_back(task);
    }

    pub fn ask(&mut self, ask: Ask) {
        self.add(Task::Ask(ask));
    }

    pub fn next(&mut self) -> Option<Task> {
        self.0.pop_front()
    }
}
