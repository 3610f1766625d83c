//! `fermata dev`: restarts a server when its files change, and reloads open pages.
//!
//! After a change, a new process loads the script while the old process keeps serving. When the new process reaches run(),
//! the old process is stopped and the new one binds the address. If the new process fails before run(), the error is shown
//! and the old process keeps serving. `attach.php` is the counterpart inside the server.

mod arguments;
mod failure;
mod fallback;
mod notices;
mod place;
mod program;
mod routes;
pub mod watch;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fermata_io::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};

use crate::child::{self, Child, Signals};
use crate::error::Error;
use crate::serve::{Common, Watched, serve_folder};
use failure::Failure;
use fallback::Fallback;
use place::Place;
use program::{Program, Read};
use watch::{Changes, Watcher};

pub use arguments::Arguments;
pub use routes::{Arguments as RoutesArguments, run as routes};

/// Quiet time after a change before a restart: editors write a file in several steps and save several files together.
const QUIET: Duration = Duration::from_millis(30);
/// Maximum delay of a restart while changes continue.
const BURST_MAX: Duration = Duration::from_millis(500);

/// Maximum time from the start of a script to run().
const READ_MAX: Duration = Duration::from_secs(60);

/// Load time after which a new change aborts the load and starts again.
const READ_LONG: Duration = Duration::from_secs(2);

/// Interval at which changes are polled while a script loads.
const LOOK: Duration = Duration::from_millis(100);
/// Time after which the old process is killed: `DRAIN_MS` plus shutdown.
const END_MAX: Duration = Duration::from_secs(10);

/// State of the development server.
struct Dev<'a> {
    program: Program<'a>,
    signals: Signals,
    watcher: Watcher,
    place: &'a Path,
    running: Option<Child>,
    failure: Option<Failure>,
    /// Error page while no server runs.
    fallback: Option<Fallback>,
    /// Address of the server, or the configured one before the first start.
    addresses: Option<String>,
    /// Number of changes that affected only pages.
    pages: u64,
    has_shown_routes: bool,
    /// PHP files changed since the running script was loaded. The new process compiles each of them: classes load on demand, so
    /// a script can reach run() despite a syntax error in one of these files.
    unread: BTreeSet<PathBuf>,
    is_coloured: bool,
    /// True if a signal to stop arrived while a script was loading.
    is_over: bool,
}

/// Runs until a signal stops it.
///
/// # Errors
/// Fails with a message for the user if the environment cannot be set up.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    if arguments.program.is_dir() {
        return run_folder(arguments);
    }
    let php = arguments.php.find()?;
    crate::serve::check(&php)?;
    if !arguments.program.is_file() {
        return Err(Error::Misuse(format!(
            "{}: no such file",
            arguments.program.display()
        )));
    }
    crate::serve::check_options(arguments.listen.as_deref(), None)?;
    // Installed before the first child starts, so that no signal is missed.
    let signals = Signals::install(&[SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGWINCH])?;
    let place = Place::new()?;
    let roots = match &arguments.watch[..] {
        [] => vec![project_of(&arguments.program)],
        named => named.to_vec(),
    };
    let watcher = Watcher::new(&roots, arguments.poll)?;
    let is_coloured = is_coloured();
    let mut dev = Dev {
        program: Program::new(&php, arguments, place.path(), is_coloured)?,
        signals,
        watcher,
        place: place.path(),
        running: None,
        failure: None,
        fallback: None,
        addresses: addresses(arguments),
        pages: 0,
        has_shown_routes: false,
        unread: BTreeSet::new(),
        is_coloured,
        is_over: false,
    };
    if let Some(changes) = dev.start(None) {
        dev.start_for(changes);
    }
    dev.serve();
    if let Some(mut running) = dev.running.take() {
        child::end(&mut running, SIGTERM, &dev.signals, END_MAX);
    }
    Ok(())
}

fn is_coloured() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Runs an application under PHP-FPM, which reads changed files on each request; no restart is needed.
fn run_folder(arguments: &Arguments) -> Result<(), Error> {
    let folder = &arguments.program;
    let roots = match &arguments.watch[..] {
        [] => vec![project_around(folder)],
        named => named.to_vec(),
    };
    let common = Common {
        folder,
        listen: arguments.listen.as_deref(),
        workers: Some(arguments.workers),
        // PHP prints the requests, with details that the edge lacks.
        shows_requests: false,
        dry_run: false,
    };
    let watched = Watched {
        roots,
        is_coloured: is_coloured(),
        polls: arguments.poll,
    };
    serve_folder(&common, &arguments.folder, Some(&watched))
}

