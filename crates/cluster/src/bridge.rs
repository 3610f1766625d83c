//! The bridge: one connection to the log after the other, what is on its way there, and how far the log was read.
//!
//! The caller opens a connection when [`Event::Connect`] says so, passes bytes and time in, takes [`Event`]s and bytes out
//! ([`Bridge::poll_event`], [`Bridge::transmit`]), and hands over outbox records while [`Bridge::can_send`]. It keeps a record until
//! [`Event::Released`] covers it: after [`Event::Rewind`] it begins again with the oldest one that is not.

use crate::address::Kind;
use crate::exchange::{Event, Login, Options, Outgoing, PastRequest, Place};
use crate::nats::Nats;
use crate::redis::Redis;

/// See the module.
pub struct Bridge {
    log: Log,
}

enum Log {
    Nats(Box<Nats>),
    Redis(Box<Redis>),
}

impl Bridge {
    /// A bridge that has given everything up to `reached`; it connects at once. `reached_ms` is what [`Received::unix_ms`] was
    /// there, if that is known.
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

    /// The bridge's credentials from the next connection on, for servers whose addresses have none.
    pub fn set_login(&mut self, login: Login) {
        match &mut self.log {
            Log::Nats(log) => log.set_login(login),
            Log::Redis(log) => log.set_login(login),
        }
    }

    /// The connection is open.
    pub fn handle_connected(&mut self, now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.handle_connected(now_ms),
            Log::Redis(log) => log.handle_connected(now_ms),
        }
    }

    /// The connection speaks TLS, as was asked by [`Event::Secure`].
    pub fn handle_secured(&mut self, now_ms: u64) {
        if let Log::Nats(log) = &mut self.log {
            log.handle_secured(now_ms);
        }
    }

    /// The connection could not be opened, or the other side has closed it.
    pub fn handle_closed(&mut self, cause: &str, now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.handle_closed(cause, now_ms),
            Log::Redis(log) => log.handle_closed(cause, now_ms),
        }
    }

    /// Bytes have come.
    pub fn handle_input(&mut self, bytes: &[u8], now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.handle_input(bytes, now_ms),
            Log::Redis(log) => log.handle_input(bytes, now_ms),
        }
    }

    /// Time has passed: call it when [`Bridge::due_ms`] says.
    pub fn handle_time(&mut self, now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.handle_time(now_ms),
            Log::Redis(log) => log.handle_time(now_ms),
        }
    }

    /// When `handle_time` is to be called at the latest.
    pub fn due_ms(&self) -> u64 {
        match &self.log {
            Log::Nats(log) => log.due_ms(),
            Log::Redis(log) => log.due_ms(),
        }
    }

    /// Whether another record of the outbox may be handed over.
    pub fn can_send(&self) -> bool {
        match &self.log {
            Log::Nats(log) => log.can_send(),
            Log::Redis(log) => log.can_send(),
        }
    }

    /// Sends a record of the outbox to the log. Records are handed over in their order.
    pub fn send(&mut self, record: &Outgoing<'_>, now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.send(record, now_ms),
            Log::Redis(log) => log.send(record, now_ms),
        }
    }

    /// Takes a record of the outbox that is not to be sent any more.
    pub fn discard(&mut self, outbox: u64, now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.discard(outbox, now_ms),
            Log::Redis(log) => log.discard(outbox, now_ms),
        }
    }

    /// Whether a part of the past may be asked for.
    pub fn can_ask_past(&self) -> bool {
        match &self.log {
            Log::Nats(log) => log.can_ask_past(),
            Log::Redis(log) => log.can_ask_past(),
        }
    }

    /// Asks for a part of the past: [`Event::Past`] has it, or [`Event::PastLost`] says that it has to be asked for again.
    pub fn ask_past(&mut self, request: PastRequest, now_ms: u64) {
        match &mut self.log {
            Log::Nats(log) => log.ask_past(request, now_ms),
            Log::Redis(log) => log.ask_past(request, now_ms),
        }
    }

    /// What the caller does next.
    pub fn poll_event(&mut self) -> Option<Event> {
        match &mut self.log {
            Log::Nats(log) => log.poll_event(),
            Log::Redis(log) => log.poll_event(),
        }
    }

    /// Bytes for the connection: what was sent is taken off their front.
    pub fn transmit(&mut self) -> &mut Vec<u8> {
        match &mut self.log {
            Log::Nats(log) => log.transmit(),
            Log::Redis(log) => log.transmit(),
        }
    }
}
