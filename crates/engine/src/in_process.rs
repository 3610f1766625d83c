//! A worker in the process of a test: no master, no listener, and a clock that the test advances.
//!
//! Everything else is as in production: driver, router, holds, encoders. A connection is one end of
//! a socket pair, handled like an accepted one. Published events stay in this process; the setting
//! `cluster` is ignored.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use fermata_config::Settings;
use fermata_io::log_file::LogFile;
use fermata_io::shm::Shared;
use fermata_io::{Backend, Kernel, clock, random};
use fermata_tls::Tls;

use crate::admin::stats;
use crate::channels::memory;
use crate::http::body::Spools;
use crate::http::router::Router;
use crate::log::{self, Logger};
use crate::master::StartError;
use crate::start::Parts;
use crate::websocket::Route;
use crate::worker::Worker;

/// Shared memory of earlier servers in this process, for reuse. It stays mapped until the process
/// exits.
static SPARE: Mutex<Vec<Shared>> = Mutex::new(Vec::new());

/// The memory of an in-process worker, which the next worker can reuse.
pub struct Memory {
    parts: [Shared; 2],
}

/// Creates the worker. Log lines go to `log`. From now on, both clocks of this process are stopped.
pub(crate) fn open(
    settings: Settings,
    router: Router,
    websockets: Vec<Route>,
    log: File,
) -> Result<(Worker<Tls<Kernel>>, Memory), StartError> {
    let io = |what| move |source| StartError::Io { what, source };
    let settings = Settings {
        workers: 1,
        ..settings
    };
    let ring_memory = take(memory::words(&settings)?).map_err(io("shared memory"))?;
    let stats_memory = take(stats::Shared::WORDS).map_err(io("shared memory"))?;
    let ring = memory::begin_in(&ring_memory, &settings)?;
    log::redirect(Some(LogFile::from_file(log).map_err(io("the log"))?));
    clock::stand_still();
    let stats = stats::Shared::new(stats_memory.words());
    stats.server_started(std::process::id(), settings.workers, clock::unix_ms());
    let kernel = Kernel::open(Backend::Epoll).map_err(io("the event loop"))?;
    let parts = Parts {
        index: 0,
        slot: 0,
        listeners: Vec::new(),
        control: None,
        wakers: Arc::new(Vec::new()),
        inboxes: Arc::new(Vec::new()),
        balances: false,
        link: None,
        ring,
        outbox: None,
        stats,
        router: Arc::new(router),
        websockets: Arc::new(websockets),
        logger: Logger::new(settings.log_format, settings.log_level, "test"),
        spools: Spools::new(&settings, random::u64()),
        settings: Arc::new(settings),
        tls: None,
        prefaced: Vec::new(),
        metrics: None,
        access_log: None,
        spans: None,
        sampler: None,
    };
    let driver = Tls::new(kernel, Default::default());
    let worker = Worker::new(driver, parts).map_err(io("the event loop"))?;
    let parts = [ring_memory, stats_memory];
    Ok((worker, Memory { parts }))
}

impl Memory {
    /// Restores the log and the clocks of the process, after the worker was dropped.
    pub fn end(self) {
        clock::run_on();
        log::redirect(None);
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        spare.extend(self.parts.into_iter().filter(|it| it.clear().is_ok()));
    }
}

fn take(words: usize) -> std::io::Result<Shared> {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    match spare.iter().position(|it| it.words().len() == words) {
        Some(at) => Ok(spare.swap_remove(at)),
        None => Shared::anonymous(words),
    }
}
