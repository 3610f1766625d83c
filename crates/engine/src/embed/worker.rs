//! Worker API of an embedder besides events: logging, uploads, metrics and retirement.

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

    /// Writes a line that a script printed to standard error, whatever `log_level` is.
    pub fn log_text(&self, line: &str) {
        let unix_ms = self.driver.unix_ms();
        self.log.logger().write_text(unix_ms, line);
    }

    /// Writes a log line with details of the application code.
    pub fn log_detailed(&self, level: LogLevel, message: &str, detail: &Detail<'_>) {
        let unix_ms = self.driver.unix_ms();
        self.log.write_detailed(level, unix_ms, message, detail);
    }

    /// Writes a log line that clients can trigger at will, within the limit per second.
    pub fn log_for_client(&mut self, level: LogLevel, message: &str) {
        let unix_ms = self.driver.unix_ms();
        self.log.write_limited(level, unix_ms, message);
    }

    /// Writes a log line about a client with details of the application code.
    pub fn log_detailed_for_client(&mut self, level: LogLevel, message: &str, detail: &Detail<'_>) {
        let unix_ms = self.driver.unix_ms();
        self.log
            .write_limited_detailed(level, unix_ms, message, detail);
    }

    /// Returns its logger.
    pub fn logger(&self) -> Logger {
        self.log.logger().clone()
    }
}

impl Http {
    /// Returns the stored part of a body, by the number of `RequestView::upload`.
    pub fn upload(&self, number: u32) -> Option<&Upload> {
        self.uploads.get(number)
    }

    /// Deletes the files of a finished request, except files that the application has moved.
    pub fn release_upload(&mut self, number: u32) {
        self.uploads.release(number);
    }

    /// Returns the pattern of a handler's route without the method, for log lines.
    pub fn route_of(&self, handler: u32) -> &str {
        if handler == crate::http::router::TASK {
            return "a task";
        }
        let label = self.router.label(handler).unwrap_or_default();
        label.find('/').map_or(label, |at| &label[at..])
    }
}

impl<D: Driver> Worker<D> {
    /// Returns the request of the last `Event::Request`. Invalid after the next `next_event`.
    #[inline]
    pub fn request(&self) -> RequestView<'_> {
        self.http.request.view(&self.net.input.bytes)
    }

    /// Stops accepting requests because PHP has become unusable, makes the master start a
    /// replacement, and sends output that is already written.
    pub fn retire(&mut self) {
        self.has_fatal = true;
        self.begin_drain(true);
    }

    /// Starts no more requests because the application has exited, makes the master start a
    /// replacement, and drains. Requests whose handlers have not started move with their
    /// connections to other workers or to the replacement.
    pub fn replace(&mut self) {
        self.net.gives_requests = true;
        self.begin_drain(false);
    }

    /// Returns the exit code of the process: 0, or `master::EXIT_RETIRED` after `retire`.
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

    /// Adds metrics of the embedder to the metrics endpoint.
    pub fn add_metrics(&mut self, more: Box<MoreMetrics>) {
        self.reporter.more_metrics = Some(more);
    }

    /// Sets the function that returns statistics of shared tables.
    pub fn set_tables(&mut self, tables: Box<Tables>) {
        self.reporter.tables = Some(tables);
    }

    /// Returns the current statistics of all workers.
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
