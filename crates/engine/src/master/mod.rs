//! The master: binds, forks workers, replaces those that end, and stops them all.
//!
//! It holds every listener, so the connections that wait in a dead worker's queue are served by its
//! replacement. It serves nothing itself and runs no PHP after the fork.

mod banner;
mod blocking;
mod companion;
mod descriptors;
mod frames;
mod identity;
mod inherit;
pub(crate) mod link;
mod manager;
mod stall;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use fermata_config::{LogLevel, Scheme, SettingError, Settings};
use fermata_hub::{Owner, Ring};
use fermata_io::handover::Inbox;
use fermata_io::process::{self, Exit, Fork};
use fermata_io::signal::{self, SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGUSR1};
use fermata_io::sys::epoll::Epoll;
use fermata_io::wake::Waker;
use fermata_io::{Backend, Driver, Fd, Kernel, net, random};
use fermata_tls::Tls;

use crate::admin::stats;
use crate::admin::trace::{Sink, SinkError};
use crate::channels::follow::Archive;
use crate::channels::memory::{self, HubError};
use crate::http::body::Spools;
use crate::http::router::Router;
use crate::log::Logger;
use crate::net::backend;
use crate::net::listeners::{self, Bound};
use crate::net::tls::{ServerTls, TlsError};
use crate::start::Parts;
use crate::websocket::Route;
use crate::worker::Worker;
use blocking::{Looker, Seen};
use companion::Beside;
use identity::Identity;
use link::{Link, NOTE_RETIRING, ORDER_DRAIN, ORDER_RELOAD, ORDER_RELOAD_TLS, ORDER_REOPEN_LOG};
use manager::Manager;
use stall::Pulse;

pub use companion::Companion;
pub use frames::Frames;
pub use link::EXIT_RETIRED;

/// Connections that may wait for `accept`; the kernel lowers it to `net.core.somaxconn`.
pub(crate) const BACKLOG: i32 = 4096;

/// A worker that has lived this long was not a failed start: the restart delay begins anew.
const STABLE_MS: u64 = 1_000;

/// The first delay before a restart; it doubles up to `restart_delay_ms_max`.
const RESTART_DELAY_MS: u64 = 100;

/// From one start of a worker to the next, when it could start and has run a handler: a page that ends its worker
/// with every request may not have the master do nothing but fork.
const RESTART_GAP_MS: u64 = 50;

/// Slots beyond one per worker, at least: those that have retired keep theirs until their last client is gone.
const SPARE_SLOTS: u16 = 6;

/// A signal to stop that follows another one so soon is the same wish: shells send it to the group and to the
/// process, container runtimes twice.
const SAME_SIGNAL_MS: u64 = 500;

/// The process that every system and container has, and that orphans become children of.
const INIT_PID: i32 = 1;

/// What a worker gets on top of `drain_timeout_ms` before it is killed.
const KILL_GRACE_MS: u64 = 2_000;

const TOKEN_SIGNALS: u64 = 0;
/// No pid.
const TOKEN_LOOKER: u64 = u64::MAX;

/// The terminal of whatever process opens it; there is none for a daemon.
const TERMINAL: &str = "/dev/tty";

