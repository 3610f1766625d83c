//! What parts have found is to be done: the edge's turn does it in this order, when they are through.

use std::collections::VecDeque;

use fermata_engine::RequestId;

use crate::client::source::{Asker, Owner, Source};
use crate::upstream::talk::Purpose;

/// What is to be done in this turn.
pub(super) enum Task {
    /// An origin is asked.
    Ask(Ask),
    /// The same for a client's request, unless an equal one is being asked already.
    Share(RequestId, Source),
    /// A response is not waited for any longer.
    Abandon(Asker),
    /// The items of a client go on, as far as no server of a filter has to be waited for.
    Filter(RequestId),
    /// Requests of filters are over: as many clients ask as may.
    FilterTurns,
}

/// A request to an origin.
pub(super) struct Ask {
    pub owner: Owner,
    pub source: Source,
    pub last_ids: Vec<(Vec<u8>, Vec<u8>)>,
    pub purpose: Purpose,
    /// Until when it may be asked.
    pub deadline_ms: u64,
}

impl Ask {
    /// Asks for a response.
    pub fn new(owner: Owner, source: Source) -> Self {
        Self {
            owner,
            source,
            last_ids: Vec::new(),
            purpose: Purpose::Plain,
            deadline_ms: u64::MAX,
        }
    }

    /// Tells the origin what the client has had.
    pub fn behind(self, last_ids: Vec<(Vec<u8>, Vec<u8>)>) -> Self {
        Self { last_ids, ..self }
    }
}

/// What is to be done; each is of one client or conversation that had its turn, so there are no more than of these.
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
