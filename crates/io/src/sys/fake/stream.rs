//! The two sides of one connection of the fake network.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

use crate::driver::{Event, Peer};

/// Default window: number of bytes that the peer stores before the engine's sends would block.
pub(super) const WINDOW_BYTES: usize = 64 * 1024;

/// An action of a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Sends bytes.
    Write(Vec<u8>),
    /// Closes the sending side; the peer still reads.
    ShutdownWrite,
    /// Closes the connection; with unread bytes this resets it, as on a real network.
    Close,
    /// Resets the connection.
    Reset,
    /// Limits the number of unread bytes from now on.
    SetWindow(usize),
}

#[derive(Debug)]
pub(super) struct Stream {
    pub(super) address: Peer,
    /// Token that the stream is watched with.
    pub(super) token: Option<u64>,
    /// True if something happened since the last report.
    pub(super) edge: bool,
    /// True after the engine has accepted the stream.
    pub(super) accepted: bool,
    /// True after the engine has closed the stream.
    pub(super) closed: bool,
    /// True after the engine has closed its sending side.
    pub(super) write_ended: bool,
    /// True if closing will reset the connection.
    pub(super) resets_on_close: bool,
    /// True after the connection broke.
    pub(super) reset: bool,
    /// Bytes from peer to engine.
    pub(super) inbound: VecDeque<u8>,
    /// True after the peer has closed its sending side.
    pub(super) inbound_ended: bool,
    /// True after the peer has stopped reading.
    pub(super) peer_closed: bool,
    /// Bytes from engine to peer.
    pub(super) outbound: Vec<u8>,
    pub(super) window_bytes: usize,
    /// True after a send for which there was too little space. Free space is then an edge.
    pub(super) out_of_room: bool,
    /// Number of sends that accepted at least one byte.
    pub(super) sends: u64,
}

impl Stream {
    pub(super) fn new(address: Peer) -> Self {
        Self {
            address,
            token: None,
            edge: false,
            accepted: false,
            closed: false,
            write_ended: false,
            resets_on_close: false,
            reset: false,
            inbound: VecDeque::new(),
            inbound_ended: false,
            peer_closed: false,
            outbound: Vec::new(),
            window_bytes: WINDOW_BYTES,
            out_of_room: false,
            sends: 0,
        }
    }

    /// Returns the event of an edge. As in the kernel, it contains everything that is ready.
    pub(super) fn event(&self, token: u64) -> Event {
        let hangup = self.inbound_ended || self.reset;
        Event {
            token,
            readable: hangup || !self.inbound.is_empty(),
            writable: self.reset || (self.room() != 0 && !self.write_ended),
            hangup,
        }
    }

    pub(super) fn recv(&mut self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let bytes = buf.len().min(self.inbound.len());
        if bytes == 0 && !buf.is_empty() {
            return match (self.reset, self.inbound_ended) {
                (true, _) => Err(ErrorKind::ConnectionReset.into()),
                (false, true) => Ok(Some(0)),
                (false, false) => Ok(None),
            };
        }
        for (place, byte) in buf.iter_mut().zip(self.inbound.drain(..bytes)) {
            *place = byte;
        }
        Ok(Some(bytes))
    }

    /// Accepts up to `bytes_max` bytes; fewer if there is not enough space.
    pub(super) fn send(
        &mut self,
        bufs: &[IoSlice<'_>],
        bytes_max: usize,
    ) -> io::Result<Option<usize>> {
        if self.reset || self.write_ended {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let wanted: usize = bufs.iter().map(|buf| buf.len()).sum();
        if self.peer_closed {
            // The send succeeds, and the peer responds with a reset.
            self.reset = true;
            self.edge = true;
            return Ok(Some(wanted));
        }
        let bytes = wanted.min(bytes_max).min(self.room());
        self.out_of_room |= bytes < wanted;
        if bytes == 0 && wanted != 0 {
            return Ok(None);
        }
        self.outbound
            .extend(bufs.iter().flat_map(|buf| buf.iter()).take(bytes));
        self.sends += 1;
        Ok(Some(bytes))
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.token = None;
        // Closing with unread bytes causes a reset, which may overtake sent bytes: an engine whose response must arrive
        // reads to the end first.
        self.reset |= self.resets_on_close || !self.inbound.is_empty();
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        if self.closed {
            // The engine's side is closed, so the peer gets a reset.
            self.reset = true;
        } else if !self.reset {
            self.inbound.extend(bytes);
            self.edge = true;
        }
    }

    pub(super) fn read(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(&mut self.outbound);
        self.report_room();
        bytes
    }

    pub(super) fn set_window(&mut self, bytes: usize) {
        self.window_bytes = bytes;
        self.report_room();
    }

    pub(super) fn end_inbound(&mut self) {
        self.inbound_ended = true;
        self.edge = true;
    }

    pub(super) fn close_peer(&mut self) {
        self.end_inbound();
        self.peer_closed = true;
        self.reset |= !self.outbound.is_empty();
    }

    pub(super) fn break_off(&mut self) {
        self.reset = true;
        self.edge = true;
    }

    fn room(&self) -> usize {
        self.window_bytes.saturating_sub(self.outbound.len())
    }

    fn report_room(&mut self) {
        if self.out_of_room && self.room() != 0 {
            self.out_of_room = false;
            self.edge = true;
        }
    }
}
