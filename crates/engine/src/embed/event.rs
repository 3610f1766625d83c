//! Events for an embedder.

use crate::id::{ReaderId, RequestId, SocketId};

/// An event returned by `next_event`. It carries one number at most, so that it fits into two
/// registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `Worker::request` needs a response.
    Request,
    /// `Worker::request` is a WebSocket handshake, to be answered with `Worker::accept_upgrade` or
    /// a response.
    Upgrade,
    /// `Worker::socket_event` is a newly opened socket.
    Open,
    /// `Worker::socket_event` has a message.
    Message,
    /// A client's ping, in `Worker::socket_event`, to be answered with `Net::send_control`; on
    /// routes that request pings.
    Ping,
    /// A client's pong, on routes that request pongs.
    Pong,
    /// `Worker::socket_event` is a closed socket.
    Close,
    /// The client of this request disconnected while its handler was waiting.
    Gone(RequestId),
    /// The client of this WebSocket disconnected while its handler was waiting.
    SocketGone(SocketId),
    /// A client held by `Worker::hold_relayed` disconnected. The client is identified by its
    /// request.
    HeldGone(RequestId),
    /// More of this request's body can be read, or reading it failed.
    Body(RequestId),
    /// The time set with `Waiting::wake_at` has come, or `FileJobs::next_file_job` has a result.
    Wake,
    /// `Waiting::ready` is a descriptor passed to `Worker::watch_descriptor`.
    Ready,
    /// `Waiting::wire` is readable or writable.
    Wire,
    /// `Waiting::items` has records for a client of the embedder.
    Items,
    /// `Waiting::peer_message` is a message from another worker of this server or of the cluster.
    PeerMessage,
    /// The channel of this reader may have further events for `Worker::read_next`.
    Read(ReaderId),
    /// The stream that answers this request needs its next piece from `Http::stream_handler`:
    /// `write_stream`, `end_stream` or `fail_stream`.
    Stream(RequestId),
    /// The stream ended early because its client disconnected.
    StreamEnd(RequestId),
    /// The worker has stopped.
    Stop,
}

/// A client of the embedder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The client of this request.
    Request(RequestId),
    /// The client of this WebSocket.
    Socket(SocketId),
    /// A client held by `Worker::hold_relayed`, identified by its request.
    Held(RequestId),
}

impl Left {
    /// Returns the request of the client; for a WebSocket, the request of its handshake.
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
    fn fits_an_event_into_two_registers() {
        assert_eq!(size_of::<Option<Event>>(), 2 * size_of::<u64>());
    }
}
