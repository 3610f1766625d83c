//! Reading from sockets.
//!
//! A socket's bytes are read into the worker's input buffer and parsed in place, request after
//! request, so that pipelined requests cost one read. A remaining partial head moves to the
//! connection's `inbox`; an incomplete body is collected in its `partial` (see `body`).

use std::io;

use fermata_config::LogLevel;
use fermata_io::{Deadline, Driver};

use crate::admin::stats::Counter;
use crate::embed::event::Event;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::body::SPOOL_TURN_BYTES;
use crate::http::exchange::Stage;
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::READ_BYTES;
use crate::net::buffer::Current;
use crate::net::connection::{Awaited, Origin, Phase, Writing};
use crate::net::index::ConnectionIndex;
use crate::net::line::Carries;
use crate::net::running::Running;

impl<D: Driver> Net<D> {
    /// Logs a failed read if TLS reports a cause.
    pub(crate) fn note_recv_error(&mut self, index: ConnectionIndex, error: &io::Error) {
        if error.kind() != io::ErrorKind::InvalidData {
            return;
        }
        if let Some(connection) = self.connections.at(index).known() {
            let message = format!("{}: {error}", connection.peer);
            let unix_ms = self.driver.unix_ms();
            self.log.write_limited(LogLevel::Info, unix_ms, &message);
        }
    }
}

impl<D: Driver> Net<D> {
    /// Reads a connection's input. Returns true if there is input to parse.
    pub(crate) fn load(
        &mut self,
        http: &mut Http,
        waiting: &mut Waiting,
        index: ConnectionIndex,
    ) -> bool {
        let phase = self.connections.at(index).map(|it| it.phase);
        if phase == Some(Phase::Preface) && !self.read_preface(http, index) {
            return false;
        }
        self.wants_input(http, waiting, index) && self.fill_input(http, index)
    }

    /// Returns true if a connection's input is to be parsed now. Discards unneeded input, and notes
    /// input that has to wait.
    #[inline]
    fn wants_input(
        &mut self,
        http: &mut Http,
        waiting: &mut Waiting,
        index: ConnectionIndex,
    ) -> bool {
        // The connection was closed just now, or after it was listed.
        let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
            return false;
        };
        match &exchange.stage {
            _ if connection.phase == Phase::Lingering => {
                self.discard(http, index);
                return false;
            }
            Stage::Held(_) => {
                self.discard(http, index);
                return false;
            }
            Stage::Handling(early) => {
                connection.has_unread = true;
                if early.is_some() {
                    waiting.note_arrived(self, index.exchange());
                }
                return false;
            }
            Stage::Body(_) | Stage::Http2(_) if http.uploads.turn_bytes >= SPOOL_TURN_BYTES => {
                // Serve other connections first. In the next turn, serve this connection first;
                // otherwise the others would always precede it.
                connection.has_unread = true;
                if !std::mem::replace(&mut connection.is_again, true) {
                    http.uploads.postponed.push(index);
                }
                return false;
            }
            Stage::Head | Stage::Body(_) | Stage::Socket(_) | Stage::Http2(_) => {}
        }
        if connection.is_paused || exchange.is_deferred || connection.writing != Writing::Open {
            connection.has_unread = true;
            if let Some(socket) = exchange.socket_mut() {
                // The unread bytes may contain a pong.
                socket.note_alive();
            }
            return false;
        }
        // HTTP/2 control frames (windows, resets, pings) never wait for a handler, because running
        // handlers may need them to finish. Requests are postponed one by one.
        let waits_for_handler = waiting.is_full() && !matches!(exchange.stage, Stage::Http2(_));
        !(waits_for_handler && waiting.hold_back(self, index))
    }

    /// Fills the input buffer from a connection's inbox and its socket. Returns true if there is
    /// input to parse.
    #[inline]
    fn fill_input(&mut self, http: &mut Http, index: ConnectionIndex) -> bool {
        let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
            return missed(false);
        };
        debug_assert!(self.input.current.is_none());
        let Some(fd) = connection.line.socket() else {
            return self.load_stream(index);
        };
        let mut filled = 0;
        if !connection.inbox.is_empty() {
            let inbox = std::mem::take(&mut connection.inbox);
            filled = inbox.len();
            self.input.bytes[..filled].copy_from_slice(&inbox);
            self.pool.give(inbox);
        }
        // Input that may contain complete requests is parsed before more is read, which limits the
        // inbox.
        let is_enough = filled >= self.settings.header_bytes_max;
        if is_enough || connection.has_ended {
            connection.has_unread = true;
        } else {
            let space = &mut self.input.bytes[filled..filled + READ_BYTES];
            match self.driver.recv(fd, space) {
                Ok(Some(0)) => {
                    connection.has_ended = true;
                    connection.has_unread = true;
                }
                Ok(Some(read)) => {
                    // A short read has emptied the socket, and further bytes raise an event.
                    // Continue only after a full read, or if end-of-stream follows.
                    connection.has_unread = read == READ_BYTES || connection.has_hung_up;
                    if connection.origin == Origin::Public {
                        self.counts.add(Counter::BytesReceived, read as u64);
                    }
                    filled += read;
                }
                Ok(None) => {
                    connection.has_unread = false;
                    if filled == 0 {
                        // A publisher or health check has connected and is about to send its
                        // request.
                        let is_about_to_ask =
                            matches!(connection.origin, Origin::Control | Origin::Metrics)
                                && connection.awaited == Awaited::First;
                        let is_idle = exchange.awaits_head() && !is_about_to_ask;
                        if is_idle && self.running != Running::Serving {
                            self.close(http, index);
                        }
                        return false;
                    }
                }
                Err(error) => {
                    // Reset by the peer.
                    self.note_recv_error(index, &error);
                    self.close_broken(http, index, &error);
                    return false;
                }
            }
        }
        self.input.begin(index, filled);
        true
    }

    /// Discards input of a held or lingering client, and detects a disconnect.
    fn discard(&mut self, http: &mut Http, index: ConnectionIndex) {
        let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
            return missed(());
        };
        let fd = match connection.line.carries() {
            Carries::Socket(fd) => fd,
            Carries::Stream(place) if self.http2.is_reset(place) => {
                self.close(http, index);
                return;
            }
            Carries::Stream(_) => {
                self.drop_input(index);
                return;
            }
        };
        let hung_up = connection.has_hung_up;
        let has_more = match self.driver.recv(fd, &mut self.input.bytes[..READ_BYTES]) {
            Ok(Some(0)) => {
                self.close(http, index);
                return;
            }
            Err(error) => {
                self.close_broken(http, index, &error);
                return;
            }
            Ok(Some(read)) => {
                self.counts.add(Counter::BytesReceived, read as u64);
                let socket = exchange.socket_mut();
                if socket.is_some_and(|socket| socket.is_answered(&self.input.bytes[..read])) {
                    self.driver.shutdown_write(fd);
                }
                read == READ_BYTES || hung_up
            }
            Ok(None) => false,
        };
        if has_more {
            self.go_on(index);
        }
    }
}

