//! Stopping: on the master's order, on a signal of its own, or because PHP cannot go on.

use fermata_config::LogLevel;
use fermata_io::buffer::Buffer;
use fermata_io::{Deadline, Driver};

use crate::admin::stats::Counter;
use crate::http::exchange::Stage;
use crate::master::link::Link;
use crate::net::Net;
use crate::net::connection::{Origin, Phase, Writing};
use crate::net::index::ConnectionIndex;
use crate::net::running::Running;
use crate::worker::Worker;

/// Batches of waiting connections that are accepted before the listener is closed: a full backlog.
const LAST_ACCEPTS_MAX: usize = 64;

/// How often idle connections are given away: to workers that end at the same time, in the end to the replacement.
const GIVEN_ROUNDS_MAX: usize = 4;

impl<D: Driver> Net<D> {
    /// The order to read the certificates again has come.
    pub(crate) fn reload_tls(&self) {
        if let Some(tls) = &self.tls {
            tls.reload(self.log.logger());
        }
    }
}

impl<D: Driver> Worker<D> {
    /// The master asks for a drain, or has died.
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

    /// The file of the access log was moved away.
    fn reopen_access_log(&mut self) {
        let unix_ms = self.net.driver.unix_ms();
        let (counts, log) = (&mut self.net.counts, &mut self.net.log);
        self.http.trace.write_log(counts, log, unix_ms);
        if let Err(error) = self.http.trace.reopen_log() {
            let message = format!("{error}; the file that is open is written on");
            log.write(LogLevel::Error, unix_ms, &message);
        }
    }

    /// A signal was sent to this worker alone: drain, and have a replacement started.
    pub(crate) fn on_signal(&mut self) {
        let signal = self.link.as_mut().and_then(Link::read_signal);
        if signal == Some(fermata_io::signal::SIGTERM) {
            self.begin_drain(false);
        }
    }

    /// A closed link would report its end for ever.
    fn unlink(&mut self) {
        if let Some(link) = self.link.take() {
            let _ = self.net.driver.remove(link.fd());
            let _ = self.net.driver.remove(link.signals_fd());
        }
    }

    /// Starts to finish: no new connections, idle ones closed, held ones ended with a retry hint.
    pub(crate) fn begin_drain(&mut self, retired: bool) {
        let now_ms = self.net.driver.refresh_now();
        let until = Deadline::after(now_ms, self.net.settings.drain_timeout_ms);
        match self.net.running {
            Running::Serving => {}
            Running::Draining { .. } if retired => {}
            Running::Draining { .. } | Running::Retired { .. } => return,
        }
        let is_first = self.net.running == Running::Serving;
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
            // A worker whose server goes on leaves its idle clients to others: one that it closed might just be sending.
            let goes_alone = self.link.is_some() && !self.reporter.shared.is_stopping();
            if goes_alone && !retired {
                // Answers of this turn have not said that they are the last.
                self.flush_dirty();
                self.accept_last();
            }
            if retired || goes_alone {
                self.give_idle_away();
            }
            if let Some(link) = &mut self.link {
                link.tell_retiring();
            }
            if !retired && !goes_alone {
                // Clients that connected before the end was announced are still served.
                self.accept_last();
            }
            // While the whole server stops somebody has to say that it is not ready.
            let is_stopping = self.reporter.shared.is_stopping();
            let metrics = self.net.metrics.take_if(|_| !is_stopping);
            let inner = self.net.control.take().into_iter().chain(metrics);
            for fd in self.net.listeners.drain(..).chain(inner) {
                // The master keeps a copy, unless the whole server stops.
                let _ = self.net.driver.remove(fd);
                self.net.driver.close(fd);
            }
        }
        // What was published behind a crowd waits in the ring (`gather`), and streams without ids cannot ask for it later.
        let (channels, mut to) = self.clients();
        channels.catch_up_by(&mut to, until);
        let message = format!("draining {} connections", self.net.sockets_len());
        self.net.log(LogLevel::Info, &message);
        for index in self.net.connections.indexes() {
            self.drain_connection(index);
            self.after_output();
        }
    }

    /// Accepts who has connected already. From here on nothing is accepted behind our back.
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

    /// Before the master is told: our next worker takes what is left in our inbox when it starts.
    fn give_idle_away(&mut self) {
        if let Some(inbox) = self.net.handover.inboxes.get(usize::from(self.net.slot)) {
            let _ = self.net.driver.remove(inbox.fd());
        }
        // What another worker cannot take any more, which has begun to end just now, comes back.
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
        // A stream ends with its connection, which may have been before it in the list.
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return;
        };
        connection.keeps_alive = false;
        match connection.phase {
            Phase::Open => {}
            // As below: its proxy may have sent the request along already.
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
                // At once, so that thousands share one buffer.
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
            // One more look for a request that is already here; `load` closes when there is none.
            Stage::Head if connection.inbox.is_empty() && !is_retired => self.net.go_on(index),
            Stage::Head if connection.inbox.is_empty() => self.net.close(&mut self.http, index),
            Stage::Head | Stage::Body(_) if is_retired => {
                connection.inbox = Buffer::default();
                self.http.refuse(
                    &mut self.net,
                    index.exchange(),
                    503,
                    "The server is restarting this worker; try again.\n",
                );
            }
            // The program is gone that would make the rest of it.
            Stage::Handling(_) if is_retired && exchange.body.is_some() => {
                self.http.cut_stream(&mut self.net, index.exchange())
            }
            // A request that has begun is read to its end and answered; `respond` then closes.
            Stage::Head | Stage::Body(_) | Stage::Handling(_) => {}
        }
    }

    pub(crate) fn is_stopped(&mut self) -> bool {
        let (Running::Draining { until } | Running::Retired { until }) = self.net.running else {
            return false;
        };
        // A connection that was closed a moment ago still gets its last answer.
        self.net.driver.flush();
        // What waits for neither a client nor the clock would wait for ever.
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
