//! A program beside the servers, the log or the proxy: started, killed, and started again.

use std::io::{PipeReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fermata_io::process::Exit;
use fermata_io::signal::{SIGKILL, SIGTERM};

use crate::child::{self, Child, Signals};
use crate::error::Error;

/// How long servers and what is beside them may take to end until they are killed.
pub const END_MAX: Duration = Duration::from_secs(10);

/// Most that is shown of the last line of one that has ended.
const LINE_BYTES_MAX: usize = 512;
/// How long the rest of it is waited for: what it has started may outlive it.
const REST_MAX: Duration = Duration::from_millis(500);
/// Between two looks whether it is there.
const REST_LOOK: Duration = Duration::from_millis(5);

pub struct Companion {
    /// What it is called: `log`, `log 2` or `proxy`.
    name: String,
    child: Option<Child>,
    output: Option<Output>,
}

impl Companion {
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            child: None,
            output: None,
        }
    }

    /// # Errors
    /// One sentence for the user.
    pub fn start(&mut self, command: &Command) -> Result<(), Error> {
        if self.child.is_some() {
            return Err(Error::Misuse(format!("the {} runs", self.name)));
        }
        let (pipe, child) = child::start_piped(command)?;
        // Anew each time, so that it has what this process says alone.
        self.output = Some(Output::read(pipe));
        self.child = Some(child);
        Ok(())
    }

    pub fn kill(&self) {
        if let Some(child) = &self.child {
            child.signal(SIGKILL);
        }
    }

    /// Says once that it has ended, and what it has said last.
    pub fn notice_end(&mut self) {
        let Some(exit) = self.child.as_mut().and_then(Child::exit) else {
            return;
        };
        self.child = None;
        let line = match exit {
            Exit::Code(_) => self.output.as_ref().and_then(Output::last_line),
            // One that was killed has said nothing of it.
            Exit::Signal(_) => None,
        };
        let said = line.map_or_else(String::new, |line| format!(": {line}"));
        let name = &self.name;
        eprintln!("the {name} has ended ({exit}){said}; start {name} brings it back");
    }

    pub fn end(&mut self, signals: &Signals) {
        if let Some(child) = &mut self.child {
            child::end(child, SIGTERM, signals, END_MAX);
        }
    }

    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub fn state(&self) -> &'static str {
        if self.is_running() {
            "runs"
        } else {
            "does not run"
        }
    }
}

/// Whether a program can be started by this name.
pub fn is_installed(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    let outcome = command
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    outcome.is_ok_and(|status| status.success())
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

    /// The last line of a process that has ended, in at most [`LINE_BYTES_MAX`] bytes.
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
