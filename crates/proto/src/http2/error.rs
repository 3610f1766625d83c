//! Protocol violations of an HTTP/2 peer and their error codes.

use super::flood::Flood;
use super::hpack;

/// An error code (RFC 9113, section 7). Unregistered codes are preserved.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// No error.
    pub const NO_ERROR: Self = Self(0x0);
    /// Protocol violation without a more specific code.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// Internal error of the sender.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// The peer sent more than the flow-control window allows.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// SETTINGS was not acknowledged in time.
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    /// A frame arrived on a half-closed or closed stream.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame has an invalid length.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The request was not processed and can be sent again.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is no longer needed.
    pub const CANCEL: Self = Self(0x8);
    /// The header compression state is corrupt.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The connection behind a CONNECT was reset or closed.
    pub const CONNECT_ERROR: Self = Self(0xa);
    /// The peer causes excessive load.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// TLS does not meet the minimum security requirements.
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    /// The request requires HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    /// Returns the name of a registered code, or an empty string.
    #[must_use]
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(self.0 as usize).unwrap_or(&"unregistered")
    }
}

impl std::fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:#x})", self.name(), self.0)
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A protocol violation. For a connection error, GOAWAY was written and no further input is parsed; for a stream error,
/// the stream was reset.
///
/// `Display` is one sentence for the log and the debug data of GOAWAY. It never repeats the peer's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The connection does not start with the preface and SETTINGS (RFC 9113, section 3.4).
    #[error("the connection does not begin with the preface of HTTP/2")]
    Preface,
    /// A frame longer than SETTINGS_MAX_FRAME_SIZE (RFC 9113, section 4.2).
    #[error("a frame is longer than SETTINGS_MAX_FRAME_SIZE")]
    FrameTooLong,
    /// A frame whose length is invalid for its type (RFC 9113, section 4.2).
    #[error("a frame has a length that is invalid for its type")]
    FrameLength,
    /// A stream frame on stream 0, or a connection frame on another stream (RFC 9113, section 6).
    #[error("a frame of this type is not allowed on this stream")]
    FrameStream,
    /// A stream identifier that the peer may not use (RFC 9113, section 5.1.1).
    #[error("a stream has an identifier that this side may not use")]
    StreamNumber,
    /// The stream identifier is lower than the identifier of an earlier stream (RFC 9113, section 5.1.1).
    #[error("streams are not opened in ascending order")]
    StreamOrder,
    /// A frame on an idle stream (RFC 9113, section 5.1).
    #[error("a frame is on a stream that was never opened")]
    StreamIdle,
    /// A frame after the end of its stream (RFC 9113, section 5.1).
    #[error("a frame is on a stream that has ended")]
    StreamClosed,
    /// Another frame within a header block (RFC 9113, section 6.10).
    #[error("a header block is interrupted by another frame")]
    ContinuationMissing,
    /// CONTINUATION without a header block to continue (RFC 9113, section 6.10).
    #[error("a CONTINUATION frame continues nothing")]
    ContinuationUnexpected,
    /// Padding at least as long as the frame (RFC 9113, section 6.1).
    #[error("the padding of a frame is longer than the frame")]
    Padding,
    /// A stream that depends on itself (RFC 7540, section 5.3.1).
    #[error("a stream depends on itself")]
    PrioritySelf,
    /// A header block that cannot be decoded (RFC 9113, section 4.3).
    #[error("{0}")]
    Compression(hpack::Error),
    /// A header block far above the limits, which is not decoded at all.
    #[error("a header block is too large")]
    BlockTooLarge,
    /// A setting with an invalid value (RFC 9113, section 6.5.2).
    #[error("a setting has an invalid value")]
    SettingValue,
    /// SETTINGS_INITIAL_WINDOW_SIZE is above 2^31-1, or makes a window exceed this value (RFC 9113, sections 6.5.2 and 6.9.2).
    #[error("SETTINGS_INITIAL_WINDOW_SIZE makes a window too large")]
    SettingWindow,
    /// SETTINGS were not acknowledged in time (RFC 9113, section 6.5.3).
    #[error("SETTINGS were not acknowledged in time")]
    SettingsTimeout,
    /// An acknowledgement of SETTINGS that were not sent (RFC 9113, section 6.5).
    #[error("SETTINGS were acknowledged that were not sent")]
    SettingsAcknowledgement,
    /// WINDOW_UPDATE with an increment of 0 (RFC 9113, section 6.9).
    #[error("WINDOW_UPDATE has an increment of 0")]
    WindowIncrement,
    /// WINDOW_UPDATE that makes a window exceed 2^31-1 (RFC 9113, section 6.9.1).
    #[error("WINDOW_UPDATE makes a window larger than 2^31-1")]
    WindowTooLarge,
    /// DATA that exceeds the window (RFC 9113, section 6.9.1).
    #[error("DATA exceeds the window of flow control")]
    WindowExceeded,
    /// PUSH_PROMISE, which clients must not send and which this side disables (RFC 9113, section 8.4).
    #[error("PUSH_PROMISE is not allowed")]
    PushPromise,
    /// PRIORITY_UPDATE for a stream that no client can open (RFC 9218, section 7.1).
    #[error("PRIORITY_UPDATE names no stream of a client")]
    PriorityUpdate,
    /// DATA whose length differs from `content-length` (RFC 9113, section 8.1.1).
    #[error("the length of DATA differs from content-length")]
    ContentLength,
    /// DATA before the head, or a second head (RFC 9113, section 8.1).
    #[error("the parts of a message are out of order")]
    MessageOrder,
    /// Trailers without END_STREAM (RFC 9113, section 8.1).
    #[error("trailers do not end their stream")]
    TrailersUnfinished,
    /// A malformed head or trailers; for a request see [`super::Event::Refused`] (RFC 9113, section 8.1.1).
    #[error("a head or trailers are malformed")]
    Malformed,
    /// Too many interim responses before a final response.
    #[error("a response is preceded by too many interim ones")]
    InterimTooMany,
    /// Trailers that exceed the part of the limits that the head has left.
    #[error("trailers are too large")]
    TrailersTooLarge,
    /// Output of a stream waited for a window longer than `Limits::write_timeout_ms`.
    #[error("the client has read no data of a stream for too long")]
    Stalled,
    /// No violation: this side closed the connection with [`super::Connection::abort`].
    #[error("this side has ended the connection")]
    Aborted,
    /// Too many frames that cost the sender less than the receiver.
    #[error("too many frames: {0}")]
    Flood(Flood),
}

impl Violation {
    /// Returns the error code to send.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::FrameTooLong | Self::FrameLength => ErrorCode::FRAME_SIZE_ERROR,
            Self::StreamClosed => ErrorCode::STREAM_CLOSED,
            Self::Compression(_) => ErrorCode::COMPRESSION_ERROR,
            Self::SettingWindow | Self::WindowTooLarge | Self::WindowExceeded => {
                ErrorCode::FLOW_CONTROL_ERROR
            }
            Self::SettingsTimeout => ErrorCode::SETTINGS_TIMEOUT,
            Self::Stalled => ErrorCode::CANCEL,
            Self::Aborted => ErrorCode::NO_ERROR,
            Self::BlockTooLarge
            | Self::TrailersTooLarge
            | Self::InterimTooMany
            | Self::Flood(_) => ErrorCode::ENHANCE_YOUR_CALM,
            _ => ErrorCode::PROTOCOL_ERROR,
        }
    }
}
