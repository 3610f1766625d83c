//! What the master knows: its listeners, its workers, and what they share.

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

/// What the master is told by.
pub(super) const SIGNALS: [i32; 6] = [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD];

pub(super) const TOKEN_SIGNALS: u64 = 0;
/// No pid.
pub(super) const TOKEN_SAMPLER: u64 = u64::MAX;

/// The terminal of whatever process opens it; there is none for a daemon.
pub(super) const TERMINAL: &str = "/dev/tty";

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
    /// For how long an event of a cluster is left out whose channel has had one with the same name.
    pub once_ms: Option<u64>,
    /// Its client for HTTP, which takes spans to their collector.
    pub open_post: Option<OpenPost>,
    /// What it calls the settings of certificates and their keys.
    pub certificate_names: PairNames,
}

/// One worker process as the master sees it.
pub(super) struct Child {
    pub pid: i32,
    pub index: u16,
    pub slot: u16,
    pub stream: UnixStream,
    pub started_ms: u64,
    pub is_replaced: bool,
    /// Which certificates it has: see `Master::certificates_number`.
    pub certificates_number: u64,
    /// It was told to drain for new ones.
    pub is_drained: bool,
    pub heartbeat: Heartbeat,
    pub sample: HandlerSample,
}

/// The place of a worker: its listeners, and when to fill the place again.
pub(super) struct Seat {
    /// In the order of the addresses. Given up when the server stops, so that new clients are
    /// refused instead of left waiting.
    pub listeners: Vec<OwnedFd>,
    /// When it is filled, unless it is.
    pub due: Deadline,
    pub delay_ms: u64,
}

impl Seat {
    /// It is to be filled at once.
    pub fn new(listeners: Vec<OwnedFd>) -> Seat {
        Seat {
            listeners,
            due: Deadline::NOW,
            delay_ms: 0,
        }
    }
}

/// The master's state. It is also what a forked worker starts from.
pub(crate) struct Master {
    pub(super) settings: Arc<Settings>,
    pub(super) router: Arc<Router>,
    pub(super) websockets: Arc<Vec<Route>>,
    pub(super) logger: Logger,
    /// What is spoken where, ports as the kernel has chosen them.
    pub(super) addresses: Vec<Bound>,
    pub(super) tls: Option<ServerTls>,
    /// How often they were read again.
    pub(super) certificates_number: u64,
    pub(super) seats: Vec<Seat>,
    pub(super) children: Vec<Child>,
    pub(super) control: Option<(OwnedFd, PathBuf)>,
    /// Where metrics are read.
    pub(super) metrics: Option<(OwnedFd, SocketAddr)>,
    /// The access log is a file, which may be moved away.
    pub(super) has_log_file: bool,
    /// Workers have files of the program's to read again.
    pub(super) takes_reloads: bool,
    pub(super) wakers: Arc<Vec<Waker>>,
    pub(super) inboxes: Arc<Vec<Inbox>>,
    /// `Some` in the master; a worker takes it with it.
    pub(super) ring: Option<Ring>,
    /// What workers publish goes to a log that other machines share.
    pub(super) cluster: Option<Cluster>,
    /// The process that talks to the log.
    pub(super) bridge: RestartedProcess,
    /// What workers record goes to a collector of spans.
    pub(super) otlp: Option<Otlp>,
    /// The process that sends it there.
    pub(super) exporter: RestartedProcess,
    pub(super) stats: stats::Shared,
    pub(super) signals: signal::Pipe,
    pub(super) driver: Epoll,
    /// What workers wait with.
    pub(super) backend: Backend,
    /// The server was started in a terminal.
    pub(super) has_terminal: bool,
    pub(super) stopping_until: Option<Deadline>,
    /// SIGUSR2 has ended the server, and no signal to stop came since: its program is to be run again.
    pub(super) is_to_restart: bool,
    /// When the last signal to stop came.
    pub(super) stop_signal_ms: u64,
    /// The rights that workers get; `None` = those of the master.
    pub(super) identity: Option<Identity>,
    pub(super) sampler: StackSampler,
    pub(super) manager: Manager,
    pub(super) companion: CompanionProcess,
    pub(super) spools: Spools,
    /// What runs the handlers, for the banner.
    pub(super) program: Option<String>,
    pub(super) program_notes: Vec<String>,
    /// What is probably not meant, for the log.
    pub(super) warnings: Vec<String>,
    /// Why another kernel interface is used than was asked for.
    pub(super) backend_refusal: Option<String>,
    /// When workers are next asked for a sign of life.
    pub(super) check_due: Deadline,
}

impl Master {
    pub fn log(&self, level: LogLevel, message: &str) {
        self.logger.write(level, self.driver.unix_ms(), message);
    }
}
