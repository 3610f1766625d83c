//! Deadlines: one per connection, in a timer wheel with lazy re-arming.

use fermata_config::LogLevel;
use fermata_io::{Deadline, Driver};

use crate::admin::stats::Counter;
use crate::channels::pace::Place;
use crate::http::exchange::Stage;
use crate::missed::missed;
use crate::net::Net;
use crate::net::connection::Phase;
use crate::net::index::ConnectionIndex;

/// Body of the 503 response to a request that could not start in time because all handlers were
/// waiting.
pub(crate) const ALL_WAIT: &str =
    "All handlers are waiting, and none was free in time; try again.\n";

impl<D: Driver> Net<D> {
    /// Logs and counts a client closed by `write_timeout_ms`.
    pub(crate) fn note_write_timeout(&mut self, index: ConnectionIndex) {
        let Some(connection) = self.connections.at(index) else {
            return missed(());
        };
        let message = format!(
            "{}: the client read nothing for write_timeout_ms",
            connection.peer
        );
        self.log_for_client(LogLevel::Info, &message);
        self.counts.add(Counter::DroppedWriteTimeout, 1);
    }
}

impl<D: Driver> Net<D> {
    /// Restarts the deadline for the connection's current phase.
    #[inline]
    pub(crate) fn restart_deadline(&mut self, index: ConnectionIndex) {
        let now_ms = self.driver.now_ms();
        let Some((connection, exchange)) = self.connections.pair(index.exchange()) else {
            return missed(());
        };
        if connection.phase != Phase::Open {
            return;
        }
        let settings = &self.settings;
        let after = |timeout_ms| Deadline::after(now_ms, timeout_ms);
        let deadline = match &exchange.stage {
            Stage::Socket(socket) if !socket.can_send() => {
                after(settings.websocket_close_timeout_ms)
            }
            Stage::Socket(socket) => {
                self.silences[socket.route()].deadline(socket, index.0, self.slot, now_ms)
            }
            Stage::Head if connection.inbox.is_empty() => after(settings.idle_timeout_ms),
            Stage::Head => after(settings.header_timeout_ms),
            Stage::Body(partial) => after(partial.pace.timeout_ms),
            Stage::Held(held) => match held.keep_alive_ms() {
                Some(_) if !connection.deadline.is_never() && held.keeps_interval() => return,
                Some(interval_ms) => Place::of(index.0, self.slot, interval_ms)
                    .after_sending(now_ms, connection.deadline)
                    .min(held.ends()),
                None => held.ends(),
            },
            Stage::Handling(Some(_)) => self.body_deadline(index.exchange()),
            Stage::Http2(carrier) => {
                let carrier = *carrier;
                self.pace_carrier(index, carrier);
                return;
            }
            Stage::Handling(None) => Deadline::NEVER,
        };
        self.set_deadline(index, deadline);
    }
}
