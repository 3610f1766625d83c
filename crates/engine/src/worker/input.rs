//! The input of a turn: the events of its batch, and the bytes received on each connection.

use fermata_io::{Driver, Event as IoEvent};

use crate::embed::event::Event;
use crate::http::body::SPOOL_TURN_BYTES;
use crate::http::dispatch::Answerer;
use crate::http::exchange::Stage;
use crate::missed::missed;
use crate::net::buffer::Current;
use crate::net::connection::{Origin, Writing};
use crate::net::http2::CarrierPlace;
use crate::net::index::ConnectionIndex;
use crate::net::input::Step;
use crate::net::slab::Key;
use crate::net::token::{
    TOKEN_CONTROL, TOKEN_FILES, TOKEN_INBOX, TOKEN_LINK, TOKEN_LISTENER, TOKEN_LISTENER_LAST,
    TOKEN_METRICS, TOKEN_SIGNAL, TOKEN_WAKE, TOKEN_WATCH,
};
use crate::websocket::FRAMES_MAX;
use crate::worker::Worker;

/// Maximum number of pipelined requests of one client served before other clients are served.
const PIPELINE_MAX: u32 = 128;

/// Weight in frames of a message that is delivered to the application. With it, at most as many
/// handlers run in a row for messages as for requests.
const FRAMES_PER_HANDLER: u32 = FRAMES_MAX / PIPELINE_MAX;

/// Parser for the input of a connection.
enum Parser {
    Head,
    Body,
    Socket,
    Http2(CarrierPlace),
}