/// Why a server did not start. Each sentence names the setting, the cause and the fix.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting has a bad value.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The access log.
    #[error(transparent)]
    AccessLog(#[from] SinkError),
    /// The address for metrics.
    #[error("metrics_listen: cannot listen on {address}: {cause}")]
    Metrics {
        /// What was asked for.
        address: String,
        /// What went wrong and what helps.
        cause: String,
    },
    /// A listener.
    #[error("listen: cannot listen on {address}: {cause}")]
    Listen {
        /// What was asked for.
        address: String,
        /// What went wrong and what helps.
        cause: String,
    },
    /// The control socket.
    #[error("control: cannot listen on unix:{}: {source}; is another server using it, and may this user write there?", path.display())]
    Control {
        /// Its path.
        path: PathBuf,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// Whose rights workers are to have.
    #[error("{setting}: {cause}")]
    Account {
        /// `user` or `group`.
        setting: &'static str,
        /// What went wrong and what helps.
        cause: String,
    },
    /// The shared memory or file of the hub.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The kernel refused something that no setting changes.
    #[error("starting the server: {what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// Which process `start` has returned in.
pub enum Started {
    /// In a worker: pull events from it.
    Worker(Box<Worker<Tls<Kernel>>>),
    /// In the companion, each time the master has started one.
    Companion(Companion),
    /// In the process that called: all workers have ended.
    Ended {
        /// What the process should exit with: 0 after an orderly stop.
        exit_code: i32,
        /// The companion, which goes on until the caller ends it; 0 = there is none.
        companion_pid: i32,
        /// All that was published, for who has not read it yet.
        published: Option<Box<Archive>>,
        /// The master's.
        logger: Logger,
    },
}

/// What the embedder says of the program that runs in workers.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its name, version and what else is worth knowing, for the banner.
    pub name: Option<String>,
    /// What else there is, one line each.
    pub notes: Vec<String>,
    /// What is probably not meant, one sentence each.
    pub warnings: Vec<String>,
    /// Workers have files to read again when the operator says so.
    pub takes_reloads: bool,
    /// How its frames are found in a worker's memory.
    pub frames: Option<Frames>,
    /// The name of its companion in the log; none without a name.
    pub companion: Option<String>,
}

/// One worker process as the master sees it.
struct Child {
    pid: i32,
    index: u16,
    slot: u16,
    stream: UnixStream,
    started_ms: u64,
    is_replaced: bool,
    pulse: Pulse,
    seen: Seen,
}

/// The place of a worker: its listeners, and when to fill the place again.
struct Seat {
    /// In the order of the addresses. Given up when the server stops, so that new clients are
    /// refused instead of left waiting.
    listeners: Vec<OwnedFd>,
    due_ms: Option<u64>,
    delay_ms: u64,
}

/// The master's state. It is also what a forked worker starts from.
pub(crate) struct Master {
    settings: Arc<Settings>,
    router: Arc<Router>,
    websockets: Arc<Vec<Route>>,
    logger: Logger,
    /// What is spoken where, ports as the kernel has chosen them.
    addresses: Vec<Bound>,
    tls: Option<ServerTls>,
    seats: Vec<Seat>,
    children: Vec<Child>,
    control: Option<(OwnedFd, PathBuf)>,
    /// Where metrics are read.
    metrics: Option<(OwnedFd, SocketAddr)>,
    /// The access log is a file, which may be moved away.
    has_log_file: bool,
    /// Workers have files of the program's to read again.
    takes_reloads: bool,
    wakers: Arc<Vec<Waker>>,
    inboxes: Arc<Vec<Inbox>>,
    /// `Some` in the master; a worker takes it with it.
    ring: Option<Ring>,
    stats: stats::Shared,
    signals: signal::Pipe,
    driver: Epoll,
    /// What workers wait with.
    backend: Backend,
    /// The server was started in a terminal.
    has_terminal: bool,
    stopping_until_ms: Option<u64>,
    /// When the last signal to stop came.
    stop_signal_ms: u64,
    /// Whose rights workers get; `None` = those of the master.
    identity: Option<Identity>,
    looker: Looker,
    manager: Manager,
    beside: Beside,
    spools: Spools,
    /// What runs the handlers, for the banner.
    program: Option<String>,
    program_notes: Vec<String>,
    /// What is probably not meant, for the log.
    warnings: Vec<String>,
    /// Why another kernel interface is used than was asked for.
    backend_refusal: Option<String>,
    /// When workers are next asked for a sign of life; `u64::MAX` = never.
    check_due_ms: u64,
}

impl Master {
    /// Binds and maps everything that workers share.
    pub fn open(
        mut settings: Settings,
        router: Router,
        websockets: Vec<Route>,
        program: Program,
    ) -> Result<Master, StartError> {
        let workers = workers_of(&settings);
        let logger = Logger::new(settings.log_format, settings.log_level, "master");
        let identity = Identity::of(&settings)?;
        // Before anything is bound: a bad certificate is the likeliest mistake.
        let tls = ServerTls::open(&settings, &logger)?;
        let access_log = Sink::open(&settings)?;
        let owned = access_log.as_ref().filter(|log| log.is_file());
        if let (Some(identity), Some(log)) = (&identity, owned) {
            identity.own_log(log).map_err(|source| StartError::Io {
                what: "giving the access log to the user of workers",
                source,
            })?;
        }
        let (listeners, addresses) = listeners::bind(&settings, workers)?;
        let metrics = listeners::bind_metrics(&settings)?;
        let metrics_listener = metrics.iter().map(|(listener, _)| listener);
        for listener in listeners.iter().flatten().chain(metrics_listener) {
            net::limit_undelivered(listener, settings.write_timeout_ms);
        }
        let ring = memory::open(&settings, &logger)?;
        let stats = memory::open_stats()?;
        let logger = logger.counted(stats);
        // A worker that drains keeps its slot while its replacement starts.
        let slots = (workers + workers.max(SPARE_SLOTS)).min(memory::SLOTS);
        let wakers = (0..slots)
            .map(|_| Waker::new())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| StartError::Io {
                what: "eventfd",
                source,
            })?;
        let inboxes = wakers
            .iter()
            .map(|_| Inbox::new())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|source| StartError::Io {
                what: "socket pairs between workers",
                source,
            })?;
        let control = match settings.control.as_deref().map(control_path) {
            None => None,
            Some(path) => {
                let listener =
                    net::bind_unix(&path, BACKLOG, net::UNIX_MODE).map_err(|source| {
                        StartError::Control {
                            path: path.clone(),
                            source,
                        }
                    })?;
                // Programs of that user publish.
                if let Some(identity) = &identity {
                    identity.own(&path).map_err(|source| StartError::Control {
                        path: path.clone(),
                        source,
                    })?;
                }
                Some((listener, path))
            }
        };
        let mut warnings = program.warnings;
        warnings.extend(identity::warning(identity.as_ref()));
        let limit = process::raise_descriptor_limit();
        let shared = wakers.len() + inboxes.len() * Inbox::DESCRIPTORS;
        warnings.extend(descriptors::fit(&mut settings, limit, shared));
        let io = |what| move |source| StartError::Io { what, source };
        let signals = signal::Pipe::install(&[SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD])
            .map_err(io("signal handlers"))?;
        let mut driver = Epoll::new().map_err(io("epoll"))?;
        driver
            .add_wake(signals.fd(), TOKEN_SIGNALS)
            .map_err(io("epoll"))?;
        let (backend, why) = backend::choose(&settings);
        if let Some(why) = &why {
            logger.write(LogLevel::Warning, driver.unix_ms(), why);
        }
        let looker = Looker::new(program.frames).map_err(io("eventfd"))?;
        driver
            .add_wake(looker.waker.fd(), TOKEN_LOOKER)
            .map_err(io("epoll"))?;
        let manager = Manager::new(driver.now_ms());
        let seats = listeners
            .into_iter()
            .map(|listeners| Seat {
                listeners,
                due_ms: Some(0),
                delay_ms: 0,
            })
            .collect();
        let check_due_ms = match settings.stall_timeout_ms {
            0 => u64::MAX,
            _ => driver.now_ms(),
        };
        let spools = Spools::new(&settings, random::u64());
        spools.sweep_dead();
        Ok(Master {
            spools,
            settings: Arc::new(settings),
            router: Arc::new(router),
            websockets: Arc::new(websockets),
            logger,
            addresses,
            tls,
            seats,
            children: Vec::new(),
            control,
            metrics,
            takes_reloads: program.takes_reloads,
            has_log_file: access_log.is_some_and(|log| log.is_file()),
            inboxes: Arc::new(inboxes),
            wakers: Arc::new(wakers),
            ring: Some(ring),
            stats,
            signals,
            driver,
            backend,
            has_terminal: std::fs::File::open(TERMINAL).is_ok(),
            stopping_until_ms: None,
            stop_signal_ms: 0,
            identity,
            looker,
            manager,
            beside: Beside::new(program.companion),
            program: program.name,
            program_notes: program.notes,
            warnings,
            backend_refusal: why,
            check_due_ms,
        })
    }

    /// Runs until every worker has ended; in a worker it returns at once.
    pub fn supervise(mut self) -> Result<Started, StartError> {
        self.logger.take_panics();
        self.announce();
        let (pid, seats) = (process::pid() as u32, self.seats.len() as u16);
        self.stats.server_started(pid, seats, self.driver.unix_ms());
        let mut events = Vec::new();
        loop {
            let now_ms = self.driver.refresh_now();
            if let Some(companion) = self.start_companion(now_ms) {
                return Ok(Started::Companion(companion));
            }
            for index in 0..self.seats.len() {
                if self.seats[index]
                    .due_ms
                    .is_some_and(|due_ms| due_ms <= now_ms)
                    && let Some(worker) = self.spawn(index as u16)?
                {
                    return Ok(Started::Worker(worker));
                }
            }
            if self.stopping_until_ms.is_some() && self.children.is_empty() {
                return Ok(self.end());
            }
            if self
                .stopping_until_ms
                .is_some_and(|until_ms| until_ms <= now_ms)
            {
                self.log(
                    LogLevel::Warning,
                    "workers did not stop in time; killing them",
                );
                self.kill_all();
            }
            if self.stopping_until_ms.is_none() {
                self.manager.ready("serving");
            }
            self.tell_alive(now_ms);
            self.logger.tell_dropped(self.driver.unix_ms());
            self.check_workers(now_ms);
            self.look_at_handlers(now_ms);
            if let Some(tls) = &self.tls {
                tls.forget();
            }
            events.clear();
            let timeout = self
                .next_due_ms()
                .map(|due_ms| due_ms.saturating_sub(now_ms));
            self.driver
                .wait(&mut events, timeout)
                .map_err(|source| StartError::Io {
                    what: "waiting for workers",
                    source,
                })?;
            for event in &events {
                match event.token {
                    TOKEN_SIGNALS => {}
                    TOKEN_LOOKER => self.begin_looking(),
                    token => self.on_note(token),
                }
            }
            while let Some(signal) = self.signals.read() {
                self.on_signal(signal);
            }
        }
    }

    /// Forks the worker of a seat. `Some` in the worker.
    fn spawn(&mut self, index: u16) -> Result<Option<Box<Worker<Tls<Kernel>>>>, StartError> {
        let seat = &mut self.seats[usize::from(index)];
        seat.due_ms = None;
        if self.stopping_until_ms.is_some() {
            return Ok(None);
        }
        let Some(slot) = (0..self.wakers.len() as u16)
            .find(|slot| self.children.iter().all(|child| child.slot != *slot))
        else {
            // Both slots of this seat are held by workers that are still draining.
            seat.due_ms = Some(self.driver.now_ms() + RESTART_DELAY_MS);
            return Ok(None);
        };
        let io = |what| move |source| StartError::Io { what, source };
        let (ours, theirs) = UnixStream::pair().map_err(io("socketpair"))?;
        ours.set_nonblocking(true).map_err(io("socketpair"))?;
        theirs.set_nonblocking(true).map_err(io("socketpair"))?;
        let master_pid = process::pid();
        // Where those may have left connections that have ended, and those of this seat that have retired.
        let left: Vec<u16> = (0..self.inboxes.len() as u16)
            .filter(|slot| {
                let owner = self.children.iter().find(|child| child.slot == *slot);
                owner.is_none_or(|child| child.index == index)
            })
            .collect();
        match process::fork() {
            Err(error) => {
                let message = format!("worker {index} cannot be started: fork: {error}");
                self.log(LogLevel::Error, &message);
                self.delay_restart(index);
                Ok(None)
            }
            Ok(Fork::Child) => {
                drop(ours);
                let begun = self.become_worker(index, slot, theirs, master_pid);
                match begun {
                    Ok(mut worker) => {
                        for slot in left {
                            worker.inherit(slot);
                        }
                        Ok(Some(worker))
                    }
                    Err(error) => {
                        // Not for the caller, whose code is the master's: it is tried again.
                        let message = format!("worker {index} cannot start: {error}");
                        self.log(LogLevel::Error, &message);
                        process::exit_now(1)
                    }
                }
            }
            Ok(Fork::Parent(pid)) => {
                self.stats.worker_forked();
                let token = pid as u64;
                self.driver
                    .add_wake(ours.as_raw_fd(), token)
                    .map_err(io("epoll"))?;
                let started_ms = self.driver.now_ms();
                let message = format!("worker {index} started pid={pid}");
                self.log(LogLevel::Info, &message);
                let is_replaced = false;
                let stream = ours;
                self.children.push(Child {
                    pid,
                    index,
                    slot,
                    stream,
                    started_ms,
                    is_replaced,
                    pulse: Pulse::new(started_ms),
                    seen: Seen::default(),
                });
                Ok(None)
            }
        }
    }

    /// The first steps of a forked worker: it lets go of what belongs to the master.
    fn become_worker(
        &mut self,
        index: u16,
        slot: u16,
        stream: UnixStream,
        master_pid: i32,
    ) -> Result<Box<Worker<Tls<Kernel>>>, StartError> {
        let io = |what| move |source| StartError::Io { what, source };
        // The terminal sends SIGINT and SIGHUP to the whole group: the master decides what happens.
        let signals = signal::Pipe::install(&[SIGTERM]).map_err(io("signal handlers"))?;
        // And sendfile() to a client that has left raises SIGPIPE, whatever PHP has set up.
        // Who reopens logs may tell the whole group, too.
        for signal in [SIGINT, SIGHUP, SIGPIPE, SIGUSR1] {
            signal::ignore(signal).map_err(io("signal handlers"))?;
        }
        signal::restore_default(SIGCHLD).map_err(io("signal handlers"))?;
        self.children.clear();
        let ring = self
            .ring
            .take()
            .expect("the ring is taken only here, and only in a child");
        // Dropping the seats closes this process' copies of the other workers' listeners.
        let seats = std::mem::take(&mut self.seats);
        let listeners: Vec<Fd> = seats
            .into_iter()
            .nth(usize::from(index))
            .into_iter()
            .flat_map(|seat| seat.listeners)
            .map(IntoRawFd::into_raw_fd)
            .collect();
        let tls = self.tls.take().map(|tls| tls.for_worker());
        let handle = tls.as_ref().map(|tls| Rc::clone(&tls.handle));
        let logger = self.logger.named(&format!("worker {index}"));
        logger.take_panics();
        let kernel = backend::open(self.backend, &logger).map_err(io("the event loop"))?;
        let mut driver = Tls::new(kernel, handle.unwrap_or_default());
        let mut prefaced = Vec::new();
        for (bound, &listener) in self.addresses.iter().zip(&listeners) {
            if bound.has_preface {
                prefaced.push(listener);
            }
            match bound.scheme {
                Scheme::Https if bound.has_preface => driver.secure_later(listener),
                Scheme::Https => driver.secure(listener),
                Scheme::Http => {}
            }
        }
        let parts = Parts {
            index,
            slot,
            listeners,
            prefaced,
            control: self
                .control
                .take()
                .map(|(listener, _)| listener.into_raw_fd()),
            wakers: Arc::clone(&self.wakers),
            inboxes: Arc::clone(&self.inboxes),
            balances: self.settings.balance == "on" && workers_of(&self.settings) > 1,
            link: Some(Link { stream, signals }),
            ring,
            stats: self.stats,
            router: Arc::clone(&self.router),
            websockets: Arc::clone(&self.websockets),
            logger,
            settings: Arc::clone(&self.settings),
            spools: self.spools.clone(),
            tls,
            metrics: self.metrics.take().map(|(fd, _)| fd.into_raw_fd()),
            access_log: self.open_access_log(),
            looker: match self.settings.blocking_call_ms {
                0 => None,
                _ => Some(self.looker.waker.share().map_err(io("eventfd"))?),
            },
        };
        // Everything that takes root's rights is open.
        if let Some(identity) = &self.identity {
            identity.take_on()?;
        }
        process::end_with_parent(master_pid).map_err(io("watching the master"))?;
        let worker = Worker::new(driver, parts).map_err(io("the event loop"))?;
        Ok(Box::new(worker))
    }

    fn on_signal(&mut self, signal: i32) {
        match signal {
            SIGCHLD if process::pid() == INIT_PID => {
                // Whoever is left behind in the container becomes our child, and a zombie until we look.
                while let Some((pid, exit)) = process::reap() {
                    self.on_exit(pid, exit);
                    self.on_companion_exit(pid, exit);
                }
            }
            SIGCHLD => {
                // One pid at a time: children that the script itself has started are not ours.
                for pid in self
                    .children
                    .iter()
                    .map(|child| child.pid)
                    .collect::<Vec<_>>()
                {
                    if let Some(exit) = process::reap_pid(pid) {
                        self.on_exit(pid, exit);
                    }
                }
                if let Some(exit) = process::reap_pid(self.beside.pid()) {
                    self.on_companion_exit(self.beside.pid(), exit);
                }
            }
            SIGUSR1 => self.reopen_access_log(),
            SIGHUP if !self.has_lost_terminal() => {
                if !self.can_reload() {
                    let message =
                        "SIGHUP: there is nothing to read again; restart to run a changed program";
                    self.log(LogLevel::Info, message);
                }
                self.manager.reloading();
                self.reload_tls();
                self.reopen_access_log();
                self.reload_program();
            }
            _ if self.stopping_until_ms.is_none() => self.stop(),
            _ if self.is_same_signal() => {}
            _ => {
                self.log(LogLevel::Warning, "second signal: stopping at once");
                self.kill_all();
            }
        }
    }

    /// Whether a signal to stop belongs to the one before it.
    fn is_same_signal(&mut self) -> bool {
        let now_ms = self.driver.refresh_now();
        let before_ms = std::mem::replace(&mut self.stop_signal_ms, now_ms);
        now_ms.saturating_sub(before_ms) < SAME_SIGNAL_MS
    }

    /// Whether SIGHUP has something to read again.
    fn can_reload(&self) -> bool {
        self.tls.is_some() || self.has_log_file || self.takes_reloads
    }

    /// Has the workers read the program's files again.
    fn reload_program(&mut self) {
        if self.takes_reloads {
            for child in &mut self.children {
                let _ = child.stream.write(&[ORDER_RELOAD]);
            }
        }
    }

    /// Has the workers open the access log anew.
    fn reopen_access_log(&mut self) {
        if self.has_log_file {
            self.renew_access_log();
            for child in &mut self.children {
                let _ = child.stream.write(&[ORDER_REOPEN_LOG]);
            }
        }
    }

    /// The access log of a new worker. The master has opened it before; a file that cannot be opened
    /// any more is no reason not to serve.
    fn open_access_log(&self) -> Option<Sink> {
        Sink::open(&self.settings).unwrap_or_else(|error| {
            self.log(LogLevel::Error, &error.to_string());
            None
        })
    }

    /// Reads the certificates again, and has the workers do so when they are good.
    fn reload_tls(&mut self) {
        if self
            .tls
            .as_ref()
            .is_some_and(|tls| tls.reload(&self.logger))
        {
            // Root's keys are not for other users to read: new workers have from us what we have read.
            let order = match self.identity {
                None => ORDER_RELOAD_TLS,
                Some(_) => ORDER_DRAIN,
            };
            for child in &mut self.children {
                let _ = child.stream.write(&[order]);
            }
        }
    }

    /// SIGHUP says that the terminal we were started in is gone, not that somebody sent it.
    fn has_lost_terminal(&self) -> bool {
        self.has_terminal && std::fs::File::open(TERMINAL).is_err()
    }

    /// Asks all workers to finish.
    fn stop(&mut self) {
        let now_ms = self.driver.refresh_now();
        self.stopping_until_ms = Some(now_ms + self.settings.drain_timeout_ms + KILL_GRACE_MS);
        self.stop_signal_ms = now_ms;
        self.stats.set_stopping();
        self.manager.stopping();
        self.log(
            LogLevel::Info,
            "stopping; send the signal again to stop at once",
        );
        for seat in &mut self.seats {
            seat.due_ms = None;
            seat.listeners.clear();
        }
        // Not at the end: a server that is started while this one drains listens at the same paths.
        let control = self.control.as_ref().map(|(_, path)| path);
        let listening = self.addresses.iter().filter_map(|it| it.path.as_ref());
        for path in listening.chain(control) {
            let _ = std::fs::remove_file(path);
        }
        for child in &mut self.children {
            let _ = child.stream.write(&[ORDER_DRAIN]);
        }
    }

    fn kill_all(&mut self) {
        let now_ms = self.driver.refresh_now();
        self.stopping_until_ms = Some(now_ms + KILL_GRACE_MS);
        for child in &self.children {
            let _ = process::kill(child.pid, SIGKILL);
        }
    }

    /// A worker has written to us: it retires, and its seat is free for a new one.
    fn on_note(&mut self, token: u64) {
        let Some(child) = self
            .children
            .iter_mut()
            .find(|child| child.pid as u64 == token)
        else {
            return;
        };
        let mut note = [0];
        match child.stream.read(&mut note) {
            Ok(1) if note[0] == NOTE_RETIRING && !child.is_replaced => {
                child.is_replaced = true;
                let (index, slot, started_ms) = (child.index, child.slot, child.started_ms);
                if self.stopping_until_ms.is_none() {
                    self.schedule(index, started_ms, self.stats.has_run_handler(slot));
                }
            }
            Ok(0) => {
                // Its end of the stream is closed; SIGCHLD follows.
                let _ = self.driver.remove(child.stream.as_raw_fd());
            }
            _ => {}
        }
    }

    fn on_exit(&mut self, pid: i32, exit: Exit) {
        let Some(at) = self.children.iter().position(|child| child.pid == pid) else {
            return;
        };
        let child = self.children.swap_remove(at);
        let _ = self.driver.remove(child.stream.as_raw_fd());
        self.driver.refresh_now();
        let owner = memory::owner(Owner::MASTER_SLOT);
        let unix_ms = self.driver.unix_ms();
        if let Some(ring) = &mut self.ring
            && let Err(error) =
                ring.worker_ended(&owner, u32::from(child.slot), pid as u32, unix_ms)
        {
            self.log(
                LogLevel::Error,
                &format!("cleaning up after pid {pid}: {error}"),
            );
        }
        // Users of the dead worker may have to be announced as gone, and a full ring has room now.
        for waker in self.wakers.iter() {
            waker.wake();
        }
        let index = child.index;
        let (handler, has_run) = (
            self.stats.handler(child.slot),
            self.stats.has_run_handler(child.slot),
        );
        let is_expected = exit == Exit::Code(0) || exit == Exit::Code(EXIT_RETIRED);
        self.stats.worker_ended(child.slot, index, !is_expected);
        self.spools.sweep(pid as u32);
        self.pass_on(child.slot);
        let level = if is_expected {
            LogLevel::Info
        } else {
            LogLevel::Warning
        };
        let place = match (exit, handler) {
            (Exit::Signal(_), Some(handler)) => format!(" in {}", self.router.what_runs(handler)),
            _ => String::new(),
        };
        let message = format!("worker {index} ended pid={pid} ({exit}){place}");
        self.log(level, &message);
        if !child.is_replaced && self.stopping_until_ms.is_none() {
            self.schedule(index, child.started_ms, has_run);
        }
    }

    /// Plans the replacement of a worker that was started at `started_ms`.
    ///
    /// One that could start is replaced at once, however often a handler ends it. One that keeps ending right
    /// after its start, before it has run a handler, is restarted more and more slowly, so that a broken script,
    /// or a kernel without memory that kills it again and again, costs little.
    fn schedule(&mut self, index: u16, started_ms: u64, has_run: bool) {
        let now_ms = self.driver.now_ms();
        let seat = &mut self.seats[usize::from(index)];
        if has_run || now_ms - started_ms >= STABLE_MS {
            seat.delay_ms = 0;
            seat.due_ms = Some(now_ms.max(started_ms + RESTART_GAP_MS));
        } else {
            self.delay_restart(index);
        }
    }

    fn delay_restart(&mut self, index: u16) {
        let now_ms = self.driver.now_ms();
        let longest_ms = self.settings.restart_delay_ms_max;
        let seat = &mut self.seats[usize::from(index)];
        seat.delay_ms = (seat.delay_ms * 2).clamp(RESTART_DELAY_MS.min(longest_ms), longest_ms);
        seat.due_ms = Some(now_ms + seat.delay_ms);
        let message = format!("worker {index} is restarted in {} ms", seat.delay_ms);
        self.log(LogLevel::Warning, &message);
    }

    fn next_due_ms(&self) -> Option<u64> {
        let restarts = self.seats.iter().filter_map(|seat| seat.due_ms);
        let check = (self.check_due_ms != u64::MAX).then_some(self.check_due_ms);
        let look = (self.looker.due_ms != u64::MAX).then_some(self.looker.due_ms);
        let alive = (self.manager.due_ms != u64::MAX).then_some(self.manager.due_ms);
        let beside = (self.beside.due_ms != u64::MAX).then_some(self.beside.due_ms);
        let own = check.into_iter().chain(look).chain(alive).chain(beside);
        let others = self.stopping_until_ms.into_iter().chain(own);
        restarts.chain(others).min()
    }

    fn end(&mut self) -> Started {
        let published = self.ring.take().map(|mut ring| {
            ring.close();
            Box::new(Archive(ring))
        });
        self.log(LogLevel::Info, "stopped");
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD] {
            let _ = signal::restore_default(signal);
        }
        Started::Ended {
            exit_code: 0,
            companion_pid: self.beside.pid(),
            published,
            logger: self.logger.clone(),
        }
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.logger.write(level, self.driver.unix_ms(), message);
    }
}

/// How many workers the settings ask for.
pub(crate) fn workers_of(settings: &Settings) -> u16 {
    match settings.workers {
        0 => process::usable_cores().min(usize::from(fermata_config::WORKERS_MAX)) as u16,
        workers => workers,
    }
}

/// `unix:/path` or `/path`, as the settings allow.
pub fn control_path(control: &str) -> PathBuf {
    PathBuf::from(control.strip_prefix("unix:").unwrap_or(control))
}
