//! WebSockets whose messages are wrapped: several in one array, and a letter for what is no message.

use crate::server::sockets::close_socket;
use fermata_grip::item::MessageKind;
use fermata_sockjs::frame;

use crate::client::clients::Clients;
use crate::client::source::Engine;
use crate::server::edge::Edge;

/// The code of a client whose frames are none.
const BROKEN: u16 = 1002;

impl Edge {
    /// Tells a client that its session is open.
    pub(in crate::server) fn open_frames(&mut self, handle: u64) {
        self.pushpin.sockjs.has_framed = true;
        // A client that has left takes nothing, here and below.
        let _ = self.worker.send(handle, false, b"o");
    }

    /// The client has sent an array of messages.
    pub(in crate::server) fn on_framed(&mut self, handle: u64, frame: &[u8]) {
        // Empty ones are to be passed over.
        if frame.is_empty() {
            return;
        }
        let Some(messages) = frame::messages(frame) else {
            return close_socket(&mut self.worker, handle, BROKEN, b"Broken framing.");
        };
        for message in messages {
            self.on_message(handle, true, message.into_bytes());
        }
    }
}

/// Tells a client that it is still connected.
pub(in crate::server) fn beat(worker: &mut Engine, handle: u64) {
    let _ = worker.send(handle, false, b"h");
}

impl Clients {
    /// Whether messages of a WebSocket are wrapped.
    pub(in crate::server) fn is_framed(&self, handle: u64) -> bool {
        let session = self.sessions.get(&handle);
        session.is_some_and(|it| it.source.is_sockjs)
    }

    /// Sends a message of the backend or a publisher. Its pings and pongs mean nothing to the page.
    pub(in crate::server) fn send_framed(
        &self,
        worker: &mut Engine,
        handle: u64,
        kind: MessageKind,
        content: &[u8],
    ) {
        if matches!(kind, MessageKind::Text | MessageKind::Binary) {
            let message = String::from_utf8_lossy(content).into_owned();
            let frame = frame::array(&[message]);
            let _ = worker.send(handle, false, frame.as_bytes());
        }
    }
}
