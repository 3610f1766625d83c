//! State of SockJS sessions of browsers without WebSockets.

pub(crate) mod reply;
pub(crate) mod session;
pub(crate) mod text;
pub(crate) mod workers;

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use crate::client::source::{Source, Table};
use crate::pushpin::sockjs::session::{Name, Session};
use crate::settings::Settings;
use fermata_engine::RequestId;

/// A worker's SockJS state.
pub(crate) struct SockJs {
    /// URL of the library for the iframe page. Empty if there is no page.
    pub(crate) url: String,
    pub heartbeat_ms: u64,
    pub(crate) linger_ms: u64,
    pub(crate) sessions_max: usize,
    pub(crate) queue_bytes_max: usize,
    /// Bytes queued in all sessions.
    pub(crate) queued: usize,
    /// True if a WebSocket of this worker has or had SockJS framing.
    pub has_framed: bool,
    pub(crate) sessions: HashMap<u64, Box<Session>>,
    pub(crate) by_name: HashMap<Name, u64>,
    pub(crate) last: u64,
    /// Session of each waiting request.
    pub(crate) asking: HashMap<RequestId, u64>,
    /// Socket paths of the other workers, and routes to them.
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) routes: HashMap<usize, Rc<Table>>,
}

impl SockJs {
    /// Returns the number of sessions of this worker.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    pub fn new(settings: &Settings, paths: &[PathBuf]) -> Self {
        Self {
            url: settings.sockjs_url.clone(),
            heartbeat_ms: settings.sockjs_heartbeat_ms,
            linger_ms: settings.sockjs_linger_ms,
            sessions_max: settings.sockjs_sessions_max,
            queue_bytes_max: settings.sockjs_queue_bytes_max,
            queued: 0,
            has_framed: false,
            sessions: HashMap::new(),
            by_name: HashMap::new(),
            last: 0,
            asking: HashMap::new(),
            paths: paths.to_vec(),
            routes: HashMap::new(),
        }
    }
}

/// Returns the length of the path's SockJS prefix; `None` if the path has no such prefix.
pub(crate) fn base_bytes(source: &Source) -> Option<usize> {
    let base = base(source)?;
    let rest = source.request.path().strip_prefix(base.as_bytes())?;
    matches!(rest, [] | [b'/', ..]).then_some(base.len())
}

pub(crate) fn base(source: &Source) -> Option<&str> {
    let base = source.rule()?.sockjs.as_deref()?;
    Some(base.trim_end_matches('/'))
}
