//! The bytes that a worker buffers for its clients, and their limits.
//!
//! Counted are unread responses, incomplete request bodies and WebSocket messages, and pieces of a stream that PHP still holds. A
//! connection is counted only while the kernel or a flow-control window refuses its bytes, or while its body or message is
//! incomplete. So a request that is read and answered within a turn has no overhead here. The streams of an HTTP/2 connection count
//! for that connection, as one client.
//!
//! The limit of an address excludes (*spares*) one response: the largest one that is being read. So
//! a single client receives a response of any size that `buffered_bytes_max` permits. An address
//! buffers at most its limit and one response.
//!
//! Invariant: `total` is the sum of `bytes` of all entries, and so is each address's sum.

use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use fermata_config::Settings;
use fermata_io::{Deadline, memory};

use crate::missed::Known;
use crate::net::index::{ConnectionIndex, ExchangeIndex};

/// Minimum size in bytes of a response that is passed to the kernel as soon as it is written. So the bytes that the kernel does not
/// accept are counted before the next handler runs.
pub(crate) const LARGE_BYTES: usize = 64 * 1024;

/// Buffered bytes up to which a client may read at any rate.
const RATED_BYTES_MIN: usize = 64 * 1024;

/// Fraction of a limit that closing clients frees, as a divisor. Freeing more than necessary limits how often the list is sorted.
const FREED_PART: usize = 8;

/// Freed bytes that justify a call of `malloc_trim`.
const TRIM_BYTES: usize = 16 * 1024 * 1024;

/// Minimum time between two calls of `malloc_trim`, in milliseconds.
const TRIM_MS: u64 = 1_000;

/// Milliseconds added to the time since a client last read, so that the size decides between clients that read at the same time.
const AGE_MS_MIN: u64 = 1_000;

/// Time in milliseconds after which a client that reads nothing counts as not reading. A client whose bytes were queued more
/// recently may still start to read.
const READING_MS: u64 = 5_000;

/// An index in `Net::flushed` that no connection has. It makes the next `Channels::after_output`
/// call `Http::relieve`.
pub(crate) const RELIEF: ExchangeIndex = ExchangeIndex(u32::MAX);

/// Bytes buffered for one connection or stream.
pub(super) struct Counted {
    pub bytes: usize,
    /// Part of `bytes` that belongs to an incomplete request or message, which the client is still
    /// sending.
    pub arriving: usize,
    /// Bytes of the connection's HTTP/2 streams.
    pub streams_bytes: usize,
    /// Part of `streams_bytes` that is `arriving`.
    streams_arriving: usize,
    /// Time at which the client last read, or bytes were first counted.
    read_ms: u64,
    /// Number of the client's bytes in the kernel at the last check.
    unacknowledged: usize,
    /// Time at which a client that reads more slowly than `write_rate_min` is closed.
    pub until: Deadline,
    /// The client's address or IPv6 network; `None` for a Unix socket and a trusted proxy.
    address: Option<IpAddr>,
    /// The HTTP/2 connection of a stream.
    pub carrier: Option<ConnectionIndex>,
    /// Streams of an HTTP/2 connection whose requests wait until the client has read.
    waiting: VecDeque<ConnectionIndex>,
    /// Bytes of the requests in `waiting`, a part of `streams_bytes`.
    waiting_bytes: usize,
    /// The bytes belong to a request that waits.
    is_waiting: bool,
}

impl Counted {
    fn new(
        now_ms: u64,
        timeout_ms: u64,
        address: Option<IpAddr>,
        carrier: Option<ConnectionIndex>,
    ) -> Counted {
        Counted {
            bytes: 0,
            arriving: 0,
            streams_bytes: 0,
            streams_arriving: 0,
            read_ms: now_ms,
            unacknowledged: 0,
            until: Deadline::after(now_ms, timeout_ms),
            address,
            carrier,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            is_waiting: false,
        }
    }

    fn sum(&self) -> usize {
        self.bytes + self.streams_bytes
    }

    /// Returns true if the client has so many unread bytes that its reading rate is checked.
    fn is_rated(&self) -> bool {
        self.sum() - self.arriving - self.streams_arriving > RATED_BYTES_MIN
    }

