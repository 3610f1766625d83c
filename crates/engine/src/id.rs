//! How an embedder names what it is handed: by place and generation, so that none meets a successor at the same place.
//!
//! None is zero, so that `Option` of one costs no byte, and a C program has a value for none.

use std::num::NonZeroU64;

use fermata_hub::Seq;

use crate::net::index::ExchangeIndex;
use crate::net::slab::Key;

/// The serial of an exchange that has had no request.
pub(crate) const SERIAL_NONE: u32 = u32::MAX;

const LAST_SERIAL: u32 = SERIAL_NONE - 1;

/// What follows a serial.
#[inline]
pub(crate) fn serial_after(serial: u32) -> u32 {
    match serial {
        ..LAST_SERIAL => serial + 1,
        _ => 1,
    }
}

/// Generations (`net/slab.rs`) and serials begin at one.
fn joined(generation: u32, place: u32) -> NonZeroU64 {
    NonZeroU64::new(u64::from(generation) << 32 | u64::from(place)).expect("no generation is zero")
}

/// A request, from its event until its client has been let go: also the stream or the hold that answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct RequestId(NonZeroU64);

/// A WebSocket, from its handshake's answer until its close was handed out. It keeps the number of the handshake's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct SocketId(RequestId);

/// A socket of the embedder's in the loop: a connection that it has opened or accepted, or a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct WireId(NonZeroU64);

impl RequestId {
    /// Stands in a field that is set before it is read; nothing has its serial ([`SERIAL_NONE`]).
    pub(crate) const UNSET: RequestId = RequestId(NonZeroU64::MAX);

    #[inline]
    pub(crate) fn new(serial: u32, index: ExchangeIndex) -> RequestId {
        RequestId(joined(serial, index.0))
    }

    /// Its exchange, which may be another request's by now.
    #[inline]
    pub(crate) fn exchange(self) -> ExchangeIndex {
        ExchangeIndex(self.0.get() as u32)
    }

    /// Tells it from the exchange's other requests.
    #[inline]
    pub(crate) fn serial(self) -> u32 {
        (self.0.get() >> 32) as u32
    }

    /// What [`RequestId::to_raw`] gave; `None` for zero.
    #[inline]
    pub const fn from_raw(raw: u64) -> Option<RequestId> {
        match NonZeroU64::new(raw) {
            Some(raw) => Some(RequestId(raw)),
            None => None,
        }
    }

    /// For a program that has no types of Rust's. Not zero.
    #[inline]
    pub fn to_raw(self) -> u64 {
        self.0.get()
    }
}

impl SocketId {
    /// As of [`RequestId`].
    pub(crate) const UNSET: SocketId = SocketId(RequestId::UNSET);

    /// What a handshake becomes when it is accepted.
    #[inline]
    pub fn of(handshake: RequestId) -> SocketId {
        SocketId(handshake)
    }

    /// The handshake that it was.
    #[inline]
    pub fn handshake(self) -> RequestId {
        self.0
    }

    /// As of [`RequestId`].
    #[inline]
    pub(crate) fn exchange(self) -> ExchangeIndex {
        self.0.exchange()
    }

    /// As of [`RequestId`].
    #[inline]
    pub fn from_raw(raw: u64) -> Option<SocketId> {
        RequestId::from_raw(raw).map(SocketId)
    }

    /// As of [`RequestId`].
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

    /// The wire that has this number, which is its token for the driver.
    #[inline]
    pub const fn from_raw(raw: u64) -> Option<WireId> {
        match NonZeroU64::new(raw) {
            Some(raw) => Some(WireId(raw)),
            None => None,
        }
    }

    /// Its number. Not zero.
    #[inline]
    pub fn to_raw(self) -> u64 {
        self.0.get()
    }
}

/// A publish whose record waits for the log of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct PublishId(NonZeroU64);

impl PublishId {
    /// That of the record at this place in the outbox.
    pub(crate) fn new(place: Seq) -> PublishId {
        PublishId(NonZeroU64::new(place).expect("no place in a ring is zero"))
    }

    /// As of [`RequestId`].
    pub fn from_raw(raw: u64) -> Option<PublishId> {
        NonZeroU64::new(raw).map(PublishId)
    }

    /// As of [`RequestId`].
    pub fn to_raw(self) -> u64 {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_go_round_without_the_two_that_mean_none() {
        assert_eq!(serial_after(0), 1);
        assert_eq!(serial_after(SERIAL_NONE - 2), SERIAL_NONE - 1);
        assert_eq!(serial_after(SERIAL_NONE - 1), 1);
    }

    #[test]
    fn a_number_has_both_its_parts() {
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
