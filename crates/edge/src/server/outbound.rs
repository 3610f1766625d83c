//! Requests on their way to targets: what writes and sends them knows no clients, and answers nobody.

use super::policy::EdgePolicy;
use super::services::Backends;
use crate::client::source::Engine;
use crate::publish::ports::Ports;
use crate::pushpin::services::Services;
use crate::routes::figures::RouteFigures;
use crate::timers::Timers;
use crate::upstream::parts::Upstream;

/// What a request needs to reach its target, by whatever way.
pub(super) struct Outbound<'a> {
    pub policy: &'a EdgePolicy,
    pub upstream: &'a mut Upstream,
    pub route_figures: &'a RouteFigures,
    pub services: &'a mut Services,
    pub ports: &'a mut Ports,
    pub timers: &'a mut Timers,
    pub worker: &'a mut Engine,
}

impl Outbound<'_> {
    pub fn backends(&mut self) -> Backends<'_> {
        Backends {
            services: self.services,
            ports: self.ports,
            timers: self.timers,
            worker: self.worker,
        }
    }
}
