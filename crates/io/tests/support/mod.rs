//! A server over any driver, and a macro that runs tests over all of them.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

use fermata_io::kernel::{Backend, Kernel};
use fermata_io::{Driver, Event, Fd, Peer, net};

pub const LISTENER: u64 = 1;
pub const STREAM: u64 = 2;
pub const BACKLOG: i32 = 512;
/// Time-out of an expected event in milliseconds: far more than an event takes.
pub const PATIENCE_MS: u64 = 20_000;

/// Opens the kernel interface; `None` if this machine forbids it (epoll is always available).
pub fn open(backend: Backend) -> Option<Kernel> {
    match Kernel::open(backend) {
        Ok(kernel) => Some(kernel),
        Err(error) if backend == Backend::IoUring => {
            eprintln!("not run: io_uring: {error}");
            None
        }
        Err(error) => panic!("{backend}: {error}"),
    }
}

/// Runs functions of the file as tests, over each kernel interface.
#[macro_export]
macro_rules! over_each_kernel {
    ($($name:ident)+) => {
        mod epoll {
            $(#[test]
            fn $name() {
                super::$name(
                    $crate::support::open(fermata_io::Backend::Epoll).expect("never forbidden"),
                );
            })+
        }
        mod io_uring {
            $(#[test]
            fn $name() {
                if let Some(kernel) = $crate::support::open(fermata_io::Backend::IoUring) {
                    super::$name(kernel);
                }
            })+
        }
    };
}

pub struct Server {
    pub driver: Kernel,
    pub listener: OwnedFd,
    pub address: SocketAddr,
}

impl Server {
    pub fn new(mut driver: Kernel, address: &str) -> Self {
        let address = address.parse().expect("an address");
        let (listener, address) = net::bind_tcp(address, BACKLOG, true).expect("a free port");
        driver
            .add_listener(listener.as_raw_fd(), LISTENER)
            .expect("add");
        Self {
            driver,
            listener,
            address,
        }
    }

    /// Returns a client and its accepted connection, which is not watched yet.
    pub fn accept(&mut self) -> (TcpStream, Fd) {
        let client = TcpStream::connect(self.address).expect("connect");
        assert_eq!(self.wait_for(LISTENER).token, LISTENER);
        let accepted = self
            .driver
            .accept(self.listener.as_raw_fd())
            .expect("accept")
            .expect("one");
        assert_eq!(
            accepted.peer,
            Peer::from(client.local_addr().expect("bound"))
        );
        (client, accepted.fd)
    }

    /// Returns a client and its accepted connection, which is watched with the token `STREAM`.
    pub fn connect(&mut self) -> (TcpStream, Fd) {
        let (client, fd) = self.accept();
        self.driver.add_stream(fd, STREAM).expect("add");
        let first = self.wait_for(STREAM);
        assert!(first.writable && !first.hangup, "{first:?}");
        (client, fd)
    }

    pub fn wait(&mut self, timeout_ms: u64) -> Vec<Event> {
        let mut events = Vec::new();
        self.driver
            .wait(&mut events, Some(timeout_ms))
            .expect("wait");
        events
    }

    pub fn wait_for(&mut self, token: u64) -> Event {
        self.wait_until(|event| event.token == token)
    }

    pub fn wait_until(&mut self, is_wanted: impl Fn(&Event) -> bool) -> Event {
        let deadline_ms = self.driver.refresh_now() + PATIENCE_MS;
        loop {
            let events = self.wait(PATIENCE_MS);
            if let Some(event) = events.into_iter().find(&is_wanted) {
                return event;
            }
            assert!(
                self.driver.now_ms() < deadline_ms,
                "the event does not come"
            );
        }
    }
}
