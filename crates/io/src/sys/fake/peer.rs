//! The test's side of a connection.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use crate::driver::{Fd, Peer};

use super::network::Network;
use super::stream::Action;

/// State of the engine's side of a connection, as the peer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The engine may still send.
    Open,
    /// The stream ends after the bytes that [`FakePeer::read`] has returned or will return.
    Finished,
    /// The connection was reset; on a real network unread bytes may be lost.
    Reset,
}

/// A connected peer, controlled by the test. All clones are the same peer; dropping a clone has no effect.
#[derive(Clone)]
pub struct FakePeer {
    network: Rc<RefCell<Network>>,
    fd: Fd,
}

impl FakePeer {
    pub(super) fn new(network: Rc<RefCell<Network>>, fd: Fd) -> Self {
        Self { network, fd }
    }

    /// Returns the engine's descriptor of this connection.
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// Returns the address that the engine sees.
    #[must_use]
    pub fn address(&self) -> Peer {
        self.network.borrow().stream(self.fd).address
    }

    /// Executes an action now.
    pub fn act(&self, action: Action) {
        self.network.borrow_mut().act(self.fd, action);
    }

    /// Executes an action after `delay_ms` of the virtual clock. Actions with the same time run in the order of
    /// scheduling.
    pub fn act_after(&self, delay_ms: u64, action: Action) {
        self.network
            .borrow_mut()
            .schedule(delay_ms, self.fd, action);
    }

    /// Sends bytes.
    pub fn write(&self, bytes: &[u8]) {
        self.network.borrow_mut().stream_mut(self.fd).write(bytes);
    }

    /// Returns all bytes that have arrived, and frees their space.
    #[must_use]
    pub fn read(&self) -> Vec<u8> {
        self.network.borrow_mut().stream_mut(self.fd).read()
    }

    /// Limits the number of unread bytes; 0 simulates a reader that has stopped.
    pub fn set_window(&self, bytes: usize) {
        self.act(Action::SetWindow(bytes));
    }

    /// Closes the sending side; the peer still reads.
    pub fn shutdown_write(&self) {
        self.act(Action::ShutdownWrite);
    }

    /// Closes the connection.
    pub fn close(&self) {
        self.act(Action::Close);
    }

    /// Resets the connection.
    pub fn reset(&self) {
        self.act(Action::Reset);
    }

    /// Returns the state of the engine's side.
    #[must_use]
    pub fn end(&self) -> End {
        let network = self.network.borrow();
        let stream = network.stream(self.fd);
        match (stream.reset, stream.closed || stream.write_ended) {
            (true, _) => End::Reset,
            (false, true) => End::Finished,
            (false, false) => End::Open,
        }
    }

    /// Returns the number of bytes that have arrived and were not read.
    #[must_use]
    pub fn arrived_bytes(&self) -> usize {
        self.network.borrow().stream(self.fd).outbound.len()
    }

    /// Returns the number of sent bytes that the engine has not read, because of back-pressure.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.network.borrow().stream(self.fd).inbound.len()
    }

    /// Returns the number of sends in which the engine's bytes arrived.
    #[must_use]
    pub fn sends(&self) -> u64 {
        self.network.borrow().stream(self.fd).sends
    }
}

impl fmt::Debug for FakePeer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("FakePeer").field(&self.fd).finish()
    }
}
