//! What a worker remembers of SockJS.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hasher;
use std::path::{Path, PathBuf};

use fermata_engine::{RequestId, WireId};
use fermata_io::Deadline;
use fermata_proto::response_reader::ResponseReader;
use fermata_proto::ws::client::Client;
use fermata_sockjs::queue::Queue;

use crate::settings::OwnSettings;

/// Numbers of handlers: requests that another worker passes on, and handshakes of sessions.
pub(crate) const HANDLER_WORKERS: u32 = 0x4000_0002;
pub(crate) const HANDLER_SESSIONS: u32 = 0x4000_0003;

/// What a session is found by: its application's key, and its client's own name for it.
pub(super) type Name = (String, String);

/// What a wire or a request is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Of a session, by its number.
    Session(u64),
    /// Of a request that is passed on, by itself.
    Passed(RequestId),
}

/// A session.
pub(super) struct Session {
    pub name: Name,
    /// What its client has said in its first request: the version of the protocol, and its page's origin.
    pub protocol: Option<String>,
    pub origin: Option<String>,
    /// Its WebSocket; `None`: it has ended.
    pub wire: Option<WireId>,
    /// The answer to its handshake, as far as it was read; `None`: it was made.
    pub handshake: Option<Vec<u8>>,
    pub client: Client,
    pub can_read: bool,
    /// What the WebSocket has not taken.
    pub out: Vec<u8>,
    pub queue: Queue<RequestId>,
    pub flow: Option<Flow>,
    /// When it is looked at, as it stands in [`SockJs::due`].
    pub due_ms: u64,
}

/// What of a stream its client has not taken yet.
pub(super) struct Flow {
    pub handle: RequestId,
    pub rest: Vec<u8>,
    pub is_last: bool,
}

/// A request that another worker answers.
pub(super) struct Passed {
    pub wire: WireId,
    pub out: Vec<u8>,
    pub reader: ResponseReader,
    pub can_read: bool,
    /// The answer is passed on as it comes.
    pub is_stream: bool,
    pub answer: Answer,
}

/// What came of its answer.
pub(super) enum Answer {
    /// The status is known when the head is there; it is answered when it is whole.
    Whole { status: u16, body: Vec<u8> },
    /// Passed on as it comes, when the client has taken what came before.
    Pieces {
        rest: Vec<u8>,
        /// The client has its head.
        is_begun: bool,
        /// The client has taken what it was given.
        is_ready: bool,
        has_ended: bool,
    },
}

/// All of it.
pub(crate) struct SockJs {
    pub(super) sessions_max: usize,
    pub(super) heartbeat_ms: u64,
    pub(super) linger_ms: u64,
    /// The route of sessions' WebSockets.
    pub(super) websocket: u16,
    /// The number of this worker, and where all are; empty: there are no others.
    own: usize,
    paths: Vec<PathBuf>,
    pub(super) sessions: HashMap<u64, Box<Session>>,
    pub(super) by_name: HashMap<Name, u64>,
    pub(super) last: u64,
    /// By the client's request.
    pub(super) passed: HashMap<RequestId, Box<Passed>>,
    pub(super) wires: HashMap<WireId, Use>,
    /// Requests that wait or are answered by streams.
    pub(super) requests: HashMap<RequestId, Use>,
    /// When which session is to be looked at.
    pub(super) due: BTreeSet<(u64, u64)>,
}

impl SockJs {
    pub(super) fn new(
        settings: &OwnSettings,
        websocket: u16,
        own: usize,
        paths: Vec<PathBuf>,
    ) -> SockJs {
        SockJs {
            sessions_max: settings.sockjs_sessions_max,
            heartbeat_ms: settings.sockjs_heartbeat_s * 1000,
            linger_ms: settings.sockjs_linger_s * 1000,
            websocket,
            own,
            paths,
            sessions: HashMap::new(),
            by_name: HashMap::new(),
            last: 0,
            passed: HashMap::new(),
            wires: HashMap::new(),
            requests: HashMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// When a session is to be looked at.
    pub(crate) fn due(&self) -> Deadline {
        let first = self.due.first();
        first.map_or(Deadline::NEVER, |(at_ms, _)| Deadline::at(*at_ms))
    }

    /// Where the worker is that has a session of this name; `None`: it is this one.
    pub(super) fn owner_of(&self, session: &str) -> Option<&Path> {
        if self.paths.is_empty() {
            return None;
        }
        // The same for the same bytes in every worker.
        let mut hasher = DefaultHasher::new();
        hasher.write(session.as_bytes());
        let owner = (hasher.finish() % self.paths.len() as u64) as usize;
        (owner != self.own).then(|| self.paths[owner].as_path())
    }

    /// Has a session looked at when its queue wants it.
    pub(super) fn watch(&mut self, id: u64) {
        // It may have ended by what was done with it.
        if let Some(session) = self.sessions.get_mut(&id) {
            let due_ms = session.queue.due_ms();
            if due_ms != session.due_ms {
                self.due.remove(&(session.due_ms, id));
                self.due.insert((due_ms, id));
                session.due_ms = due_ms;
            }
        }
    }
}
