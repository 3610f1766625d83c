//! How many connections are in which state, kept as they change: too many to be counted when somebody asks.

use super::connection::{Connection, Origin};
#[cfg(test)]
use super::connections::Connections;
use crate::http::exchange::{Exchange, Stage};

/// Connections by state.
#[derive(Default)]
pub(crate) struct Gauges {
    /// Public connections with `Connection::is_active`.
    pub active: u64,
    /// Exchanges that are held.
    pub held: u64,
    /// Exchanges that are WebSockets.
    pub sockets: u64,
    /// Connections that are not for the public.
    pub control: u64,
    /// Connections with `Connection::is_blocked`.
    pub blocked: u64,
}

impl Gauges {
    /// A public connection has something on its way.
    pub fn begin_active(&mut self, connection: &mut Connection, exchange: &Exchange) {
        let is_one = !matches!(
            exchange.stage,
            Stage::Held(_) | Stage::Socket(_) | Stage::Http2(_)
        );
        let counts = connection.origin == Origin::Public && is_one;
        if counts && !std::mem::replace(&mut connection.is_active, true) {
            self.active += 1;
        }
    }

    /// It is at rest again, or is not an HTTP connection any more.
    #[inline]
    pub fn end_active(&mut self, connection: &mut Connection) {
        if std::mem::take(&mut connection.is_active) {
            self.active -= 1;
        }
    }

    /// The kernel takes bytes for a client again.
    #[inline]
    pub fn end_blocked(&mut self, connection: &mut Connection) -> bool {
        let was_blocked = std::mem::take(&mut connection.is_blocked);
        self.blocked -= u64::from(was_blocked);
        was_blocked
    }

    /// A connection is gone: it is in no gauge any more.
    pub fn end(&mut self, connection: &mut Connection, exchange: &Exchange) {
        self.end_active(connection);
        self.end_blocked(connection);
        self.held -= u64::from(exchange.is_held());
        self.sockets -= u64::from(exchange.is_socket());
        self.control -= u64::from(connection.origin != Origin::Public);
    }

    /// Panics unless the gauges agree with what they count.
    #[cfg(test)]
    pub fn check(&self, connections: &Connections) {
        let count = |is: &dyn Fn(&Connection, &Exchange) -> bool| {
            connections.iter().filter(|it| is(it.0, it.1)).count() as u64
        };
        assert_eq!(self.active, count(&|it, _| it.is_active), "active");
        assert_eq!(self.blocked, count(&|it, _| it.is_blocked), "blocked");
        assert_eq!(self.held, count(&|_, it| it.is_held()), "held");
        assert_eq!(self.sockets, count(&|_, it| it.is_socket()), "sockets");
        let is_both = |connection: &Connection, it: &Exchange| it.is_held() && connection.is_active;
        assert_eq!(count(&is_both), 0, "held and active");
    }
}
