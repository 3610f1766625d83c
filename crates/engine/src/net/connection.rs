//! What the engine remembers of one client.
//!
//! An idle connection is this struct and nothing else: no buffer, no heap block. `inbox`, `out`,
//! `partial` and `body` hold memory only while bytes are in flight. `IDLE_BYTES_MAX` pins the size.

use fermata_hub::SubId;
use fermata_io::buffer::Buffer;
use fermata_io::{Fd, Peer};
use fermata_proto::http1::{Head, Method};

use crate::channels::missed::Resume;
use crate::channels::presence::Presence;
use crate::http::body::Partial;
use crate::http::respond::outgoing::Outgoing;
use crate::net::deadline::Armed;
use crate::websocket::Socket;

/// The size an entry may have; a test fails when a new field breaks the promise of DESIGN section 4.
#[cfg(test)]
const IDLE_BYTES_MAX: usize = 136;

/// Sent bytes at the front of `out` that are not worth removing.
const COMPACT_BYTES_MIN: usize = 16 * 1024;

/// Where a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The public listener: requests go to routes.
    Public,
    /// The control socket: requests are answered by `control`.
    Control,
    /// The listener for metrics and health: requests are answered by `metrics`.
    Metrics,
    /// A listener of the embedder: see `wires`.
    Own,
}

/// What the bytes that arrive next mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// What a proxy says of its client by the PROXY protocol, before anything else.
    Preface,
    /// A request head, or its beginning.
    Head,
    /// The body of the request in `partial`.
    Body,
    /// Nothing is read: a request is with the handler.
    Handling,
    /// A held client has nothing to say; what it sends is dropped, its end of stream is noticed.
    Held,
    /// Frames of a WebSocket.
    WebSocket,
    /// Our side is finished; what arrives is dropped until the peer closes, so that the kernel
    /// does not answer unread bytes with a reset that would destroy our last response.
    Lingering,
}

/// What happens when `out` has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// More responses may follow.
    Open,
    /// Close at once: the request was read to its end.
    Close,
    /// Close after lingering: the peer may still be sending.
    Linger,
}

/// One client.
pub(crate) struct Connection {
    pub fd: Fd,
    pub peer: Peer,
    pub origin: Origin,
    pub reading: Reading,
    pub writing: Writing,
    /// The request in progress asked for HEAD: its response carries no body.
    pub is_head: bool,
    /// The request in progress came as HTTP/1.0.
    pub is_http10: bool,
    /// The request in progress allows another one after it.
    pub keeps_alive: bool,
    /// No request has been read yet.
    pub is_fresh: bool,
    /// A head after the first one has begun, and its deadline is set.
    pub has_begun: bool,
    /// The driver reports its events; set at the end of its first turn.
    pub is_watched: bool,
    /// It has proved to stay, and is counted as such: see `balance`.
    pub is_settled: bool,
    /// Listed in `Worker::dirty`.
    pub is_dirty: bool,
    /// Listed in `Worker::again`.
    pub is_again: bool,
    /// The kernel took less than we had; a writable event will come.
    pub is_blocked: bool,
    /// A request or an answer is on its way longer than one turn; counted in `Reporter::active`.
    pub is_active: bool,
    /// The last read filled the buffer or an event was passed over: the socket may hold more.
    pub has_unread: bool,
    /// The peer has sent its end of stream, which may still be behind unread bytes.
    pub has_hung_up: bool,
    /// The peer's end of stream has been read.
    pub has_ended: bool,
    /// Responses piled up over `queue_bytes_max`, or a file is on its way; parsing goes on when
    /// they are sent.
    pub is_paused: bool,
    /// Its handler waits: its next request or message waits, too, and its leaving is told.
    pub is_deferred: bool,
    /// A held client's policy when the log has moved past it: close instead of a gap event.
    pub closes_on_gap: bool,
    /// Number of the request in progress, part of its handle.
    pub serial: u32,
    /// Head of the chain of subscriptions.
    pub chain: SubId,
    /// Silence after which a held client is sent a comment; 0 = never.
    pub keep_alive_ms: u32,
    /// Sent bytes at the front of `out`. Invariant: `out_sent <= out.len()`.
    pub out_sent: u32,
    /// Bytes for the client that the kernel has not taken yet.
    pub out: Buffer,
    /// Bytes from the client that are not parsed yet.
    pub inbox: Buffer,
    pub partial: Option<Box<Partial>>,
    /// What follows `out`.
    pub body: Option<Box<Outgoing>>,
    pub presence: Option<Box<Presence>>,
    /// What a held client that came back has still to be sent before it is live.
    pub resume: Option<Box<Resume>>,
    /// What it is besides since its 101.
    pub socket: Option<Socket>,
    /// When something is due for this connection; `u64::MAX` = nothing.
    pub deadline_ms: u64,
    /// Due time of its live entry in the wheel.
    /// Invariant: it is not after `deadline_ms` unless nothing is due.
    pub armed: Armed,
}

