//! Number of connections per state, updated on each change: counting them on demand would take too
//! long.

use super::connection::{Connection, Origin};
#[cfg(test)]
use super::connections::Connections;
use crate::http::exchange::{Exchange, Stage};

/// Connections by state.
#[derive(Default)]
pub(crate) struct Gauges {
    /// Public connections with `Connection::is_active`.
    pub active: u64,
    /// Held exchanges.
    pub held: u64,
    /// WebSocket exchanges.
    pub sockets: u64,
    /// Connections of non-public listeners.
    pub control: u64,
    /// Connections with `Connection::is_blocked`.
    pub blocked: u64,
}

impl Gauges {
    /// Notes that a public connection has a request or response in progress.
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

    /// Notes that a connection is idle again, or no longer an HTTP connection.
    #[inline]
    pub fn end_active(&mut self, connection: &mut Connection) {
        if std::mem::take(&mut connection.is_active) {
            self.active -= 1;
        }
    }

    /// Notes that the kernel accepts bytes of a client again.
    #[inline]
    pub fn end_blocked(&mut self, connection: &mut Connection) -> bool {
        let was_blocked = std::mem::take(&mut connection.is_blocked);
        self.blocked -= u64::from(was_blocked);
        was_blocked
    }

    /// Removes a closed connection from all gauges. Returns true if the connection was blocked.
    pub fn end(&mut self, connection: &mut Connection, exchange: &Exchange) -> bool {
        self.end_active(connection);
        let was_blocked = self.end_blocked(connection);
        self.held -= u64::from(exchange.is_held());
        self.sockets -= u64::from(exchange.is_socket());
        self.control -= u64::from(connection.origin != Origin::Public);
        was_blocked
    }

    /// Panics unless the gauges match the connections.
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
