//! Reloads routes after their file changed, and on SIGHUP.
//!
//! A new table replaces the previous one completely. Requests, streams and WebSockets in progress keep their table. The edge reads
//! a file only after it was unchanged for one interval, so that it does not use a partly written file. A file without routes never
//! replaces a table with routes. If a file cannot be read, the edge tries again after each interval.

use std::rc::Rc;

use fermata_config::LogLevel;

use crate::client::source::{Engine, Table};
use crate::prepared::check_file;
use crate::routes::file::Stamp;
use crate::routes::unserved::Parts;
use crate::routes::{Routes, unserved};
use crate::server::routing::Routing;
use crate::timers::{Timer, Timers};
use crate::upstream::parts::Upstream;

/// Interval in milliseconds at which the edge checks whether the file has changed.
const LOOK_MS: u64 = 1_000;

impl Routing {
    /// Starts to watch the routes file. Reads the file if it has changed since the master read it: a worker that replaces another
    /// one inherits the master's routes, which may be old.
    pub(super) fn begin(
        &mut self,
        upstream: &mut Upstream,
        parts: Parts,
        timers: &mut Timers,
        worker: &mut Engine,
    ) {
        let Some(file) = &self.routes_file else {
            return;
        };
        if Stamp::of(&file.path).ok() != file.seen {
            self.read(upstream, parts, timers, worker);
        }
        let due_ms = worker.net.now_ms() + LOOK_MS;
        timers.at(due_ms, Timer::Routes);
    }

    /// Reads the routes file if it has changed.
    pub(super) fn look(
        &mut self,
        upstream: &mut Upstream,
        parts: Parts,
        timers: &mut Timers,
        worker: &mut Engine,
    ) {
        if let Some(file) = &mut self.routes_file
            && file.is_due(Stamp::of(&file.path).ok())
        {
            self.read(upstream, parts, timers, worker);
        }
        let due_ms = worker.net.now_ms() + LOOK_MS;
        timers.at(due_ms, Timer::Routes);
    }

    /// Reads all files again, on SIGHUP.
    pub(super) fn on_reload(
        &mut self,
        upstream: &mut Upstream,
        parts: Parts,
        timers: &mut Timers,
        worker: &mut Engine,
    ) {
        // Drop cached keys and authorities. Routes from the command line may name such files, too.
        upstream.signatures.forget();
        upstream.connections.authority.forget();
        self.read(upstream, parts, timers, worker);
    }

    fn read(
        &mut self,
        upstream: &mut Upstream,
        parts: Parts,
        timers: &mut Timers,
        worker: &mut Engine,
    ) {
        let Some(file) = &mut self.routes_file else {
            return;
        };
        // Read the stamp before the content: a write during the read then counts as a change.
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
                    worker.net.log(LogLevel::Error, &problem);
                    file.problem = Some(problem);
                }
                return;
            }
        };
        file.seen = Some(stamp);
        file.problem = None;
        let (routes, problems) = Routes::read(&text, check_file);
        for problem in &problems {
            worker.net.log(LogLevel::Warning, &problem.to_string());
        }
        for line in unserved::routes(&routes, parts) {
            worker.net.log(LogLevel::Warning, &line);
        }
        upstream.connections.authority.forget();
        for line in upstream.connections.authority.problems(&routes) {
            worker.net.log(LogLevel::Warning, &line);
        }
        if routes.rules().is_empty() && !self.table.routes.rules().is_empty() {
            let line = "routes: the file has no route that can be used; the routes of before stay";
            worker.net.log(LogLevel::Error, line);
            return;
        }
        self.generation += 1;
        let line = format!("routes read again: {} of them", routes.rules().len());
        worker.net.log(LogLevel::Info, &line);
        let now_ms = worker.net.now_ms();
        let watched = upstream.targets.watch(&routes, &self.table.watched, now_ms);
        self.set_table(Rc::new(Table {
            generation: self.generation,
            watched,
            routes,
            home: None,
        }));
        upstream.signatures.replace(&self.table.routes);
        upstream.begin_checks(&self.table, timers, worker);
    }
}
