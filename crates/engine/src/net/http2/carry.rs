//! Output, deadlines and closing of HTTP/2 connections.

use fermata_config::LogLevel;
use fermata_io::{Deadline, Driver};
use fermata_proto::http2::{ErrorCode, Event, Flood, Origin, Violation};

use super::{CarrierPlace, ROOM_BYTES};
use crate::admin::stats::Counter;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::exchange::Stage;
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::connection::{Phase, Writing};
use crate::net::index::ConnectionIndex;
use crate::net::running::Running;

/// Maximum number of bytes that an HTTP/2 connection sends in a row before other clients are
/// served.
const CARRIER_TURN_BYTES: usize = 1024 * 1024;

/// Interval in milliseconds at which the state machine checks its timeouts.
const TICK_MS: u64 = 1_000;

impl<D: Driver> Net<D> {
    /// Returns the carrier of a connection with an HTTP/2 socket.
    pub(crate) fn carrier_at(&self, index: ConnectionIndex) -> Option<CarrierPlace> {
        match self.connections.exchange(index.exchange())?.stage {
            Stage::Http2(place) => Some(place),
            _ => None,
        }
    }

    /// Closes a draining connection after its last stream.
    fn end_if_drained(&mut self, index: ConnectionIndex, place: CarrierPlace) {
        if let Some(carrier) = self.http2.carriers.at(place.0).known()
            && carrier.machine.is_drained()
            && let Some(connection) = self.connections.at_mut(index).known()
            && connection.writing == Writing::Open
        {
            connection.writing = Writing::Linger;
        }
    }

    /// Sets the deadline of a carrier: for idleness and the state machine's timeouts.
    pub(crate) fn pace_carrier(&mut self, index: ConnectionIndex, place: CarrierPlace) {
        let now_ms = self.driver.now_ms();
        let Some(connection) = self.connections.at(index) else {
            return missed(());
        };
        if connection.phase != Phase::Open || connection.writing != Writing::Open {
            return;
        }
        let Some(carrier) = self.http2.carriers.at_mut(place.0) else {
            return missed(());
        };
        let mut deadline = Deadline::NEVER;
        if carrier.machine.streams_count() > 0 {
            carrier.idle_since_ms = None;
        } else {
            let since_ms = *carrier.idle_since_ms.get_or_insert(now_ms);
            deadline = Deadline::after(since_ms, self.settings.idle_timeout_ms);
        }
        if carrier.blocked == 0 && !carrier.machine.awaits_answer() {
            carrier.tick = Deadline::NEVER;
        } else {
            if carrier.tick.is_never() {
                carrier.tick = Deadline::after(now_ms, TICK_MS);
            }
            deadline = deadline.min(carrier.tick);
        }
        self.set_deadline(index, deadline);
    }

    /// Drains a carrier: refuses further streams and completes the open streams.
    pub(crate) fn drain_carrier(&mut self, index: ConnectionIndex, place: CarrierPlace) {
        let now_ms = self.driver.now_ms();
        let is_retired = matches!(self.running, Running::Retired { .. });
        if let Some(carrier) = self.http2.carriers.at_mut(place.0).known() {
            if is_retired {
                carrier.machine.drain_now(&mut carrier.out);
            } else {
                carrier.machine.drain(now_ms, &mut carrier.out);
            }
            carrier.mark(&mut self.http2.dirty);
        }
        self.pace_carrier(index, place);
    }

    /// Removes the carrier of a closed connection, whose streams are closed too.
    pub(crate) fn drop_carrier(&mut self, place: CarrierPlace) {
        self.http2.carriers.remove(place.0);
    }
}

