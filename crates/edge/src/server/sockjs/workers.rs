//! SockJS requests that reach a worker other than the worker of their session.

use std::rc::Rc;

use crate::client::source::{Owner, Source, Table};
use crate::hash::hash;
use crate::pushpin::sockjs::SockJs;
use crate::routes::Routes;
use crate::server::edge::Edge;
use crate::server::routing::Routing;
use crate::server::tasks::Ask;
use crate::upstream::exchange::Purpose;
use fermata_engine::RequestId;

impl Edge {
    /// Forwards a request to the session's worker and the response to the client.
    pub(super) fn hand_on(&mut self, handle: RequestId, source: &Source, owner: usize) {
        let Some(table) = self.pushpin.sockjs.routes_to(&mut self.routing, owner) else {
            return self.clients.answer_text(
                &mut self.worker,
                handle,
                502,
                crate::upstream::reply::FAILED,
            );
        };
        if self.worker.defer(handle).is_err() {
            self.clients.forget_request(&mut self.worker, handle);
            return;
        }
        let source = Source {
            request: Rc::clone(&source.request),
            table,
            rule: 0,
            target: 0,
            is_trusted: false,
            is_sockjs: false,
            session_id: None,
        };
        self.ask(Ask {
            purpose: Purpose::Worker,
            ..Ask::new(Owner::Client(handle), source)
        });
    }
}

impl SockJs {
    /// Returns the worker of a session with this name; `own` if there is only one worker.
    pub(super) fn owner_of(&self, own: usize, name: &[u8]) -> usize {
        match self.paths.len() {
            0 => own,
            workers => (hash(name) % workers as u64) as usize,
        }
    }

    fn routes_to(&mut self, routing: &mut Routing, worker: usize) -> Option<Rc<Table>> {
        if let Some(table) = self.routes.get(&worker) {
            return Some(Rc::clone(table));
        }
        let path = self.paths.get(worker)?.to_str()?;
        let quoted = path.replace('\\', "\\\\").replace('"', "\\\"");
        // The other worker's responses need no further handling.
        let line = format!("*,no_grip \"unix/{quoted}\"");
        let (routes, problems) = Routes::read(&line, |_| Ok(()));
        if !problems.is_empty() || routes.rules().is_empty() {
            return None;
        }
        routing.generation += 1;
        let table = Rc::new(Table {
            generation: routing.generation,
            routes,
            home: None,
            watched: Vec::new(),
        });
        self.routes.insert(worker, Rc::clone(&table));
        Some(table)
    }
}
