//! Protocol violations of a WebSocket peer and their close codes.

use super::close_code::CloseCode;

/// A protocol violation. Each one closes the connection: send a Close frame with [`Violation::close_code`] and stop
/// reading.
///
/// `Display` is one sentence with cause and fix, for the log and the reason of the Close frame, and short enough for
/// it. It never repeats the peer's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A reserved bit is set without an extension that defines it, or after the first frame of a message (RFC 6455,
    /// section 5.2; RFC 7692, section 6).
    #[error("a reserved bit is set; negotiate the extension that uses it")]
    ReservedBits,
    /// Opcode 3 to 7 or 11 to 15 (RFC 6455, section 5.2).
    #[error("the opcode is reserved; use continuation, text, binary, close, ping or pong")]
    ReservedOpcode,
    /// A Ping or Pong frame without FIN (RFC 6455, section 5.5).
    #[error("a control frame is fragmented; send it in one frame")]
    ControlFragmented,
    /// A Ping or Pong frame with more than 125 bytes of payload (RFC 6455, section 5.5).
    #[error("a control frame is too long; send at most 125 bytes")]
    ControlTooLong,
    /// A Close frame without FIN (RFC 6455, section 5.5).
    #[error("a close frame is fragmented; send it in one frame")]
    CloseFragmented,
    /// A Close frame with more than 125 bytes of payload (RFC 6455, section 5.5).
    #[error("a close frame is too long; send at most 125 bytes")]
    CloseTooLong,
    /// A payload length that is not in its shortest form (RFC 6455, section 5.2).
    #[error("a payload length is not in its shortest form; use 7, 16 or 64 bits as needed")]
    LengthNotMinimal,
    /// A payload length with its highest bit set (RFC 6455, section 5.2).
    #[error("a payload length has its highest bit set; it must be below 2^63")]
    LengthInvalid,
    /// An unmasked frame from a client (RFC 6455, section 5.1).
    #[error("a client's frame is not masked; mask every frame")]
    MaskMissing,
    /// A masked frame from a server (RFC 6455, section 5.1).
    #[error("a server's frame is masked; mask no frame")]
    MaskUnexpected,
    /// A continuation frame without a message to continue (RFC 6455, section 5.4).
    #[error("a continuation frame continues nothing; start with a text or binary frame")]
    ContinuationUnexpected,
    /// A new message before the end of a fragmented one (RFC 6455, section 5.4).
    #[error("a message starts inside another one; finish that one first")]
    ContinuationMissing,
    /// A Close frame with a payload of one byte (RFC 6455, section 5.5.1).
    #[error("a close frame holds half a close code; send two bytes or none")]
    CloseTruncated,
    /// A close code that must not be sent (RFC 6455, section 7.4).
    #[error("the close code must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999")]
    CloseCodeInvalid,
    /// A close reason that is not UTF-8 (RFC 6455, sections 5.5.1 and 8.1).
    #[error("a close reason is not UTF-8; encode it")]
    CloseReasonNotUtf8,
    /// A text message that is not UTF-8 (RFC 6455, section 8.1).
    #[error("a text message is not UTF-8; encode it or send it as binary")]
    TextNotUtf8,
    /// A compressed message that is not valid DEFLATE data (RFC 7692, section 7.2.2).
    #[error("a compressed message is not valid; compress it with DEFLATE as negotiated")]
    CompressionInvalid,
    /// A frame longer than the limit (RFC 6455, section 10.4).
    #[error("a frame is longer than this end accepts; split the message into smaller ones")]
    FrameTooLarge,
    /// A message longer than the limit, before or after decompression (RFC 6455, section 10.4).
    #[error("a message is longer than this end accepts; split it into smaller ones")]
    MessageTooLarge,
}

impl Violation {
    /// Returns true if the violation was in a Close frame. No other Close frame follows such a frame.
    #[must_use]
    pub fn is_of_close_frame(&self) -> bool {
        matches!(
            self,
            Self::CloseFragmented
                | Self::CloseTooLong
                | Self::CloseTruncated
                | Self::CloseCodeInvalid
                | Self::CloseReasonNotUtf8
        )
    }

    /// Returns the code to close with (RFC 6455, section 7.4.1).
    #[must_use]
    pub fn close_code(&self) -> CloseCode {
        match self {
            Self::CloseReasonNotUtf8 | Self::TextNotUtf8 | Self::CompressionInvalid => {
                CloseCode::InvalidPayload
            }
            Self::FrameTooLarge | Self::MessageTooLarge => CloseCode::MessageTooBig,
            _ => CloseCode::ProtocolError,
        }
    }
}
