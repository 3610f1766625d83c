//! Bytes to requests.
//!
//! One socket's bytes are read into the worker's input buffer and parsed in place, request after
//! request, so that pipelined ones cost one read. What is left over (the beginning of a head) moves
//! to the connection's `inbox`; a body that has not arrived whole collects in its `partial` (see `body`).

use std::io;
use std::sync::Arc;

use fermata_config::LogLevel;
use fermata_io::Driver;
use fermata_io::buffer::Buffer;
use fermata_proto::http1::{Body, Method, Parse};
use fermata_proto::{chunked, http1, percent};

use crate::admin::stats::Counter;
use crate::embed::event::Event;
use crate::http::body::{BodyRest, SPOOL_TURN_BYTES};
use crate::http::exchange::{Exchange, Stage};
use crate::http::files::Directory;
use crate::http::protocol::Protocol;
use crate::http::request::{Place, UNROUTED_FILE};
use crate::http::router::{Found, Params};
use crate::net::READ_BYTES;
use crate::net::connection::{Awaited, Connection, Origin, Phase, Writing};
use crate::net::index::{ConnectionIndex, ExchangeIndex};
use crate::websocket::FRAMES_MAX;
use crate::worker::{Current, Running, Worker};

/// Requests that one client sends in a row are answered up to this number before others get their
/// turn.
const PIPELINE_MAX: u32 = 128;

/// Frames that a message counts as which its program is told of: as many handlers run for messages in a row as for
/// requests, however many frames without one may be read.
const FRAMES_PER_HANDLER: u32 = FRAMES_MAX / PIPELINE_MAX;

