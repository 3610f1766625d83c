//! Held clients: long polls, streams and WebSockets, and items published to them.
//!
//! Code here has no access to connections to origins: requests to send or to cancel are queued as [`Task`]s.

use fermata_engine::RequestId;
use fermata_grip::instruct::Instruct;

use crate::client::clients::Clients;
use crate::client::journal::Journal;
use crate::client::source::{Engine, ExchangeKey, Source};
use crate::publish::parts::Publishing;
use crate::pushpin::parts::Pushpin;
use crate::routes::figures::RouteFigures;
use crate::server::edge::Edge;
use crate::server::notices::Reports;
use crate::server::policy::EdgePolicy;
use crate::server::routing::Routing;
use crate::server::services::Backends;
use crate::server::state::Keeper;
use crate::server::tasks::{Task, Tasks};
use crate::timers::Timers;

/// Parts of the edge that held clients need.
pub(super) struct Holds<'a> {
    pub policy: &'a EdgePolicy,
    pub routing: &'a mut Routing,
    pub clients: &'a mut Clients,
    pub publishing: &'a mut Publishing,
    pub pushpin: &'a mut Pushpin,
    pub route_figures: &'a RouteFigures,
    pub timers: &'a mut Timers,
    pub journal: &'a mut Journal,
    pub tasks: &'a mut Tasks,
    pub worker: &'a mut Engine,
}

impl Edge {
    pub(super) fn holds(&mut self) -> Holds<'_> {
        Holds {
            policy: &self.policy,
            routing: &mut self.routing,
            clients: &mut self.clients,
            publishing: &mut self.publishing,
            pushpin: &mut self.pushpin,
            route_figures: &self.route_figures,
            timers: &mut self.timers,
            journal: &mut self.journal,
            tasks: &mut self.tasks,
            worker: &mut self.worker,
        }
    }
}

impl Holds<'_> {
    pub fn reports(&mut self) -> Reports<'_> {
        Reports {
            journal: self.journal,
            stats: &mut self.pushpin.stats,
            ports: &mut self.publishing.ports,
            commands: &mut self.publishing.commands,
            timers: self.timers,
            worker: self.worker,
        }
    }

    pub fn backends(&mut self) -> Backends<'_> {
        Backends {
            services: &mut self.pushpin.services,
            ports: &mut self.publishing.ports,
            timers: self.timers,
            worker: self.worker,
        }
    }

    /// Returns the client of the session service; `None` if no service is configured.
    pub fn keeper(&mut self) -> Option<Keeper<'_>> {
        let ports = &mut self.publishing.ports;
        self.pushpin.keeper(ports, self.timers, self.worker)
    }

    /// Passes the session fields of an instruction to the service, or removes them if no service is configured.
    pub fn settle_session(&mut self, source: &mut Source, instruct: &mut Instruct) {
        match self.keeper() {
            Some(mut keeper) => keeper.settle(source, instruct),
            None => instruct.session_id = None,
        }
    }

    /// Cleans up after a client that is no longer held, or has left.
    pub fn on_no_longer_held(&mut self, handle: RequestId) {
        self.publishing.commands.forget_socket(handle);
        let asked = self.clients.filtering.forget(handle);
        self.abandon_filter(asked);
        self.reports().on_left(handle);
    }

    /// Cancels the request of a filter.
    pub fn abandon_filter(&mut self, number: Option<u64>) {
        if let Some(number) = number {
            self.tasks.add(Task::Abandon(ExchangeKey::Filter(number)));
            self.tasks.add(Task::FilterTurns);
        }
    }
}
