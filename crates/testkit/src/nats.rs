//! A real nats-server with JetStream as the cluster log.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::install::{skipped, works};
use crate::{Directory, Signal, free_port, send_signal, wait_until};

/// A nats-server with JetStream, killed when dropped.
pub struct Nats {
    directory: Directory,
    port: u16,
    child: Option<Child>,
}

impl Nats {
    /// Returns true if nats-server is installed. Otherwise reports that the test is skipped.
    pub fn is_there() -> bool {
        let is_there = works("nats-server", &["--version"]);
        if !is_there {
            skipped("there is no nats-server");
        }
        is_there
    }

    /// Starts nats-server; returns `None` if it is not installed.
    pub fn start() -> Option<Nats> {
        if !Nats::is_there() {
            return None;
        }
        let mut nats = Nats {
            directory: Directory::new(),
            port: 0,
            child: None,
        };
        // Another process may take the free port first.
        wait_until("nats-server has a port", || {
            nats.port = free_port();
            nats.begin().then_some(())
        });
        Some(nats)
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Restarts the server with its data.
    pub fn restart(&mut self) {
        self.kill();
        wait_until("nats-server has its port again", || {
            self.begin().then_some(())
        });
    }

    /// Returns a copy of the server's files, made while the server is paused.
    pub fn save(&self) -> Directory {
        self.pause();
        let copy = self.directory.copy();
        self.resume();
        copy
    }

    /// Kills the server and restarts it with the data of an earlier copy.
    pub fn roll_back(&mut self, to: &Directory) {
        self.kill();
        self.directory = to.copy();
        self.restart();
    }

    /// Restarts the server without data.
    pub fn restart_empty(&mut self) {
        self.kill();
        self.directory = Directory::new();
        self.restart();
    }

    /// Returns true if the server listens, false if it exited because the port is taken.
    fn begin(&mut self) -> bool {
        let name = format!("test-{}-{}", std::process::id(), self.port);
        let child = Command::new("nats-server")
            .args(["-js", "-a", "127.0.0.1", "-p", &self.port.to_string()])
            .args(["-n", &name, "-sd"])
            .arg(self.directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it can be started");
        let child = self.child.insert(child);
        wait_until("nats-server listens or ends", || {
            let ended = child.try_wait().expect("it is our child");
            let is_over = ended.is_some();
            (is_over || is_named(self.port, &name)).then_some(!is_over)
        })
    }

    /// Stops the server until [`Nats::resume`]. Its connections stay open.
    pub fn pause(&self) {
        self.signal(Signal::Stop);
    }

    /// Resumes the server.
    pub fn resume(&self) {
        self.signal(Signal::Continue);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        assert!(send_signal(child.id(), signal));
    }

    /// Simulates a machine failure with SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a request to a NATS server over a separate connection and returns the reply.
///
/// # Panics
/// Panics without a reply.
pub fn ask_nats(port: u16, subject: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let text = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB answer 1\r\nPUB {subject} answer {}\r\n{body}\r\n",
        body.len()
    );
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .and_then(|()| stream.write_all(text.as_bytes()))
        .expect("a connection");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let is_begun = lines.by_ref().any(|line| line.starts_with("MSG answer"));
    let answer = lines.next().filter(|_| is_begun);
    answer.unwrap_or_else(|| panic!("no answer about {subject}"))
}

/// Returns true if a NATS server of this name listens on the port; its greeting contains the name.
fn is_named(port: u16, name: &str) -> bool {
    let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let mut info = String::new();
    let is_read = stream
        .set_read_timeout(Some(Duration::from_secs(1)))
        .and_then(|()| BufReader::new(stream).read_line(&mut info));
    is_read.is_ok() && info.contains(name)
}
