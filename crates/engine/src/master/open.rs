//! Binding and mapping shared resources.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fermata_config::{LogLevel, Settings};
use fermata_hub::{Owner, PAST_UNKNOWN, Ring};
use fermata_io::handover::Inbox;
use fermata_io::signal;
use fermata_io::sys::epoll::Epoll;
use fermata_io::thread::BlockedSignals;
use fermata_io::wake::Waker;
use fermata_io::{Deadline, Driver, net, process, random};

use super::blocking::StackSampler;
use super::companion::CompanionProcess;
use super::error::StartError;
use super::identity::{self, Identity};
use super::manager::Manager;
use super::restarted_process::RestartedProcess;
use super::state::{Master, Program, SIGNALS, TERMINAL, TOKEN_SAMPLER, TOKEN_SIGNALS, WorkerSlot};
use super::{control_path, descriptors};
use crate::admin::otlp::Otlp;
use crate::admin::trace::Sink;
use crate::channels::cluster::Cluster;
use crate::channels::memory;
use crate::http::body::Spools;
use crate::http::router::Router;
use crate::log::Logger;
use crate::net::backend;
use crate::net::listeners::{self, BACKLOG};
use crate::net::tls::ServerTls;
use crate::websocket::Route;

impl Master {
    /// Binds and maps everything that workers share.
    pub fn open(
        mut settings: Settings,
        router: Router,
        websockets: Vec<Route>,
        program: Program,
    ) -> Result<Master, StartError> {
        let workers = memory::workers(&settings);
        let logger = Logger::new(settings.log_format, settings.log_level, "master");
        let identity = Identity::of(&settings)?;
        // Before anything is bound: a bad certificate is the most frequent mistake.
        let tls = ServerTls::open(&settings, program.certificate_names, &logger)?;
        let has_log_file = open_access_log(&settings, identity.as_ref())?;
        let otlp = Otlp::open(&settings, program.open_post)?;
        // Once the sockets listen, a signal must stop the server cleanly. So block signals until
        // their handlers exist. A failed start unblocks them.
        let blocked = BlockedSignals::block_all();
        let (listeners, addresses) = listeners::bind(&settings, workers)?;
        let metrics = listeners::bind_metrics(&settings)?;
        let metrics_listener = metrics.iter().map(|(listener, _)| listener);
        for listener in listeners.iter().flatten().chain(metrics_listener) {
            net::limit_undelivered(listener, settings.write_timeout_ms);
        }
        let (ring, cluster) = open_channels(&settings, workers, &program, &logger)?;
        let stats = memory::open_stats()?;
        let logger = logger.counted(stats);
        let (wakers, inboxes) = open_wakers(workers)?;
        let control = bind_control(&settings, identity.as_ref())?;
        let mut warnings = program.warnings;
        warnings.extend(identity::warning(identity.as_ref()));
        let limit = process::raise_descriptor_limit();
        let shared = wakers.len() + inboxes.len() * Inbox::DESCRIPTORS;
        warnings.extend(descriptors::fit(&mut settings, limit, shared));
        let mut driver = Epoll::new().map_err(io("epoll"))?;
        let (backend, why) = backend::choose(&settings);
        if let Some(why) = &why {
            logger.write(LogLevel::Warning, driver.unix_ms(), why);
        }
        let sampler = StackSampler::new(program.frames).map_err(io("eventfd"))?;
        driver
            .add_wake(sampler.waker.fd(), TOKEN_SAMPLER)
            .map_err(io("epoll"))?;
        let manager = Manager::new(driver.now_ms());
        let worker_slots = listeners.into_iter().map(WorkerSlot::new).collect();
        let check_due = match settings.stall_timeout_ms {
            0 => Deadline::NEVER,
            _ => Deadline::at(driver.now_ms()),
        };
        let spools = Spools::new(&settings, random::u64());
        spools.sweep_dead();
        let signals = signal::Pipe::install(&SIGNALS).map_err(io("signal handlers"))?;
        driver
            .add_wake(signals.fd(), TOKEN_SIGNALS)
            .map_err(io("epoll"))?;
        drop(blocked);
        Ok(Master {
            spools,
            settings: Arc::new(settings),
            router: Arc::new(router),
            websockets: Arc::new(websockets),
            logger,
            addresses,
            tls,
            certificates_number: 0,
            worker_slots,
            children: Vec::new(),
            control,
            metrics,
            takes_reloads: program.takes_reloads,
            has_log_file,
            inboxes: Arc::new(inboxes),
            wakers: Arc::new(wakers),
            ring: Some(ring),
            bridge: RestartedProcess::new(cluster.is_some()),
            cluster,
            exporter: RestartedProcess::new(otlp.is_some()),
            otlp,
            stats,
            signals,
            driver,
            backend,
            has_terminal: std::fs::File::open(TERMINAL).is_ok(),
            stopping_until: None,
            is_to_restart: false,
            stop_signal_ms: 0,
            identity,
            sampler,
            manager,
            companion: CompanionProcess::new(program.companion),
            program: program.name,
            program_notes: program.notes,
            warnings,
            backend_refusal: why,
            check_due,
        })
    }
}