impl Connection {
    pub fn new(fd: Fd, peer: Peer, origin: Origin) -> Connection {
        Connection {
            fd,
            peer,
            origin,
            reading: Reading::Head,
            writing: Writing::Open,
            is_head: false,
            is_http10: false,
            keeps_alive: true,
            is_fresh: true,
            has_begun: false,
            is_watched: false,
            is_settled: false,
            is_dirty: false,
            is_again: false,
            is_blocked: false,
            is_active: false,
            has_unread: false,
            has_hung_up: false,
            has_ended: false,
            is_paused: false,
            is_deferred: false,
            closes_on_gap: false,
            serial: 0,
            chain: SubId::NONE,
            keep_alive_ms: 0,
            out_sent: 0,
            out: Buffer::default(),
            inbox: Buffer::default(),
            partial: None,
            body: None,
            presence: None,
            resume: None,
            socket: None,
            deadline_ms: u64::MAX,
            armed: Armed::NONE,
        }
    }

    /// A request's head has been read.
    #[inline]
    pub fn note_head(&mut self, head: &Head, is_draining: bool) {
        self.is_fresh = false;
        self.has_begun = false;
        self.is_head = head.method == Method::Head;
        self.is_http10 = head.minor_version == 0;
        self.keeps_alive = head.keep_alive && !is_draining;
    }

    /// Whether nothing is to be done for it when its output has gone out but to wait for its next request.
    #[inline]
    pub fn rests_when_sent(&self) -> bool {
        self.reading == Reading::Head
            && self.writing == Writing::Open
            && self.is_settled
            && !(self.is_blocked | self.is_active | self.is_paused)
            && self.body.is_none()
            && self.socket.is_none()
    }

    /// The handle of the request in progress.
    pub fn handle(&self, index: u32) -> u64 {
        (u64::from(self.serial) << 32) | u64::from(index)
    }

    /// Bytes that wait for the kernel.
    #[inline]
    pub fn unsent(&self) -> usize {
        self.out.len() - self.out_sent as usize
    }

    /// Notes that the kernel has taken `bytes` more of `out`.
    ///
    /// A client that is never quite up to date would otherwise make `out` grow for ever. What has been
    /// sent is removed when it is more than what has not, so each byte is moved once at most.
    pub fn drop_sent(&mut self, bytes: usize) {
        let sent = self.out_sent as usize + bytes;
        if let Some(socket) = &mut self.socket {
            socket.on_sent(&self.out, sent);
        }
        if sent > COMPACT_BYTES_MIN && sent > self.out.len() - sent || u32::try_from(sent).is_err()
        {
            self.out.drain(..sent);
            if let Some(socket) = &mut self.socket {
                socket.on_removed(sent);
            }
            self.out_sent = 0;
        } else {
            self.out_sent = sent as u32;
        }
    }

    /// Its mark of being listed in `Worker::resuming`, while it has still to be sent what it missed.
    pub fn resume_queued(&mut self) -> Option<&mut bool> {
        match &mut self.resume {
            Some(resume) => Some(&mut resume.is_queued),
            None => self.socket.as_mut()?.resume_queued(),
        }
    }

    pub fn has_output(&self) -> bool {
        self.unsent() > 0 || self.body.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        assert!(
            size_of::<Connection>() <= IDLE_BYTES_MAX,
            "{}",
            size_of::<Connection>()
        );
    }
}
