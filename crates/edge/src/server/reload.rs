//! Routes that are read again: when their file has changed, and when the operator asks for it (SIGHUP).
//!
//! A table replaces the one before as a whole; requests, streams and WebSockets that are under way keep the table they began
//! with. A file that is being written is left alone until it has been the same for a whole look, one without a single route
//! never replaces one that has some, and one that cannot be read is tried again.

use std::rc::Rc;

use fermata_config::LogLevel;

use crate::client::source::Table;
use crate::prepared::check_file;
use crate::routes::file::Stamp;
use crate::routes::{Routes, unserved};
use crate::server::edge::Edge;
use crate::timers::Timer;

/// How often the file is looked at.
const LOOK_MS: u64 = 1_000;

impl Edge {
    /// Begins to look at the routes file. A worker that takes another's place begins with the routes of the start, which may
    /// be old.
    pub(super) fn begin_routes(&mut self) {
        let Some(file) = &self.routing.routes_file else {
            return;
        };
        if Stamp::of(&file.path).ok() != file.seen {
            self.read_routes();
        }
        let due_ms = self.worker.net.now_ms() + LOOK_MS;
        self.timers.at(due_ms, Timer::Routes);
    }

    /// Looks whether the routes file has changed.
    pub(super) fn look_at_routes(&mut self) {
        if let Some(file) = &mut self.routing.routes_file
            && file.is_due(Stamp::of(&file.path).ok())
        {
            self.read_routes();
        }
        let due_ms = self.worker.net.now_ms() + LOOK_MS;
        self.timers.at(due_ms, Timer::Routes);
    }

    /// The operator wants everything to be read again that is in files.
    pub(super) fn on_reload(&mut self) {
        // Routes that were given as they are may name keys and authorities.
        self.upstream.signatures.forget();
        self.upstream.connections.authority.forget();
        self.read_routes();
    }

    fn read_routes(&mut self) {
        let Some(file) = &mut self.routing.routes_file else {
            return;
        };
        // Before it is read: what is written meanwhile is another state.
        let read = Stamp::of(&file.path).and_then(|stamp| {
            let text = std::fs::read_to_string(&file.path)?;
            Ok((stamp, text))
        });
        let (stamp, text) = match read {
            Ok(read) => read,
            Err(error) => {
                let problem = format!(
                    "routes: {}: {error}; the routes of before stay, and the file is tried again",
                    file.path.display()
                );
                if file.problem.as_ref() != Some(&problem) {
                    self.worker.net.log(LogLevel::Error, &problem);
                    file.problem = Some(problem);
                }
                return;
            }
        };
        file.seen = Some(stamp);
        file.problem = None;
        let (routes, problems) = Routes::read(&text, check_file);
        for problem in &problems {
            self.worker.net.log(LogLevel::Warning, &problem.to_string());
        }
        for line in unserved::routes(&routes, self.parts) {
            self.worker.net.log(LogLevel::Warning, &line);
        }
        self.upstream.connections.authority.forget();
        for line in self.upstream.connections.authority.problems(&routes) {
            self.worker.net.log(LogLevel::Warning, &line);
        }
        if routes.rules().is_empty() && !self.table().routes.rules().is_empty() {
            let line = "routes: the file has no route that can be used; the routes of before stay";
            self.worker.net.log(LogLevel::Error, line);
            return;
        }
        self.routing.generation += 1;
        let line = format!("routes read again: {} of them", routes.rules().len());
        self.worker.net.log(LogLevel::Info, &line);
        let now_ms = self.worker.net.now_ms();
        let watched = self
            .upstream
            .targets
            .watch(&routes, &self.table().watched, now_ms);
        self.routing.set_table(Rc::new(Table {
            generation: self.routing.generation,
            watched,
            routes,
            home: None,
        }));
        self.upstream
            .signatures
            .replace(&Rc::clone(self.table()).routes);
        self.begin_checks();
    }
}
