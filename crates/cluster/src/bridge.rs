//! The bridge to either kind of log.
//!
//! The caller opens a connection on [`Event::Connect`], passes bytes and the time in, and takes [`Event`]s and bytes out
//! ([`Bridge::poll_event`], [`Bridge::transmit`]). It passes outbox records while [`Bridge::can_send`] returns true, and retains
//! each until [`Event::Released`] covers it. After [`Event::Rewind`] it restarts with the oldest record that is not released.

use crate::address::Kind;
use crate::exchange::{Event, Login, Options, Outgoing, PastRequest, Place};
use crate::nats::Nats;
use crate::redis::Redis;

/// A client of the log.
pub struct Bridge {
    log: Log,
}

enum Log {
    Nats(Box<Nats>),
    Redis(Box<Redis>),
}

impl Bridge {
    /// Creates a bridge that continues after the position `reached`, or `None` if nothing was read. `reached_ms` is the
    /// [`Received::unix_ms`](crate::Received::unix_ms) of the record at that position, if known. The first connection is due
    /// immediately.
    pub fn new(
        options: Options,
        reached: Option<Place>,
        reached_ms: Option<u64>,
        now_ms: u64,
    ) -> Bridge {
        let log = match options.servers.first().map(|server| server.kind) {
            Some(Kind::Redis) => {
                Log::Redis(Box::new(Redis::new(options, reached, reached_ms, now_ms)))
            }
            _ => Log::Nats(Box::new(Nats::new(options, reached, reached_ms, now_ms))),
        };
        Bridge { log }
    }

    /// Sets the credentials of later connections, for servers without credentials in their address.
    pub fn set_login(&mut self, login: Login) {
        match &mut self.log {
            Log::Nats(log) => log.set_login(login),
            Log::Redis(log) => log.set_login(login),
        }
    }

    /// Handles that the connection is open.
    pub fn handle_connected(&mut self, now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.handle_connected(now_ms),
            Log::Redis(log) => log.handle_connected(now_ms),
        }
    }

    /// Handles the end of the TLS handshake that [`Event::Secure`] has requested.
    pub fn handle_secured(&mut self, now_ms: u64) {
        if let Log::Nats(log) = &mut self.log {
            log.handle_secured(now_ms);
        }
    }

    /// Handles a connection that failed to open, or that the server has closed.
    pub fn handle_closed(&mut self, cause: &str, now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.handle_closed(cause, now_ms),
            Log::Redis(log) => log.handle_closed(cause, now_ms),
        }
    }

    /// Processes received bytes.
    pub fn handle_input(&mut self, bytes: &[u8], now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.handle_input(bytes, now_ms),
            Log::Redis(log) => log.handle_input(bytes, now_ms),
        }
    }

    /// Handles deadlines that have passed. The caller calls it at [`Bridge::due_ms`] at the latest.
    pub fn handle_time(&mut self, now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.handle_time(now_ms),
            Log::Redis(log) => log.handle_time(now_ms),
        }
    }

    /// Returns the time of the next deadline, at which `handle_time` must be called, in milliseconds of the caller's clock.
    pub fn due_ms(&self) -> u64 {
        match &self.log {
            Log::Nats(log) => log.due_ms(),
            Log::Redis(log) => log.due_ms(),
        }
    }

    /// Returns true if another record of the outbox may be passed to `send`.
    pub fn can_send(&self) -> bool {
        match &self.log {
            Log::Nats(log) => log.can_send(),
            Log::Redis(log) => log.can_send(),
        }
    }

    /// Sends a record of the outbox to the log. Records are passed in the order of the outbox.
    pub fn send(&mut self, record: &Outgoing<'_>, now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.send(record, now_ms),
            Log::Redis(log) => log.send(record, now_ms),
        }
    }

    /// Releases a record of the outbox without sending it.
    pub fn discard(&mut self, outbox: u64, now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.discard(outbox, now_ms),
            Log::Redis(log) => log.discard(outbox, now_ms),
        }
    }

    /// Returns true if another request for older messages may be made.
    pub fn can_ask_past(&self) -> bool {
        match &self.log {
            Log::Nats(log) => log.can_ask_past(),
            Log::Redis(log) => log.can_ask_past(),
        }
    }

    /// Requests older messages. The result is [`Event::Past`], or [`Event::PastLost`] if the request must be repeated.
    pub fn ask_past(&mut self, request: PastRequest, now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.ask_past(request, now_ms),
            Log::Redis(log) => log.ask_past(request, now_ms),
        }
    }

    /// Returns the next event. Call it after every other method until it returns `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        match &mut self.log {
            Log::Nats(log) => log.poll_event(),
            Log::Redis(log) => log.poll_event(),
        }
    }

    /// Returns the bytes for the connection. The caller removes from the front those bytes that it has written.
    pub fn transmit(&mut self) -> &mut Vec<u8> {
        match &mut self.log {
            Log::Nats(log) => log.transmit(),
            Log::Redis(log) => log.transmit(),
        }
    }
}
