//! WebSocket-over-HTTP: the origin receives a client's frames as events in requests, and its responses contain the frames
//! for the client. The edge sends one request at a time per client.

use fermata_config::LogLevel;
use fermata_engine::{RequestId, SocketId};
use fermata_grip::over_http::{Event, Reply};

use crate::client::clients::Clients;
use crate::client::over_http::{Opening, OverHttp, Room};
use crate::client::socket::{ABNORMAL, FAILED, NORMAL, Socket, Via, close_socket, send_control};
use crate::client::source::Engine;
use crate::server::holds::Holds;
use crate::server::upgrade::accept;
use crate::timers::{Timer, Timers};
use crate::upstream::exchange::{Purpose, Step, Stop, UpstreamExchange};
use crate::upstream::response::Head;

impl Holds<'_> {
    /// Handles the response to the first request of a WebSocket. It contains events, or the client receives it instead of a
    /// WebSocket.
    pub(super) fn on_opening(
        &mut self,
        exchange: &mut UpstreamExchange,
        handle: RequestId,
        head: &Head,
        body: &[u8],
    ) -> Step {
        // Log the request here, while its exchange is still an opening.
        self.journal
            .log_exchange(self.policy, self.timers, self.worker, exchange);
        let Purpose::Events(over) = &mut exchange.purpose else {
            return Ok(());
        };
        let Some(mut over) = over.take() else {
            return Ok(());
        };
        let is_single = exchange.source.target().is_some_and(|it| it.one_event);
        let (reply, events) = match over.on_opening(head, body, is_single) {
            Ok(Opening::Opened(reply, events)) => (reply, events),
            Ok(Opening::Refused) => {
                self.clients.respond(self.worker, handle, head, body);
                return Ok(());
            }
            Err(error) => return Err(Stop::failed(502, error)),
        };
        let socket = accept(self.worker, handle, head)?;
        self.route_figures
            .count_head_sent(self.worker, &exchange.source, head);
        let mut source = exchange.source.clone();
        source.request = over.opening();
        let state = Socket::new(reply.message_prefix.clone(), Via::Http(over));
        self.enter_socket(socket, source, state);
        self.on_reply(socket, reply, events);
        Ok(())
    }

    /// Handles a response with events.
    pub(super) fn on_events(&mut self, handle: RequestId, head: &Head, body: &[u8]) {
        let Some(over) = self.clients.over(handle) else {
            // The client was detached from its origin.
            return;
        };
        match over.on_answer(head, body) {
            Ok((reply, events)) => self.on_reply(handle, reply, events),
            Err(error) => self
                .clients
                .end_events(self.worker, handle, &error.to_string()),
        }
    }

    fn on_reply(&mut self, handle: RequestId, reply: Reply, events: Vec<Event>) {
        let now_ms = self.worker.net.now_ms();
        if let Some(over) = self.clients.over(handle) {
            over.settle(reply, now_ms);
        }
        for event in events {
            match event {
                Event::Open => {}
                Event::Text(message) => self.on_origin_message(handle, true, &message),
                Event::Binary(message) => self.on_origin_message(handle, false, &message),
                Event::Ping(payload) => {
                    send_control(self.worker, handle, true, &payload);
                }
                Event::Pong(payload) => {
                    send_control(self.worker, handle, false, &payload);
                }
                Event::Close(close) => {
                    let (code, reason) = close.unwrap_or((NORMAL, Vec::new()));
                    self.clients
                        .on_origin_close(self.worker, handle, code, &reason);
                    return;
                }
                Event::Disconnect => {
                    self.clients
                        .on_origin_close(self.worker, handle, ABNORMAL, b"");
                    return;
                }
            }
        }
        // An event may have detached the client or closed its WebSocket.
        if let Some(over) = self.clients.over(handle) {
            if over.takes_client_back() {
                self.worker.net.resume_socket(SocketId::of(handle));
            }
            if over.is_done() {
                self.clients.sessions.remove(&handle);
                return;
            }
            match over.stall() {
                Some(pause_ms) => self.timers.at(now_ms + pause_ms, Timer::Events(handle)),
                None => self.ask_events(handle),
            }
        }
        self.clients.watch_socket(self.timers, handle);
    }

    pub(super) fn on_events_due(&mut self, handle: RequestId) {
        if let Some(over) = self.clients.over(handle) {
            over.wake();
            self.ask_events(handle);
        }
    }

    /// Queues a client's message for its origin.
    pub(super) fn queue_message(&mut self, handle: RequestId, is_text: bool, message: Vec<u8>) {
        let event = if is_text {
            Event::Text(message)
        } else {
            Event::Binary(message)
        };
        match self.clients.over(handle).map(|over| over.push(event)) {
            // Unreachable: the client exists and its origin uses WebSocket-over-HTTP.
            None => debug_assert!(false, "a socket without its origin"),
            Some(Err(error)) => self
                .clients
                .end_events(self.worker, handle, &error.to_string()),
            Some(Ok(room)) => {
                if room == Room::Little {
                    let _ = self.worker.defer_socket(SocketId::of(handle));
                }
                self.ask_events(handle);
            }
        }
    }

    /// Queues the client's close frame, or its disconnect without one (`None`).
    pub(super) fn queue_close(&mut self, handle: RequestId, close: Option<Option<(u16, Vec<u8>)>>) {
        match self.clients.over(handle).map(|over| over.close(close)) {
            None => debug_assert!(false, "a socket without its origin"),
            Some(true) => self.ask_events(handle),
            Some(false) => {
                self.clients.sessions.remove(&handle);
            }
        }
    }
}

impl Clients {
    /// Handles a request that did not reach the origin: repeats it a few times, with delays.
    pub(super) fn on_events_failed(
        &mut self,
        timers: &mut Timers,
        worker: &mut Engine,
        handle: RequestId,
        reason: &str,
    ) {
        let now_ms = worker.net.now_ms();
        let random = fermata_io::random::u64() as u32;
        let Some(over) = self.over(handle) else {
            // The client was detached from its origin.
            return;
        };
        match over.on_undelivered(random) {
            Some(delay_ms) => timers.at(now_ms + delay_ms, Timer::Events(handle)),
            None => self.end_events(worker, handle, reason),
        }
    }

    pub(super) fn end_events(&mut self, worker: &mut Engine, handle: RequestId, reason: &str) {
        let line = format!("a WebSocket over HTTP ends: {reason}");
        worker.net.log_for_client(LogLevel::Warning, &line);
        if self.socket(handle).is_some_and(|it| it.is_gone) {
            self.sessions.remove(&handle);
            return;
        }
        if let Some(socket) = self.socket(handle) {
            socket.via = None;
        }
        close_socket(worker, handle, FAILED, b"");
    }
}

impl Clients {
    fn over(&mut self, handle: RequestId) -> Option<&mut OverHttp> {
        self.socket(handle)?.over()
    }
}
