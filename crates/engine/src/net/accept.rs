//! Accepting connections, and the limits that refuse them.

use fermata_config::LogLevel;
use fermata_io::{Deadline, Driver, Event, Fd, Peer};

use crate::admin::stats::Counter;
use crate::http::Http;
use crate::http::respond::refuse::asks_for_head;
use crate::missed::missed;
use crate::net::Net;
use crate::net::READ_BYTES;
use crate::net::connection::{Connection, Origin, Phase};
use crate::net::index::ConnectionIndex;
use crate::net::line::Line;
use crate::net::token::{TOKEN_CONTROL, TOKEN_LISTENER, TOKEN_METRICS};

/// Maximum number of connections accepted in a row before other clients are served.
const ACCEPT_BATCH: usize = 256;

/// Pause in milliseconds after an error of `accept`.
const ACCEPT_PAUSE_MS: u64 = 100;

impl<D: Driver> Net<D> {
    fn pause_accepting(&mut self) {
        self.accept = Deadline::after(self.driver.now_ms(), ACCEPT_PAUSE_MS);
        let inner = self.control.into_iter().chain(self.metrics);
        for fd in self.listeners.iter().copied().chain(inner) {
            let _ = self.driver.remove(fd);
        }
    }

    /// Adds a connection, and schedules a read in this turn.
    pub(crate) fn insert(
        &mut self,
        mut connection: Connection,
        deadline: Deadline,
    ) -> ConnectionIndex {
        let (peer, is_of_proxy) = (connection.peer, connection.phase == Phase::Preface);
        connection.deadline = deadline;
        let key = self.connections.insert(connection);
        if !is_of_proxy {
            self.count_address(peer);
        }
        // The request usually has arrived already. Reading now saves a wait. A connection that is
        // closed within this turn is never watched.
        self.fresh.push(key.connection());
        self.events.push(Event::readable(key.to_u64()));
        key.connection()
    }

    /// Counts a connection for the limit of its client's address.
    pub(crate) fn count_address(&mut self, peer: Peer) {
        if self.settings.connections_per_address_max > 0
            && let Some(address) = peer.ip()
        {
            *self.addresses.entry(address).or_insert(0) += 1;
        }
    }

    /// Returns true if the client's address has reached its limit.
    pub(crate) fn is_crowded(&self, peer: Peer) -> bool {
        let per_address = self.settings.connections_per_address_max;
        let count = peer.ip().and_then(|address| self.addresses.get(&address));
        per_address > 0 && count.is_some_and(|&count| count as usize >= per_address)
    }

    /// Returns the limit that a new connection would exceed, if any.
    pub(crate) fn refuses(&self, peer: &Peer) -> Option<Refused> {
        if self.sockets_len() >= self.settings.connections_max {
            return Some(Refused {
                status: 503,
                counter: Counter::RefusedConnections,
                setting: "connections_max",
            });
        }
        if self.is_crowded(*peer) {
            return Some(Refused {
                status: 429,
                counter: Counter::RefusedPerAddress,
                setting: "connections_per_address_max",
            });
        }
        None
    }
}

impl<D: Driver> Net<D> {
    /// Watches the connections of this turn that are still open. The next wait also reports events
    /// from before the watch.
    pub(crate) fn watch_fresh(&mut self, http: &mut Http) {
        while let Some(index) = self.fresh.pop() {
            // The connection was closed within the turn.
            let Some(key) = self.connections.key(index) else {
                continue;
            };
            let Some(connection) = self.connections.at_mut(index) else {
                missed(());
                continue;
            };
            // An index that was reused within the turn is listed twice.
            if std::mem::replace(&mut connection.is_watched, true) {
                continue;
            }
            let (line, peer) = (connection.line, connection.peer);
            if let Some(fd) = line.socket()
                && let Err(error) = self.driver.add_stream(fd, key.to_u64())
            {
                let message = format!("watching a connection from {peer} failed: {error}");
                let unix_ms = self.driver.unix_ms();
                self.log.write_limited(LogLevel::Error, unix_ms, &message);
                self.close(http, index);
                continue;
            }
            self.arm(index);
        }
    }

