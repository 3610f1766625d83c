//! A real nats-server with JetStream: the log that servers share.

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
    /// Whether it is installed; where it is not, the log says that the test was skipped.
    pub fn is_there() -> bool {
        let is_there = works("nats-server", &["--version"]);
        if !is_there {
            skipped("there is no nats-server");
        }
        is_there
    }

    /// `None` where it is not installed.
    pub fn start() -> Option<Nats> {
        if !Nats::is_there() {
            return None;
        }
        let mut nats = Nats {
            directory: Directory::new(),
            port: 0,
            child: None,
        };
        // Another process may take a port that was free.
        wait_until("nats-server has a port", || {
            nats.port = free_port();
            nats.begin().then_some(())
        });
        Some(nats)
    }

    /// The port of 127.0.0.1 at which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it had stays.
    pub fn restart(&mut self) {
        self.kill();
        wait_until("nats-server has its port again", || {
            self.begin().then_some(())
        });
    }

    /// What it had is gone.
    pub fn restart_empty(&mut self) {
        self.kill();
        self.directory = Directory::new();
        self.restart();
    }

    /// Whether it listens: false when it has ended instead, since the port is not free.
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

    /// It answers nobody until [`Nats::resume`], and its connections stay.
    pub fn pause(&self) {
        self.signal(Signal::Stop);
    }

    /// It goes on.
    pub fn resume(&self) {
        self.signal(Signal::Continue);
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        assert!(send_signal(child.id(), signal));
    }

    /// As if its machine had failed: with SIGKILL.
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

/// Asks a server of NATS for something over a connection of its own: what it answers.
///
/// # Panics
/// Panics when it does not.
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

/// Whether a NATS server of this name listens at the port: what it says first has its name.
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
