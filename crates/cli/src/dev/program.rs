//! Starts processes of a script one after another, up to run(), and collects their output.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read as _, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, BorrowedFd};
use serde::Deserialize;

use super::arguments::Arguments;
use super::failure::Thrown;
use super::routes::Route;
use crate::child::{self, Child};
use crate::error::{Error, at};
use crate::php::Php;

/// Time that a stopped process has to finish running requests.
const DRAIN_MS: u64 = 1_000;
/// Maximum output retained before run(); further output is printed immediately.
const STARTUP_OUTPUT_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of distinct startup lines that are stored, so that each is printed only once.
const KNOWN_MAX: usize = 1_000;
/// Maximum length of an output line; longer lines are split.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Maximum size of a script's report: routes and names of loaded files.
const REPORT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum number of changed files that the new process checks.
const CHANGED_MAX: usize = 20;
/// Timeout for reading the report.
const REPORT_MAX: Duration = Duration::from_secs(10);
/// Timeout for the master to bind and log its address.
const BIND_MAX: Duration = Duration::from_secs(10);
/// Interval at which the address is polled.
const LOOK: Duration = Duration::from_millis(2);

/// Text before the address in the server's log line.
const LISTENING: &str = "listening on ";

/// Launcher for processes of one script.
pub struct Program<'a> {
    php: &'a Php,
    program: &'a Path,
    arguments: &'a [OsString],
    environment: Vec<(&'static str, OsString)>,
    /// Socket for the reports of scripts.
    listener: UnixListener,
    /// PHP options for the persistent OPcache file cache.
    cache: Vec<String>,
    /// File to which the extension writes thrown exceptions.
    thrown: PathBuf,
    generation: u64,
    output: Arc<Mutex<Output>>,
}

/// Report that a script sends in run().
#[derive(Debug, Deserialize)]
pub struct Report {
    pub routes: Vec<Route>,
    pub files: Vec<PathBuf>,
    /// Settings `user` and `group`; empty if unset.
    pub user: String,
    pub group: String,
}

/// Connection of a script that waits in run() for permission to continue.
#[derive(Debug)]
pub struct Waiting(UnixStream);

impl Waiting {
    pub fn go(mut self) -> std::io::Result<()> {
        self.0.write_all(b"go\n")
    }
}

/// Progress of a starting script.
pub enum Read {
    Nothing,
    Report(Report, Waiting),
    /// The process exited with this output.
    Ended(String),
}

/// Output of the most recent process.
#[derive(Debug, Default)]
struct Output {
    generation: u64,
    startup_output: Vec<u8>,
    /// True once the server runs; output is then printed directly.
    is_shown: bool,
    /// Startup lines already printed, which are not repeated on each restart.
    known: HashSet<Vec<u8>>,
    addresses: Option<String>,
    open: usize,
}

/// Joins paths for an environment variable, whose size is limited; at most [`CHANGED_MAX`].
fn lines(files: &BTreeSet<PathBuf>) -> OsString {
    let mut lines = OsString::new();
    for file in files.iter().take(CHANGED_MAX) {
        lines.push(file);
        lines.push("\n");
    }
    lines
}

/// Returns options that make OPcache retain compiled scripts across restarts; compilation dominates the startup of frameworks.
///
/// OPcache compares modification times in whole seconds, so it must not cache files changed within the last two seconds.
fn cache(php: &Php, place: &Path) -> Vec<String> {
    let folder = place.join("opcache");
    if !php.facts.has_opcache || std::fs::create_dir(&folder).is_err() {
        return Vec::new();
    }
    let settings = [
        format!("opcache.file_cache={}", folder.display()),
        "opcache.validate_timestamps=1".to_owned(),
        "opcache.file_update_protection=2".to_owned(),
    ];
    settings
        .into_iter()
        .flat_map(|it| ["-d".to_owned(), it])
        .collect()
}