    /// Returns true if the streams of an HTTP/2 connection have so many unread bytes that the client's reading rate is checked.
    pub fn has_rated_streams(&self) -> bool {
        self.streams_bytes - self.streams_arriving > RATED_BYTES_MIN
    }

    /// Returns true if a stream has unread bytes, or waits until its client has read.
    pub fn is_unread(&self) -> bool {
        self.is_waiting || self.bytes > self.arriving
    }

    /// Returns true for a response, or a part of one, that the client is reading.
    fn is_being_read(&self, now_ms: u64) -> bool {
        self.bytes > self.arriving && now_ms.saturating_sub(self.read_ms) < READING_MS
    }

    /// Changes the bytes of a client. The client's reading rate is checked from the time when more than `RATED_BYTES_MIN` are
    /// unread.
    fn change(&mut self, now_ms: u64, timeout_ms: u64, change: impl FnOnce(&mut Counted)) {
        let was_rated = self.is_rated();
        change(self);
        if !was_rated && self.is_rated() {
            self.until = Deadline::after(now_ms, timeout_ms);
        }
    }
}

/// The limit that is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    Worker,
    Address,
}

/// The clients of one address.
#[derive(Default)]
struct Crowd {
    bytes: usize,
    /// The connection or stream whose response the limit does not count.
    spared: Option<ConnectionIndex>,
    /// Bytes of `spared`, a part of `bytes`.
    spared_bytes: usize,
}

impl Crowd {
    /// Returns the bytes that count for the limit of an address.
    fn bounded(&self) -> usize {
        self.bytes - self.spared_bytes
    }
}

/// A client that is closed at a limit.
pub(super) struct Closed {
    pub index: ConnectionIndex,
    pub bound: Bound,
    /// Stream of an HTTP/2 connection that stays open when the other streams are reset.
    pub spared: Option<ConnectionIndex>,
}

/// The connections of a worker for which bytes are buffered.
pub(crate) struct Buffered {
    worker_max: usize,
    connection_max: usize,
    address_max: usize,
    pub(super) rate_min: u64,
    timeout_ms: u64,
    total: usize,
    /// Maximum total since memory was last returned to the system.
    peak: usize,
    trimmed_ms: u64,
    pub(super) counted: HashMap<ConnectionIndex, Counted>,
    addresses: HashMap<IpAddr, Crowd>,
    /// Addresses over their limit.
    crowded: HashSet<IpAddr>,
    /// Addresses with a spared response.
    sparing: HashSet<IpAddr>,
    /// HTTP/2 connections with requests in `waiting` that may be below their limit again.
    pub(super) drained: Vec<ConnectionIndex>,
}

impl Buffered {
    pub fn new(settings: &Settings) -> Buffered {
        let bound = |bytes: usize| if bytes == 0 { usize::MAX } else { bytes };
        Buffered {
            worker_max: bound(settings.buffered_bytes_max),
            connection_max: bound(settings.buffered_per_connection_bytes_max),
            address_max: bound(settings.buffered_per_address_bytes_max),
            rate_min: settings.write_rate_min as u64,
            timeout_ms: settings.write_timeout_ms,
            total: 0,
            peak: 0,
            trimmed_ms: 0,
            counted: HashMap::new(),
            addresses: HashMap::new(),
            crowded: HashSet::new(),
            sparing: HashSet::new(),
            drained: Vec::new(),
        }
    }

    /// Returns the bytes buffered for all clients.
    pub fn total(&self) -> usize {
        self.total
    }

    pub(super) fn is_over(&self) -> bool {
        self.total > self.worker_max || !self.crowded.is_empty()
    }

    /// Returns true if an HTTP/2 connection has reached the limit of unread bytes.
    pub fn is_full(&self, carrier: ConnectionIndex) -> bool {
        self.counted
            .get(&carrier)
            .is_some_and(|it| it.sum() - it.waiting_bytes >= self.connection_max)
    }

    /// Notes that the request of a stream waits until the client of `carrier` has read.
    pub(super) fn hold(&mut self, carrier: ConnectionIndex, index: ConnectionIndex) {
        let bytes = match self.counted.get_mut(&index) {
            Some(it) => {
                it.is_waiting = true;
                it.bytes
            }
            None => 0,
        };
        // `carrier` has an entry: its streams are held only after it has reached its limit.
        if let Some(it) = self.counted.get_mut(&carrier).known() {
            it.waiting.push_back(index);
            it.waiting_bytes += bytes;
        }
    }

