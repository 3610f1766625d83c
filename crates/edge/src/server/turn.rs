//! Parts of the edge that a step of an exchange may use: all except the other exchanges.

use crate::client::clients::Clients;
use crate::client::journal::Journal;
use crate::client::source::Engine;
use crate::publish::parts::Publishing;
use crate::pushpin::parts::Pushpin;
use crate::routes::figures::RouteFigures;
use crate::server::edge::Edge;
use crate::server::holds::Holds;
use crate::server::outbound::Outbound;
use crate::server::policy::EdgePolicy;
use crate::server::routing::Routing;
use crate::server::tasks::Tasks;
use crate::timers::Timers;
use crate::upstream::exchanges::UpstreamExchanges;
use crate::upstream::parts::Upstream;

/// Parts of the edge for a step of an exchange.
pub(super) struct Turn<'a> {
    pub policy: &'a EdgePolicy,
    pub routing: &'a mut Routing,
    pub upstream: &'a mut Upstream,
    pub clients: &'a mut Clients,
    pub publishing: &'a mut Publishing,
    pub pushpin: &'a mut Pushpin,
    pub route_figures: &'a RouteFigures,
    pub timers: &'a mut Timers,
    pub journal: &'a mut Journal,
    pub tasks: &'a mut Tasks,
    pub buffer: &'a mut Vec<u8>,
    pub worker: &'a mut Engine,
}

impl Edge {
    /// Splits the edge into the exchanges and the parts that a step of one exchange may use.
    pub(super) fn turn(&mut self) -> (&mut UpstreamExchanges, Turn<'_>) {
        let turn = Turn {
            policy: &self.policy,
            routing: &mut self.routing,
            upstream: &mut self.upstream,
            clients: &mut self.clients,
            publishing: &mut self.publishing,
            pushpin: &mut self.pushpin,
            route_figures: &self.route_figures,
            timers: &mut self.timers,
            journal: &mut self.journal,
            tasks: &mut self.tasks,
            buffer: &mut self.buffer,
            worker: &mut self.worker,
        };
        (&mut self.exchanges, turn)
    }
}

impl Turn<'_> {
    pub fn holds(&mut self) -> Holds<'_> {
        Holds {
            policy: self.policy,
            routing: self.routing,
            clients: self.clients,
            publishing: self.publishing,
            pushpin: self.pushpin,
            route_figures: self.route_figures,
            timers: self.timers,
            journal: self.journal,
            tasks: self.tasks,
            worker: self.worker,
        }
    }

    pub fn outbound(&mut self) -> Outbound<'_> {
        Outbound {
            policy: self.policy,
            upstream: self.upstream,
            route_figures: self.route_figures,
            services: &mut self.pushpin.services,
            ports: &mut self.publishing.ports,
            timers: self.timers,
            worker: self.worker,
        }
    }
}
