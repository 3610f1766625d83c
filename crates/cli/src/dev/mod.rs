//! `fermata dev`: a server that is started anew when its files change, and pages that follow.
//!
//! A changed program is read by a new process while the old one goes on answering. When it has come as far as run(), the
//! old process is ended and the new one is told to bind; when it has not, the failure is shown and nothing else happens.
//! The file `attach.php` is the part of this inside of the server.

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

/// Silence after a change until it is acted on: editors write a file in several steps, and save many at once.
const QUIET: Duration = Duration::from_millis(30);
/// A burst of changes is acted on after this time, however it goes on.
const BURST_MAX: Duration = Duration::from_millis(500);

/// How long a program may take until run().
const READ_MAX: Duration = Duration::from_secs(60);

/// From here on a program that is read gives way to one that has been changed.
const READ_LONG: Duration = Duration::from_secs(2);

/// How often changes are looked for meanwhile.
const LOOK: Duration = Duration::from_millis(100);
/// How long the old process may take to end until it is killed: `DRAIN_MS` and what comes after it.
const END_MAX: Duration = Duration::from_secs(10);

/// What is running, and what is wrong.
struct Dev<'a> {
    program: Program<'a>,
    signals: Signals,
    watcher: Watcher,
    place: &'a Path,
    running: Option<Child>,
    failure: Option<Failure>,
    /// Answers while nothing runs.
    fallback: Option<Fallback>,
    /// Where the server listens, or is to.
    addresses: Option<String>,
    /// Counts changes that concern pages alone.
    pages: u64,
    has_shown_routes: bool,
    /// Files of PHP that were changed since the program that runs was read. A class is loaded when a request needs it, so
    /// the next program may come as far as run() although one of them is no PHP.
    unread: BTreeSet<PathBuf>,
    is_coloured: bool,
    /// A signal has come while a program was read.
    is_over: bool,
}

/// Runs until a signal ends it.
///
/// # Errors
/// One sentence for the user.
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
    // Made before the first thread, so that all of them leave these signals to this one.
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

/// An application that PHP-FPM runs, which reads its files for each request.
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
        // PHP does, with what the edge cannot know.
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
    /// Acts on changes until a signal ends everything.
    fn serve(&mut self) {
        while !self.is_over {
            match self.wait_for_change() {
                Turn::End => return,
                Turn::Ended(exit) => {
                    self.running = None;
                    let (said, thrown) = (self.program.said(), self.program.thrown());
                    self.fail(Failure::ended(&exit, &said, &thrown));
                }
                Turn::Changed(changes) if changes.is_of_pages_alone() && self.failure.is_none() => {
                    self.pages += 1;
                    self.tell();
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

    /// Starts the program, and again whenever files change while it is read.
    fn start_for(&mut self, changes: Changes) {
        let mut reason = Some(changes);
        while let Some(changes) = reason {
            reason = self.start(Some(&changes));
        }
    }

    /// Reads the program in a new process, which takes the old one's place where that goes well.
    ///
    /// Some changes: while one that takes long was read, files were changed, so it was given up.
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
                Read::Ended(said) => {
                    self.fail(Failure::of(&said, &self.program.thrown()));
                    return None;
                }
                Read::Nothing if Instant::now() > due => {
                    let seconds = READ_MAX.as_secs();
                    let said = format!("the program has not called run() within {seconds} s");
                    self.fail(Failure::of_text(&said));
                    return None;
                }
                Read::Nothing => {}
            }
            // One that writes files of its own while it is read must come to its end.
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
        // Of pages alone, or it would have been started anew.
        self.pages += u64::from(later.is_any());
        self.unread.clear();
        self.watcher.add_files(&report.files);
        self.failure = None;
        self.fallback = None;
        if let Err(error) = place::share(self.place, &report.user, &report.group) {
            eprintln!("fermata dev: pages do not reload: {error}");
        }
        self.tell();
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
            // It has ended, which is seen next, or says something else.
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

    /// Shows what is wrong, here and in the browser.
    fn fail(&mut self, failure: Failure) {
        notices::failure(&failure, self.running.is_some(), self.is_coloured);
        if self.running.is_none() {
            self.fallback = None;
            self.fallback = Fallback::start(self.addresses.as_deref(), &failure);
        }
        self.failure = Some(failure);
        self.tell();
    }

    /// Writes what pages are to know, which the server looks at.
    fn tell(&self) {
        let state = serde_json::json!({ "pages": self.pages, "failure": self.failure });
        let (new, path) = (self.place.join("state.new"), self.place.join("state.json"));
        // It is read by whoever may enter the folder, whatever the umask is.
        let written = fs::write(&new, state.to_string())
            .and_then(|()| fs::set_permissions(&new, fs::Permissions::from_mode(0o644)))
            .and_then(|()| fs::rename(&new, &path));
        if let Err(error) = written {
            eprintln!("fermata dev: {}: {error}", path.display());
        }
    }
}

/// What happens next.
enum Turn {
    End,
    /// The server has ended by itself.
    Ended(String),
    Changed(Changes),
}

/// Where the program is told to listen, if it is.
fn addresses(arguments: &Arguments) -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok();
    let port = || variable("PORT").map(|port| format!("http://127.0.0.1:{port}"));
    let listen = arguments.listen.clone();
    listen.or_else(|| variable("FERMATA_LISTEN")).or_else(port)
}

/// The folder of a program, or the one around it that has a composer.json.
fn project_of(program: &Path) -> PathBuf {
    let program = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    project_around(program.parent().unwrap_or(Path::new("/")))
}

/// The folder, or the one around it that has a composer.json.
fn project_around(folder: &Path) -> PathBuf {
    let own = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let project = own
        .ancestors()
        .take(3)
        .find(|folder| folder.join("composer.json").is_file());
    project.unwrap_or(&own).to_owned()
}
