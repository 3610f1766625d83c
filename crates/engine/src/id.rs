//! Ids for embedders. An id contains an index and a generation, so it never matches a later object
//! at the same index.
//!
//! No id is zero: `Option` of an id costs no byte, and C code has a value for "none".

use std::num::NonZeroU64;

use fermata_hub::Seq;

use crate::net::index::ExchangeIndex;
use crate::net::slab::Key;

/// Serial of an exchange that has had no request.
pub(crate) const SERIAL_NONE: u32 = u32::MAX;

const LAST_SERIAL: u32 = SERIAL_NONE - 1;

/// Returns the serial that follows `serial`.
#[inline]
pub(crate) fn serial_after(serial: u32) -> u32 {
    match serial {
        ..LAST_SERIAL => serial + 1,
        _ => 1,
    }
}

/// Joins two halves to an id. Generations (`net/slab.rs`) and serials start at 1.
fn joined(generation: u32, place: u32) -> NonZeroU64 {
    NonZeroU64::new(u64::from(generation) << 32 | u64::from(place)).expect("no generation is zero")
}

/// A request, from its event until its client is released, including the stream or hold that
/// answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct RequestId(NonZeroU64);

/// A WebSocket, from the response to its handshake until its close event was delivered. The
/// WebSocket has the same number as the request of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct SocketId(RequestId);

/// An embedder's socket in the loop: a connection that it opened or accepted, or a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct WireId(NonZeroU64);

/// A handler that reads a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ReaderId(NonZeroU64);

impl ReaderId {
    pub(crate) fn new(key: Key) -> ReaderId {
        ReaderId(joined(key.generation, key.index))
    }

    pub(crate) fn key(self) -> Key {
        Key::from_u64(self.0.get())
    }

    /// Returns the id as a number, for C code.
    pub fn to_raw(self) -> u64 {
        self.0.get()
    }

    /// Returns the id of a number from [`ReaderId::to_raw`]; `None` for 0.
    pub fn from_raw(raw: u64) -> Option<ReaderId> {
        NonZeroU64::new(raw).map(ReaderId)
    }
}

impl RequestId {
    /// Placeholder for a field that is set before it is read. No request has this serial
    /// ([`SERIAL_NONE`]).
    pub(crate) const UNSET: RequestId = RequestId(NonZeroU64::MAX);

    #[inline]
    pub(crate) fn new(serial: u32, index: ExchangeIndex) -> RequestId {
        RequestId(joined(serial, index.0))
    }

    /// Returns the index of the request's exchange. The exchange may belong to a later request by
    /// now.
    #[inline]
    pub(crate) fn exchange(self) -> ExchangeIndex {
        ExchangeIndex(self.0.get() as u32)
    }

    /// Returns the serial, which distinguishes the request from others of the same exchange.
    #[inline]
    pub(crate) fn serial(self) -> u32 {
        (self.0.get() >> 32) as u32
    }

    /// Converts a number from [`RequestId::to_raw`] to an id; `None` for zero.
    #[inline]
    pub const fn from_raw(raw: u64) -> Option<RequestId> {
        match NonZeroU64::new(raw) {
            Some(raw) => Some(RequestId(raw)),
            None => None,
        }
    }

    /// Returns the id as a number for C code; never zero.
    #[inline]
    pub fn to_raw(self) -> u64 {
        self.0.get()
    }
}

impl SocketId {
    /// Placeholder; see [`RequestId`].
    pub(crate) const UNSET: SocketId = SocketId(RequestId::UNSET);

    /// Returns the id of the socket that an accepted handshake becomes.
    #[inline]
    pub fn of(handshake: RequestId) -> SocketId {
        SocketId(handshake)
    }

    /// Returns the request id of the handshake.
    #[inline]
    pub fn handshake(self) -> RequestId {
        self.0
    }

    /// See [`RequestId::index`].
    #[inline]
    pub(crate) fn exchange(self) -> ExchangeIndex {
        self.0.exchange()
    }

    /// See [`RequestId`].
    #[inline]
    pub fn from_raw(raw: u64) -> Option<SocketId> {
        RequestId::from_raw(raw).map(SocketId)
    }

    /// See [`RequestId`].
    #[inline]
    pub fn to_raw(self) -> u64 {
        self.0.to_raw()
    }
}

impl WireId {
    #[inline]
    pub(crate) fn new(key: Key) -> WireId {
        WireId(joined(key.generation, key.index))
    }

    #[inline]
    pub(crate) fn key(self) -> Key {
        Key::from_u64(self.0.get())
    }

    /// Converts a number to an id; `None` for zero. The number is also the wire's token in the
    /// driver.
    #[inline]
    pub const fn from_raw(raw: u64) -> Option<WireId> {
        match NonZeroU64::new(raw) {
            Some(raw) => Some(WireId(raw)),
            None => None,
        }
    }

    /// Returns the id's number; never zero.
    #[inline]
    pub fn to_raw(self) -> u64 {
        self.0.get()
    }
}

/// A publish whose record waits for the cluster log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct PublishId(NonZeroU64);

impl PublishId {
    /// Creates the id of the record at `place` in the outbox.
    pub(crate) fn new(place: Seq) -> PublishId {
        PublishId(NonZeroU64::new(place).expect("no place in a ring is zero"))
    }

    /// See [`RequestId`].
    pub fn from_raw(raw: u64) -> Option<PublishId> {
        NonZeroU64::new(raw).map(PublishId)
    }

    /// See [`RequestId`].
    pub fn to_raw(self) -> u64 {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_reserved_serials_on_wrap() {
        assert_eq!(serial_after(0), 1);
        assert_eq!(serial_after(SERIAL_NONE - 2), SERIAL_NONE - 1);
        assert_eq!(serial_after(SERIAL_NONE - 1), 1);
    }

    #[test]
    fn round_trips_ids_as_numbers() {
        let request = RequestId::new(7, ExchangeIndex(3));
        assert_eq!(
            (request.serial(), request.exchange()),
            (7, ExchangeIndex(3))
        );
        assert_eq!(RequestId::from_raw(request.to_raw()), Some(request));
        assert_eq!(SocketId::of(request).handshake(), request);
        assert_eq!(
            (RequestId::from_raw(0), SocketId::from_raw(0)),
            (None, None)
        );
    }
}
