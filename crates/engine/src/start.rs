//! What a worker is made of, and its beginning.

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

/// What a worker is made of besides its settings.
pub struct Parts {
    /// Number of the worker, from 0.
    pub index: u16,
    /// Its slot in the hub.
    pub slot: u16,
    /// Its listening sockets; the driver knows which of them speak TLS.
    pub listeners: Vec<Fd>,
    /// The control socket, shared by all workers.
    pub control: Option<Fd>,
    /// Wakers of all slots, by slot.
    pub wakers: Arc<Vec<Waker>>,
    /// Where connections are handed over, by slot.
    pub inboxes: Arc<Vec<Inbox>>,
    /// Connections that stay are spread evenly; otherwise only those of a worker that retires are handed over.
    pub balances: bool,
    /// The connection to the master.
    pub link: Option<Link>,
    /// The ring of records, shared by all workers.
    pub ring: Ring,
    /// Where what is published goes that is for other machines as well.
    pub(crate) outbox: Option<Outbox>,
    /// Where its figures are read, shared by all workers.
    pub stats: Shared,
    /// What requests are matched against.
    pub router: Arc<Router>,
    /// The WebSockets that the router knows by number.
    pub websockets: Arc<Vec<Route>>,
    /// Where log lines go.
    pub logger: Logger,
    /// Effective settings.
    pub settings: Arc<Settings>,
    /// What the driver shares with us when a listener speaks TLS.
    pub tls: Option<ServerTls>,
    /// Listeners of `listeners` whose connections begin with a header of the PROXY protocol.
    pub prefaced: Vec<Fd>,
    /// The listener for metrics and health, shared by all workers.
    pub metrics: Option<Fd>,
    /// Where bodies lie that are too large for memory.
    pub(crate) spools: Spools,
    /// The access log, opened.
    pub(crate) access_log: Option<Sink>,
    /// Where spans go that have ended.
    pub(crate) spans: Option<otlp::Outbox>,
    /// Wakes the master to look at handlers; `None` = nobody wants to.
    pub sampler: Option<Waker>,
}

impl<D: Driver> Worker<D> {
    /// A worker over `driver`. Errors are those of watching the listeners.
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