impl Http {
    /// Handles the deadline of a carrier that is not blocked.
    pub(crate) fn on_carrier_deadline<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &mut Waiting,
        index: ConnectionIndex,
        place: CarrierPlace,
    ) {
        let now_ms = net.driver.now_ms();
        loop {
            let http2 = &mut net.http2;
            let Some(carrier) = http2.carriers.at_mut(place.0) else {
                return missed(());
            };
            carrier.tick = Deadline::NEVER;
            let (machine, out) = (&mut carrier.machine, &mut carrier.out);
            match machine.tick(now_ms, &http2.limits, out) {
                Ok(Some(Event::Reset { stream, origin, .. })) => {
                    if let Some(context) = machine.context(stream) {
                        self.on_stream_reset(net, waiting, ConnectionIndex(context), origin);
                    }
                }
                Ok(_) => break,
                Err(violation) => {
                    net.fail_carrier(self, index, place, violation);
                    return;
                }
            }
        }
        self.drop_slow_streams(net, waiting, index);
        let idle_timeout_ms = net.settings.idle_timeout_ms;
        if let Some(carrier) = net.http2.carriers.at_mut(place.0).known()
            && let Some(since_ms) = carrier.idle_since_ms
            && carrier.machine.streams_count() == 0
            && now_ms >= since_ms + idle_timeout_ms
        {
            carrier.machine.abort(ErrorCode::NO_ERROR, &mut carrier.out);
            if let Some(connection) = net.connections.at_mut(index).known() {
                connection.writing = Writing::Linger;
            }
        }
        net.flush(self, index);
    }

    /// Handles a stream that was reset.
    pub(crate) fn on_stream_reset<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &mut Waiting,
        index: ConnectionIndex,
        origin: Origin,
    ) {
        let Some((connection, exchange)) = net.connections.pair_mut(index.exchange()) else {
            return missed(());
        };
        let Some(place) = connection.line.stream() else {
            return;
        };
        connection.has_hung_up = true;
        connection.has_ended = true;
        let (is_deferred, is_read_from) = (exchange.is_deferred, exchange.is_read_from());
        if let Some(stream) = net.http2.streams.at_mut(place.0).known() {
            stream.is_reset = true;
        }
        if origin == Origin::Here(Violation::Stalled) {
            net.note_write_timeout(index);
        }
        // A waiting handler counts as a stream of the connection until it has returned.
        if is_read_from {
            waiting.note_arrived(net, index.exchange());
        } else if is_deferred {
            waiting.note_left(net, index.exchange());
        } else {
            net.close(self, index);
        }
    }
}

impl<D: Driver> Net<D> {
    /// Sends the output of this turn's streams: one write per carrier.
    #[cold]
    pub(crate) fn flush_carriers(&mut self, http: &mut Http) {
        // Swap the list: output for the next turn lists carriers again.
        let mut dirty = std::mem::take(&mut self.http2.dirty);
        for index in dirty.drain(..) {
            if self.carrier_at(index).is_some() {
                self.flush(http, index);
            }
        }
        if self.http2.dirty.is_empty() {
            self.http2.dirty = dirty;
        }
    }

    /// Writes a carrier's output, and requests more from waiting streams while the kernel accepts
    /// it.
    pub(crate) fn write_carrier(
        &mut self,
        http: &mut Http,
        index: ConnectionIndex,
        place: CarrierPlace,
    ) {
        let mut turn_bytes = 0;
        loop {
            let Some(connection) = self.connections.at_mut(index) else {
                return missed(());
            };
            if connection.unsent() == 0 {
                self.offer_turns(http, place);
                let connection = self.connections.at_mut(index);
                let carrier = self.http2.carriers.at_mut(place.0);
                let Some((connection, carrier)) = connection.zip(carrier) else {
                    // Sending the streams' output has found the connection broken.
                    return;
                };
                // Sends after this line list the carrier again.
                carrier.is_dirty = false;
                if carrier.out.is_empty() {
                    let spare = std::mem::take(&mut carrier.out);
                    self.pool.give(spare.into());
                    break;
                }
                let out = connection.take_buffer(&mut self.pool);
                out.clear();
                std::mem::swap(&mut **out, &mut carrier.out);
                carrier.machine.note_flushed();
                connection.out_sent = 0;
            }
            if turn_bytes >= CARRIER_TURN_BYTES {
                if let Some(carrier) = self.http2.carriers.at_mut(place.0).known() {
                    carrier.mark(&mut self.http2.dirty);
                }
                return;
            }
            let unsent = self.connections.at(index).map_or(0, |it| it.unsent());
            turn_bytes += unsent;
            if !self.write_all(http, index) {
                // `None` if the connection was found broken and closed.
                if let Some(carrier) = self.http2.carriers.at_mut(place.0) {
                    carrier.is_dirty = false;
                }
                return;
            }
            self.note_carried(index, unsent);
            // The kernel has accepted everything, so no writable event will follow.
            if let Some(connection) = self.connections.at_mut(index).known()
                && self.gauges.end_blocked(connection)
            {
                self.note_buffered(index);
            }
        }
        self.end_if_drained(index, place);
        self.on_flushed(http, index);
        self.pace_carrier(index, place);
        http.release_held_back(self);
    }