    /// Notes that the request of a stream no longer waits.
    pub(super) fn release(&mut self, index: ConnectionIndex) {
        if let Some(it) = self.counted.get_mut(&index)
            && std::mem::take(&mut it.is_waiting)
        {
            let (bytes, carrier) = (it.bytes, it.carrier);
            if let Some(it) = carrier.and_then(|it| self.counted.get_mut(&it)) {
                it.waiting_bytes -= bytes;
                it.waiting.retain(|&other| other != index);
            }
        }
    }

    /// Removes and returns the streams whose requests may start, because their clients have read.
    pub(super) fn take_drained(&mut self) -> Vec<ConnectionIndex> {
        let mut streams = Vec::new();
        while let Some(carrier) = self.drained.pop() {
            if !self.is_full(carrier)
                && let Some(it) = self.counted.get_mut(&carrier)
            {
                streams.extend(it.waiting.drain(..));
                self.drop_empty(carrier);
            }
        }
        streams
    }

    /// Sets the bytes of a connection, and the `arriving` part. `at` returns the data for a new
    /// entry.
    pub(super) fn set(
        &mut self,
        index: ConnectionIndex,
        (bytes, arriving): (usize, usize),
        now_ms: u64,
        at: impl FnOnce() -> (Option<IpAddr>, Option<ConnectionIndex>),
    ) {
        let found = self.counted.get(&index);
        let (before, arriving_before) = found.map_or((0, 0), |it| (it.bytes, it.arriving));
        if (before, arriving_before) == (bytes, arriving) {
            return;
        }
        let timeout_ms = self.timeout_ms;
        let entry = self.counted.entry(index).or_insert_with(|| {
            let (address, carrier) = at();
            Counted::new(now_ms, timeout_ms, address, carrier)
        });
        entry.change(now_ms, timeout_ms, |it| {
            (it.bytes, it.arriving) = (bytes, arriving);
        });
        let (address, carrier) = (entry.address, entry.carrier);
        if bytes < before && !entry.waiting.is_empty() {
            self.drained.push(index);
        }
        self.total = self.total - before + bytes;
        self.peak = self.peak.max(self.total);
        if let Some(address) = address {
            let crowd = self.addresses.entry(address).or_default();
            crowd.bytes = crowd.bytes - before + bytes;
            if crowd.spared == Some(index) {
                crowd.spared_bytes = bytes;
                crowd.spared = crowd.spared.filter(|_| bytes > 0);
            }
            if crowd.bounded() > self.address_max {
                self.crowded.insert(address);
            } else {
                let is_empty = crowd.bytes == 0;
                self.crowded.remove(&address);
                if is_empty {
                    self.addresses.remove(&address);
                }
            }
        }
        if let Some(carrier) = carrier {
            let before = (before, arriving_before);
            self.set_of_carrier(carrier, before, (bytes, arriving), now_ms, address);
        }
        self.drop_empty(index);
    }

    fn set_of_carrier(
        &mut self,
        carrier: ConnectionIndex,
        (before, arriving_before): (usize, usize),
        (bytes, arriving): (usize, usize),
        now_ms: u64,
        address: Option<IpAddr>,
    ) {
        let entry = match self.counted.entry(carrier) {
            Place::Occupied(entry) => entry.into_mut(),
            // The connection has closed; its streams are closed next.
            Place::Vacant(_) if before > 0 => return,
            Place::Vacant(place) => {
                place.insert(Counted::new(now_ms, self.timeout_ms, address, None))
            }
        };
        entry.change(now_ms, self.timeout_ms, |it| {
            it.streams_bytes = it.streams_bytes.saturating_sub(before) + bytes;
            it.streams_arriving = it.streams_arriving.saturating_sub(arriving_before) + arriving;
        });
        if bytes < before && !entry.waiting.is_empty() {
            self.drained.push(carrier);
        }
        self.drop_empty(carrier);
    }

