//! The fake driver: a network, a clock and faults, all in memory and repeatable by a seed.
//!
//! A [`Fake`] is a handle: the engine under test owns one clone as its driver; the test keeps another and controls the
//! peers.
//!
//! ```
//! use fermata_io::Driver;
//! use fermata_io::sys::fake::Fake;
//!
//! let fake = Fake::new(1);
//! let listener = fake.listen();
//! let mut driver = fake.clone(); // what the engine would own
//! driver.add_listener(listener, 7)?;
//!
//! let peer = fake.connect(listener);
//! peer.write(b"hello");
//! let mut events = Vec::new();
//! driver.wait(&mut events, None)?;
//! assert!(events[0].token == 7 && events[0].readable);
//!
//! let accepted = driver.accept(listener)?.expect("it was reported");
//! let mut buf = [0; 16];
//! assert_eq!(driver.recv(accepted.fd, &mut buf)?, Some(5));
//! driver.send_one(accepted.fd, b"good day")?;
//! assert_eq!(peer.read(), b"good day");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The fake network behaves like Linux in all relevant ways. Streams are edge-triggered, and an edge reports everything that is
//! ready. Space is reported again only after a send for which there was too little space. Closing with unread bytes resets the
//! connection. The first send to a peer that has closed succeeds. [`Faults`] add behaviour that a kernel may show, but rarely
//! shows. Misuse that a kernel could not detect, such as using a closed descriptor, panics.

mod faults;
mod network;
mod peer;
mod random;
mod stream;

use std::cell::RefCell;
use std::io;
use std::io::IoSlice;
use std::rc::Rc;

use crate::driver::{Accepted, Driver, Event, Fd, Peer};
use crate::handover::Inbox;

pub use faults::{Calls, Faults};
pub use network::MONOTONIC_START_MS;
use network::Network;
pub use peer::{End, FakePeer};
pub use stream::Action;

/// Hands over a connection without its descriptor, as a process without free descriptors receives it.
///
/// # Errors
/// The inbox is full.
pub fn hand_over_lost(inbox: &Inbox) -> io::Result<()> {
    inbox.put_lost()
}

/// Virtual wall clock at the virtual monotonic time 0: 2023-11-14 22:13:20 UTC.
pub const UNIX_START_MS: u64 = 1_700_000_000_000;

/// A driver over an in-memory network, and the test's handle to this network.
#[derive(Debug, Clone)]
pub struct Fake {
    network: Rc<RefCell<Network>>,
}

impl Fake {
    /// Creates a network without faults. `seed` selects the random numbers of later [`Faults`].
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            network: Rc::new(RefCell::new(Network::new(seed))),
        }
    }

    /// Sets the frequency of faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.network.borrow_mut().faults = faults;
    }

    /// Creates a listener, which the engine adds to the driver.
    #[must_use]
    pub fn listen(&self) -> Fd {
        self.network.borrow_mut().listen()
    }

    /// Connects a peer with a unique address (192.0.2.1 and an increasing port).
    ///
    /// # Panics
    /// Panics if `listener` was not created by [`listen`](Self::listen) or is closed.
    #[must_use]
    pub fn connect(&self, listener: Fd) -> FakePeer {
        FakePeer::new(
            Rc::clone(&self.network),
            self.network.borrow_mut().connect(listener, None),
        )
    }

    /// Connects a peer with the given address.
    ///
    /// # Panics
    /// As [`connect`](Self::connect).
    #[must_use]
    pub fn connect_from(&self, listener: Fd, address: Peer) -> FakePeer {
        let fd = self.network.borrow_mut().connect(listener, Some(address));
        FakePeer::new(Rc::clone(&self.network), fd)
    }

    /// Advances the virtual clock and executes the actions that are due. The driver sees the new time after its
    /// next `wait` or `refresh_now`.
    pub fn advance(&self, ms: u64) {
        let mut network = self.network.borrow_mut();
        let until_ms = network.clock_ms + ms;
        network.run_until(until_ms);
    }

    /// Sets whether a `wait` without events advances the clock to its time-out or to the next scheduled action, whichever
    /// is earlier. Initially false: `wait` returns immediately and the clock does not move.
    pub fn set_auto_advance(&self, auto_advance: bool) {
        self.network.borrow_mut().auto_advance = auto_advance;
    }

    /// Sets the number of sends that take a millisecond of the virtual clock. Initially 0: sends take no time.
    pub fn set_sends_per_ms(&self, sends: u64) {
        self.network.borrow_mut().sends_per_ms = sends;
    }

    /// Maximum number of open streams, from which `accept` fails with `EMFILE`.
    pub fn set_streams_max(&self, streams_max: usize) {
        self.network.borrow_mut().streams_max = streams_max;
    }

    /// Returns the number of accepted streams that the engine has not closed.
    #[must_use]
    pub fn open_streams(&self) -> usize {
        self.network.borrow().open_streams()
    }

    /// Returns the number of driver calls so far.
    #[must_use]
    pub fn calls(&self) -> Calls {
        self.network.borrow().calls
    }

    /// Returns the virtual clock, which may be ahead of [`Driver::now_ms`].
    #[must_use]
    pub fn clock_ms(&self) -> u64 {
        self.network.borrow().clock_ms
    }
}

impl Driver for Fake {
    fn now_ms(&self) -> u64 {
        self.network.borrow().now_ms
    }

    fn refresh_now(&mut self) -> u64 {
        self.network.borrow_mut().refresh_now()
    }

    fn now_us(&self) -> u64 {
        self.network.borrow().clock_ms * 1000
    }

    fn unix_ms(&self) -> u64 {
        UNIX_START_MS + self.network.borrow().clock_ms
    }

    fn add_listener(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        self.network.borrow_mut().watch_listener(fd, token)
    }

    fn add_stream(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        self.network.borrow_mut().watch_stream(fd, token)
    }

    fn add_wake(&mut self, fd: Fd, token: u64) -> io::Result<()> {
        self.network.borrow_mut().watch_wake(fd, token)
    }

    fn remove(&mut self, fd: Fd) -> io::Result<()> {
        self.network.borrow_mut().unwatch(fd)
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout_ms: Option<u64>) -> io::Result<()> {
        self.network.borrow_mut().wait(events, timeout_ms)
    }

    fn accept(&mut self, listener: Fd) -> io::Result<Option<Accepted>> {
        self.network.borrow_mut().accept(listener)
    }

    fn recv(&mut self, fd: Fd, buf: &mut [u8]) -> io::Result<Option<usize>> {
        self.network.borrow_mut().recv(fd, buf)
    }

    fn send(&mut self, fd: Fd, bufs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        self.network.borrow_mut().send(fd, bufs)
    }

    fn send_one(&mut self, fd: Fd, buf: &[u8]) -> io::Result<Option<usize>> {
        self.network.borrow_mut().send(fd, &[IoSlice::new(buf)])
    }

    fn shutdown_write(&mut self, fd: Fd) {
        self.network.borrow_mut().shutdown_write(fd);
    }

    fn reset_on_close(&mut self, fd: Fd) {
        self.network.borrow_mut().reset_on_close(fd);
    }

    fn unacknowledged(&self, fd: Fd) -> Option<usize> {
        Some(self.network.borrow().stream(fd).outbound.len())
    }

    fn close(&mut self, fd: Fd) {
        self.network.borrow_mut().close(fd);
    }
}
