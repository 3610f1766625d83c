//! Binding and mapping everything that workers share.

use std::sync::Arc;

use fermata_config::{LogLevel, Settings};
use fermata_hub::Owner;
use fermata_io::handover::Inbox;
use fermata_io::signal;
use fermata_io::sys::epoll::Epoll;
use fermata_io::thread::PutAside;
use fermata_io::wake::Waker;
use fermata_io::{Driver, net, process, random};

use super::blocking::StackSampler;
use super::companion::CompanionProcess;
use super::error::StartError;
use super::identity::{self, Identity};
use super::manager::Manager;
use super::restarted_process::RestartedProcess;
use super::state::{Master, Program, SIGNALS, Seat, TERMINAL, TOKEN_SAMPLER, TOKEN_SIGNALS};
use super::{control_path, descriptors, workers_of};
use crate::admin::otlp::Otlp;
use crate::admin::trace::Sink;
use crate::channels::cluster::{Cluster, ClusterError};
use crate::channels::memory;
use crate::http::body::Spools;
use crate::http::router::Router;
use crate::log::Logger;
use crate::net::backend;
use crate::net::listeners::{self, BACKLOG};
use crate::net::tls::ServerTls;
use crate::websocket::Route;

/// Slots beyond one per worker, at least: those that have retired keep theirs until their last client is gone.
const SPARE_SLOTS: u16 = 6;

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
        let tls = ServerTls::open(&settings, program.certificate_names, &logger)?;
        let access_log = Sink::open(&settings)?;
        let otlp = Otlp::open(&settings, program.open_post)?;
        let owned = access_log.as_ref().filter(|log| log.is_file());
        if let (Some(identity), Some(log)) = (&identity, owned) {
            identity.own_log(log).map_err(|source| StartError::Io {
                what: "giving the access log to the user of workers",
                source,
            })?;
        }
        let io = |what| move |source| StartError::Io { what, source };
        // Once the server listens it may be stopped, and it ends in order: a signal that comes before there are handlers waits for
        // them. When the start fails it is as if nothing had been.
        let aside = PutAside::signals();
        let (listeners, addresses) = listeners::bind(&settings, workers)?;
        let metrics = listeners::bind_metrics(&settings)?;
        let metrics_listener = metrics.iter().map(|(listener, _)| listener);
        for listener in listeners.iter().flatten().chain(metrics_listener) {
            net::limit_undelivered(listener, settings.write_timeout_ms);
        }
        let mut ring = memory::open(&settings, &logger)?;
        let owner = memory::owner(Owner::MASTER_SLOT);
        let cluster = Cluster::open(&settings, memory::SLOTS, owner)?;
        match &cluster {
            // What a history file has of a log means nothing here any more.
            None => ring.end_log(),
            Some(_) if !program.allows_cluster => return Err(ClusterError::OtherProgram.into()),
            Some(_) => {}
        }
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
        let signals = signal::Pipe::install(&SIGNALS).map_err(io("signal handlers"))?;
        driver
            .add_wake(signals.fd(), TOKEN_SIGNALS)
            .map_err(io("epoll"))?;
        drop(aside);
        Ok(Master {
            spools,
            settings: Arc::new(settings),
            router: Arc::new(router),
            websockets: Arc::new(websockets),
            logger,
            addresses,
            tls,
            certificates_number: 0,
            seats,
            children: Vec::new(),
            control,
            metrics,
            takes_reloads: program.takes_reloads,
            has_log_file: access_log.is_some_and(|log| log.is_file()),
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
            stopping_until_ms: None,
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
            check_due_ms,
        })
    }
}