impl<D: Driver> Worker<D> {
    /// Handles the next event of the batch. Returns true if there is input to parse.
    pub(crate) fn next_input(&mut self) -> bool {
        while let Some(event) = self.net.events.get(self.net.events_at).copied() {
            self.net.events_at += 1;
            match event.token {
                token @ TOKEN_LISTENER..=TOKEN_LISTENER_LAST => {
                    let at = (token - TOKEN_LISTENER) as usize;
                    if let Some(&listener) = self.net.listeners.get(at) {
                        self.net.accept(&mut self.http, listener, Origin::Public);
                    }
                }
                TOKEN_CONTROL => {
                    if let Some(control) = self.net.control {
                        self.net.accept(&mut self.http, control, Origin::Control);
                    }
                }
                TOKEN_METRICS => {
                    if let Some(metrics) = self.net.metrics {
                        self.net.accept(&mut self.http, metrics, Origin::Metrics);
                    }
                }
                TOKEN_WAKE => {
                    if let Some(waker) = self.channels.wakers.get(usize::from(self.net.slot)) {
                        waker.drain();
                    }
                    // The master wakes all workers after one has crashed, because the users of the
                    // crashed worker may be leaving.
                    self.channels.expect_leaving(self.net.turn_ms);
                }
                TOKEN_INBOX => self.net.take_over(),
                TOKEN_LINK => self.on_master(),
                TOKEN_SIGNAL => self.on_signal(),
                TOKEN_WATCH => self.waiting.collect_watched(&mut self.net),
                TOKEN_FILES => self.file_jobs.on_files(&mut self.waiting),
                token => {
                    if self.on_connection(Key::from_u64(token), event) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Handles an event of a connection. Returns true if there is input to parse.
    fn on_connection(&mut self, key: Key, event: IoEvent) -> bool {
        let Some((connection, exchange)) = self.net.connections.get_mut(key) else {
            self.net.on_wire(&mut self.http, &mut self.waiting, event);
            return false;
        };
        if event.hangup {
            connection.has_hung_up = true;
        }
        let has_left = event.hangup && exchange.is_deferred;
        if event.writable && connection.is_blocked {
            self.net.on_writable(&mut self.http, key.connection());
            self.after_output();
        }
        if has_left {
            self.waiting.note_left(&self.net, key.exchange());
        }
        (event.readable || event.hangup)
            && self
                .net
                .load(&mut self.http, &mut self.waiting, key.connection())
    }

    /// Parses the current input up to the next request or message for PHP. Returns `None` at the
    /// end of the input.
    pub(crate) fn step_input(&mut self) -> Option<Event> {
        while let Some(current) = self.net.input.current {
            let step = match self.parser(current)? {
                Parser::Head => self.http.step_head(&mut self.net, current),
                Parser::Body => self.http.step_body(&mut self.net, current),
                Parser::Socket => {
                    self.sockets
                        .step_socket(&mut self.net, &mut self.channels, current)
                }
                Parser::Http2(carrier) => {
                    self.http
                        .step_http2(&mut self.net, &mut self.waiting, current, carrier)
                }
            };
            match step {
                Step::Request => {
                    self.net.input.count(1);
                    let event = self.dispatch();
                    let is_put_off = match event {
                        Some(Event::Request) => self.http.put_off(&mut self.net, &self.waiting),
                        Some(Event::Upgrade) => {
                            self.http.put_off_upgrade(&mut self.net, &self.waiting)
                        }
                        _ => false,
                    };
                    if is_put_off {
                        continue;
                    }
                    if event.is_some() {
                        return event;
                    }
                    self.http.drop_upload();
                    // The server itself accepted a WebSocket, so the application gets the open
                    // event first.
                    let event = self.next_socket_event();
                    if event.is_some() {
                        return event;
                    }
                }
                Step::Later(carrier) => {
                    self.net.input.count(1);
                    match self.dispatch() {
                        Some(Event::Request) if !self.http.passes_on => {
                            self.http.hold_back(&mut self.net, carrier);
                        }
                        Some(event) => return Some(event),
                        None => self.http.drop_upload(),
                    }
                }
                Step::Socket(event) => {
                    self.net.input.count(FRAMES_PER_HANDLER - 1);
                    return Some(event);
                }
                Step::Again => {
                    let event = self.next_socket_event();
                    if event.is_some() {
                        return event;
                    }
                }
                Step::Starved => {
                    self.starve(current.index);
                    return None;
                }
            }
        }
        None
    }

    /// Returns the parser of the current input. `None`: the input was stored in the inbox for
    /// later, or dropped.
    #[inline]
    fn parser(&mut self, current: Current) -> Option<Parser> {
        let Some((connection, exchange)) = self.net.connections.pair_mut(current.index.exchange())
        else {
            self.net.input.current = None;
            return None;
        };
        if connection.writing != Writing::Open {
            // The last response closes the connection; ignore further input.
            let rest = current.filled - current.at;
            self.net.http2.consumed(connection.line, rest);
            self.net.input.current = None;
            return None;
        }
        if connection.is_paused || exchange.is_deferred {
            // Responses must not overtake a file in progress, and messages must not overtake a
            // message whose handler waits.
            self.net.stash();
            return None;
        }
        let (queue_bytes_max, steps_max) = match exchange.socket() {
            None => (self.net.settings.queue_bytes_max, PIPELINE_MAX),
            Some(socket) => (socket.reading_bytes_max(&self.sockets.served), FRAMES_MAX),
        };
        let waits_for_handler = self.waiting.is_full()
            && connection.origin == Origin::Public
            && !matches!(exchange.stage, Stage::Http2(_));
        if !waits_for_handler && connection.unsent() > queue_bytes_max {
            // The client sends requests faster than it reads responses. Resume when it has read
            // enough.
            connection.is_paused = true;
            self.net.stash();
            self.net.flush(&mut self.http, current.index);
            self.after_output();
            return None;
        }
        let parser = match &exchange.stage {
            // Serve other clients first.
            _ if waits_for_handler || current.requests >= steps_max => None,
            Stage::Body(_) if self.http.uploads.turn_bytes >= SPOOL_TURN_BYTES => None,
            Stage::Head => Some(Parser::Head),
            Stage::Body(_) => Some(Parser::Body),
            Stage::Socket(_) => Some(Parser::Socket),
            Stage::Http2(carrier) => Some(Parser::Http2(*carrier)),
            Stage::Handling(_) | Stage::Held(_) => {
                self.net.stash();
                return None;
            }
        };
        if parser.is_none() {
            connection.has_unread = true;
            self.net.stash();
        }
        parser
    }

    /// Routes the current request. Returns an event if the application responds to it, and `None` if
    /// the server does.
    #[inline]
    fn dispatch(&mut self) -> Option<Event> {
        let index = self.http.request.index();
        match self.http.dispatch(&mut self.net, index) {
            Answerer::Program => return Some(Event::Request),
            Answerer::WebSocket(route) => {
                return self.sockets.begin_upgrade(
                    &mut self.net,
                    &mut self.http,
                    &mut self.channels,
                    &mut self.waiting,
                    index,
                    route,
                );
            }
            Answerer::Server => {}
            Answerer::Control => {
                let (reporter, channels, mut to) = self.reporting();
                reporter.answer_control(channels, &mut to, index);
            }
            Answerer::Metrics => {
                let (reporter, channels, mut to) = self.reporting();
                reporter.answer_metrics(channels, &mut to, index);
            }
        }
        None
    }

    /// Handles incomplete input: waits for more bytes, unless the peer has ended its stream.
    fn starve(&mut self, index: ConnectionIndex) {
        match self.net.connections.at(index) {
            // The inbox of an HTTP/2 stream may hold more bytes than were read.
            Some(connection) if connection.has_ended && connection.inbox.is_empty() => {
                self.net.input.current = None;
                self.on_end_of_stream(index);
            }
            _ => self.net.stash(),
        }
    }

    /// Handles the end of the peer's stream after all complete input was processed.
    fn on_end_of_stream(&mut self, index: ConnectionIndex) {
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return missed(());
        };
        if exchange.socket().is_some() {
            self.sockets.on_socket_end(
                &mut self.net,
                &mut self.http,
                &mut self.channels,
                index.exchange(),
            );
            return;
        }
        // An HTTP/2 peer that closes without GOAWAY does not read further responses.
        if matches!(exchange.stage, Stage::Http2(_)) {
            self.net.close(&mut self.http, index);
            return;
        }
        // An incomplete head or body is not a request (RFC 9112, section 8). Send earlier
        // responses: the connection may be half-closed.
        if exchange.has_output(connection) {
            exchange.stage = Stage::Handling(None);
            connection.writing = Writing::Close;
            return;
        }
        self.net.close(&mut self.http, index);
    }
}
