//! State of features that only Pushpin applications use.

use super::services::Services;
use super::sockjs::SockJs;
use super::state::State;
use super::stats::Stats;
use crate::prepared::Prepared;

/// Sockets and protocols of Pushpin applications.
pub(crate) struct Pushpin {
    /// The stats socket, if configured.
    pub stats: Option<Box<Stats>>,
    /// The session service, if configured.
    pub state: Option<Box<State>>,
    pub sockjs: SockJs,
    pub services: Services,
}

impl Pushpin {
    pub fn new(prepared: &Prepared, worker: u16) -> Self {
        let settings = &prepared.settings;
        Self {
            stats: Stats::new(settings, worker, prepared.stats_path()),
            state: State::new(settings),
            sockjs: SockJs::new(settings, &prepared.workers_paths()),
            services: Services::new(prepared.services.clone(), worker, prepared.questions_path()),
        }
    }
}
