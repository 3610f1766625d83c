//! Counts the bytes buffered for clients, and closes the largest and oldest clients at a limit.

use std::net::{IpAddr, Ipv6Addr};

use fermata_config::{LogLevel, Networks};
use fermata_io::{Deadline, Driver, Peer};
use fermata_proto::http2::{ErrorCode, Origin, Violation};

use crate::admin::stats::Counter;
use crate::embed::waiting::Waiting;
use crate::http::Http;
use crate::http::exchange::{Exchange, Stage};
use crate::missed::missed;
use crate::net::buffered::{Bound, Closed, Counted, RELIEF};
use crate::net::connection::Connection;
use crate::net::index::ConnectionIndex;
use crate::net::line::Carries;
use crate::net::{Net, POOL_BUFFER_BYTES};

/// Maximum size in bytes of an uncounted connection: one buffer of the pool.
const COUNTED_BYTES_MIN: usize = POOL_BUFFER_BYTES;

/// Returns the address that a client counts for: for IPv6 its /64 network.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => IpAddr::V4(address),
            None => {
                let bits = u128::from(address) >> 64 << 64;
                IpAddr::V6(Ipv6Addr::from(bits))
            }
        },
        address => address,
    }
}

/// Returns the address that a peer's bytes count for. `None`: the limit per address does not apply,
/// because the peer is a Unix socket or a proxy for many clients.
fn client_of(peer: Peer, proxies: &Networks) -> Option<IpAddr> {
    let address = peer.ip().filter(|&it| !proxies.contains(Some(it)));
    address.map(network)
}

/// Returns the number of bytes of memory used by a connection and its exchange, and the part of it
/// for an incomplete request or message. Buffers count while the connection is blocked. The
/// connection is counted again when it is no longer blocked.
fn buffered_bytes(connection: &Connection, exchange: &Exchange) -> (usize, usize) {
    let buffers = if connection.is_blocked {
        connection.out.capacity() + connection.inbox.capacity()
    } else {
        0
    };
    let arriving = exchange.arriving_bytes();
    let bytes = buffers + arriving + exchange.unread_bytes();
    if bytes > COUNTED_BYTES_MIN {
        (bytes, arriving)
    } else {
        (0, 0)
    }
}

/// Returns the bytes in the kernel that the client of a connection or stream has not read.
pub(crate) fn unacknowledged_bytes<D: Driver>(
    net: &Net<D>,
    index: ConnectionIndex,
) -> Option<usize> {
    let carrier = net.carrier_of(index)?;
    let fd = net.connections.at(carrier)?.line.socket()?;
    net.driver.unacknowledged(fd)
}

/// Counts spared responses again if their clients have stopped reading.
pub(crate) fn end_spared<D: Driver>(net: &mut Net<D>) {
    let now_ms = net.driver.now_ms();
    for index in net.buffered.spared() {
        // The kernel accepts more only when a large part of its buffer is free.
        if let Some(bytes) = unacknowledged_bytes(net, index) {
            net.buffered.note_unacknowledged(index, bytes, now_ms);
        }
    }
    if net.buffered.end_spared(now_ms) && net.flushed.last() != Some(&RELIEF) {
        net.flushed.push(RELIEF);
    }
}

impl<D: Driver> Net<D> {
    /// Counts the bytes currently buffered for a connection.
    #[cold]
    pub(crate) fn note_buffered(&mut self, index: ConnectionIndex) {
        let Some((connection, exchange)) = self.connections.pair(index.exchange()) else {
            return missed(());
        };
        let bytes = buffered_bytes(connection, exchange);
        if bytes.0 == 0 && self.buffered.counted.is_empty() {
            return;
        }
        let (now_ms, peer, line) = (self.driver.now_ms(), connection.peer, connection.line);
        let (http2, proxies) = (&self.http2, &self.settings.trusted_proxies);
        self.buffered.set(index, bytes, now_ms, || {
            let carrier = match line.carries() {
                Carries::Socket(_) => None,
                Carries::Stream(place) => http2.carrier_of(place),
            };
            (client_of(peer, proxies), carrier)
        });
        if self.buffered.is_over() && self.flushed.last() != Some(&RELIEF) {
            self.flushed.push(RELIEF);
        }
    }

    /// Removes a closed connection from the counts.
    #[cold]
    pub(crate) fn forget_buffered(&mut self, index: ConnectionIndex) {
        if self.buffered.counted.is_empty() {
            return;
        }
        let now_ms = self.driver.now_ms();
        if self.buffered.counted.contains_key(&index) {
            self.buffered.release(index);
            self.buffered.set(index, (0, 0), now_ms, || (None, None));
            self.buffered.counted.remove(&index);
        }
    }

    /// Returns the time at which the client is closed unless it reads again. The client has just
    /// read `bytes`.
    pub(crate) fn write_deadline(&mut self, index: ConnectionIndex, bytes: usize) -> Deadline {
        let now_ms = self.driver.refresh_now();
        self.buffered.pay(index, bytes, now_ms)
    }

    /// Notes that the kernel has accepted bytes of an HTTP/2 connection.
    pub(crate) fn note_carried(&mut self, index: ConnectionIndex, bytes: usize) {
        if !self.buffered.counted.is_empty() {
            let now_ms = self.driver.now_ms();
            let _ = self.buffered.pay(index, bytes, now_ms);
        }
    }
}

impl<D: Driver> Net<D> {
    /// Returns the HTTP/2 connection of a stream if its client has to read before another request
    /// starts.
    pub(crate) fn unread_carrier(&self, index: ConnectionIndex) -> Option<ConnectionIndex> {
        if self.buffered.counted.is_empty() {
            return None;
        }
        let carrier = self.carrier_of(index)?;
        (carrier != index && self.buffered.is_full(carrier)).then_some(carrier)
    }
}

