//! What an embedder is told.

use fermata_io::watch::Ready;

use crate::embed::wires::WireEvent;
use crate::id::{RequestId, SocketId};

/// What `next_event` hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `Worker::request` is to be answered.
    Request,
    /// `Worker::request` is a WebSocket handshake, to be answered by `Worker::accept_upgrade` or like
    /// a request.
    Upgrade,
    /// `Worker::socket_event` is a socket that is open.
    Open,
    /// `Worker::socket_event` has a message.
    Message,
    /// `Worker::socket_event` has what a client pings with: `Net::send_control` answers. Of routes that ask for it.
    Ping,
    /// The same of a pong.
    Pong,
    /// `Worker::socket_event` is a socket that has ended.
    Close,
    /// A client has left while its handler waits.
    Gone(Left),
    /// More of this request's body can be read, or the rest of it cannot be had.
    Body(RequestId),
    /// It is the time that was given to `Waiting::wake_at`, or `FileJobs::next_file_job` has something to say.
    Wake,
    /// A descriptor that was given to `Worker::watch_descriptor`.
    Ready(Ready),
    /// A wire can be read from or written to.
    Wire(WireEvent),
    /// `Waiting::items` has what was published to a client of the embedder's.
    Items,
    /// `Waiting::peer_message` is what another worker, of this server or of another of the cluster, has sent to all of them.
    PeerMessage,
    /// The stream that answers this request, by `Http::stream_handler`, wants its next piece: `write_stream`, `end_stream` or
    /// `fail_stream`.
    Stream(RequestId),
    /// It has ended before its end: its client has left.
    StreamEnd(RequestId),
    /// The worker has stopped: nothing is left to serve.
    Stop,
}

/// What is handed out as `Event::Gone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The client of this request.
    Request(RequestId),
    /// The client of this WebSocket.
    Socket(SocketId),
    /// A client that was held by `Worker::hold_relayed`, by the request it was held with.
    Held(RequestId),
}

impl Left {
    /// The request that the client came with; a WebSocket's is its handshake.
    pub fn request(self) -> RequestId {
        match self {
            Left::Request(request) | Left::Held(request) => request,
            Left::Socket(socket) => socket.handshake(),
        }
    }
}