    fn drop_empty(&mut self, index: ConnectionIndex) {
        if let Place::Occupied(entry) = self.counted.entry(index) {
            let it = entry.get();
            if it.sum() == 0 && it.waiting.is_empty() {
                entry.remove();
            }
        }
    }

    /// Notes that the client has read `bytes`. Returns the time at which the client is closed if it reads nothing more.
    ///
    /// Each byte extends the time by its share of `write_rate_min`, up to `write_timeout_ms` from
    /// now.
    pub(super) fn pay(&mut self, index: ConnectionIndex, bytes: usize, now_ms: u64) -> Deadline {
        let latest = Deadline::after(now_ms, self.timeout_ms);
        // A client without counted bytes only has to read something in time.
        let Some(entry) = self.counted.get_mut(&index) else {
            return latest;
        };
        let is_rated = self.rate_min > 0 && entry.is_rated();
        entry.until = match entry.until.left_ms(now_ms) {
            Some(left_ms) if is_rated => {
                let paid_ms = (bytes as u64).saturating_mul(1_000) / self.rate_min;
                Deadline::after(now_ms, left_ms.saturating_add(paid_ms)).min(latest)
            }
            _ => latest,
        };
        entry.until
    }

    /// Records that the client of a connection or stream has read data.
    pub(super) fn note_read(&mut self, index: ConnectionIndex, now_ms: u64) {
        let Some(entry) = self.counted.get_mut(&index) else {
            // The connection has no buffered bytes.
            return;
        };
        entry.read_ms = now_ms;
        if let Some(carrier) = entry.carrier.and_then(|it| self.counted.get_mut(&it)) {
            carrier.read_ms = now_ms;
        }
    }

    /// Returns the connections and streams whose responses are spared.
    pub(super) fn spared(&self) -> Vec<ConnectionIndex> {
        let crowds = self.sparing.iter().filter_map(|it| self.addresses.get(it));
        crowds.filter_map(|it| it.spared).collect()
    }

    /// Notes how many bytes of a spared response are in the kernel. If the number has decreased, the client has read.
    pub(super) fn note_unacknowledged(
        &mut self,
        index: ConnectionIndex,
        bytes: usize,
        now_ms: u64,
    ) {
        if let Some(entry) = self.counted.get_mut(&index).known()
            && bytes < std::mem::replace(&mut entry.unacknowledged, bytes)
        {
            self.note_read(index, now_ms);
        }
    }

    /// Selects the response to spare for each address over its limit.
    pub(super) fn spare(&mut self, now_ms: u64) {
        let mut largest: HashMap<IpAddr, (usize, ConnectionIndex)> = HashMap::new();
        if self.crowded.is_empty() {
            return;
        }
        for (&index, it) in &self.counted {
            if let Some(address) = it.address.filter(|it| self.crowded.contains(it))
                && it.is_being_read(now_ms)
            {
                let found = largest.entry(address).or_insert((it.bytes, index));
                *found = (*found).max((it.bytes, index));
            }
        }
        let (addresses, max) = (&mut self.addresses, self.address_max);
        self.crowded.retain(|address| {
            let Some(crowd) = addresses.get_mut(address).known() else {
                // The address has no connections left.
                return false;
            };
            let found = largest.get(address);
            crowd.spared = found.map(|it| it.1);
            crowd.spared_bytes = found.map_or(0, |it| it.0);
            if found.is_some() {
                self.sparing.insert(*address);
            }
            crowd.bounded() > max
        });
    }

    /// Counts spared responses again if their clients have stopped reading. Returns true if a limit is exceeded.
    pub(super) fn end_spared(&mut self, now_ms: u64) -> bool {
        let (addresses, counted) = (&mut self.addresses, &self.counted);
        let (crowded, max) = (&mut self.crowded, self.address_max);
        self.sparing.retain(|address| {
            let Some(crowd) = addresses.get_mut(address) else {
                // The address has no connections left.
                return false;
            };
            let spared = crowd.spared.and_then(|it| counted.get(&it));
            if spared.is_some_and(|it| it.is_being_read(now_ms)) {
                return true;
            }
            crowd.spared = None;
            crowd.spared_bytes = 0;
            if crowd.bytes > max {
                crowded.insert(*address);
            }
            false
        });
        self.is_over()
    }

