//! The test's side of a connection.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use crate::driver::{Fd, Peer};

use super::network::Network;
use super::stream::Action;

/// How the engine's side of a connection stands, as the peer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It may still send.
    Open,
    /// It ended after what [`FakePeer::read`] returned or will return.
    Finished,
    /// It broke off; what was not read may be lost on a real network.
    Reset,
}

/// A connected peer, played by the test. Clones are the same peer; dropping one does nothing.
#[derive(Clone)]
pub struct FakePeer {
    network: Rc<RefCell<Network>>,
    fd: Fd,
}

impl FakePeer {
    pub(super) fn new(network: Rc<RefCell<Network>>, fd: Fd) -> Self {
        Self { network, fd }
    }

    /// The engine's descriptor for this connection.
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.fd
    }

    /// The address the engine sees.
    #[must_use]
    pub fn address(&self) -> Peer {
        self.network.borrow().stream(self.fd).address
    }

    /// Does something now.
    pub fn act(&self, action: Action) {
        self.network.borrow_mut().act(self.fd, action);
    }

    /// Does something when the virtual clock has moved by `delay_ms`. Actions of the same time are
    /// carried out in the order in which they were scheduled.
    pub fn act_after(&self, delay_ms: u64, action: Action) {
        self.network
            .borrow_mut()
            .schedule(delay_ms, self.fd, action);
    }

    /// Sends bytes.
    pub fn write(&self, bytes: &[u8]) {
        self.network.borrow_mut().stream_mut(self.fd).write(bytes);
    }

    /// Takes all bytes that have arrived, which makes room for more.
    #[must_use]
    pub fn read(&self) -> Vec<u8> {
        self.network.borrow_mut().stream_mut(self.fd).read()
    }

    /// Holds at most this many unread bytes; zero makes a reader that has stopped.
    pub fn set_window(&self, bytes: usize) {
        self.act(Action::SetWindow(bytes));
    }

    /// Ends the sending side and still reads.
    pub fn shutdown_write(&self) {
        self.act(Action::ShutdownWrite);
    }

    /// Closes the connection.
    pub fn close(&self) {
        self.act(Action::Close);
    }

    /// Breaks the connection.
    pub fn reset(&self) {
        self.act(Action::Reset);
    }

    /// How the engine's side stands.
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

    /// Bytes that have arrived and were not yet read.
    #[must_use]
    pub fn arrived_bytes(&self) -> usize {
        self.network.borrow().stream(self.fd).outbound.len()
    }

    /// Bytes sent that the engine has not taken: what back-pressure holds back.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.network.borrow().stream(self.fd).inbound.len()
    }

    /// In how many sends the engine's bytes arrived.
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
