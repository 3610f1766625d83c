//! Draining: ordered by the master, requested by a signal, or forced because PHP cannot continue.

use fermata_config::LogLevel;
use fermata_io::buffer::Buffer;
use fermata_io::{Deadline, Driver};

use crate::admin::stats::Counter;
use crate::http::exchange::Stage;
use crate::http::respond::refuse::refuse_restarting;
use crate::master::link::Link;
use crate::net::Net;
use crate::net::connection::{Origin, Phase, Writing};
use crate::net::index::ConnectionIndex;
use crate::net::running::Running;
use crate::worker::Worker;

/// Maximum number of batches of waiting connections accepted before the listener closes: a full
/// backlog.
const LAST_ACCEPTS_MAX: usize = 64;

/// Maximum number of rounds in which idle connections are handed over. The receiver may be a worker
/// that starts to drain too; the last round reaches the replacement.
const GIVEN_ROUNDS_MAX: usize = 4;

impl<D: Driver> Net<D> {
    /// Reloads the certificates, on the master's order.
    pub(crate) fn reload_tls(&self) {
        if let Some(tls) = &self.tls {
            tls.reload(self.log.logger());
        }
    }
}

impl<D: Driver> Worker<D> {
    /// Handles an order of the master, or its exit.
    pub(crate) fn on_master(&mut self) {
        let Some(link) = &mut self.link else {
            return;
        };
        match link.read() {
            crate::master::link::Order::None => {}
            crate::master::link::Order::Drain => self.begin_drain(false),
            crate::master::link::Order::ReloadTls => self.net.reload_tls(),
            crate::master::link::Order::Reload => self.waiting.reload(),
            crate::master::link::Order::ReopenLog => self.reopen_access_log(),
            crate::master::link::Order::MasterDied => {
                fermata_io::process::ends_by_itself();
                self.net
                    .log(LogLevel::Error, "the master process has ended; stopping");
                self.unlink();
                self.begin_drain(false);
            }
        }
    }

    /// Reopens the access log after log rotation.
    fn reopen_access_log(&mut self) {
        let unix_ms = self.net.driver.unix_ms();
        let (counts, log) = (&mut self.net.counts, &mut self.net.log);
        self.http.trace.write_log(counts, log, unix_ms);
        if let Err(error) = self.http.trace.reopen_log() {
            let message = format!("{error}; the open file stays in use");
            log.write(LogLevel::Error, unix_ms, &message);
        }
    }

    /// Handles a signal sent to this worker only: the worker drains, and the master starts a
    /// replacement.
    pub(crate) fn on_signal(&mut self) {
        let signal = self.link.as_mut().and_then(Link::read_signal);
        if signal == Some(fermata_io::signal::SIGTERM) {
            self.begin_drain(false);
        }
    }

    /// Stops watching the link to the master, because a closed link would report end-of-file in
    /// each turn.
    fn unlink(&mut self) {
        if let Some(link) = self.link.take() {
            let _ = self.net.driver.remove(link.fd());
            let _ = self.net.driver.remove(link.signals_fd());
        }
    }

    /// Starts to drain: accepts no connections, closes idle connections, and ends held connections
    /// with a retry hint.
    pub(crate) fn begin_drain(&mut self, retired: bool) {
        let now_ms = self.net.driver.refresh_now();
        let until = Deadline::after(now_ms, self.net.settings.drain_timeout_ms);
        match self.net.running {
            Running::Serving => {}
            Running::Draining { .. } if retired => {}
            Running::Draining { .. } | Running::Retired { .. } => return,
        }
        let is_first = self.net.running == Running::Serving;
        self.net.gives_requests |= retired;
        if is_first {
            self.reporter.shared.set_takes(self.net.slot, false);
            self.net.take_over();
        }
        self.net.running = if retired {
            Running::Retired { until }
        } else {
            Running::Draining { until }
        };
        if is_first {
            // If the server continues, hand idle clients over to other workers: a close could hit a
            // client that is just sending a request.
            let goes_alone = self.link.is_some() && !self.reporter.shared.is_stopping();
            if self.net.gives_requests {
                // Buffer the input that is being parsed, so that it moves with its connection.
                self.net.stash();
            }
            if goes_alone || self.net.gives_requests {
                // The responses of this turn have no `Connection: close`. Send them before the
                // handover.
                self.flush_dirty();
            }
            if goes_alone && !retired {
                self.accept_last();
            }
            if goes_alone || self.net.gives_requests {
                self.give_idle_away();
            }
            if let Some(link) = &mut self.link {
                link.send_retiring();
            }
            if !retired && !goes_alone {
                // Clients that connected before the drain began are still served.
                self.accept_last();
            }
            // While the whole server stops, the health endpoint must report that it is not ready.
            let is_stopping = self.reporter.shared.is_stopping();
            let metrics = self.net.metrics.take_if(|_| !is_stopping);
            let inner = self.net.control.take().into_iter().chain(metrics);
            for fd in self.net.listeners.drain(..).chain(inner) {
                // The master keeps a copy of the descriptor, unless the complete server stops.
                let _ = self.net.driver.remove(fd);
                self.net.driver.close(fd);
            }
        }
        // Records delayed by `gather` are still in the ring, and clients of streams without ids
        // cannot request them later.
        let (channels, mut to) = self.clients();
        channels.catch_up_by(&mut to, until);
        let message = format!("draining {} connections", self.net.sockets_len());
        self.net.log(LogLevel::Info, &message);
        for index in self.net.connections.indexes() {
            self.drain_connection(index);
            self.after_output();
        }
    }