impl<D: Driver> Worker<D> {
    /// Reads what a connection has sent. True when there is input to parse.
    pub(crate) fn load(&mut self, index: ConnectionIndex) -> bool {
        let phase = self.net.connections.at(index).map(|it| it.phase);
        if phase == Some(Phase::Preface) && !self.read_preface(index) {
            return false;
        }
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return false;
        };
        match &exchange.stage {
            _ if connection.phase == Phase::Lingering => {
                self.discard(index);
                return false;
            }
            Stage::Held(_) => {
                self.discard(index);
                return false;
            }
            Stage::Handling(early) => {
                connection.has_unread = true;
                if early.is_some() {
                    self.note_arrived(index.exchange());
                }
                return false;
            }
            Stage::Body(_) if self.http.uploads.turn_bytes >= SPOOL_TURN_BYTES => {
                // Others first; before them in the next turn, or those that are first would stay so.
                connection.has_unread = true;
                if !std::mem::replace(&mut connection.is_again, true) {
                    self.http.uploads.postponed.push(index);
                }
                return false;
            }
            Stage::Head | Stage::Body(_) | Stage::Socket(_) => {}
        }
        if connection.is_paused || exchange.is_deferred || connection.writing != Writing::Open {
            connection.has_unread = true;
            if let Some(socket) = exchange.socket_mut() {
                // A pong may be among what is not read.
                socket.note_alive();
            }
            return false;
        }
        if self.waiting.is_full() && self.hold_back(index) {
            return false;
        }
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return false;
        };
        debug_assert!(self.current.is_none());
        let mut filled = 0;
        if !connection.inbox.is_empty() {
            let inbox = std::mem::take(&mut connection.inbox);
            filled = inbox.len();
            self.input[..filled].copy_from_slice(&inbox);
            self.net.pool.give(inbox);
        }
        // Input that may hold whole requests is parsed before more is read, which bounds the inbox.
        let is_enough = filled >= self.settings.header_bytes_max;
        if is_enough || connection.has_ended {
            connection.has_unread = true;
        } else {
            let fd = connection.fd;
            let space = &mut self.input[filled..filled + READ_BYTES];
            match self.net.driver.recv(fd, space) {
                Ok(Some(0)) => {
                    connection.has_ended = true;
                    connection.has_unread = true;
                }
                Ok(Some(read)) => {
                    // A short read has emptied the socket, and the next byte raises a new event.
                    // Only a full one, or one with the peer's end of stream behind it, goes on.
                    connection.has_unread = read == READ_BYTES || connection.has_hung_up;
                    if connection.origin == Origin::Public {
                        self.net.counts.add(Counter::BytesReceived, read as u64);
                    }
                    filled += read;
                }
                Ok(None) => {
                    connection.has_unread = false;
                    if filled == 0 {
                        let is_idle = exchange.awaits_head();
                        if is_idle && self.running != Running::Serving {
                            self.close(index);
                        }
                        return false;
                    }
                }
                Err(error) => {
                    // Reset by the peer; there is nobody to tell.
                    self.note_recv_error(index, &error);
                    self.close_broken(index, &error);
                    return false;
                }
            }
        }
        self.current = Some(Current {
            index,
            at: 0,
            filled,
            requests: 0,
        });
        true
    }

    /// Parses the current input up to the next request or message for PHP; `None` when the input is
    /// used up.
    pub(crate) fn step_input(&mut self) -> Option<Event> {
        while let Some(current) = self.current {
            let Some((connection, exchange)) =
                self.net.connections.pair_mut(current.index.exchange())
            else {
                self.current = None;
                return None;
            };
            if connection.writing != Writing::Open {
                // The last response closes the connection; what follows it is not for us.
                self.current = None;
                return None;
            }
            if connection.is_paused || exchange.is_deferred {
                // A file is on its way, and responses must not overtake it; or the handler of a socket
                // waits, and messages must not overtake each other.
                self.stash();
                return None;
            }
            if self.waiting.is_full() && connection.origin == Origin::Public {
                connection.has_unread = true;
                self.stash();
                return None;
            }
            let (queue_bytes_max, steps_max) = match exchange.socket() {
                None => (self.settings.queue_bytes_max, PIPELINE_MAX),
                Some(socket) => (socket.reading_bytes_max(&self.sockets.served), FRAMES_MAX),
            };
            if connection.unsent() > queue_bytes_max {
                // The client asks faster than it reads. Go on when it has caught up.
                connection.is_paused = true;
                self.stash();
                self.flush(current.index);
                return None;
            }
            if current.requests >= steps_max {
                connection.has_unread = true;
                self.stash();
                return None;
            }
            let step = match &exchange.stage {
                Stage::Head => self.step_head(current),
                Stage::Body(_) if self.http.uploads.turn_bytes >= SPOOL_TURN_BYTES => {
                    connection.has_unread = true;
                    self.stash();
                    return None;
                }
                Stage::Body(_) => self.step_body(current),
                Stage::Socket(_) => self.step_socket(current),
                Stage::Handling(_) | Stage::Held(_) => {
                    self.stash();
                    return None;
                }
            };
            match step {
                Step::Request => {
                    if let Some(current) = &mut self.current {
                        current.requests += 1;
                    }
                    let event = self.dispatch();
                    if matches!(event, Some(Event::Request)) && self.put_off() {
                        continue;
                    }
                    if event.is_some() {
                        return event;
                    }
                    self.drop_upload();
                    // A WebSocket that the server has opened by itself: its program is told first.
                    let event = self.next_socket_event();
                    if event.is_some() {
                        return event;
                    }
                }
                Step::Socket(event) => {
                    if let Some(current) = &mut self.current {
                        current.requests = current.requests.saturating_add(FRAMES_PER_HANDLER - 1);
                    }
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

    /// Puts the request that PHP has not answered in `next_event`'s time aside.
    pub(crate) fn leave_unanswered(&mut self) {
        if let Some(current) = self.current
            && let Some((connection, exchange)) =
                self.net.connections.pair(current.index.exchange())
            && exchange.is_handling()
            && connection.phase == Phase::Open
        {
            self.stash();
        }
    }

    /// Reads and parses a head at the current position.
    fn step_head(&mut self, current: Current) -> Step {
        let Current {
            index, at, filled, ..
        } = current;
        if at == filled {
            return Step::Starved;
        }
        match http1::parse_after(
            &mut self.http.repeats,
            &self.input[at..filled],
            &self.http.limits,
            &mut self.http.request.head,
        ) {
            Parse::Partial => Step::Starved,
            Parse::Refused(refusal) => {
                let message = format!("{refusal}.\n");
                self.refuse_head(index.exchange(), refusal.status(), &message);
                Step::Again
            }
            Parse::Complete { head_bytes } => self.on_head(current, head_bytes),
        }
    }

    fn on_head(&mut self, current: Current, head_bytes: usize) -> Step {
        let Current {
            index, at, filled, ..
        } = current;
        let body_start = at + head_bytes;
        if self.trace.is_on()
            && let Some(connection) = self.net.connections.at(index)
        {
            let bytes = &self.input[at..body_start];
            let head = &self.http.request.head;
            self.trace
                .on_request(index.exchange(), connection.origin, head, bytes);
        }
        let is_draining = self.running != Running::Serving;
        let head = &self.http.request.head;
        if head.body == Body::None {
            let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange())
            else {
                return Step::Starved;
            };
            connection.note_head(head.keep_alive && !is_draining);
            exchange.note_head(head);
            self.http.serial = self.http.serial.wrapping_add(1);
            let place = Place::Input {
                head_start: at,
                body_start,
                body_len: 0,
            };
            self.http.request.begin(
                (connection, exchange),
                index.exchange(),
                self.http.serial,
                place,
            );
            self.http.lent = self.http.request.handle;
            self.advance(body_start);
            return Step::Request;
        }
        let Some(plan) = self.plan_body(index.exchange(), &(at..body_start)) else {
            return Step::Again;
        };
        let head = &self.http.request.head;
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return Step::Starved;
        };
        connection.note_head(head.keep_alive && !is_draining);
        exchange.note_head(head);

        let here = filled - body_start;
        match head.body {
            // Has been taken above.
            Body::None => Step::Again,
            Body::Length(length) if length > plan.bytes_max => {
                self.refuse_body(index.exchange(), plan.bytes_max);
                Step::Again
            }
            Body::Length(length) if length <= here as u64 && plan.boundary.is_none() => {
                let body_len = length as usize;
                self.take_request(
                    index.exchange(),
                    Place::Input {
                        head_start: at,
                        body_start,
                        body_len,
                    },
                );
                self.advance(body_start + body_len);
                Step::Request
            }
            Body::Length(length) => {
                self.begin_body(current, body_start, BodyRest::Length(length), plan)
            }
            Body::Chunked => {
                let rest = BodyRest::Chunked(chunked::Decoder::new());
                self.begin_body(current, body_start, rest, plan)
            }
        }
    }

    /// Makes the parsed head the current request.
    pub(crate) fn take_request(&mut self, index: ExchangeIndex, place: Place) {
        self.http.serial = self.http.serial.wrapping_add(1);
        let Some(pair) = self.net.connections.pair_mut(index) else {
            return;
        };
        self.http
            .request
            .begin(pair, index, self.http.serial, place);
        self.http.lent = self.http.request.handle;
    }

    /// Finds who answers the current request and answers it unless that is PHP.
    fn dispatch(&mut self) -> Option<Event> {
        let index = self.http.request.index();
        let origin = match self.net.connections.at(index.connection()) {
            Some(connection) => connection.origin,
            None => return None,
        };
        if origin != Origin::Public {
            return self.dispatch_inner(index, origin);
        }
        self.net.counts.add(Counter::Requests, 1);
        self.note_contradiction();
        if matches!(self.running, Running::Retired { .. }) {
            self.refuse(
                index,
                503,
                "The server is restarting this worker; try again.\n",
            );
            return None;
        }
        if let Err(refusal) = self.decode_path() {
            let message = format!("{refusal}.\n");
            self.refuse(index, refusal.status(), &message);
            return None;
        }
        if self.http.request.unrouted != 0 {
            self.http.request.unrouted = 0;
            self.http.request.allow.clear();
        }
        let request = &mut self.http.request;
        let method = request.head.method;
        let head = match request.place {
            Place::Input {
                head_start,
                body_start,
                ..
            } => &self.input[head_start..body_start],
            Place::Owned => &request.head_bytes[..],
        };
        let (path, slashes) = if request.path_is_plain {
            (request.head.path.of(head), &[][..])
        } else {
            (&request.path[..], &request.slashes[..])
        };
        let method_name = request.head.method_span.of(head);
        let params = &mut request.params;
        let found = self.http.router.find(method_name, path, slashes, params);
        let outcome = match found {
            Found::Handler(handler) => {
                request.handler = handler;
                if !request.params.is_empty() && !is_text(path) {
                    // Parameters become names of channels, JSON and file names, none of which may be anything else.
                    let text = "The path is not text: it must be UTF-8 without control characters.";
                    self.answer_error(index, 400, None, text);
                    return None;
                }
                return Some(Event::Request);
            }
            Found::WebSocket(number) => return self.begin_upgrade(index, number),
            Found::Files {
                handler: Some(handler),
                ..
            } => Outcome::Guarded(handler),
            Found::Files {
                directory, rest, ..
            } => Outcome::File(Arc::clone(directory), rest),
            Found::MethodNotAllowed { .. } if method == Method::Other => Outcome::NotImplemented,
            Found::NotFound if method == Method::Other => Outcome::NotImplemented,
            Found::MethodNotAllowed { allow } => Outcome::NotAllowed(allow.to_owned()),
            Found::Options { allow } => Outcome::Options(allow.to_owned()),
            Found::NotFound => Outcome::NotFound,
        };
        if let Some(event) = self.fall_back(&outcome) {
            return Some(event);
        }
        match outcome {
            Outcome::File(directory, rest) => {
                if !self.answer_static(index, &directory, rest) {
                    let event = self.fall_back(&Outcome::NotFound);
                    if event.is_some() {
                        return event;
                    }
                    self.answer_error(index, 404, None, "Nothing is here.");
                }
            }
            Outcome::Guarded(handler) => {
                self.http.request.unrouted = UNROUTED_FILE;
                self.http.request.handler = handler;
                self.http.request.params = Params::default();
                return Some(Event::Request);
            }
            Outcome::NotImplemented => {
                self.answer_error(index, 501, None, "This server does not know the method.");
            }
            Outcome::NotAllowed(allow) => {
                let text = "The method is not allowed here; see Allow.";
                self.answer_error(index, 405, Some(&allow), text);
            }
            Outcome::Options(allow) => self.answer_plain(index, 204, Some(&allow), b""),
            Outcome::NotFound => self.answer_error(index, 404, None, "Nothing is here."),
        }
        None
    }

    /// A request of a listener that is not for the public.
    fn dispatch_inner(&mut self, index: ExchangeIndex, origin: Origin) -> Option<Event> {
        match origin {
            Origin::Control => {
                self.net.counts.add(Counter::ControlRequests, 1);
                self.answer_control(index);
                None
            }
            Origin::Metrics => {
                self.answer_metrics(index);
                None
            }
            Origin::Own | Origin::Public => {
                self.http.request.handler = self.wires.handler_of(index);
                self.http.request.params = Params::default();
                Some(Event::Request)
            }
        }
    }

    /// Hands a request that no route serves to the program, if that wants it.
    fn fall_back(&mut self, outcome: &Outcome) -> Option<Event> {
        let fallback = self.http.router.fallback()?;
        let (status, allow) = match outcome {
            Outcome::NotFound => (404, ""),
            Outcome::NotAllowed(allow) if fallback.takes_methods => (405, &**allow),
            Outcome::Options(allow) if fallback.takes_methods => (204, &**allow),
            Outcome::NotImplemented if fallback.takes_methods && self.http.passes_on => (501, ""),
            _ => return None,
        };
        let request = &mut self.http.request;
        request.unrouted = status;
        request.allow.clear();
        request.allow.push_str(allow);
        request.handler = fallback.handler;
        request.params = Params::default();
        Some(Event::Request)
    }

    /// Decodes the path of the current request, unless there is nothing to decode.
    fn decode_path(&mut self) -> Result<(), http1::Refusal> {
        let mut path = std::mem::take(&mut self.http.request.path);
        let mut slashes = std::mem::take(&mut self.http.request.slashes);
        let view = self.http.request.view(&self.input);
        let raw_path = self.http.request.head.path.of(view.head);
        let outcome = percent::decode_path(raw_path, &mut path, &mut slashes);
        self.http.request.path_is_plain = outcome != Ok(true);
        self.http.request.path_shown.clear();
        if !slashes.is_empty() {
            let mut rest = 0;
            for slash in slashes.iter().map(|at| *at as usize) {
                self.http
                    .request
                    .path_shown
                    .extend_from_slice(&path[rest..slash]);
                self.http.request.path_shown.extend_from_slice(b"%2F");
                rest = slash + 1;
            }
            self.http
                .request
                .path_shown
                .extend_from_slice(&path[rest..]);
        }
        self.http.request.path = path;
        self.http.request.slashes = slashes;
        outcome.map(|_| ())
    }

    /// A read has failed: worth a line when TLS knows why and the client did not just vanish.
    pub(crate) fn note_recv_error(&mut self, index: ConnectionIndex, error: &io::Error) {
        if error.kind() != io::ErrorKind::InvalidData {
            return;
        }
        if let Some(connection) = self.net.connections.at(index) {
            let message = format!("{}: {error}", connection.peer);
            let unix_ms = self.net.driver.unix_ms();
            self.log.write_limited(LogLevel::Info, unix_ms, &message);
        }
    }

    /// Parsing goes on at `at`.
    pub(crate) fn advance(&mut self, at: usize) {
        if let Some(current) = &mut self.current {
            current.at = at;
        }
    }

    /// More bytes are needed; none will come when the peer has ended its stream.
    fn starve(&mut self, index: ConnectionIndex) {
        match self.net.connections.at(index) {
            Some(connection) if connection.has_ended => {
                self.current = None;
                self.on_end_of_stream(index);
            }
            _ => self.stash(),
        }
    }

    /// Ends the parsing of the current input: what is left waits in the inbox, and a deadline is set
    /// for what has to come.
    pub(crate) fn stash(&mut self) {
        let Some(Current {
            index, at, filled, ..
        }) = self.current.take()
        else {
            return;
        };
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return;
        };
        // A held client has nothing to say any more.
        if at < filled && !exchange.is_held() {
            connection.inbox = self.net.pool.take();
            connection.inbox.extend_from_slice(&self.input[at..filled]);
        }
        if at < filled || exchange.is_handling() {
            self.net.gauges.begin_active(connection, exchange);
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
                let now_ms = self.net.driver.refresh_now();
                self.net
                    .set_deadline(index, now_ms + self.settings.header_timeout_ms);
            }
            Stage::Head if at < filled => {}
            // With output, idleness begins when it has gone out.
            Stage::Head
                if connection.deadline_ms == u64::MAX && !exchange.has_output(connection) =>
            {
                self.restart_deadline(index);
            }
            _ => {}
        }
        if must_go_on {
            self.net.go_on(index);
        }
    }

    /// The peer has finished sending, and nothing whole is left of what it has sent.
    fn on_end_of_stream(&mut self, index: ConnectionIndex) {
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return;
        };
        if exchange.socket().is_some() {
            self.on_socket_end(index.exchange());
            return;
        }
        // A head or a body that ends early is not a request (RFC 9112, 8). What was asked for before
        // is still sent: the peer may read on (a half-closed connection).
        if exchange.has_output(connection) {
            exchange.stage = Stage::Handling(None);
            connection.writing = Writing::Close;
            return;
        }
        self.close(index);
    }

    /// Drops what a held or lingering client sends, and notices that it has left.
    fn discard(&mut self, index: ConnectionIndex) {
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return;
        };
        let fd = connection.fd;
        let hung_up = connection.has_hung_up;
        let has_more = match self.net.driver.recv(fd, &mut self.input[..READ_BYTES]) {
            Ok(Some(0)) => {
                self.close(index);
                return;
            }
            Err(error) => {
                self.close_broken(index, &error);
                return;
            }
            Ok(Some(read)) => {
                self.net.counts.add(Counter::BytesReceived, read as u64);
                let socket = exchange.socket_mut();
                if socket.is_some_and(|socket| socket.is_answered(&self.input[..read])) {
                    self.net.driver.shutdown_write(fd);
                }
                read == READ_BYTES || hung_up
            }
            Ok(None) => false,
        };
        if has_more {
            self.net.go_on(index);
        }
    }

    pub(crate) fn refuse_body(&mut self, index: ExchangeIndex, bytes_max: u64) {
        let message = format!("The body is larger than {bytes_max} bytes.\n");
        self.refuse(index, 413, &message);
    }

    /// Answers what is not a whole request head, and closes the connection.
    pub(crate) fn refuse_head(&mut self, index: ExchangeIndex, status: u16, message: &str) {
        let current = self
            .current
            .filter(|current| current.index == index.connection());
        if let Some((connection, exchange)) = self.net.connections.pair_mut(index) {
            let head = match current {
                Some(current) => &self.input[current.at..current.filled],
                None => &connection.inbox[..],
            };
            // Whatever the request before it was.
            exchange.is_head = asks_for_head(head);
            exchange.protocol = Protocol::Http11;
        }
        self.refuse(index, status, message);
    }

    /// Answers a request that is not accepted, and closes the connection.
    pub(crate) fn refuse(&mut self, index: ExchangeIndex, status: u16, message: &str) {
        let Some((connection, exchange)) = self.net.connections.pair_mut(index) else {
            return;
        };
        let line = format!(
            "{}: refused with {status}: {}",
            connection.peer,
            message.trim_end().trim_end_matches('.')
        );
        refuse_in(connection, exchange);
        self.net.counts.refusal(status);
        if exchange.body.is_some() {
            // The rest of a file has to follow what has been sent of it, and nothing else may.
            return;
        }
        self.log
            .write_limited(LogLevel::Info, self.net.driver.unix_ms(), &line);
        let mut text = message.to_owned();
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        self.answer_plain(index, status, None, text.as_bytes());
    }
}

/// Whether a request that may be incomplete or malformed is for HEAD, whose answer has no content.
pub(crate) fn asks_for_head(request: &[u8]) -> bool {
    let request = request.strip_prefix(b"\r\n").unwrap_or(request);
    request.starts_with(b"HEAD ")
}

/// Brings a connection into the state in which its last response is written.
fn refuse_in(connection: &mut Connection, exchange: &mut Exchange) {
    exchange.stage = Stage::Handling(None);
    connection.inbox = Buffer::default();
    connection.keeps_alive = false;
    connection.writing = Writing::Linger;
}

/// Whether a path that was percent-decoded is UTF-8 without control characters.
fn is_text(path: &[u8]) -> bool {
    std::str::from_utf8(path).is_ok() && !path.iter().any(u8::is_ascii_control)
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

/// What the router found, without borrowing it.
enum Outcome {
    File(Arc<Directory>, http1::Span),
    Guarded(u32),
    NotImplemented,
    NotAllowed(String),
    Options(String),
    NotFound,
}
