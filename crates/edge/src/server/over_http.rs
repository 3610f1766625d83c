//! WebSocket-over-HTTP: an origin that speaks no WebSocket gets what clients send as requests, and answers with what they
//! are to be sent. One request at a time for each client.

use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_grip::over_http::{Event, KEEP_ALIVE_MIN_DEFAULT_S, KeepAlive, Outbox, Reply, decode};
use fermata_grip::reliable::retry_delay_ms;

use crate::client::clients::Clients;
use crate::client::over_http::{OUTBOX_BYTES_MAX, OUTBOX_EVENTS_MAX, OverHttp};
use crate::client::socket::{Socket, Via};
use crate::client::source::Owner;
use crate::routes::figures::Count;
use crate::server::edge::Edge;
use crate::timers::Timer;
use crate::upstream::reply::borrowed;
use crate::upstream::response::Head;
use crate::upstream::talk::{Purpose, Talk};

/// How long an origin is left alone that accepts nothing, the first time; it doubles so often.
const STALL_MS: u64 = 1_000;
const STALL_DOUBLINGS_MAX: u32 = 5;

impl Edge {
    /// The answer to the opening: events, or what the client gets instead of a WebSocket.
    pub(super) fn on_opening(&mut self, talk: &mut Talk, handle: u64, head: &Head, body: &[u8]) {
        // While it is known to be an opening.
        self.log_talk(talk);
        let Purpose::Events(over) = &mut talk.purpose else {
            return;
        };
        let Some(mut over) = over.take() else {
            return;
        };
        let reply = Reply::read(
            head.status,
            &borrowed(&head.headers),
            KEEP_ALIVE_MIN_DEFAULT_S,
        );
        let Ok(reply) = reply else {
            // Another answer is the client's: 401, 404, a redirect.
            self.clients.respond(&mut self.worker, handle, head, body);
            return;
        };
        let events = match decode(body) {
            Ok(events) => events,
            Err(error) => {
                self.fail(talk, 502, &error.to_string());
                return;
            }
        };
        let may_be_empty = matches!(reply.keep_alive, KeepAlive::Every(_));
        let is_opened = match events.first() {
            Some(Event::Open) => true,
            Some(_) => false,
            None => may_be_empty,
        };
        if !is_opened || over.outbox.accept(None).is_err() {
            self.fail(talk, 502, "the response to OPEN does not begin with OPEN");
            return;
        }
        let Some(socket) = self.accept(handle, head) else {
            self.fail(
                talk,
                502,
                "the origin's handshake does not fit the client's",
            );
            return;
        };
        let head_sent = (Count::ClientHeadSent, head.words_bytes());
        self.route_figures
            .count_route(&self.worker, &talk.source, &[head_sent]);
        over.is_asking = false;
        over.is_single = talk.source.target().is_some_and(|it| it.one_event);
        let mut source = talk.source.clone();
        source.request = Rc::clone(&over.opening);
        let state = Socket::new(reply.message_prefix.clone(), Via::Http(over));
        self.enter_socket(socket, source, state);
        self.on_reply(socket, reply, events);
    }

    /// The origin has answered.
    pub(super) fn on_events(&mut self, handle: u64, head: &Head, body: &[u8]) {
        let Some(over) = self.clients.over(handle) else {
            return;
        };
        over.is_asking = false;
        let reply = Reply::read(
            head.status,
            &borrowed(&head.headers),
            KEEP_ALIVE_MIN_DEFAULT_S,
        );
        let outcome = reply.map_err(|error| error.to_string()).and_then(|reply| {
            let events = decode(body).map_err(|error| error.to_string())?;
            let has_content = over.outbox.offered_bytes() > 0;
            over.outbox
                .accept(reply.content_bytes_accepted)
                .map_err(|error| error.to_string())?;
            over.retries = 0;
            over.stalls = match reply.content_bytes_accepted {
                Some(0) if has_content => over.stalls + 1,
                _ => 0,
            };
            Ok((reply, events))
        });
        match outcome {
            Ok((reply, events)) => self.on_reply(handle, reply, events),
            Err(reason) => self.end_events(handle, &reason),
        }
    }