fn io(what: &'static str) -> impl Fn(std::io::Error) -> StartError {
    move |source| StartError::Io { what, source }
}

/// Checks that the access log is writable, and gives it to the workers' user, since workers reopen
/// it. Returns true if it is a file.
fn open_access_log(settings: &Settings, identity: Option<&Identity>) -> Result<bool, StartError> {
    let Some(log) = Sink::open(settings)?.filter(Sink::is_file) else {
        return Ok(false);
    };
    if let Some(identity) = identity {
        let owned = identity.own_log(&log);
        owned.map_err(io("giving the access log to the user of workers"))?;
    }
    Ok(true)
}

/// Maps the ring, and opens the outbox if a cluster is set.
fn open_channels(
    settings: &Settings,
    workers: u16,
    program: &Program,
    logger: &Logger,
) -> Result<(Ring, Option<Cluster>), StartError> {
    let mut ring = memory::open(settings, logger)?;
    let owner = memory::owner(Owner::MASTER_SLOT);
    let of_program = (program.once_ms, program.secrets.as_deref());
    let cluster = Cluster::open(settings, memory::slots(workers), owner, of_program)?;
    if cluster.is_none() {
        // Positions of a log in the history file are meaningless without a cluster.
        ring.end_log();
    } else if ring.log_reached().is_some() {
        // Later messages of the log are past events for clients that connect from now on.
        let begun = ring.begin_past(&owner, PAST_UNKNOWN);
        begun.map_err(|error| io("the history file")(std::io::Error::other(error)))?;
    }
    Ok((ring, cluster))
}

/// Creates the wakers and inboxes of all slots.
fn open_wakers(workers: u16) -> Result<(Vec<Waker>, Vec<Inbox>), StartError> {
    let slots = memory::slots(workers);
    let wakers: Result<_, _> = (0..slots).map(|_| Waker::new()).collect();
    let inboxes: Result<_, _> = (0..slots).map(|_| Inbox::new()).collect();
    Ok((
        wakers.map_err(io("eventfd"))?,
        inboxes.map_err(io("socket pairs between workers"))?,
    ))
}

/// Binds the control socket, accessible to the workers' user as well.
fn bind_control(
    settings: &Settings,
    identity: Option<&Identity>,
) -> Result<Option<(OwnedFd, PathBuf)>, StartError> {
    let Some(path) = settings.control.as_deref().map(control_path) else {
        return Ok(None);
    };
    let own = |path: &Path| identity.map_or(Ok(()), |it| it.own(path));
    match net::bind_unix_with(&path, BACKLOG, net::UNIX_MODE, own) {
        Ok(listener) => Ok(Some((listener, path))),
        Err(source) => Err(StartError::Control { path, source }),
    }
}
