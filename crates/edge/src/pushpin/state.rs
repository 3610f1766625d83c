//! Sessions of an outside service.

use std::collections::HashMap;

use fermata_edge_pushpin::state::{Ids, id::SessionId};

use crate::client::source::Source;
use crate::settings::Settings;

/// What a worker has of the service.
pub(crate) struct State {
    pub(crate) timeout_ms: u64,
    pub(crate) updates: HashMap<SessionId, Ids>,
    pub(crate) alive_ms: u64,
}

/// What was asked, and who waits for it.
pub(crate) enum Question {
    /// How sessions are found in requests like this.
    Rules(u64, Source),
    /// What the session of a request has had.
    LastIds(u64, Source),
    /// A notification, which has no reply to wait for.
    Notify(&'static str),
}

impl Question {
    pub(crate) fn method(&self) -> &'static str {
        match self {
            Self::Rules(..) => "session-detect-rules-get",
            Self::LastIds(..) => "session-get-last-ids",
            Self::Notify(method) => method,
        }
    }

    /// The request that waits.
    pub fn handle(&self) -> Option<u64> {
        match self {
            Self::Rules(handle, _) | Self::LastIds(handle, _) => Some(*handle),
            Self::Notify(_) => None,
        }
    }
}

impl State {
    /// `None`: no service is named.
    pub fn new(settings: &Settings) -> Option<Box<Self>> {
        let is_named = !settings.zmq_state.is_empty();
        is_named.then(|| {
            Box::new(Self {
                timeout_ms: settings.zmq_state_timeout_ms,
                updates: HashMap::new(),
                alive_ms: 0,
            })
        })
    }
}
