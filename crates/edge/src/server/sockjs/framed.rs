//! WebSockets whose messages are wrapped: several in one array, and a letter for what is no message.

use fermata_engine::{RequestId, SocketId};
use fermata_grip::item::MessageKind;
use fermata_sockjs::frame;

use crate::client::clients::Clients;
use crate::client::socket::close_socket;
use crate::client::source::Engine;

/// The code of a client whose frames are none.
const BROKEN: u16 = 1002;

/// The messages that a client has sent in an array. What is none costs it its socket.
pub(in crate::server) fn read_framed(
    worker: &mut Engine,
    handle: RequestId,
    frame: &[u8],
) -> Vec<String> {
    // Empty ones are to be passed over.
    if frame.is_empty() {
        return Vec::new();
    }
    frame::messages(frame).unwrap_or_else(|| {
        close_socket(worker, handle, BROKEN, b"Broken framing.");
        Vec::new()
    })
}

/// Sends a message of the backend or a publisher. Its pings and pongs mean nothing to the page.
pub(in crate::server) fn send_framed(
    worker: &mut Engine,
    handle: RequestId,
    kind: MessageKind,
    content: &[u8],
) {
    if matches!(kind, MessageKind::Text | MessageKind::Binary) {
        let message = String::from_utf8_lossy(content).into_owned();
        let frame = frame::array(&[message]);
        // A client that has left takes nothing.
        let _ = worker.send(SocketId::of(handle), false, frame.as_bytes());
    }
}

impl Clients {
    /// Whether messages of a WebSocket are wrapped.
    pub(in crate::server) fn is_framed(&self, handle: RequestId) -> bool {
        let session = self.sessions.get(&handle);
        session.is_some_and(|it| it.source.is_sockjs)
    }
}