impl Dev<'_> {
    /// Handles changes until a signal arrives.
    fn serve(&mut self) {
        while !self.is_over {
            match self.wait_for_change() {
                Turn::End => return,
                Turn::Ended(exit) => {
                    self.running = None;
                    let (startup_output, thrown) =
                        (self.program.startup_output(), self.program.thrown());
                    self.fail(Failure::ended(&exit, &startup_output, &thrown));
                }
                // After a failed start, any changed file may repair the script, so start it again.
                Turn::Changed(changes) if changes.is_of_pages_alone() && self.failure.is_none() => {
                    self.pages += 1;
                    self.write_state();
                }
                Turn::Changed(changes) => self.start_for(changes),
            }
        }
    }

    fn wait_for_change(&mut self) -> Turn {
        let mut changes = Changes::default();
        let (mut quiet_at, mut latest) = (None, None);
        loop {
            if let Some(running) = &mut self.running
                && let Some(exit) = running.exit()
            {
                return Turn::Ended(exit.to_string());
            }
            if self.watcher.read(&mut changes) {
                let now = Instant::now();
                quiet_at = Some(now + QUIET);
                latest.get_or_insert(now + BURST_MAX);
            }
            let due = match (quiet_at, latest) {
                (Some(quiet), Some(latest)) => quiet.min(latest),
                _ => Instant::now() + Duration::from_secs(60),
            };
            if Instant::now() >= due && quiet_at.is_some() {
                return Turn::Changed(changes);
            }
            let due = due.min(self.watcher.due());
            match self.signals.wait_with(due, self.watcher.fd()) {
                Some(SIGINT | SIGTERM | SIGQUIT) => return Turn::End,
                Some(SIGHUP) => return Turn::Changed(Changes::asked()),
                _ => {}
            }
        }
    }

    /// Starts the script; starts again if files change while it loads.
    fn start_for(&mut self, changes: Changes) {
        let mut reason = Some(changes);
        while let Some(changes) = reason {
            reason = self.start(Some(&changes));
        }
    }

    /// Loads the script in a new process, which replaces the old one on success.
    ///
    /// Returns the new changes if files changed during a long load, which was then aborted.
    fn start(&mut self, changes: Option<&Changes>) -> Option<Changes> {
        let begun = Instant::now();
        match changes {
            Some(changes) if !changes.is_asked() => self.unread.extend(changes.programs().cloned()),
            _ => self.unread.clear(),
        }
        let mut next = match self.program.start(&self.unread, !self.has_shown_routes) {
            Ok(next) => next,
            Err(problem) => {
                self.fail(Failure::of_text(&problem.to_string()));
                return None;
            }
        };
        let due = begun + READ_MAX;
        let mut later = Changes::default();
        let (report, turn) = loop {
            match self.program.read(&mut next) {
                Read::Report(report, turn) => break (report, turn),
                Read::Ended(startup_output) => {
                    self.fail(Failure::of(&startup_output, &self.program.thrown()));
                    return None;
                }
                Read::Nothing if Instant::now() > due => {
                    let seconds = READ_MAX.as_secs();
                    let text = format!("the program has not called run() within {seconds} s");
                    self.fail(Failure::of_text(&text));
                    return None;
                }
                Read::Nothing => {}
            }
            // Do not abort short loads: a script that writes files while it loads would restart forever.
            let is_long = begun.elapsed() >= READ_LONG;
            if is_long && self.watcher.read(&mut later) && !later.is_of_pages_alone() {
                return Some(later);
            }
            let look = Instant::now() + LOOK;
            let signal = self
                .signals
                .wait_with(due.min(look), Some(self.program.fd()));
            if let Some(SIGINT | SIGTERM | SIGQUIT) = signal {
                self.is_over = true;
                return None;
            }
        };
        // Later changes affect only pages; otherwise the load would have been aborted.
        self.pages += u64::from(later.is_any());
        self.unread.clear();
        self.watcher.add_files(&report.files);
        self.failure = None;
        // The error page and the old process use the address that the new process binds.
        self.fallback = None;
        if let Err(error) = place::share(self.place, &report.user, &report.group) {
            eprintln!("fermata dev: pages do not reload: {error}");
        }
        self.write_state();
        if let Some(mut before) = self.running.take() {
            child::end(&mut before, SIGTERM, &self.signals, END_MAX);
        }
        if turn.go().is_err() {
            self.fail(Failure::of_text(
                "the program has ended before it could listen",
            ));
            return None;
        }
        let addresses = self.program.wait_for_addresses(&mut next);
        self.running = Some(next);
        let Some(addresses) = addresses else {
            // The process exited, which the next wait detects, or its log line has another format.
            return None;
        };
        self.program.show();
        let took = begun.elapsed().as_millis();
        let why = changes.map_or_else(String::new, |it| format!(", after {it}"));
        notices::ready(&addresses, took, &why, self.is_coloured);
        self.addresses = Some(addresses);
        if !self.has_shown_routes {
            self.has_shown_routes = true;
            eprint!("{}", routes::shown(&report.routes));
        }
        None
    }

    /// Shows the error in the terminal and in the browser.
    fn fail(&mut self, failure: Failure) {
        notices::failure(&failure, self.running.is_some(), self.is_coloured);
        if self.running.is_none() {
            // Release the address before it is bound again.
            self.fallback = None;
            self.fallback = Fallback::start(self.addresses.as_deref(), &failure);
        }
        self.failure = Some(failure);
        self.write_state();
    }

    /// Writes the state file, from which the server notifies pages.
    fn write_state(&self) {
        let state = serde_json::json!({ "pages": self.pages, "failure": self.failure });
        let (new, path) = (self.place.join("state.new"), self.place.join("state.json"));
        // Workers may run as another user: make the file readable regardless of the umask. The folder restricts access.
        let written = fs::write(&new, state.to_string())
            .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o644)))
            .and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            eprintln!("fermata dev: {}: {error}", path.display());
        }
    }
}

/// Event that the main loop handles.
enum Turn {
    End,
    /// The server exited on its own.
    Ended(String),
    Changed(Changes),
}

/// Returns the address from the options or the environment, if set.
fn addresses(arguments: &Arguments) -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok();
    let port = || variable("PORT").map(|port| format!("http://127.0.0.1:{port}"));
    let listen = arguments.listen.clone();
    listen.or_else(|| variable("FERMATA_LISTEN")).or_else(port)
}

/// Returns the project of a script; see [`project_around`].
fn project_of(program: &Path) -> PathBuf {
    let program = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    project_around(program.parent().unwrap_or(Path::new("/")))
}

/// Returns the nearest folder with a composer.json, at most two levels up, or else `folder`.
fn project_around(folder: &Path) -> PathBuf {
    let own = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let project = own
        .ancestors()
        .take(3)
        .find(|folder| folder.join("composer.json").is_file());
    project.unwrap_or(&own).to_owned()
}
