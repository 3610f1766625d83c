//! Close codes (RFC 6455, 7.4).

/// The codes that have a name (RFC 6455, 7.4.1 and the IANA registry). Others are plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum CloseCode {
    /// The purpose is fulfilled.
    Normal = 1000,
    /// A server goes down or a page is left.
    GoingAway = 1001,
    /// The peer broke the protocol.
    ProtocolError = 1002,
    /// Data of a kind this end does not take.
    Unsupported = 1003,
    /// The Close frame held no code. Never sent.
    NoStatus = 1005,
    /// The connection ended without a Close frame. Never sent.
    Abnormal = 1006,
    /// Text that is not UTF-8, or content that does not fit its kind.
    InvalidPayload = 1007,
    /// The application forbids what was sent.
    PolicyViolation = 1008,
    /// A message longer than this end accepts.
    MessageTooBig = 1009,
    /// The client misses an extension the server did not negotiate.
    ExtensionRequired = 1010,
    /// This end failed.
    InternalError = 1011,
    /// The server restarts; come back in a moment.
    ServiceRestart = 1012,
    /// The server is overloaded; come back later.
    TryAgainLater = 1013,
    /// A gateway got a bad answer from behind.
    BadGateway = 1014,
    /// The TLS handshake failed. Never sent.
    TlsHandshake = 1015,
}

/// Whether a Close frame may carry this code.
///
/// 3000 to 4999 belong to libraries and applications; below that only what is registered and meant for the wire.
#[must_use]
pub fn valid_code(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
