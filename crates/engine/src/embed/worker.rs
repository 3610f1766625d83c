//! What an embedder asks of a worker besides events, and tells it about itself.

use fermata_config::{LogLevel, Settings};
use fermata_io::{Driver, Fd};

use crate::admin::stats::{self, MoreMetrics, Tables};
use crate::http::Http;
use crate::http::body::Upload;
use crate::http::request::RequestView;
use crate::log::{Detail, Logger};
use crate::net::Net;
use crate::net::connection::Origin;
use crate::worker::Worker;

impl<D: Driver> Net<D> {
    /// Writes a log line of the embedder.
    pub fn log(&self, level: LogLevel, message: &str) {
        self.log.write(level, self.driver.unix_ms(), message);
    }

    /// The same with what is known of the program's code.
    pub fn log_detailed(&self, level: LogLevel, message: &str, detail: &Detail<'_>) {
        let unix_ms = self.driver.unix_ms();
        self.log.write_detailed(level, unix_ms, message, detail);
    }

    /// Writes a log line of the embedder that clients can cause at will: at most so many per second.
    pub fn log_for_client(&mut self, level: LogLevel, message: &str) {
        let unix_ms = self.driver.unix_ms();
        self.log.write_limited(level, unix_ms, message);
    }

    /// The same with what is known of the program's code.
    pub fn log_detailed_for_client(&mut self, level: LogLevel, message: &str, detail: &Detail<'_>) {
        let unix_ms = self.driver.unix_ms();
        self.log
            .write_limited_detailed(level, unix_ms, message, detail);
    }

    /// Where its log lines go.
    pub fn logger(&self) -> Logger {
        self.log.logger().clone()
    }
}

impl Http {
    /// What a body has left outside of memory, by the number that `RequestView::upload` gave.
    pub fn upload(&self, number: u32) -> Option<&Upload> {
        self.uploads.get(number)
    }

    /// The request is over: removes its files, but for those that were moved away.
    pub fn release_upload(&mut self, number: u32) {
        self.uploads.release(number);
    }

    /// What a handler was added for, for a log line: the pattern of its route without the method.
    pub fn route_of(&self, handler: u32) -> &str {
        if handler == crate::http::router::TASK {
            return "a task";
        }
        let label = self.router.label(handler).unwrap_or_default();
        label.find('/').map_or(label, |at| &label[at..])
    }
}

impl<D: Driver> Worker<D> {
    /// The request of the last `Event::Request`. Meaningless after the next `next_event`.
    #[inline]
    pub fn request(&self) -> RequestView<'_> {
        self.http.request.view(&self.net.input.bytes)
    }

    /// Stops taking requests for good because PHP can no longer run, tells the master to start a
    /// replacement, and lets what has been written go out.
    pub fn retire(&mut self) {
        self.has_fatal = true;
        self.begin_drain(true);
    }

    /// What the process should exit with: 0, or `master::EXIT_RETIRED` after `retire`.
    pub fn exit_code(&self) -> i32 {
        if self.has_fatal {
            crate::master::link::EXIT_RETIRED
        } else {
            0
        }
    }

    /// Takes over a connected stream, for tests and inherited sockets.
    pub fn adopt(&mut self, fd: Fd, peer: fermata_io::Peer) {
        self.net.open(&mut self.http, fd, peer, Origin::Public);
    }

    /// What is told at the address for metrics beside the engine's own figures.
    pub fn add_metrics(&mut self, more: Box<MoreMetrics>) {
        self.reporter.more_metrics = Some(more);
    }

    /// Has `tables` tell what the tables have that all processes of the server share.
    pub fn set_tables(&mut self, tables: Box<Tables>) {
        self.reporter.tables = Some(tables);
    }

    /// The figures of all workers as of this moment.
    pub fn figures(&mut self) -> stats::Snapshot {
        self.report();
        self.reporter.snapshot(&self.channels, &self.net)
    }

    /// Effective settings.
    pub fn settings(&self) -> &Settings {
        &self.net.settings
    }

    /// Number of the worker, from 0.
    pub fn index(&self) -> u16 {
        self.index
    }
}