    fn on_reply(&mut self, handle: u64, reply: Reply, events: Vec<Event>) {
        let now_ms = self.worker.net.now_ms();
        if let Some(over) = self.clients.over(handle) {
            match reply.keep_alive {
                KeepAlive::Unchanged => {}
                KeepAlive::Off => over.keep_alive_s = None,
                KeepAlive::Every(seconds) => over.keep_alive_s = Some(seconds),
            }
            over.idle_due_ms = match over.keep_alive_s {
                Some(seconds) => now_ms + u64::from(seconds) * 1_000,
                None => u64::MAX,
            };
            for (name, value) in reply.set_meta {
                match value {
                    Some(value) => over.meta.insert(name, value),
                    None => over.meta.remove(&name),
                };
            }
        }
        for event in events {
            match event {
                Event::Open => {}
                Event::Text(message) => self.on_origin_message(handle, true, &message),
                Event::Binary(message) => self.on_origin_message(handle, false, &message),
                Event::Ping(payload) => {
                    let _ = self.worker.net.send_control(handle, true, &payload);
                }
                Event::Pong(payload) => {
                    let _ = self.worker.net.send_control(handle, false, &payload);
                }
                Event::Close(close) => {
                    let (code, reason) = close.unwrap_or((1000, Vec::new()));
                    self.on_origin_close(handle, code, &reason);
                    return;
                }
                Event::Disconnect => {
                    self.on_origin_close(handle, 1006, b"");
                    return;
                }
            }
        }
        if let Some(over) = self.clients.over(handle)
            && over.has_deferred
            && over.outbox.has_room(OUTBOX_BYTES_MAX / 2)
        {
            over.has_deferred = false;
            self.worker.net.resume_socket(handle);
        }
        let is_done = self.clients.socket(handle).is_some_and(|it| it.is_gone)
            && self
                .clients
                .over(handle)
                .is_some_and(|it| it.has_closed && it.outbox.is_empty());
        if is_done {
            self.clients.sessions.remove(&handle);
            return;
        }
        let stalls = self.clients.over(handle).map_or(0, |over| over.stalls);
        if stalls > 0 {
            // An origin that takes nothing is not asked again at once.
            if let Some(over) = self.clients.over(handle) {
                over.is_asking = true;
            }
            let doublings = (stalls - 1).min(STALL_DOUBLINGS_MAX);
            let due_ms = self.worker.net.now_ms() + (STALL_MS << doublings);
            self.timers.at(due_ms, Timer::Events(handle));
        } else {
            self.ask_events(handle);
        }
        self.clients.watch_socket(&mut self.timers, handle);
    }

    /// Asks the origin, if there is something to say and it is not being asked.
    pub(super) fn ask_events(&mut self, handle: u64) {
        let Some(over) = self.clients.over(handle) else {
            return;
        };
        if over.is_asking || (over.outbox.is_empty() && !over.wants_request) {
            return;
        }
        over.is_asking = true;
        over.wants_request = false;
        over.idle_due_ms = u64::MAX;
        let request = Rc::new(over.request());
        let Some(session) = self.clients.sessions.get(&handle) else {
            return;
        };
        let mut source = session.source.clone();
        source.request = request;
        let purpose = Purpose::Events(None);
        self.ask_for(Owner::Socket(handle), source, Vec::new(), purpose);
    }

    /// The origin has not got the request: once more after a while, a few times.
    pub(super) fn on_events_failed(&mut self, handle: u64, reason: &str) {
        let now_ms = self.worker.net.now_ms();
        let random = fermata_io::random::u64() as u32;
        let Some(over) = self.clients.over(handle) else {
            return;
        };
        over.outbox.fail();
        match retry_delay_ms(over.retries, random) {
            Some(delay_ms) => {
                over.retries += 1;
                self.timers.at(now_ms + delay_ms, Timer::Events(handle));
            }
            None => self.end_events(handle, reason),
        }
    }

    pub(super) fn on_events_due(&mut self, handle: u64) {
        if let Some(over) = self.clients.over(handle) {
            over.is_asking = false;
            over.wants_request = true;
            self.ask_events(handle);
        }
    }

    pub(super) fn end_events(&mut self, handle: u64, reason: &str) {
        let line = format!("a WebSocket over HTTP ends: {reason}");
        self.worker.net.log_for_client(LogLevel::Warning, &line);
        if self.clients.socket(handle).is_some_and(|it| it.is_gone) {
            self.clients.sessions.remove(&handle);
            return;
        }
        if let Some(socket) = self.clients.socket(handle) {
            socket.via = None;
        }
        self.close_socket(handle, 1011, b"");
    }

    /// A message of the client for its origin.
    pub(super) fn queue_message(&mut self, handle: u64, is_text: bool, message: Vec<u8>) {
        let Some(over) = self.clients.over(handle) else {
            return;
        };
        let event = match is_text {
            true => Event::Text(message),
            false => Event::Binary(message),
        };
        if over.outbox.push(event).is_err() {
            self.end_events(handle, "a message is larger than 200000 bytes");
            return;
        }
        if !over.outbox.has_room(OUTBOX_BYTES_MAX / 2) {
            // The origin takes less than the client sends: the client waits.
            over.has_deferred = true;
            let _ = self.worker.defer_socket(handle);
        }
        self.ask_events(handle);
    }

    /// The client has left: with a close frame, or without one (`None`).
    pub(super) fn queue_close(&mut self, handle: u64, close: Option<Option<(u16, Vec<u8>)>>) {
        let Some(over) = self.clients.over(handle) else {
            return;
        };
        over.has_closed = true;
        over.idle_due_ms = u64::MAX;
        let event = match close {
            Some(close) => Event::Close(close),
            None => {
                // What the origin has not taken nobody waits for.
                let is_asking = over.is_asking;
                if !is_asking {
                    over.outbox = Outbox::new(OUTBOX_BYTES_MAX, OUTBOX_EVENTS_MAX);
                }
                Event::Disconnect
            }
        };
        if over.outbox.push(event).is_err() {
            self.clients.sessions.remove(&handle);
            return;
        }
        self.ask_events(handle);
    }
}

impl Clients {
    fn over(&mut self, handle: u64) -> Option<&mut OverHttp> {
        match &mut self.socket(handle)?.via {
            Some(Via::Http(over)) => Some(over),
            _ => None,
        }
    }
}
