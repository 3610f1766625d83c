//! Closing connections.

use fermata_io::Driver;

use crate::http::Http;
use crate::http::exchange::Stage;
use crate::missed::missed;
use crate::net::Net;
use crate::net::connection::{Phase, Writing};
use crate::net::ended::Ended;
use crate::net::index::ConnectionIndex;
use crate::net::line::Carries;

impl<D: Driver> Net<D> {
    /// Closes a connection. `Channels::after_output` notifies other parts later.
    pub(crate) fn close(&mut self, http: &mut Http, index: ConnectionIndex) {
        http.trace.on_close(index.exchange(), self);
        // Two parts may close the same connection.
        let Some(key) = self.connections.key(index) else {
            return;
        };
        let Some((mut connection, exchange)) = self.connections.remove(index) else {
            return missed(());
        };
        if self.gauges.end(&mut connection, &exchange) || exchange.may_buffer() {
            self.forget_buffered(index);
        }
        if connection.is_settled {
            self.handover.shared.remove_settled(self.slot);
        }
        if exchange.is_put_off {
            http.note_dead(self, index);
        }
        if let Some(body) = &exchange.body {
            http.drop_body(body);
        }
        match connection.line.carries() {
            Carries::Socket(fd) => self.driver.close(fd),
            Carries::Stream(place) => self.http2.release(place, connection.peer),
        }
        if connection.out.capacity() > 0 {
            self.pool.give(connection.out);
        }
        if connection.inbox.capacity() > 0 {
            self.pool.give(connection.inbox);
        }
        if self.settings.connections_per_address_max > 0
            && connection.phase != Phase::Preface
            && !connection.line.is_stream()
            && let Some(address) = connection.peer.ip()
            && let Some(count) = self.addresses.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&address);
            }
        }
        if self.input.current.is_some_and(|it| it.index == index) {
            self.input.current = None;
        }
        let carrier = match exchange.stage {
            Stage::Http2(carrier) => Some(carrier),
            _ => None,
        };
        if exchange.is_known() {
            self.ended.push_back(Ended {
                key,
                peer: connection.peer,
                is_open: connection.phase == Phase::Open && connection.writing == Writing::Open,
                exchange,
            });
        }
        if let Some(carrier) = carrier {
            self.close_streams(http, carrier);
            self.drop_carrier(carrier);
        }
    }
}
