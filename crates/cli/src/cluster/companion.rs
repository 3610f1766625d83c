//! Auxiliary process of the cluster, a log server or the proxy, that can be killed and started again.

use std::io::{PipeReader, Read as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fermata_io::process::Exit;
use fermata_io::signal::{SIGKILL, SIGTERM};

use crate::child::{self, Child, Signals};
use crate::error::Error;

/// Time after which servers and auxiliary processes are killed on shutdown.
pub const END_MAX: Duration = Duration::from_secs(10);

/// Maximum length shown of the last output line of an exited process.
const LINE_BYTES_MAX: usize = 512;
/// Maximum wait for the rest of the output, because descendants may still hold the pipe open.
const REST_MAX: Duration = Duration::from_millis(500);
/// Interval at which the end of the output is polled.
const REST_LOOK: Duration = Duration::from_millis(5);

pub struct Companion {
    /// Name in messages: `log`, `log 2` or `proxy`.
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

    /// Starts the process and reads its output.
    ///
    /// # Errors
    /// Fails with a message for the user if the process already runs or cannot be started.
    pub fn start(&mut self, command: &Command) -> Result<(), Error> {
        if self.child.is_some() {
            return Err(Error::Misuse(format!("the {} runs", self.name)));
        }
        let (pipe, child) = child::start_piped(command)?;
        // Use a new buffer, so that it contains only the output of this process.
        self.output = Some(Output::read(pipe));
        self.child = Some(child);
        Ok(())
    }

    pub fn kill(&self) {
        if let Some(child) = &self.child {
            child.signal(SIGKILL);
        }
    }

    /// Prints once that the process exited, with its last output line.
    pub fn notice_end(&mut self) {
        let Some(exit) = self.child.as_mut().and_then(Child::exit) else {
            return;
        };
        self.child = None;
        let line = match exit {
            Exit::Code(_) => self.output.as_ref().and_then(Output::last_line),
            // The last line of a killed process does not explain its exit, so omit it.
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

/// Returns true if `program` runs successfully with `argument`, such as `--version`.
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

/// Output of a process. A thread reads all of it and retains the last [`LINE_BYTES_MAX`] bytes.
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

    /// Returns the last nonempty line of an exited process, at most [`LINE_BYTES_MAX`] bytes.
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
