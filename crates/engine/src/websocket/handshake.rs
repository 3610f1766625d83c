//! Handshakes that the application accepts or refuses.

use fermata_proto::ws::handshake::Handshake;

use crate::id::RequestId;
use crate::misuse::Misuse;

/// A handshake that waits for the application.
pub(crate) struct Upgrade {
    /// The request; a later request may follow on the connection.
    pub handle: RequestId,
    pub route: u16,
    pub handshake: Handshake,
    /// Default subprotocol: index in the route's list, or `PROTOCOL_NONE`.
    pub protocol: u8,
    /// Subprotocols that the client offers.
    pub offered: Vec<Box<[u8]>>,
}

/// Parameters of an accepted handshake.
pub(crate) struct Accepted<'a> {
    pub route: u16,
    pub handshake: &'a Handshake,
    /// Default subprotocol: index in the route's list, or `PROTOCOL_NONE`.
    pub protocol: u8,
    /// Subprotocol selected by the application.
    pub own: Option<&'a [u8]>,
    pub headers: &'a [(&'a [u8], &'a [u8])],
}

/// Why a handshake was not accepted. The request is still open and needs a response.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// See `Gone`.
    #[error("the request is gone: its client has left or it has been answered")]
    Gone,
    /// An invalid argument.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}
