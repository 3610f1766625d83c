//! Requests of a session that reach another worker than the one that has it.

use std::rc::Rc;

use crate::client::source::{Owner, Source, Table};
use crate::pushpin::sockjs::workers::hash;
use crate::routes::Routes;
use crate::server::edge::Edge;
use crate::upstream::talk::Purpose;

impl Edge {
    /// Which worker has a session of this name.
    pub(super) fn owner_of(&self, name: &[u8]) -> usize {
        match self.pushpin.sockjs.paths.len() {
            0 => usize::from(self.worker.index()),
            workers => (hash(name) % workers as u64) as usize,
        }
    }

    /// Hands a request to the worker that has its session; that one's answer is the client's.
    pub(super) fn hand_on(&mut self, handle: u64, source: &Source, owner: usize) {
        let Some(table) = self.routes_to(owner) else {
            return self.answer_text(handle, 502, crate::upstream::reply::FAILED);
        };
        if self.worker.defer(handle).is_err() {
            self.forget_request(handle);
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
        self.ask_for(Owner::Client(handle), source, Vec::new(), Purpose::Worker);
    }

    fn routes_to(&mut self, worker: usize) -> Option<Rc<Table>> {
        if let Some(table) = self.pushpin.sockjs.routes.get(&worker) {
            return Some(Rc::clone(table));
        }
        let path = self.pushpin.sockjs.paths.get(worker)?.to_str()?;
        let quoted = path.replace('\\', "\\\\").replace('"', "\\\"");
        // Its answers are as they are to be.
        let line = format!("*,no_grip \"unix/{quoted}\"");
        let (routes, problems) = Routes::read(&line, |_| Ok(()));
        if !problems.is_empty() || routes.rules().is_empty() {
            return None;
        }
        self.routing.generation += 1;
        let table = Rc::new(Table {
            generation: self.routing.generation,
            routes,
            home: None,
            watched: Vec::new(),
        });
        self.pushpin.sockjs.routes.insert(worker, Rc::clone(&table));
        Some(table)
    }
}
