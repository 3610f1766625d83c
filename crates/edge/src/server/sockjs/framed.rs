//! WebSockets with SockJS framing: a frame is a JSON array of messages, or a letter for a control frame.

use fermata_engine::{RequestId, SocketId};
use fermata_grip::item::MessageKind;
use fermata_sockjs::frame;

use crate::client::clients::Clients;
use crate::client::socket::close_socket;
use crate::client::source::Engine;

/// Close code for a client with malformed frames.
const BROKEN: u16 = 1002;

/// Decodes the messages of a client's frame. Closes the socket if the frame is malformed.
pub(in crate::server) fn read_framed(
    worker: &mut Engine,
    handle: RequestId,
    frame: &[u8],
) -> Vec<String> {
    // SockJS ignores empty frames.
    if frame.is_empty() {
        return Vec::new();
    }
    frame::messages(frame).unwrap_or_else(|| {
        close_socket(worker, handle, BROKEN, b"Broken framing.");
        Vec::new()
    })
}

/// Sends a message of the origin or a publisher. Pings and pongs are dropped, because SockJS clients cannot receive them.
pub(in crate::server) fn send_framed(
    worker: &mut Engine,
    handle: RequestId,
    kind: MessageKind,
    content: &[u8],
) {
    if matches!(kind, MessageKind::Text | MessageKind::Binary) {
        let message = String::from_utf8_lossy(content).into_owned();
        let frame = frame::array(&[message]);
        // An error only means that the client has left.
        let _ = worker.send(SocketId::of(handle), false, frame.as_bytes());
    }
}

impl Clients {
    /// Returns true if a WebSocket uses SockJS framing.
    pub(in crate::server) fn is_framed(&self, handle: RequestId) -> bool {
        let session = self.sessions.get(&handle);
        session.is_some_and(|it| it.source.is_sockjs)
    }
}
