//! The master's state: listeners, workers, and shared resources.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use fermata_config::{LogLevel, Settings};
use fermata_hub::Ring;
use fermata_io::handover::Inbox;
use fermata_io::signal::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use fermata_io::sys::epoll::Epoll;
use fermata_io::wake::Waker;
use fermata_io::{Backend, Deadline, Driver, signal};
use fermata_tls::PairNames;

use super::blocking::{HandlerSample, StackSampler};
use super::companion::CompanionProcess;
use super::frames::Frames;
use super::identity::Identity;
use super::manager::Manager;
use super::restarted_process::RestartedProcess;
use super::stall::Heartbeat;
use crate::admin::otlp::{OpenPost, Otlp};
use crate::admin::stats;
use crate::channels::cluster::Cluster;
use crate::http::body::Spools;
use crate::http::router::Router;
use crate::log::Logger;
use crate::net::listeners::Bound;
use crate::net::tls::ServerTls;
use crate::websocket::Route;

/// Signals that the master handles.
pub(super) const SIGNALS: [i32; 6] = [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD];

pub(super) const TOKEN_SIGNALS: u64 = 0;
/// Token of the sampler. The tokens of notes are process ids, which are smaller.
pub(super) const TOKEN_SAMPLER: u64 = u64::MAX;

/// The controlling terminal of the process that opens this path. A daemon has none.
pub(super) const TERMINAL: &str = "/dev/tty";

/// The embedder's description of the application that runs in workers.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Name and version, for the banner.
    pub name: Option<String>,
    /// Informational log lines.
    pub notes: Vec<String>,
    /// Warnings about probable mistakes, one sentence each.
    pub warnings: Vec<String>,
    /// True if workers reload files when the operator requests it.
    pub takes_reloads: bool,
    /// How the master finds the application's frames in a worker's memory.
    pub frames: Option<Frames>,
    /// Name of the companion in the log; `None` = no companion.
    pub companion: Option<String>,
    /// Time in milliseconds within which a second cluster event with the same channel and name is
    /// dropped; `None` = off.
    pub once_ms: Option<u64>,
    /// Fingerprint of the application's secrets, which identifies the application in a cluster.
    pub secrets: Option<String>,
    /// HTTP client for the span collector.
    pub open_post: Option<OpenPost>,
    /// Names of the settings for certificates and keys, for messages.
    pub certificate_names: PairNames,
}

/// The master's state of one worker process.
pub(super) struct Child {
    pub pid: i32,
    pub index: u16,
    pub slot: u16,
    pub stream: UnixStream,
    pub started_ms: u64,
    pub is_replaced: bool,
    /// Version of the worker's certificates: see `Master::certificates_number`.
    pub certificates_number: u64,
    /// The worker was signalled to drain because newer certificates exist.
    pub is_drained: bool,
    pub heartbeat: Heartbeat,
    pub sample: HandlerSample,
}

/// State of one worker number: its listeners, and the time of its next start.
pub(super) struct WorkerSlot {
    /// Listeners in the order of the addresses. Closed when the server stops, so that new clients
    /// are refused immediately.
    pub listeners: Vec<OwnedFd>,
    /// Time of the next start; never while a worker runs.
    pub due: Deadline,
    pub delay_ms: u64,
}

impl WorkerSlot {
    /// Creates a slot whose worker starts immediately.
    pub fn new(listeners: Vec<OwnedFd>) -> WorkerSlot {
        WorkerSlot {
            listeners,
            due: Deadline::NOW,
            delay_ms: 0,
        }
    }
}

/// The master's state; a forked worker starts with a copy.
pub(crate) struct Master {
    pub(super) settings: Arc<Settings>,
    pub(super) router: Arc<Router>,
    pub(super) websockets: Arc<Vec<Route>>,
    pub(super) logger: Logger,
    /// Addresses with the actual ports.
    pub(super) addresses: Vec<Bound>,
    pub(super) tls: Option<ServerTls>,
    /// Number of reloads of the certificates.
    pub(super) certificates_number: u64,
    pub(super) worker_slots: Vec<WorkerSlot>,
    pub(super) children: Vec<Child>,
    pub(super) control: Option<(OwnedFd, PathBuf)>,
    /// Listener of the metrics endpoint.
    pub(super) metrics: Option<(OwnedFd, SocketAddr)>,
    /// The access log is a file, which logrotate may move.
    pub(super) has_log_file: bool,
    /// Workers reload the application's files on request.
    pub(super) takes_reloads: bool,
    pub(super) wakers: Arc<Vec<Waker>>,
    pub(super) inboxes: Arc<Vec<Inbox>>,
    /// `Some` in the master; moved to the worker after a fork.
    pub(super) ring: Option<Ring>,
    /// The outbox to the cluster log.
    pub(super) cluster: Option<Cluster>,
    /// The bridge process to the log.
    pub(super) bridge: RestartedProcess,
    /// The connection to the span exporter.
    pub(super) otlp: Option<Otlp>,
    /// The exporter process.
    pub(super) exporter: RestartedProcess,
    pub(super) stats: stats::Shared,
    pub(super) signals: signal::Pipe,
    pub(super) driver: Epoll,
    /// Kernel interface of workers.
    pub(super) backend: Backend,
    /// The server was started in a terminal.
    pub(super) has_terminal: bool,
    pub(super) stopping_until: Option<Deadline>,
    /// SIGUSR2 has stopped the server, and no other stop signal followed: run the program again.
    pub(super) is_to_restart: bool,
    /// Time of the last stop signal.
    pub(super) stop_signal_ms: u64,
    /// User and groups of workers; `None` = the master's.
    pub(super) identity: Option<Identity>,
    pub(super) sampler: StackSampler,
    pub(super) manager: Manager,
    pub(super) companion: CompanionProcess,
    pub(super) spools: Spools,
    /// Name of the handlers' runtime, for the banner.
    pub(super) program: Option<String>,
    pub(super) program_notes: Vec<String>,
    /// Warnings about probable mistakes, for the log.
    pub(super) warnings: Vec<String>,
    /// Why the requested kernel interface is unavailable.
    pub(super) backend_refusal: Option<String>,
    /// Time of the next heartbeat check.
    pub(super) check_due: Deadline,
}

impl Master {
    pub fn log(&self, level: LogLevel, message: &str) {
        self.logger.write(level, self.driver.unix_ms(), message);
    }
}
