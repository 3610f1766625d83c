//! One process of a program after the other, as far as run(), and what it prints meanwhile.

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

/// How long a process that is ended may go on with what is under way.
const DRAIN_MS: u64 = 1_000;
/// What is kept of the output of a program that has not come to run() yet; more is shown at once.
const SAID_BYTES_MAX: usize = 256 * 1024;
/// Lines that are remembered so as to be shown once.
const KNOWN_MAX: usize = 1_000;
/// The longest line of it.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// What a program may report: routes and the names of its files.
const REPORT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Changed files that are looked at, of many that are saved at once.
const CHANGED_MAX: usize = 20;
/// How long it may take to say so.
const REPORT_MAX: Duration = Duration::from_secs(10);
/// How long the master takes to bind at most, until nobody waits for its address any more.
const BIND_MAX: Duration = Duration::from_secs(10);
/// How often is looked for its address.
const LOOK: Duration = Duration::from_millis(2);

/// What the server says in a line of its log when it listens.
const LISTENING: &str = "listening on ";

/// How a program is started.
pub struct Program<'a> {
    php: &'a Php,
    program: &'a Path,
    arguments: &'a [OsString],
    environment: Vec<(&'static str, OsString)>,
    /// Where programs report.
    listener: UnixListener,
    /// Has OPcache keep what it compiles from one start to the next.
    cache: Vec<String>,
    /// Where they leave what they have thrown.
    thrown: PathBuf,
    generation: u64,
    output: Arc<Mutex<Output>>,
}

/// What a program has told when it came to run().
#[derive(Debug, Deserialize)]
pub struct Report {
    pub routes: Vec<Route>,
    pub files: Vec<PathBuf>,
    /// The settings of these names; empty where they are not set.
    pub user: String,
    pub group: String,
}

/// A program that waits in run() until it may go on.
#[derive(Debug)]
pub struct Waiting(UnixStream);

impl Waiting {
    pub fn go(mut self) -> std::io::Result<()> {
        self.0.write_all(b"go\n")
    }
}

/// How far a program is.
pub enum Read {
    Nothing,
    Report(Report, Waiting),
    /// It has ended, and has said this.
    Ended(String),
}

/// Output of the process that was started last.
#[derive(Debug, Default)]
struct Output {
    generation: u64,
    said: Vec<u8>,
    /// Nothing is kept any more: it runs.
    is_shown: bool,
    /// Warnings of programs before this one, which need not be shown each time.
    known: HashSet<Vec<u8>>,
    addresses: Option<String>,
    open: usize,
}

/// As a variable of the environment, which has a bound.
fn lines(files: &BTreeSet<PathBuf>) -> OsString {
    let mut lines = OsString::new();
    for file in files.iter().take(CHANGED_MAX) {
        lines.push(file);
        lines.push("\n");
    }
    lines
}

/// Options that have OPcache keep what it compiles from one start to the next, which is most of what a framework's start takes.
///
/// Of a file it knows the second of its last change alone, so none is kept that is younger than two.
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
    /// # Errors
    /// One sentence for the user.
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
            // Ids of events stay valid, so clients go on where they were.
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

    /// Starts the program anew. Of what was `changed` it also looks at what it does not read by itself; where `has_routes`, it
    /// reports those of a framework, too.
    ///
    /// # Errors
    /// One sentence for the user.
    pub fn start(&mut self, changed: &BTreeSet<PathBuf>, has_routes: bool) -> Result<Child, Error> {
        self.generation += 1;
        let mut command = self.php.command(false);
        // What is wrong with a program is to be found on standard error, and there once.
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
        // One of a program before this one, which has been given up.
        while self.listener.accept().is_ok() {}
        let _ = std::fs::remove_file(&self.thrown);
        let started = Child::start(&mut command);
        // Its ends of the pipes, without which they never end.
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
            match is_error {
                true => command.stderr(Stdio::from(writer)),
                false => command.stdout(Stdio::from(writer)),
            };
            outputs.push(reader);
        }
        Ok(outputs)
    }

    /// Can be read from when a program reports.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// How far the program is that was started last.
    pub fn read(&self, child: &mut Child) -> Read {
        if let Ok((stream, _)) = self.listener.accept()
            && let Some(report) = report(&stream)
        {
            return Read::Report(report, Waiting(stream));
        }
        match child.exit() {
            None => Read::Nothing,
            Some(exit) => {
                let said = self.said();
                Read::Ended(match said.trim().is_empty() {
                    true => format!("the program has ended without calling run() ({exit})"),
                    false => said,
                })
            }
        }
    }

    /// What the program has said, when nothing more comes; once it runs that was shown.
    pub fn said(&self) -> String {
        let due = Instant::now() + Duration::from_secs(1);
        while self.lock().open > 0 && Instant::now() < due {
            thread::sleep(LOOK);
        }
        String::from_utf8_lossy(&self.lock().said).into_owned()
    }

    /// What the program has thrown that was started last, when it has ended.
    pub fn thrown(&self) -> Vec<Thrown> {
        Thrown::read(&self.thrown)
    }

    /// Waits until the program says where it listens; `None` when it ends instead.
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

    /// The program runs: nothing of what it prints is kept any more.
    pub fn show(&self) {
        let mut output = self.lock();
        output.is_shown = true;
        let said = std::mem::take(&mut output.said);
        for line in said.split_inclusive(|byte| *byte == b'\n') {
            // Behind the time.
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

/// Reads what a program reports; `None` when it has gone.
fn report(stream: &UnixStream) -> Option<Report> {
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(REPORT_MAX)).ok()?;
    let mut line = Vec::new();
    let mut reader = BufReader::new(stream).take(REPORT_BYTES_MAX);
    reader.read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

/// Takes lines of a process until it and its workers have ended.
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
        match is_current && !state.is_shown && state.said.len() < SAID_BYTES_MAX {
            true => state.said.extend_from_slice(&line),
            false => {
                drop(state);
                let _ = std::io::stderr().write_all(&line);
            }
        }
    }
}

/// Whether a line of the server's log only says that it does as it should: `TIME info [master] …`.
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
