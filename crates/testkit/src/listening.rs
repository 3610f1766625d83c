//! A process that listens at one port: a server that tests start by its own command.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::Child;

use crate::client::Connection;
use crate::ports::free_port;
use crate::process::{Signal, send_signal};
use crate::wait::wait_until;

/// Such a process. Dropping it ends it in order, and waits for that.
#[derive(Debug)]
pub struct Listening {
    child: Child,
    port: u16,
}

impl Listening {
    /// Starts one at a free port, which may be somebody else's by then: it ends, and another one is tried.
    ///
    /// # Panics
    /// Panics when none listens before the deadline.
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

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Opens a connection.
    ///
    /// # Panics
    /// Panics when it is refused.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::open(self.address())
    }

    /// Its own processes: of a server those that serve.
    ///
    /// # Panics
    /// Panics when it has ended.
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
    /// Ends it as if it had failed, with SIGKILL.
    ///
    /// # Panics
    /// Panics when it cannot be waited for.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        self.child.wait().expect("our own process");
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // One that has ended may have left its number to another process.
        if let Ok(None) = self.child.try_wait() {
            send_signal(self.child.id(), Signal::Terminate);
            let _ = self.child.wait();
        }
    }
}
