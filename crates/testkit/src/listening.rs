//! A process that listens on one port: a server that a test starts with its own command.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Child;

use crate::client::Connection;
use crate::ports::free_port;
use crate::process::{Signal, send_signal};
use crate::wait::wait_until;

/// A listening process. Dropping it sends SIGTERM and waits for its exit.
#[derive(Debug)]
pub struct Listening {
    child: Child,
    port: u16,
}

impl Listening {
    /// Starts a process on a free port. If another process takes the port first, the started one exits and the next
    /// port is tried.
    ///
    /// # Panics
    /// Panics if no process listens before the deadline.
    #[track_caller]
    pub fn start(mut start: impl FnMut(u16) -> io::Result<Child>) -> Listening {
        wait_until("a server has started", || {
            let port = free_port();
            let child = start(port).expect("our own program");
            let mut started = Listening { child, port };
            wait_until("it listens, or has ended", || {
                match started.child.try_wait() {
                    Ok(Some(_)) => Some(false),
                    _ => TcpStream::connect((Ipv4Addr::LOCALHOST, port))
                        .is_ok()
                        .then_some(true),
                }
            })
            .then_some(started)
        })
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Opens a connection.
    ///
    /// # Panics
    /// Panics if it is refused.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::open(self.address())
    }

    /// Returns the ids of the child processes, for example of a server's workers.
    ///
    /// # Panics
    /// Panics if the process has exited.
    #[track_caller]
    pub fn children(&self) -> Vec<u32> {
        let pid = self.child.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        children
            .expect("it runs")
            .split_whitespace()
            .map(|pid| pid.parse().expect("a number"))
            .collect()
    }
}

impl Listening {
    /// Simulates a crash with SIGKILL.
    ///
    /// # Panics
    /// Panics if waiting for the process fails.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        self.child.wait().expect("our own process");
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // The kernel may have reused the id of an exited process.
        if let Ok(None) = self.child.try_wait() {
            send_signal(self.child.id(), Signal::Terminate);
            let _ = self.child.wait();
        }
    }
}
