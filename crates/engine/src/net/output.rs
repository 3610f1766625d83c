//! Writing to sockets, and finishing connections.

use std::io;

use fermata_hub::SubId;
use fermata_io::{Deadline, Driver};
use fermata_proto::http2::Rest;

use crate::admin::stats::Counter;
use crate::http::Http;
use crate::http::exchange::Stage;
use crate::http::respond::outgoing::Outgoing;
use crate::http::respond::sending::Advance;
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::connection::{Connection, Origin, Phase, Writing};
use crate::net::index::ConnectionIndex;
use crate::net::line::Carries;
use crate::websocket::Socket;

/// Time in milliseconds that a finished connection waits for its peer's end-of-stream.
const LINGER_MS: u64 = 2_000;

/// Maximum number of body bytes sent in a row before other clients are served.
const BODY_TURN_BYTES: u64 = 1024 * 1024;

impl<D: Driver> Net<D> {
    /// Marks a connection as blocked: the kernel's buffer is full, and a writable event or the
    /// write timeout follows. The client has just read `sent` bytes.
    pub(crate) fn block(&mut self, index: ConnectionIndex, sent: usize) {
        if self.connections.at(index).is_none_or(|it| it.is_blocked) {
            // The client has accepted nothing since, so the running timeout continues.
            return;
        }
        if sent > 0 {
            self.buffered.note_read(index, self.driver.now_ms());
        }
        let is_stream = |connection: &Connection| connection.line.is_stream();
        let deadline = if self.connections.at(index).is_some_and(is_stream) {
            // A stream may wait for its turn, which the client does not cause. Its carrier has a
            // deadline for windows.
            Deadline::NEVER
        } else {
            self.write_deadline(index, sent)
        };
        self.set_deadline(index, deadline);
        if let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()).known() {
            connection.is_blocked = true;
            self.gauges.blocked += 1;
            self.gauges.begin_active(connection, exchange);
            self.counts.add(Counter::Blocked, 1);
        }
        self.note_buffered(index);
    }
}

