//! A polling session of SockJS.

use fermata_proto::response_reader::ResponseReader;
use fermata_proto::ws::client::Client;
use fermata_sockjs::queue::{Asker, Queue};

use crate::client::source::Source;
use crate::upstream::response::Head;

/// A session.
pub(crate) struct Session {
    pub(crate) name: Name,
    /// The handshake, until it is made.
    pub(crate) source: Option<Source>,
    pub(crate) wire: u64,
    pub(crate) stage: Stage,
    pub(crate) can_read: bool,
    /// What the WebSocket has not taken.
    pub(crate) out: Vec<u8>,
    pub(crate) queue: Queue,
    /// The request whose messages are in there.
    pub(crate) sender: Option<Asker>,
}

/// How far its WebSocket is.
pub(crate) enum Stage {
    Opening {
        reader: ResponseReader,
        refusal: Option<(Head, Vec<u8>)>,
    },
    Open(Box<Client>),
    Ended,
}

/// Whether a session stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Goes,
    Over,
}

/// What a session is found by: host, base path, and the client's own name for it.
pub(crate) type Name = (String, String, Vec<u8>);