impl<'a> Program<'a> {
    /// Prepares the environment of the script and the report socket.
    ///
    /// # Errors
    /// Fails with a message for the user if the socket cannot be created.
    pub fn new(
        php: &'a Php,
        arguments: &'a Arguments,
        place: &Path,
        is_coloured: bool,
    ) -> Result<Self, Error> {
        let path = place.join("tool");
        let failed = |error| at(path.display())(error);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let mut environment: Vec<(&'static str, OsString)> = vec![
            ("FERMATA_DEVELOPMENT", place.join("attach.php").into()),
            ("FERMATA_WORKERS", arguments.workers.to_string().into()),
            ("FERMATA_LOG_FORMAT", "text".into()),
            ("FERMATA_DRAIN_TIMEOUT_MS", DRAIN_MS.to_string().into()),
        ];
        if is_coloured {
            environment.push(("FERMATA_DEVELOPMENT_COLOURED", "1".into()));
        }
        if let Some(listen) = &arguments.listen {
            environment.push(("FERMATA_LISTEN", listen.into()));
        }
        if std::env::var_os("FERMATA_HISTORY_PATH").is_none() {
            // A persistent history keeps event ids valid, so clients resume after a restart.
            environment.push(("FERMATA_HISTORY_PATH", place.join("history").into()));
        }
        Ok(Self {
            php,
            program: &arguments.program,
            arguments: &arguments.arguments,
            environment,
            listener,
            cache: cache(php, place),
            thrown: place.join("thrown"),
            generation: 0,
            output: Arc::default(),
        })
    }

