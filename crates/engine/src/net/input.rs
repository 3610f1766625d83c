//! Bytes to requests.
//!
//! One socket's bytes are read into the worker's input buffer and parsed in place, request after
//! request, so that pipelined ones cost one read. What is left over (the beginning of a head) moves
//! to the connection's `inbox`; a body that has not arrived whole collects in its `partial` (see `body`).

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
    /// A read has failed: worth a line when TLS knows why and the client did not just vanish.
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
    /// Reads what a connection has sent. True when there is input to parse.
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

    /// Whether what a connection has sent is to be parsed now. What nobody wants is dropped, and what has to wait is noted.
    #[inline]
    fn wants_input(
        &mut self,
        http: &mut Http,
        waiting: &mut Waiting,
        index: ConnectionIndex,
    ) -> bool {
        // It was closed since it was listed, or has just been.
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
                // Others first; before them in the next turn, or those that are first would stay so.
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
                // A pong may be among what is not read.
                socket.note_alive();
            }
            return false;
        }
        // What carriers bring beside requests (windows, cancellations, pings) waits for no handler, and without it those
        // that run might not come to their end. Their requests are put off one by one.
        let waits_for_handler = waiting.is_full() && !matches!(exchange.stage, Stage::Http2(_));
        !(waits_for_handler && waiting.hold_back(self, index))
    }

    /// Brings what a connection has sent into the input: what waits in its inbox, and what its socket has. True when there is
    /// something to parse.
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
        // Input that may hold whole requests is parsed before more is read, which bounds the inbox.
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
                    // A short read has emptied the socket, and the next byte raises a new event.
                    // Only a full one, or one with the peer's end of stream behind it, goes on.
                    connection.has_unread = read == READ_BYTES || connection.has_hung_up;
                    if connection.origin == Origin::Public {
                        self.counts.add(Counter::BytesReceived, read as u64);
                    }
                    filled += read;
                }
                Ok(None) => {
                    connection.has_unread = false;
                    if filled == 0 {
                        // A publisher, or one that asks whether the server is ready, has connected and is about to ask.
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
                    // Reset by the peer; there is nobody to tell.
                    self.note_recv_error(index, &error);
                    self.close_broken(http, index, &error);
                    return false;
                }
            }
        }
        self.input.begin(index, filled);
        true
    }

    /// Drops what a held or lingering client sends, and notices that it has left.
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
    /// Puts the request that PHP has not answered in `next_event`'s time aside.
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

    /// Ends the parsing of the current input: what is left waits in the inbox, and a deadline is set
    /// for what has to come.
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
        // A held client has nothing to say any more.
        if at < filled && !exchange.is_held() {
            // Only of a stream more may have been there than was taken.
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
            // After our close frame the time to answer it runs on, whatever the client sends instead.
            Stage::Socket(socket) if socket.can_send() => {
                self.restart_deadline(index);
            }
            Stage::Head if connection.is_paused => {}
            // The limit counts from a head's first byte, so a client that drips bytes gains
            // nothing. A fresh connection has had its deadline since it was opened.
            Stage::Head if at < filled && connection.awaited == Awaited::Next => {
                connection.awaited = Awaited::Begun;
                let now_ms = self.driver.refresh_now();
                self.set_deadline(
                    index,
                    Deadline::after(now_ms, self.settings.header_timeout_ms),
                );
            }
            Stage::Head if at < filled => {}
            // With output, idleness begins when it has gone out.
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

/// How far parsing came.
pub(crate) enum Step {
    /// The current request is complete.
    Request,
    /// A WebSocket's program is to be told.
    Socket(Event),
    /// Something was consumed; look again.
    Again,
    /// More bytes are needed.
    Starved,
}