impl<D: Driver> Net<D> {
    /// Returns true if a connection has output to send in this turn.
    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || self.http2.is_dirty()
    }

    /// Sends this turn's output: one write per connection.
    pub(crate) fn flush_dirty(&mut self, http: &mut Http) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            // The connection was closed after it was listed.
            let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
                continue;
            };
            connection.is_dirty = false;
            if connection.rests_when_sent() && exchange.rests_when_sent() && !http.trace.is_on() {
                self.flush_usual(http, index);
            } else {
                self.flush(http, index);
            }
        }
        // Flushing may have listed connections again, for example a held client with more events in
        // its log.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
        if self.http2.is_dirty() {
            self.flush_carriers(http);
        }
    }

    /// Fast path of `flush` for a connection that needs nothing else after sending.
    #[inline]
    fn flush_usual(&mut self, http: &mut Http, index: ConnectionIndex) {
        let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
            return missed(());
        };
        let unsent = &connection.out[connection.out_sent as usize..];
        let length = unsent.len();
        // HTTP/2 streams are not handled here: `flush` handles them.
        let Some(fd) = connection.line.socket() else {
            return;
        };
        if length > 0 {
            match self.driver.send_one(fd, unsent) {
                Ok(Some(sent)) if sent == length => {}
                Ok(sent) => {
                    self.on_refused(http, index, sent);
                    return;
                }
                Err(error) => {
                    self.close_broken(http, index, &error);
                    return;
                }
            }
            if connection.origin == Origin::Public {
                self.counts.add(Counter::BytesSent, length as u64);
            }
        }
        connection.out_sent = 0;
        self.pool.give(std::mem::take(&mut connection.out));
        let is_socket = exchange.socket_mut().map(Socket::on_flushed).is_some();
        if connection.deadline.is_never() {
            if connection.inbox.is_empty() && !is_socket {
                let now_ms = self.driver.now_ms();
                let timeout_ms = self.settings.idle_timeout_ms;
                self.set_deadline(index, Deadline::after(now_ms, timeout_ms));
            } else {
                self.restart_deadline(index);
            }
        }
    }

    /// Handles a send that the kernel did not accept completely.
    fn on_refused(&mut self, http: &mut Http, index: ConnectionIndex, sent: Option<usize>) {
        if let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()).known()
            && let Some(sent) = sent
        {
            exchange.drop_sent(connection, sent);
            if connection.origin == Origin::Public && !connection.line.is_stream() {
                self.counts.add(Counter::BytesSent, sent as u64);
            }
            http.trace.on_sent(index.exchange(), sent);
            self.gauges.end_blocked(connection);
        }
        self.block(index, sent.unwrap_or(0));
    }
    /// Sends a connection's output as far as the kernel accepts it. Afterwards continues work that
    /// waited for the output: the close, the next piece of a file, delayed requests.
    pub(crate) fn flush(&mut self, http: &mut Http, index: ConnectionIndex) {
        match self.connections.at(index) {
            Some(connection) if !connection.is_blocked => self.write_out(http, index),
            // More output was appended to a blocked connection.
            Some(_) => self.note_buffered(index),
            None => {}
        }
    }
    /// Handles a writable event.
    pub(crate) fn on_writable(&mut self, http: &mut Http, index: ConnectionIndex) {
        if self.connections.at(index).is_some_and(|it| it.is_blocked) {
            self.write_out(http, index);
        }
    }

    fn write_out(&mut self, http: &mut Http, index: ConnectionIndex) {
        if let Some(carrier) = self.carrier_at(index) {
            self.write_carrier(http, index, carrier);
        } else if self.write_all(http, index) {
            self.on_flushed(http, index);
        }
    }
    /// Writes all output of an unblocked connection. Returns true if the kernel has accepted
    /// everything; the caller handles the consequences.
    pub(crate) fn write_all(&mut self, http: &mut Http, index: ConnectionIndex) -> bool {
        let mut turn_bytes = 0;
        loop {
            let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
                return missed(false);
            };
            let is_stream = connection.line.is_stream();
            if connection.unsent() > 0 || is_stream {
                let unsent = &connection.out[connection.out_sent as usize..];
                let length = unsent.len();
                let outcome = match connection.line.carries() {
                    Carries::Socket(fd) => self.driver.send_one(fd, unsent),
                    Carries::Stream(place) => {
                        let is_last =
                            connection.writing != Writing::Open && exchange.body.is_none();
                        let rest = if is_last { Rest::End } else { Rest::Open };
                        self.http2.send(place, &[unsent], rest)
                    }
                };
                match outcome {
                    Ok(Some(sent)) if sent == length => {
                        if connection.origin == Origin::Public && !is_stream {
                            self.counts.add(Counter::BytesSent, sent as u64);
                        }
                        http.trace.on_sent(index.exchange(), sent);
                    }
                    Ok(sent) => {
                        self.on_refused(http, index, sent);
                        return false;
                    }
                    Err(error) => {
                        self.close_broken(http, index, &error);
                        return false;
                    }
                }
            }
            connection.out_sent = 0;
            if let Some(socket) = exchange.socket_mut() {
                socket.on_flushed();
            }
            if !exchange.body.as_deref().is_some_and(Outgoing::is_here) {
                let out = std::mem::take(&mut connection.out);
                if out.capacity() > 0 {
                    self.pool.give(out);
                }
                return true;
            }
            // The kernel has accepted the bytes in `out`; they would be sent again if they stayed.
            connection.out.clear();
            if turn_bytes >= BODY_TURN_BYTES {
                let was_blocked = self.gauges.end_blocked(connection);
                self.gauges.begin_active(connection, exchange);
                connection.deadline = Deadline::NEVER;
                if was_blocked {
                    self.note_buffered(index);
                }
                self.mark_dirty(index);
                return false;
            }
            match self.advance_body(http, index) {
                Advance::Went(bytes) => turn_bytes += bytes,
                Advance::Blocked => {
                    self.block(index, turn_bytes as usize);
                    return false;
                }
                Advance::Over => return false,
            }
        }
    }

    /// Continues a connection whose output is empty.
    pub(crate) fn on_flushed(&mut self, http: &mut Http, index: ConnectionIndex) {
        http.trace.on_flushed(index.exchange(), self);
        let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
            return missed(());
        };
        let was_blocked = self.gauges.end_blocked(connection);
        let (connection, exchange) = if was_blocked {
            self.note_buffered(index);
            match self.connections.pair_mut(index.exchange()) {
                Some(pair) => pair,
                None => return missed(()),
            }
        } else {
            (connection, exchange)
        };
        if connection.is_active && exchange.awaits_request() && connection.inbox.is_empty() {
            self.gauges.end_active(connection);
        }
        match connection.writing {
            // END_STREAM was sent with the last byte. Do not reset the stream while the client still
            // sends its request body: some clients then drop the response that they have received.
            Writing::Close | Writing::Linger if connection.line.is_stream() => {
                if connection.has_ended {
                    self.close(http, index);
                } else if connection.phase != Phase::Lingering {
                    connection.phase = Phase::Lingering;
                    let now_ms = self.driver.refresh_now();
                    self.set_deadline(index, Deadline::after(now_ms, LINGER_MS));
                    // The client needs flow-control window to send the rest of the body.
                    self.drop_input(index);
                }
                return;
            }
            Writing::Close if !connection.has_unread => {
                self.close(http, index);
                return;
            }
            Writing::Close | Writing::Linger => {
                if connection.phase != Phase::Lingering {
                    connection.phase = Phase::Lingering;
                    let fd = connection.line.socket();
                    let awaits_answer = exchange.socket().is_some_and(Socket::awaits_answer);
                    if let Some(fd) = fd.filter(|_| !awaits_answer) {
                        self.driver.shutdown_write(fd);
                    }
                    let now_ms = self.driver.refresh_now();
                    self.set_deadline(index, Deadline::after(now_ms, LINGER_MS));
                    self.go_on(index);
                }
                return;
            }
            Writing::Open => {}
        }
        let is_held = match &exchange.stage {
            Stage::Held(_) => true,
            Stage::Socket(socket) => exchange.chain != SubId::NONE || socket.is_resuming(),
            _ => false,
        };
        let was_paused = std::mem::take(&mut connection.is_paused);
        let is_stream = connection.line.is_stream();
        if !connection.is_settled && !is_stream && self.settle(http, index) {
            return;
        }
        let Some(connection) = self.connections.at_mut(index) else {
            return missed(());
        };
        if was_blocked || connection.deadline.is_never() {
            self.restart_deadline(index);
        }
        if was_paused {
            self.go_on(index);
        }
        http.list_stream(self, index.exchange());
        if is_held {
            self.flushed.push(index.exchange());
        }
    }
    /// Closes a connection after an error of its socket. The kernel still delivers the output it
    /// has accepted. `TimedOut` means that the client has read nothing for `write_timeout_ms`.
    pub(crate) fn close_broken(
        &mut self,
        http: &mut Http,
        index: ConnectionIndex,
        error: &io::Error,
    ) {
        if error.kind() == io::ErrorKind::TimedOut {
            self.note_write_timeout(index);
        }
        self.close(http, index);
    }
}
