//! Publications that wait for the cluster's log. A [`Post`] holds the events of one request.

use std::collections::{HashMap, VecDeque};

use fermata_engine::{PublishFailure, PublishId, RequestId};
use fermata_pusher::api::Event;

/// Headers of a response.
pub(crate) type Headers = Vec<(Vec<u8>, Vec<u8>)>;

/// One event of a channel.
pub(crate) struct Publication {
    /// Ring name of the channel.
    pub channel: String,
    pub name: Option<String>,
    pub data: String,
    /// The engine's id of a socket that must not receive the event. Empty means no such socket.
    pub except: String,
    /// True if the request fails when this event cannot be published.
    pub is_essential: bool,
}

/// The response to send when a post is complete.
pub(crate) enum Reply {
    /// No client waits for the result.
    Nothing,
    /// Events of an application's backend.
    Events {
        request: RequestId,
        /// Index of the application in the settings.
        app: usize,
        events: Vec<Event>,
        is_batch: bool,
    },
    /// An update of Mercure.
    Update {
        request: RequestId,
        /// The id that the publisher chose.
        given: Option<String>,
        headers: Headers,
    },
}

impl Reply {
    /// Returns the request that waits for the response.
    pub fn request(&self) -> Option<RequestId> {
        match self {
            Reply::Nothing => None,
            Reply::Events { request, .. } | Reply::Update { request, .. } => Some(*request),
        }
    }
}

/// The events of one request.
pub(crate) struct Post {
    pub reply: Reply,
    /// Events that were not passed to the engine yet.
    pub left: VecDeque<Publication>,
    /// Number of events that were passed to the engine and that the log has not acknowledged.
    pub pending: usize,
    /// Time at which the request arrived.
    pub began_ms: u64,
    /// True if the engine treats the request as waiting.
    pub is_deferred: bool,
    /// Id of the first event.
    pub id: Option<String>,
    pub failure: Option<PublishFailure>,
}

/// A record that the log has not acknowledged.
pub(crate) struct PendingRecord {
    pub post: u64,
    pub record: PublishId,
    pub is_first: bool,
    pub is_essential: bool,
}

/// All posts of one worker.
#[derive(Default)]
pub(crate) struct Posts {
    pub posts: HashMap<u64, Post>,
    /// Records by the number under which this worker published them.
    pub pending_records: HashMap<u64, PendingRecord>,
    /// Last number of a post or record.
    pub last: u64,
    /// Time of the next check for records without acknowledgement and for events that found no room.
    pub due_ms: Option<u64>,
}

impl Posts {
    /// Returns the time of the next check.
    pub fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    /// Returns an unused number for a post or record.
    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Schedules a check at `at_ms`, unless an earlier check is scheduled.
    pub fn look_at(&mut self, at_ms: u64) {
        self.due_ms = Some(self.due_ms.map_or(at_ms, |due_ms| due_ms.min(at_ms)));
    }
}