    /// Starts a new process of the script.
    ///
    /// The process also checks the syntax of `changed` files that it does not load. With `has_routes`, its report includes a
    /// framework's routes.
    ///
    /// # Errors
    /// Fails with a message for the user if the process cannot be started.
    pub fn start(&mut self, changed: &BTreeSet<PathBuf>, has_routes: bool) -> Result<Child, Error> {
        self.generation += 1;
        let mut command = self.php.command(false);
        // Send each PHP error to standard error exactly once.
        command
            .args([
                "-d",
                "display_errors=0",
                "-d",
                "log_errors=1",
                "-d",
                "error_log=",
            ])
            .args(["-d", "html_errors=0"])
            // Prevents other sites from reading error pages through DNS rebinding; script and environment can allow more hosts.
            .args(["-d", "fermata.allowed_hosts=localhost"])
            .args(&self.cache)
            .arg(self.program)
            .args(self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (*name, value)))
            .env(
                "FERMATA_DEVELOPMENT_GENERATION",
                self.generation.to_string(),
            )
            .env("FERMATA_DEVELOPMENT_CHANGED", lines(changed))
            .env(
                "FERMATA_DEVELOPMENT_ROUTES",
                if has_routes { "1" } else { "" },
            )
            .env("FERMATA_DEVELOPMENT_THROWN", &self.thrown);
        let mut command = child::bound(&command)?;
        command.stdin(Stdio::null());
        let outputs = self.redirect(&mut command)?;
        let known = std::mem::take(&mut self.lock().known);
        *self.lock() = Output {
            generation: self.generation,
            open: outputs.len(),
            known,
            ..Output::default()
        };
        // Discard connections of an earlier process whose start was aborted.
        while self.listener.accept().is_ok() {}
        let _ = std::fs::remove_file(&self.thrown);
        let started = Child::start(&mut command);
        // Close the write ends of the pipes, so that the readers see the end of file.
        drop(command);
        for output in outputs {
            let (into, generation) = (Arc::clone(&self.output), self.generation);
            thread::spawn(move || pass_on(output, &into, generation));
        }
        started.map_err(at(self.php.program.display()))
    }

    fn redirect(&self, command: &mut Command) -> Result<Vec<std::io::PipeReader>, Error> {
        let mut outputs = Vec::new();
        for is_error in [false, true] {
            let (reader, writer) = std::io::pipe().map_err(at("pipe"))?;
            if is_error {
                command.stderr(Stdio::from(writer))
            } else {
                command.stdout(Stdio::from(writer))
            };
            outputs.push(reader);
        }
        Ok(outputs)
    }

    /// Returns the descriptor that becomes readable when a script reports.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Returns the progress of the most recent process.
    pub fn read(&self, child: &mut Child) -> Read {
        if let Ok((stream, _)) = self.listener.accept()
            && let Some(report) = report(&stream)
        {
            return Read::Report(report, Waiting(stream));
        }
        match child.exit() {
            None => Read::Nothing,
            Some(exit) => {
                let startup_output = self.startup_output();
                Read::Ended(if startup_output.trim().is_empty() {
                    format!("the program has ended without calling run() ({exit})")
                } else {
                    startup_output
                })
            }
        }
    }

    /// Returns the retained output after the pipes close, or after one second. Output of a running server was printed already.
    pub fn startup_output(&self) -> String {
        let due = Instant::now() + Duration::from_secs(1);
        while self.lock().open > 0 && Instant::now() < due {
            thread::sleep(LOOK);
        }
        String::from_utf8_lossy(&self.lock().startup_output).into_owned()
    }

    /// Returns the exceptions that the most recent process recorded.
    pub fn thrown(&self) -> Vec<Thrown> {
        Thrown::read(&self.thrown)
    }

    /// Waits for the addresses in the log; returns `None` if the process exits or after [`BIND_MAX`].
    pub fn wait_for_addresses(&self, child: &mut Child) -> Option<String> {
        let due = Instant::now() + BIND_MAX;
        loop {
            if let Some(addresses) = self.lock().addresses.clone() {
                return Some(addresses);
            }
            if child.exit().is_some() || Instant::now() > due {
                return None;
            }
            thread::sleep(LOOK);
        }
    }

    /// Prints the retained output and switches to direct output.
    pub fn show(&self) {
        let mut output = self.lock();
        output.is_shown = true;
        let startup_output = std::mem::take(&mut output.startup_output);
        for line in startup_output.split_inclusive(|byte| *byte == b'\n') {
            // Compare lines without their timestamp.
            let text = line.iter().skip_while(|byte| **byte != b' ');
            if output.known.len() == KNOWN_MAX || output.known.insert(text.copied().collect()) {
                let _ = std::io::stderr().write_all(line);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads a script's report; returns `None` if the connection failed or the report is invalid.
fn report(stream: &UnixStream) -> Option<Report> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(REPORT_MAX)).ok()?;
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream).take(REPORT_BYTES_MAX);
    reader.read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

/// Reads the output of a process and its workers line by line until all of them have exited.
fn pass_on(output: std::io::PipeReader, into: &Mutex<Output>, generation: u64) {
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        let mut state = into.lock().unwrap_or_else(PoisonError::into_inner);
        let is_current = state.generation == generation;
        if !matches!(read, Ok(1..)) {
            if is_current {
                state.open -= 1;
            }
            return;
        }
        if is_current && let Some(addresses) = addresses(&line) {
            state.addresses = Some(addresses);
        }
        if is_routine(&line) {
            continue;
        }
        if is_current && !state.is_shown && state.startup_output.len() < STARTUP_OUTPUT_BYTES_MAX {
            state.startup_output.extend_from_slice(&line)
        } else {
            drop(state);
            let _ = std::io::stderr().write_all(&line);
        }
    }
}

/// Returns true for an informational line of the server's log: `TIME info [master] …`.
fn is_routine(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ').filter(|it| !it.is_empty());
    let is_time = words
        .next()
        .is_some_and(|it| it.ends_with(b"Z") && it.contains(&b'T'));
    let is_info = words.next() == Some(b"info");
    is_time && is_info && words.next().is_some_and(|it| it.starts_with(b"["))
}

fn addresses(line: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(line)
        .ok()
        .filter(|_| is_routine(line))?;
    let (_, rest) = text.split_once(LISTENING)?;
    let end = rest.find(" with ").unwrap_or(rest.trim_end().len());
    Some(rest[..end].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routine_is_told_from_what_the_program_says() {
        let line = b"2026-11-22T11:17:43.154Z info    [master] listening on http://127.0.0.1:1 with 1 worker (pid=2)\n";
        assert!(is_routine(line));
        assert_eq!(addresses(line).as_deref(), Some("http://127.0.0.1:1"));
        for line in [
            &b"2026-11-22T11:17:43.154Z warning [worker 0] PHP warning: x\n"[..],
            b"info [master] mine\n",
            b"\n",
            b"listening on x",
        ] {
            assert!(!is_routine(line));
            assert_eq!(addresses(line), None);
        }
    }
}
