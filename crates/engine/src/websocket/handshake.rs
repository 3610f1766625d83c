//! Handshakes that the program has to decide on.

use fermata_proto::ws::handshake::Handshake;

use crate::id::RequestId;
use crate::misuse::Misuse;

/// A handshake that the program has to decide on.
pub(crate) struct Upgrade {
    /// The request, since another one may follow it on the connection.
    pub handle: RequestId,
    pub route: u16,
    pub handshake: Handshake,
    /// The server's choice: its place in the route's list, or `PROTOCOL_NONE`.
    pub protocol: u8,
    /// The subprotocols that the client offers.
    pub offered: Vec<Box<[u8]>>,
}

/// How a handshake is accepted.
pub(crate) struct Accepted<'a> {
    pub route: u16,
    pub handshake: &'a Handshake,
    /// The server's choice of a subprotocol: its place in the route's list, or `PROTOCOL_NONE`.
    pub protocol: u8,
    /// The program's choice.
    pub own: Option<&'a [u8]>,
    pub headers: &'a [(&'a [u8], &'a [u8])],
}

/// Why a handshake was not accepted. The request is still open and has to be answered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// See `Gone`.
    #[error("the request is gone: its client has left or it has been answered")]
    Gone,
    /// An argument is not acceptable.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}
