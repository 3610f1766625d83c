//! What an embedder is told.

use crate::id::{RequestId, SocketId};

/// What `next_event` hands out. What an event carries is one number, so that it is handed on in two registers.
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
    /// The client of this request has left while its handler waits.
    Gone(RequestId),
    /// The client of this WebSocket has.
    SocketGone(SocketId),
    /// A client that was held by `Worker::hold_relayed` has left, by the request it was held with.
    HeldGone(RequestId),
    /// More of this request's body can be read, or the rest of it cannot be had.
    Body(RequestId),
    /// It is the time that was given to `Waiting::wake_at`, or `FileJobs::next_file_job` has something to say.
    Wake,
    /// `Waiting::ready` is a descriptor that was given to `Worker::watch_descriptor`.
    Ready,
    /// `Waiting::wire` can be read from or written to.
    Wire,
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

/// A client of the embedder's, by what it has become.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_handed_on_in_two_registers() {
        assert_eq!(size_of::<Option<Event>>(), 2 * size_of::<u64>());
    }
}
