//! Deadlines: one per connection, for its current phase.

use fermata_io::wheel::Fired;
use fermata_io::{Deadline, Driver};

use crate::channels::pace::Place;
use crate::http::exchange::Stage;
use crate::missed::missed;
use crate::net::connection::Phase;
use crate::net::deadline::Armed;
use crate::net::index::ConnectionIndex;
use crate::net::slab::Key;
use crate::net::timers::ALL_WAIT;
use crate::worker::Worker;

/// Number of expired timers from which the clock is read again.
const BURST: usize = 64;

impl<D: Driver> Worker<D> {
    pub(crate) fn fire_timers(&mut self) {
        // Use the time at which input was read, not the present time: bytes that clients sent later
        // were not read yet, however long handlers took.
        let now_ms = self.net.turn_ms;
        let mut fired = std::mem::take(&mut self.net.fired);
        self.net.wheel.poll(now_ms, &mut fired);
        let is_burst = fired.len() >= BURST;
        for Fired { key, due_ms } in fired.drain(..) {
            let key = Key::from_u64(key);
            // The connection was closed after its timer was armed.
            let Some((connection, _)) = self.net.connections.get_mut(key) else {
                continue;
            };
            if connection.armed != Armed::at(due_ms) {
                continue;
            }
            connection.armed = Armed::NONE;
            if connection.deadline.is_due(now_ms) {
                self.on_deadline(key.connection());
                self.after_output();
            } else {
                self.net.arm(key.connection());
            }
        }
        self.net.fired = fired;
        if is_burst {
            self.net.driver.refresh_now();
        }
    }

    fn on_deadline(&mut self, index: ConnectionIndex) {
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return missed(());
        };
        let due = std::mem::replace(&mut connection.deadline, Deadline::NEVER);
        if connection.is_blocked {
            self.net.note_write_timeout(index);
            let Some(connection) = self.net.connections.at(index) else {
                return missed(());
            };
            // Reset the connection; otherwise the kernel would retain megabytes for each client
            // that reads nothing.
            let line = connection.line;
            self.net.reset_on_close(line);
            self.net.close(&mut self.http, index);
            return;
        }
        match connection.phase {
            Phase::Open => {}
            Phase::Preface => {
                self.net
                    .refuse_preface(&mut self.http, index, "header_timeout_ms is over");
                return;
            }
            Phase::Lingering => {
                self.net.close(&mut self.http, index);
                return;
            }
        }
        let has_waited = self.waiting.is_full() && connection.has_unread;
        match &exchange.stage {
            Stage::Held(held) if held.ends().is_due(self.net.turn_ms) => {
                self.channels
                    .end_hold(&mut self.net, &mut self.waiting, index.exchange());
            }
            Stage::Held(held) => {
                let Some(interval_ms) = held.keep_alive_ms() else {
                    return self.net.restart_deadline(index);
                };
                let place = Place::of(index.0, self.net.slot, interval_ms);
                connection.deadline = place.after_comment(self.net.turn_ms, due);
                self.channels
                    .keep_alive(&mut self.net, &mut self.http, index.exchange());
            }
            Stage::Socket(_) => self.sockets.on_socket_deadline(
                &mut self.net,
                &mut self.http,
                &mut self.channels,
                index.exchange(),
            ),
            Stage::Head if has_waited => {
                self.http
                    .refuse_head(&mut self.net, index.exchange(), 503, ALL_WAIT)
            }
            Stage::Head if connection.inbox.is_empty() => self.net.close(&mut self.http, index),
            Stage::Head => {
                let message = "The request head took longer than header_timeout_ms.\n";
                self.http
                    .refuse_head(&mut self.net, index.exchange(), 408, message);
            }
            Stage::Body(_) if has_waited => {
                self.http
                    .refuse(&mut self.net, index.exchange(), 503, ALL_WAIT)
            }
            Stage::Body(partial) => {
                let setting = partial.pace.setting;
                let message = format!("The request body took longer than {setting}.\n");
                self.http
                    .refuse(&mut self.net, index.exchange(), 408, &message);
            }
            Stage::Handling(_) => self
                .waiting
                .on_body_deadline(&mut self.net, index.exchange()),
            Stage::Http2(carrier) => {
                let carrier = *carrier;
                self.http
                    .on_carrier_deadline(&mut self.net, &mut self.waiting, index, carrier);
            }
        }
    }
}