    /// Accepts the connections in the backlog. Afterwards, the worker accepts only on explicit
    /// calls.
    fn accept_last(&mut self) {
        for listener in self.net.listeners.clone() {
            let _ = self.net.driver.remove(listener);
            for _ in 0..LAST_ACCEPTS_MAX {
                if !self.net.accept(&mut self.http, listener, Origin::Public) {
                    break;
                }
            }
        }
        self.net.accept = Deadline::NEVER;
    }

    /// Hands idle connections over to other workers. Runs before the master is notified: the next
    /// worker in this slot reads the remaining connections of the inbox when it starts.
    fn give_idle_away(&mut self) {
        if let Some(inbox) = self.net.handover.inboxes.get(usize::from(self.net.slot)) {
            let _ = self.net.driver.remove(inbox.fd());
        }
        // A receiving worker that has just started to drain hands the connection back.
        for _ in 0..GIVEN_ROUNDS_MAX {
            let mut given = 0;
            for index in self.net.connections.indexes() {
                let pair = self.net.connections.pair(index.exchange());
                let is_idle = pair.is_some_and(|(it, exchange)| {
                    it.phase == Phase::Open && exchange.awaits_head()
                });
                given += usize::from(is_idle && self.net.give_away(&mut self.http, index));
            }
            if given == 0 {
                break;
            }
        }
    }

    fn drain_connection(&mut self, index: ConnectionIndex) {
        let is_retired = matches!(self.net.running, Running::Retired { .. });
        let gives_requests = self.net.gives_requests;
        // An HTTP/2 stream closes with its connection, which may be earlier in the list.
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return;
        };
        connection.keeps_alive = false;
        match connection.phase {
            Phase::Open => {}
            // As for idle requests below: the proxy may already have sent the request together with
            // its header.
            Phase::Preface if !is_retired => {
                self.net.go_on(index);
                return;
            }
            Phase::Preface => {
                self.net.close(&mut self.http, index);
                return;
            }
            Phase::Lingering => return,
        }
        match &exchange.stage {
            Stage::Held(_) => {
                self.channels
                    .end_hold(&mut self.net, &mut self.waiting, index.exchange());
                // Flush now, so that thousands of clients share one buffer.
                self.net.flush(&mut self.http, index);
            }
            Stage::Socket(_) => self.sockets.drain_socket(
                &mut self.net,
                &mut self.http,
                &mut self.channels,
                index.exchange(),
            ),
            Stage::Http2(carrier) => {
                let carrier = *carrier;
                self.net.drain_carrier(index, carrier);
            }
            Stage::Head if connection.inbox.is_empty() && exchange.has_output(connection) => {
                connection.writing = Writing::Close;
            }
            // Check once more for a request that has already arrived. If there is none, `load`
            // closes the connection.
            Stage::Head if connection.inbox.is_empty() && !is_retired => self.net.go_on(index),
            // Unsent responses may precede a request that could not be handed over with its
            // connection.
            Stage::Head if gives_requests && !is_retired => self.net.go_on(index),
            Stage::Head if connection.inbox.is_empty() => self.net.close(&mut self.http, index),
            Stage::Head | Stage::Body(_) if is_retired => {
                connection.inbox = Buffer::default();
                refuse_restarting(&mut self.http, &mut self.net, index.exchange());
            }
            // The application that would produce the rest of the stream has exited.
            Stage::Handling(_) if is_retired && exchange.body.is_some() => {
                self.http.cut_stream(&mut self.net, index.exchange())
            }
            // A request that has started is read completely and answered. `respond` then closes the
            // connection.
            Stage::Head | Stage::Body(_) | Stage::Handling(_) => {}
        }
    }

    pub(crate) fn is_stopped(&mut self) -> bool {
        let (Running::Draining { until } | Running::Retired { until }) = self.net.running else {
            return false;
        };
        // Send the last response of a connection that was just closed.
        self.net.driver.flush();
        // A handler that waits for neither a client nor the clock would never finish.
        if self.net.connections.is_empty()
            && self.net.driver.leaving() == 0
            && !self.waiting.can_finish()
            && !self.file_jobs.has_file_jobs()
            && !self.channels.has_pending_publishes()
            && !self.waiting.is_due
        {
            self.set_full(false);
            return true;
        }
        if !until.is_due(self.net.driver.now_ms()) {
            return false;
        }
        let message = format!(
            "drain_timeout_ms is over; closing {} connections that have not finished",
            self.net.sockets_len()
        );
        self.net.log(LogLevel::Warning, &message);
        let unfinished = self.net.sockets_len() as u64;
        self.net.counts.add(Counter::DroppedDrain, unfinished);
        for index in self.net.connections.indexes() {
            self.net.close(&mut self.http, index);
        }
        self.after_output();
        self.set_full(false);
        true
    }
}
