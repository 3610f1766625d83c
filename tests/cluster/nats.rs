//! The log that the servers share, and servers that share it.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fermata_testkit::install::{skipped, works};
use fermata_testkit::{Builder, Connection, Directory, Server, free_port, wait_until};
use fermata_tests::fixture;

/// How long a publisher waits where the test wants it to succeed: this machine may be busy.
pub const PATIENT_MS: u64 = 30_000;

/// A nats-server with JetStream, killed when dropped.
pub struct Nats {
    directory: Directory,
    port: u16,
    child: Option<Child>,
}

impl Nats {
    /// `None` where it is not installed.
    pub fn start() -> Option<Nats> {
        if !works("nats-server", &["--version"]) {
            skipped("there is no nats-server");
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

    /// What it had stays.
    pub fn restart(&mut self) {
        self.kill();
        wait_until("nats-server has its port again", || {
            self.begin().then_some(())
        });
    }

    /// Whether it listens: false when it has ended instead, since the port is not free.
    fn begin(&mut self) -> bool {
        let name = format!("test {} {}", std::process::id(), self.port);
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

    /// As if its machine had failed.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// A server that shares the log.
    pub fn node(&self) -> Builder {
        fixture("hub")
            .setting("cluster", format!("nats://127.0.0.1:{}", self.port))
            // NATS reserves it, and refuses the stream on a machine with less room.
            .setting("cluster_bytes_max", "16m")
            .setting("metrics_listen", "http://127.0.0.1:0")
            .setting("publish_wait_ms_max", PATIENT_MS)
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
    }
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

/// What `GET /health/ready` answers.
pub fn readiness(server: &Server) -> u16 {
    let address = server.log().wait_map(0, "the address for metrics", |line| {
        let (_, address) = line.text.split_once("metrics and health at http://")?;
        address.trim().parse().ok()
    });
    Connection::open(address).get("/health/ready").status()
}

/// Waits until the server is connected to the log, or is not.
pub fn wait_ready(server: &Server, status: u16) {
    wait_until("the server's readiness", || {
        (readiness(server) == status).then_some(())
    });
}

/// The process that talks to the log, of those that were started the last one.
pub fn bridge_pid(server: &Server) -> u32 {
    let text = server.log().text();
    let (_, rest) = text
        .rsplit_once("bridge started pid=")
        .expect("it was started");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a process id")
}