impl<D: Driver> Net<D> {
    /// Stores the input after a request that PHP has not answered before the next `next_event`.
    pub(crate) fn leave_unanswered(&mut self) {
        if let Some(current) = self.input.current
            && let Some((connection, exchange)) =
                self.connections.pair(current.index.exchange()).known()
            && exchange.is_handling()
            && connection.phase == Phase::Open
        {
            self.stash();
        }
    }

    /// Stops parsing the current input. Stores the rest in the inbox, and sets a deadline for the
    /// missing bytes.
    pub(crate) fn stash(&mut self) {
        let Some(Current {
            index, at, filled, ..
        }) = self.input.current.take()
        else {
            return;
        };
        let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
            return missed(());
        };
        // Input of a held client is ignored.
        if at < filled && !exchange.is_held() {
            // Only a stream can have further bytes in its inbox.
            let rest = std::mem::replace(&mut connection.inbox, self.pool.take());
            connection
                .inbox
                .extend_from_slice(&self.input.bytes[at..filled]);
            if !rest.is_empty() {
                connection.inbox.extend_from_slice(&rest);
            }
        }
        if at < filled || exchange.is_handling() {
            self.gauges.begin_active(connection, exchange);
        }
        let must_go_on = connection.has_unread && !connection.is_paused;
        match &exchange.stage {
            // After the server's close frame the deadline stays, whatever the client sends.
            Stage::Socket(socket) if socket.can_send() => {
                self.restart_deadline(index);
            }
            Stage::Head if connection.is_paused => {}
            // The limit starts at a head's first byte, so that a client cannot extend it by sending
            // slowly. A new connection has a deadline since it was opened.
            Stage::Head if at < filled && connection.awaited == Awaited::Next => {
                connection.awaited = Awaited::Begun;
                let now_ms = self.driver.refresh_now();
                self.set_deadline(
                    index,
                    Deadline::after(now_ms, self.settings.header_timeout_ms),
                );
            }
            Stage::Head if at < filled => {}
            // With unsent output, the idle time starts when the output was sent.
            Stage::Head if connection.deadline.is_never() && !exchange.has_output(connection) => {
                self.restart_deadline(index);
            }
            _ => {}
        }
        if must_go_on {
            self.go_on(index);
        }
    }
}

/// Result of a parsing step.
pub(crate) enum Step {
    /// The current request is complete.
    Request,
    /// The request of a stream is complete, but starts only after its client has read earlier
    /// responses.
    Later(ConnectionIndex),
    /// A WebSocket event for the application.
    Socket(Event),
    /// Input was consumed; continue.
    Again,
    /// More bytes are needed.
    Starved,
}
