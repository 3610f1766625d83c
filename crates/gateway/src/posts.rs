//! What waits for the log of a cluster: a [`Post`] is what one request publishes.

use std::collections::{HashMap, VecDeque};

use fermata_engine::{PublishFailure, PublishId, RequestId};
use fermata_pusher::api::Event;

/// Headers of an answer.
pub(crate) type Headers = Vec<(Vec<u8>, Vec<u8>)>;

/// An event of a channel.
pub(crate) struct Publication {
    /// The channel's name on the ring.
    pub channel: String,
    pub name: Option<String>,
    pub data: String,
    /// The engine's id of a socket that is left out; empty: nobody.
    pub except: String,
    /// Whether the request fails when this is not published.
    pub is_essential: bool,
}

/// What is answered in the end.
pub(crate) enum Reply {
    /// Its end is not awaited.
    Nothing,
    /// Events of an application's backend.
    Events {
        request: RequestId,
        /// The application, by its place in the settings.
        app: usize,
        events: Vec<Event>,
        is_batch: bool,
    },
    /// An update of Mercure.
    Update {
        request: RequestId,
        /// The id that its publisher has given.
        given: Option<String>,
        headers: Headers,
    },
}

impl Reply {
    /// The request that is answered.
    pub fn request(&self) -> Option<RequestId> {
        match self {
            Reply::Nothing => None,
            Reply::Events { request, .. } | Reply::Update { request, .. } => Some(*request),
        }
    }
}

/// What one request publishes.
pub(crate) struct Post {
    pub reply: Reply,
    /// What has not been handed over yet.
    pub left: VecDeque<Publication>,
    /// What was, and is not acknowledged.
    pub pending: usize,
    pub began_ms: u64,
    pub is_deferred: bool,
    /// The id of the first event.
    pub id: Option<String>,
    pub failure: Option<PublishFailure>,
}

/// A record that the log has not acknowledged.
pub(crate) struct Flight {
    pub post: u64,
    pub record: PublishId,
    pub is_first: bool,
    pub is_essential: bool,
}

/// Those of one worker.
#[derive(Default)]
pub(crate) struct Posts {
    pub posts: HashMap<u64, Post>,
    /// By the publisher's number of each.
    pub flights: HashMap<u64, Flight>,
    pub last: u64,
    /// When they are looked at although nothing was acknowledged.
    pub due_ms: Option<u64>,
}

impl Posts {
    /// When they are to be looked at at the latest.
    pub fn due_ms(&self) -> Option<u64> {
        self.due_ms
    }

    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub fn look_at(&mut self, at_ms: u64) {
        self.due_ms = Some(self.due_ms.map_or(at_ms, |due_ms| due_ms.min(at_ms)));
    }
}
