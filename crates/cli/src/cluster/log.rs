//! The log that `fermata cluster up` starts.

use std::fs::DirBuilder;
use std::io::{PipeReader, Read as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fermata_io::process::{self, Exit};
use fermata_io::signal::{SIGKILL, SIGTERM};

use crate::child::{self, Child, Signals};
use crate::error::{Error, at};

/// How long servers and their log may take to end until they are killed.
pub const END_MAX: Duration = Duration::from_secs(10);

/// Most that is shown of the last line of a log that has ended.
const LINE_BYTES_MAX: usize = 512;
/// How long the rest of it is waited for: what the log has started may outlive it.
const REST_MAX: Duration = Duration::from_millis(500);
/// Between two looks whether it is there.
const REST_LOOK: Duration = Duration::from_millis(5);

/// What keeps the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// nats-server with JetStream
    Nats,
    /// redis-server
    Redis,
}

impl Kind {
    fn program(self) -> &'static str {
        match self {
            Kind::Nats => "nats-server",
            Kind::Redis => "redis-server",
        }
    }

    fn is_installed(self) -> bool {
        let mut command = Command::new(self.program());
        let outcome = command
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        outcome.is_ok_and(|status| status.success())
    }
}

/// A server of the log, and the folder where it keeps what it has.
pub struct Log {
    kind: Kind,
    port: u16,
    folder: Folder,
    child: Option<Child>,
    output: Option<Output>,
}

/// What a process writes: all of it is read, and no more is kept than is shown.
struct Output {
    tail: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Output {
    fn read(mut pipe: PipeReader) -> Self {
        let tail = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&tail);
        let reader = thread::spawn(move || {
            let mut piece = vec![0; 16 << 10];
            while let Ok(len) = pipe.read(&mut piece)
                && len > 0
            {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&piece[..len]);
                let surplus = kept.len().saturating_sub(LINE_BYTES_MAX);
                kept.drain(..surplus);
            }
        });
        Self { tail, reader }
    }

    /// The last line of a process that has ended.
    fn last_line(&self) -> Option<String> {
        let end = Instant::now() + REST_MAX;
        while !self.reader.is_finished() && Instant::now() < end {
            thread::sleep(REST_LOOK);
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&tail);
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(line.trim().escape_debug().to_string())
    }
}

impl Log {
    /// Starts what was asked for, or what is installed.
    ///
    /// # Errors
    /// One sentence for the user.
    pub fn start(kind: Option<Kind>, port: Option<u16>) -> Result<Self, Error> {
        let kind = match kind {
            Some(kind) if !kind.is_installed() => {
                return Err(Error::Misuse(format!("{} is not installed", kind.program())));
            }
            Some(kind) => kind,
            None => [Kind::Nats, Kind::Redis]
                .into_iter()
                .find(|kind| kind.is_installed())
                .ok_or(
                    "neither nats-server nor redis-server is installed; install one, or name a log that runs by --cluster",
                )?,
        };
        let port = match port {
            Some(port) => {
                TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(|error| {
                    format!(
                        "--log-port {port}: {error}; name a port that is free, or the log that runs there by --cluster"
                    )
                })?;
                port
            }
            None => free_port()?,
        };
        let mut log = Self {
            kind,
            port,
            folder: Folder::new()?,
            child: None,
            output: None,
        };
        log.begin()?;
        Ok(log)
    }

    /// Starts it, with what it had.
    ///
    /// # Errors
    /// One sentence for the user.
    pub fn begin(&mut self) -> Result<(), Error> {
        if self.child.is_some() {
            return Err(Error::Misuse("the log runs".to_owned()));
        }
        let port = self.port.to_string();
        let mut command = Command::new(self.kind.program());
        match self.kind {
            Kind::Nats => command.args(["-js", "-a", "127.0.0.1", "-p", &port, "-sd"]),
            Kind::Redis => command.args([
                "--bind",
                "127.0.0.1",
                "--port",
                &port,
                "--appendonly",
                "yes",
                "--save",
                "",
                "--dir",
            ]),
        };
        command.arg(&self.folder.0);
        let (pipe, child) = child::start_piped(&command)?;
        // Anew each time, so that it has what this process says alone.
        self.output = Some(Output::read(pipe));
        self.child = Some(child);
        Ok(())
    }

    /// Where it is, as the setting `cluster` has it.
    pub fn url(&self) -> String {
        match self.kind {
            Kind::Nats => format!("nats://127.0.0.1:{}", self.port),
            Kind::Redis => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    pub fn kill(&self) {
        if let Some(child) = &self.child {
            child.signal(SIGKILL);
        }
    }

    /// The last line that it has written, in at most [`LINE_BYTES_MAX`] bytes.
    pub fn last_line(&self) -> Option<String> {
        self.output.as_ref()?.last_line()
    }

    /// How it has ended, once.
    pub fn ended(&mut self) -> Option<Exit> {
        let exit = self.child.as_mut()?.exit()?;
        self.child = None;
        Some(exit)
    }

    pub fn end(&mut self, signals: &Signals) {
        if let Some(child) = &mut self.child {
            child::end(child, SIGTERM, signals, END_MAX);
        }
    }
}

impl std::fmt::Display for Log {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = if self.child.is_some() {
            "runs"
        } else {
            "does not run"
        };
        write!(out, "{}  {}, {state}", self.url(), self.kind.program())
    }
}

/// A folder of its own, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("fermata-cluster-{}", process::pid()));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(at(path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address
        .map(|address| address.port())
        .map_err(at("a port for the log"))
}