impl Http {
    /// Makes the current request of a stream wait until the client of its connection has read.
    #[cold]
    pub(crate) fn hold_back<D: Driver>(&mut self, net: &mut Net<D>, carrier: ConnectionIndex) {
        let index = self.request.index().connection();
        let queued = self.take_off(net);
        let request = &queued.request;
        let bytes = request.body_bytes.capacity() + request.head_bytes.capacity();
        let (now_ms, peer) = (queued.since_ms, net.connections.at(index).map(|it| it.peer));
        let address = peer.and_then(|it| client_of(it, &net.settings.trusted_proxies));
        self.held_back.insert(index, queued);
        net.buffered
            .set(index, (bytes, bytes), now_ms, || (address, Some(carrier)));
        net.buffered.hold(carrier, index);
    }

    /// Lists waiting requests whose clients have read.
    pub(crate) fn release_held_back<D: Driver>(&mut self, net: &mut Net<D>) {
        if net.buffered.drained.is_empty() {
            return;
        }
        for index in net.buffered.take_drained() {
            net.buffered.release(index);
            if let Some(queued) = self.held_back.remove(&index) {
                net.note_buffered(index);
                self.starts.put(queued);
            }
        }
    }

    /// Closes the largest and oldest clients until no limit is exceeded. Returns true if a client
    /// was closed.
    #[cold]
    pub(crate) fn relieve<D: Driver>(&mut self, net: &mut Net<D>, waiting: &mut Waiting) -> bool {
        if !net.buffered.is_over() {
            return false;
        }
        let now_ms = net.driver.now_ms();
        net.buffered.spare(now_ms);
        if !net.buffered.is_over() {
            return false;
        }
        let worst = net.buffered.worst(now_ms);
        for closed in &worst {
            let (counter, setting) = match closed.bound {
                Bound::Worker => (Counter::DroppedBuffered, "buffered_bytes_max"),
                Bound::Address => (
                    Counter::DroppedBufferedAddress,
                    "buffered_per_address_bytes_max",
                ),
            };
            self.drop_buffered(net, waiting, closed, (counter, setting));
        }
        !worst.is_empty()
    }

    /// Closes a client because of its buffered bytes. For HTTP/2, resets only the streams that have
    /// buffered bytes and are not spared.
    fn drop_buffered<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &mut Waiting,
        closed: &Closed,
        (counter, setting): (Counter, &'static str),
    ) {
        let index = closed.index;
        let Some((connection, exchange)) = net.connections.pair(index.exchange()) else {
            return missed(());
        };
        let (own, of_streams) = match net.buffered.counted.get(&index) {
            Some(it) => (it.bytes, it.streams_bytes),
            None => return,
        };
        let (peer, line) = (connection.peer, connection.line);
        let is_body = matches!(exchange.stage, Stage::Body(_));
        let message = format!(
            "{peer}: closed: {} bytes were buffered for the client; {setting} is reached",
            own + of_streams
        );
        let unix_ms = net.driver.unix_ms();
        net.log.write_limited(LogLevel::Warning, unix_ms, &message);
        net.counts.add(counter, 1);
        if of_streams > own || closed.spared.is_some() {
            let is_chosen = |index, _: &Counted| closed.spared != Some(index);
            self.reset_buffered_streams(net, waiting, index, is_chosen);
        } else if is_body {
            let text = format!("The server's limit {setting} is reached; try again.\n");
            self.refuse(net, index.exchange(), 503, &text);
            net.note_buffered(index);
        } else {
            // Reset the connection; otherwise the kernel would retain megabytes for a client that
            // does not read.
            net.reset_on_close(line);
            net.close(self, index);
        }
    }

    /// Resets the chosen streams of an HTTP/2 connection that have buffered bytes.
    fn reset_buffered_streams<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &mut Waiting,
        carrier: ConnectionIndex,
        is_chosen: impl Fn(ConnectionIndex, &Counted) -> bool,
    ) {
        let counted = net.buffered.counted.iter();
        let streams: Vec<ConnectionIndex> = counted
            .filter(|(index, it)| it.carrier == Some(carrier) && is_chosen(**index, it))
            .map(|(&index, _)| index)
            .collect();
        for index in streams {
            let line = net.connections.at(index).map(|it| it.line);
            let Some(place) = line.and_then(|it| it.stream()) else {
                missed(());
                continue;
            };
            net.http2.reset(place, ErrorCode::ENHANCE_YOUR_CALM);
            self.on_stream_reset(net, waiting, index, Origin::Here(Violation::Aborted));
            // Drop the output. The stream's handler may still be waiting, although no client reads
            // the output any more.
            if let Some(connection) = net.connections.at_mut(index) {
                connection.out = Default::default();
                connection.out_sent = 0;
                net.note_buffered(index);
            }
        }
    }

    /// Resets the HTTP/2 streams of a client that reads too slowly for its buffered bytes.
    pub(crate) fn drop_slow_streams<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        waiting: &mut Waiting,
        carrier: ConnectionIndex,
    ) {
        let now_ms = net.driver.now_ms();
        let is_slow = net
            .buffered
            .counted
            .get(&carrier)
            .is_some_and(|it| it.has_rated_streams() && it.until.is_due(now_ms));
        if is_slow && net.buffered.rate_min > 0 {
            net.note_write_timeout(carrier);
            self.reset_buffered_streams(net, waiting, carrier, |_, it| it.is_unread());
        }
    }
}