    /// Lets streams send in turn while there is room.
    fn offer_turns(&mut self, http: &mut Http, place: CarrierPlace) {
        loop {
            let Some(carrier) = self.http2.carriers.at_mut(place.0) else {
                return missed(());
            };
            if carrier.out.len() >= ROOM_BYTES {
                return;
            }
            let Some(ready) = carrier.machine.next_ready() else {
                return;
            };
            // The stream sets the flag again if this turn is not enough.
            carrier.machine.set_pending(ready.stream, false);
            let Some(context) = carrier.machine.context(ready.stream) else {
                continue;
            };
            carrier.turn = Some((ready.stream, ready.bytes_max));
            self.on_writable(http, ConnectionIndex(context));
            if let Some(carrier) = self.http2.carriers.at_mut(place.0).known() {
                carrier.turn = None;
            }
        }
    }
    /// Closes the connection of a peer that violated the protocol or a limit, with an error frame.
    pub(crate) fn fail_carrier(
        &mut self,
        http: &mut Http,
        index: ConnectionIndex,
        place: CarrierPlace,
        violation: Violation,
    ) {
        let Some(connection) = self.connections.at_mut(index) else {
            return missed(());
        };
        connection.writing = Writing::Linger;
        let message = format!("{}: HTTP/2 connection closed: {violation}", connection.peer);
        let counter = match violation {
            Violation::Flood(flood) => flood_counter(flood),
            _ => Counter::Http2Violations,
        };
        self.counts.add(counter, 1);
        self.log_for_client(LogLevel::Info, &message);
        self.close_streams(http, place);
        self.flush(http, index);
    }

    /// Closes the streams of a closed connection.
    pub(crate) fn close_streams(&mut self, http: &mut Http, place: CarrierPlace) {
        let Some(carrier) = self.http2.carriers.at(place.0) else {
            return missed(());
        };
        let machine = &carrier.machine;
        let streams = machine.streams().filter_map(|it| machine.context(it));
        let streams: Vec<ConnectionIndex> = streams.map(ConnectionIndex).collect();
        for index in streams {
            self.close(http, index);
        }
    }
}

/// Returns the counter of connections closed for one kind of flood.
fn flood_counter(flood: Flood) -> Counter {
    match flood {
        Flood::Resets => Counter::Http2FloodResets,
        Flood::ResetsCaused => Counter::Http2FloodResetsCaused,
        Flood::Pings => Counter::Http2FloodPings,
        Flood::Settings => Counter::Http2FloodSettings,
        Flood::EmptyData => Counter::Http2FloodEmptyData,
        Flood::ConnectionWindowUpdates => Counter::Http2FloodConnectionWindowUpdates,
        Flood::StreamWindowUpdates => Counter::Http2FloodStreamWindowUpdates,
        Flood::Priorities => Counter::Http2FloodPriorities,
        Flood::UnknownFrames => Counter::Http2FloodUnknownFrames,
        Flood::Continuations => Counter::Http2FloodContinuations,
    }
}
