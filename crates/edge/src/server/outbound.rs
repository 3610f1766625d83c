//! Writes and sends requests to targets, without access to clients.

use super::policy::EdgePolicy;
use super::services::Backends;
use crate::client::source::Engine;
use crate::publish::ports::Ports;
use crate::pushpin::services::Services;
use crate::routes::figures::RouteFigures;
use crate::timers::Timers;
use crate::upstream::parts::Upstream;

/// Parts of the edge that are needed to send a request.
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
