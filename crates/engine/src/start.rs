//! The parts of a worker, and its creation.

use std::sync::Arc;

use fermata_config::Settings;
use fermata_hub::Ring;
use fermata_io::handover::Inbox;
use fermata_io::wake::Waker;
use fermata_io::{Driver, Fd};

use crate::admin::blocking::Blocking;
use crate::admin::otlp;
use crate::admin::stats::{Reporter, Shared};
use crate::admin::trace::{Sink, Tracing};
use crate::channels::Channels;
use crate::channels::cluster::Outbox;
use crate::embed::file_jobs::FileJobs;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::body::Spools;
use crate::http::router::Router;
use crate::log::{Log, Logger};
use crate::master::link::Link;
use crate::net::Net;
use crate::net::handover::Handover;
use crate::net::tls::ServerTls;
use crate::net::token::{
    TOKEN_CONTROL, TOKEN_INBOX, TOKEN_LINK, TOKEN_LISTENER, TOKEN_METRICS, TOKEN_SIGNAL, TOKEN_WAKE,
};
use crate::websocket::{Route, Silence, Sockets};
use crate::worker::Worker;

/// The parts of a worker other than its settings.
pub struct Parts {
    /// Number of the worker, from 0.
    pub index: u16,
    /// Slot of the worker in the hub.
    pub slot: u16,
    /// Listening sockets. The driver knows which of them use TLS.
    pub listeners: Vec<Fd>,
    /// The control socket, shared by all workers.
    pub control: Option<Fd>,
    /// Wakers of all slots, by slot.
    pub wakers: Arc<Vec<Waker>>,
    /// Inboxes for handed-over connections, by slot.
    pub inboxes: Arc<Vec<Inbox>>,
    /// Hand over keep-alive connections to balance the workers; if false, only a retiring worker
    /// hands over.
    pub balances: bool,
    /// The connection to the master.
    pub link: Option<Link>,
    /// The ring of records, shared by all workers.
    pub ring: Ring,
    /// Outbox for records that also go to other machines.
    pub(crate) outbox: Option<Outbox>,
    /// Shared memory for counters, shared by all workers.
    pub stats: Shared,
    /// The routing table.
    pub router: Arc<Router>,
    /// WebSocket routes, indexed by the router's numbers.
    pub websockets: Arc<Vec<Route>>,
    /// Destination of log lines.
    pub logger: Logger,
    /// Effective settings.
    pub settings: Arc<Settings>,
    /// TLS state shared with the driver; `None` without a TLS listener.
    pub tls: Option<ServerTls>,
    /// The members of `listeners` whose connections start with a PROXY protocol header.
    pub prefaced: Vec<Fd>,
    /// The listener for metrics and health, shared by all workers.
    pub metrics: Option<Fd>,
    /// Storage of bodies that are too large for memory.
    pub(crate) spools: Spools,
    /// The opened access log.
    pub(crate) access_log: Option<Sink>,
    /// Destination of finished spans.
    pub(crate) spans: Option<otlp::Outbox>,
    /// Wakes the master to sample handlers; `None` if sampling is off.
    pub sampler: Option<Waker>,
}

impl<D: Driver> Worker<D> {
    /// Creates a worker over `driver`.
    ///
    /// # Errors
    /// When a listener cannot be watched.
    pub fn new(mut driver: D, parts: Parts) -> std::io::Result<Worker<D>> {
        for (fd, token) in parts.listeners.iter().zip(TOKEN_LISTENER..) {
            driver.add_listener(*fd, token)?;
        }
        if let Some(fd) = parts.control {
            driver.add_listener(fd, TOKEN_CONTROL)?;
        }
        if let Some(fd) = parts.metrics {
            driver.add_listener(fd, TOKEN_METRICS)?;
        }
        let (index, slot) = (parts.index, parts.slot);
        if let Some(waker) = parts.wakers.get(usize::from(slot)) {
            driver.add_wake(waker.fd(), TOKEN_WAKE)?;
        }
        if let Some(inbox) = parts.inboxes.get(usize::from(slot)) {
            driver.add_wake(inbox.fd(), TOKEN_INBOX)?;
        }
        if let Some(link) = &parts.link {
            driver.add_wake(link.fd(), TOKEN_LINK)?;
            driver.add_wake(link.signals_fd(), TOKEN_SIGNAL)?;
        }
        let (now_ms, unix_ms) = (driver.now_ms(), driver.unix_ms());
        let (settings, stats) = (parts.settings, parts.stats);
        let channels = Channels::new(
            slot,
            &settings,
            parts.ring,
            parts.wakers,
            parts.outbox,
            now_ms,
            unix_ms,
        )?;
        stats.worker_started(slot, index, channels.owner.pid, unix_ms);
        stats.set_takes(slot, true);
        let handover = Handover {
            inboxes: parts.inboxes,
            balances: parts.balances,
            shared: stats,
        };
        let log = Log::new(parts.logger);
        let mut net = Net::new(driver, Arc::clone(&settings), log, slot, handover);
        net.listeners = parts.listeners;
        net.prefaced = parts.prefaced;
        net.control = parts.control;
        net.metrics = parts.metrics;
        net.tls = parts.tls;
        net.silences = Silence::of_routes(&settings, &parts.websockets);
        let trace = Tracing::new(&settings, parts.access_log, parts.spans, index);
        let mut worker = Worker {
            index,
            has_fatal: false,
            link: parts.link,
            net,
            http: Http::new(&settings, parts.router, parts.spools, trace),
            sockets: Sockets::new(&settings, &parts.websockets),
            channels,
            waiting: Waiting::new(),
            file_jobs: FileJobs::default(),
            flushed_unix_ms: unix_ms,
            blocking: Blocking::new(settings.blocking_call_ms, parts.sampler, stats, slot),
            reporter: Reporter::new(stats, slot, &settings),
        };
        worker.http.set_date(unix_ms / 1000);
        Ok(worker)
    }
}