    /// Returns the clients to close to get below every limit, ordered by bytes times the time since
    /// the client last read.
    pub(super) fn worst(&self, now_ms: u64) -> Vec<Closed> {
        let mut clients: Vec<_> = self
            .counted
            .iter()
            .filter(|(_, it)| it.carrier.is_none())
            .map(|(&index, it)| {
                let bytes = it.sum();
                let age_ms = now_ms.saturating_sub(it.read_ms) + AGE_MS_MIN;
                (bytes as u128 * u128::from(age_ms), index, bytes, it.address)
            })
            .collect();
        clients.sort_unstable_by(|one, other| other.cmp(one));
        let wanted = |sum: usize, max: usize| {
            if sum > max {
                sum - (max - max / FREED_PART)
            } else {
                0
            }
        };
        let mut left = wanted(self.total, self.worker_max);
        let mut of_addresses: HashMap<IpAddr, usize> = self
            .crowded
            .iter()
            .map(|it| {
                let sum = self.addresses.get(it).map_or(0, Crowd::bounded);
                (*it, wanted(sum, self.address_max))
            })
            .collect();
        let mut worst = Vec::new();
        for (_, index, bytes, address) in clients {
            let (spared, spared_bytes) = self.spared_of(index, address);
            let of_address = address.and_then(|it| of_addresses.get_mut(&it));
            let crowds = bytes > spared_bytes && of_address.as_ref().is_some_and(|left| **left > 0);
            if !crowds && left == 0 {
                continue;
            }
            if let Some(left) = of_address {
                *left = left.saturating_sub(bytes - spared_bytes);
            }
            // The limit of the worker has no excluded response.
            let is_whole = spared_bytes == 0 || left > 0;
            left = left.saturating_sub(bytes);
            worst.push(Closed {
                index,
                bound: if crowds && (spared_bytes == 0 || !is_whole) {
                    Bound::Address
                } else {
                    Bound::Worker
                },
                spared: spared.filter(|_| !is_whole),
            });
        }
        worst
    }

    /// Returns the index and size of an address's spared response, if it belongs to this client.
    fn spared_of(
        &self,
        client: ConnectionIndex,
        address: Option<IpAddr>,
    ) -> (Option<ConnectionIndex>, usize) {
        let crowd = address.and_then(|it| self.addresses.get(&it));
        let spared = crowd.and_then(|it| Some((it.spared?, it.spared_bytes)));
        let is_its = |index: ConnectionIndex| {
            index == client || self.counted.get(&index).and_then(|it| it.carrier) == Some(client)
        };
        match spared {
            Some((index, bytes)) if is_its(index) => (Some(index), bytes),
            _ => (None, 0),
        }
    }

    /// Returns freed memory to the system if enough was freed since the last call. Otherwise glibc retains it.
    pub fn trim(&mut self, now_ms: u64) {
        if self.peak - self.total >= TRIM_BYTES && now_ms >= self.trimmed_ms + TRIM_MS {
            self.peak = self.total;
            self.trimmed_ms = now_ms;
            memory::trim();
        }
    }

    /// Panics unless the sums match the entries.
    #[cfg(test)]
    pub fn check(&self) {
        let sum: usize = self.counted.values().map(|it| it.bytes).sum();
        assert_eq!(self.total, sum, "total");
        for (address, crowd) in &self.addresses {
            let of = self
                .counted
                .values()
                .filter(|it| it.address == Some(*address));
            assert_eq!(
                crowd.bytes,
                of.map(|it| it.bytes).sum::<usize>(),
                "{address}"
            );
            let spared = crowd.spared.and_then(|it| self.counted.get(&it));
            assert_eq!(
                crowd.spared_bytes,
                spared.map_or(0, |it| it.bytes),
                "{address}"
            );
            assert_eq!(
                self.crowded.contains(address),
                crowd.bounded() > self.address_max,
                "{address}"
            );
        }
        for (index, it) in &self.counted {
            let of = self
                .counted
                .values()
                .filter(|it| it.carrier == Some(*index));
            let sums = of.fold((0, 0), |(bytes, arriving), it| {
                (bytes + it.bytes, arriving + it.arriving)
            });
            assert_eq!((it.streams_bytes, it.streams_arriving), sums);
        }
    }
}
