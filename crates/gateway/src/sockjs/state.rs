//! SockJS state of a worker.

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

/// Handler numbers of requests that another worker forwards, and of sessions' handshakes.
pub(crate) const HANDLER_WORKERS: u32 = 0x4000_0002;
pub(crate) const HANDLER_SESSIONS: u32 = 0x4000_0003;

/// Name of a session: the application's key, and the name that the client has chosen.
pub(super) type Name = (String, String);

/// Owner of a wire or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A session, by its number.
    Session(u64),
    /// A forwarded request, by its id.
    Passed(RequestId),
}

/// A client without WebSockets.
pub(super) struct Session {
    pub name: Name,
    /// The protocol version in the first request.
    pub protocol: Option<String>,
    /// Origin of the page, from the first request that contains an origin. Requests of other origins are refused.
    pub origin: Option<String>,
    /// WebSocket of the session; `None` = closed.
    pub wire: Option<WireId>,
    /// The part of the handshake's response read so far; `None` = the handshake is complete.
    pub handshake: Option<Vec<u8>>,
    pub client: Client,
    pub can_read: bool,
    /// Bytes that the WebSocket has not accepted.
    pub out: Vec<u8>,
    pub queue: Queue<RequestId>,
    /// Bytes of the queue as counted in [`SockJs::queued`].
    pub counted: usize,
    pub flow: Option<Flow>,
    /// Time of the next check, as in [`SockJs::due`].
    pub due_ms: u64,
}

/// The unsent rest of a stream's piece.
pub(super) struct Flow {
    pub handle: RequestId,
    pub rest: Vec<u8>,
    pub is_last: bool,
}

/// A request that is forwarded to another worker.
pub(super) struct Passed {
    pub wire: WireId,
    pub out: Vec<u8>,
    pub reader: ResponseReader,
    pub can_read: bool,
    /// The response is a stream.
    pub is_stream: bool,
    pub answer: Answer,
}

/// State of the worker's response.
pub(super) enum Answer {
    /// Collected until the response is complete. `status` is valid once the head has arrived.
    Whole { status: u16, body: Vec<u8> },
    /// The response is forwarded in pieces. Each piece is sent after the client has received the previous piece.
    Pieces {
        rest: Vec<u8>,
        /// The head was sent to the client.
        is_begun: bool,
        /// The client has received the previous piece.
        is_ready: bool,
        has_ended: bool,
    },
}

/// All sessions and forwarded requests of a worker.
pub(crate) struct SockJs {
    pub(super) sessions_max: usize,
    pub(super) queue_bytes_max: usize,
    /// Sum of the bytes queued in all sessions.
    pub(super) queued: usize,
    pub(super) heartbeat_ms: u64,
    pub(super) linger_ms: u64,
    /// The route of sessions' WebSockets.
    pub(super) websocket: u16,
    /// Index of this worker, and the socket paths of all workers; no paths if there is only one worker.
    own: usize,
    paths: Vec<PathBuf>,
    pub(super) sessions: HashMap<u64, Box<Session>>,
    pub(super) by_name: HashMap<Name, u64>,
    pub(super) last: u64,
    /// Forwarded requests, by the client's request.
    pub(super) passed: HashMap<RequestId, Box<Passed>>,
    pub(super) wires: HashMap<WireId, Use>,
    /// Requests that wait or are streamed.
    pub(super) requests: HashMap<RequestId, Use>,
    /// Sessions by the time of their next check.
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
            queue_bytes_max: settings.sockjs_queue_bytes_max,
            queued: 0,
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

    /// Returns the time of the next check of any session.
    pub(crate) fn due(&self) -> Deadline {
        let first = self.due.first();
        first.map_or(Deadline::NEVER, |(at_ms, _)| Deadline::at(*at_ms))
    }

    /// Returns the socket of the worker that owns a session of this name; `None` if this worker owns it.
    pub(super) fn owner_of(&self, session: &str) -> Option<&Path> {
        if self.paths.is_empty() {
            return None;
        }
        // The hash has fixed keys, so all workers compute the same result.
        let mut hasher = DefaultHasher::new();
        hasher.write(session.as_bytes());
        let owner = (hasher.finish() % self.paths.len() as u64) as usize;
        (owner != self.own).then(|| self.paths[owner].as_path())
    }

    /// Schedules a session's check for the time that its queue requires.
    pub(super) fn watch(&mut self, id: u64) {
        // The preceding action may have ended the session.
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