    /// Accepts new connections. Returns true if more connections may be waiting.
    pub(crate) fn accept(&mut self, http: &mut Http, listener: Fd, origin: Origin) -> bool {
        self.driver.refresh_now();
        for _ in 0..ACCEPT_BATCH {
            match self.driver.accept(listener) {
                Ok(Some(accepted)) if self.prefaced.contains(&listener) => {
                    self.open_prefaced(accepted.fd, accepted.peer);
                }
                Ok(Some(accepted)) => self.open(http, accepted.fd, accepted.peer, origin),
                Ok(None) => return false,
                // The client disconnected before the connection was accepted.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Out of descriptors or memory: pause accepting, because the listeners would
                    // stay readable.
                    self.counts.add(Counter::RefusedAccept, 1);
                    self.pause_accepting();
                    let message = format!("accepting a connection failed: {error}");
                    let unix_ms = self.driver.unix_ms();
                    self.log.write_limited(LogLevel::Warning, unix_ms, &message);
                    return false;
                }
            }
        }
        true
    }

    /// Resumes accepting after the pause.
    pub(crate) fn resume_accepting(&mut self, http: &mut Http) {
        if !self.accept.is_due(self.driver.now_ms()) {
            return;
        }
        self.accept = Deadline::NEVER;
        let control = self.control.map(|fd| (fd, TOKEN_CONTROL));
        let public = self.listeners.iter().copied().zip(TOKEN_LISTENER..);
        let metrics = self.metrics.map(|fd| (fd, TOKEN_METRICS));
        for (fd, token) in public.chain(control).chain(metrics) {
            if self.driver.add_listener(fd, token).is_err() {
                // Still short of memory.
                self.pause_accepting();
                return;
            }
        }
        self.accept_again(http);
    }

    pub(crate) fn open(&mut self, http: &mut Http, fd: Fd, peer: Peer, origin: Origin) {
        if origin == Origin::Public
            && let Some(refusal) = self.refuses(&peer)
        {
            self.turn_away(http, fd, peer, refusal);
            return;
        }
        match origin {
            Origin::Public => self.counts.add(Counter::Accepted, 1),
            Origin::Control | Origin::Metrics | Origin::Own => self.gauges.control += 1,
        }
        let deadline = Deadline::after(self.driver.now_ms(), self.settings.header_timeout_ms);
        let index = self.insert(Connection::new(Line::of_socket(fd), peer, origin), deadline);
        if origin == Origin::Own {
            self.wires.opened(index.exchange());
        }
    }

    /// Answers a connection over a limit with a response that fits its empty send buffer, and
    /// closes it.
    pub(crate) fn turn_away(&mut self, http: &mut Http, fd: Fd, peer: Peer, refused: Refused) {
        self.counts.add(refused.counter, 1);
        self.counts.response(refused.status);
        let mut is_head = false;
        if self.input.current.is_none() {
            // Read the request: if it stayed unread, the kernel would send a reset, which destroys
            // the response.
            let read = self.driver.recv(fd, &mut self.input.bytes[..READ_BYTES]);
            let read = read.ok().flatten().unwrap_or(0);
            is_head = asks_for_head(&self.input.bytes[..read]);
        }
        let mut out = self.pool.take();
        let body = format!("The server's limit {} is reached.\n", refused.setting);
        crate::http::respond::answer::write_plain(
            &mut out,
            refused.status,
            &http.date,
            body.as_bytes(),
        );
        if is_head {
            let head_len = out.len() - body.len();
            out.truncate(head_len);
        }
        if let Ok(Some(sent)) = self.driver.send_one(fd, &out) {
            self.counts.add(Counter::BytesSent, sent as u64);
        }
        let unix_ms = self.driver.unix_ms();
        http.trace
            .on_refused(unix_ms, peer, refused.status, body.len());
        self.pool.give(out);
        self.driver.shutdown_write(fd);
        self.driver.close(fd);
        let message = format!(
            "connection from {peer} refused with {}: limit {} reached",
            refused.status, refused.setting
        );
        self.log
            .write_limited(LogLevel::Warning, self.driver.unix_ms(), &message);
    }
}

/// The limit that a connection exceeds.
pub(crate) struct Refused {
    status: u16,
    counter: Counter,
    setting: &'static str,
}
