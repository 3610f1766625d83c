//! Close codes (RFC 6455, section 7.4).

/// Registered close codes (RFC 6455, section 7.4.1, and the IANA registry). Other codes are plain numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum CloseCode {
    /// The purpose of the connection is fulfilled.
    Normal = 1000,
    /// The server shuts down or the user leaves the page.
    GoingAway = 1001,
    /// The peer violated the protocol.
    ProtocolError = 1002,
    /// Data of a type that the endpoint cannot accept.
    Unsupported = 1003,
    /// The Close frame held no code. Never sent.
    NoStatus = 1005,
    /// The connection ended without a Close frame. Never sent.
    Abnormal = 1006,
    /// Text that is not UTF-8, or content inconsistent with its type.
    InvalidPayload = 1007,
    /// The message violates a policy of the application.
    PolicyViolation = 1008,
    /// The message is longer than the endpoint accepts.
    MessageTooBig = 1009,
    /// The server did not negotiate an extension that the client requires.
    ExtensionRequired = 1010,
    /// The server encountered an unexpected error.
    InternalError = 1011,
    /// The server is restarting; the client may reconnect immediately.
    ServiceRestart = 1012,
    /// The server is overloaded; the client should reconnect later.
    TryAgainLater = 1013,
    /// A gateway received an invalid response from its upstream server.
    BadGateway = 1014,
    /// The TLS handshake failed. Never sent.
    TlsHandshake = 1015,
}

/// Returns true if a Close frame may carry this code.
///
/// 3000 to 4999 are for libraries and applications. Below that, only registered codes that are meant to be sent.
#[must_use]
pub fn valid_code(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}
