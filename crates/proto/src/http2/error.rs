//! What a peer can do wrong in HTTP/2, and the error code it deserves.

use super::flood::Flood;
use super::hpack;

/// An error code (RFC 9113, 7). Codes that nobody has registered are kept as they came.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Nothing is wrong.
    pub const NO_ERROR: Self = Self(0x0);
    /// The protocol was broken, and no other code says how.
    pub const PROTOCOL_ERROR: Self = Self(0x1);
    /// The fault is on this side.
    pub const INTERNAL_ERROR: Self = Self(0x2);
    /// More was sent than the window allows.
    pub const FLOW_CONTROL_ERROR: Self = Self(0x3);
    /// SETTINGS was not acknowledged in time.
    pub const SETTINGS_TIMEOUT: Self = Self(0x4);
    /// A frame came for a stream that was half-closed or closed.
    pub const STREAM_CLOSED: Self = Self(0x5);
    /// A frame has a length that it cannot have.
    pub const FRAME_SIZE_ERROR: Self = Self(0x6);
    /// The request was not looked at and can be sent again.
    pub const REFUSED_STREAM: Self = Self(0x7);
    /// The stream is no longer wanted.
    pub const CANCEL: Self = Self(0x8);
    /// A header block could not be decoded.
    pub const COMPRESSION_ERROR: Self = Self(0x9);
    /// The connection behind CONNECT was reset.
    pub const CONNECT_ERROR: Self = Self(0xa);
    /// The peer asks for more work than is reasonable.
    pub const ENHANCE_YOUR_CALM: Self = Self(0xb);
    /// TLS is too weak.
    pub const INADEQUATE_SECURITY: Self = Self(0xc);
    /// The request has to come over HTTP/1.1.
    pub const HTTP_1_1_REQUIRED: Self = Self(0xd);

    /// The name of a registered code.
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

/// A broken rule. Of the connection: GOAWAY was written, and nothing more is read. Of a stream: it was reset.
///
/// `Display` is one sentence fit for the log and for the debug data of GOAWAY; it never repeats bytes of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The connection does not begin with the preface and SETTINGS (RFC 9113, 3.4).
    #[error("the connection does not begin with the preface of HTTP/2")]
    Preface,
    /// A frame longer than SETTINGS_MAX_FRAME_SIZE (RFC 9113, 4.2).
    #[error("a frame is longer than SETTINGS_MAX_FRAME_SIZE")]
    FrameTooLong,
    /// A frame whose length its kind does not allow (RFC 9113, 4.2).
    #[error("a frame has a length that its kind does not have")]
    FrameLength,
    /// A frame of a stream on stream 0, or one of the connection on another (RFC 9113, 6).
    #[error("a frame is on a stream where its kind does not belong")]
    FrameStream,
    /// A client's stream with an even number, or any that only the other side may open (RFC 9113, 5.1.1).
    #[error("a stream has a number that this side may not use")]
    StreamNumber,
    /// A stream was opened behind one with a higher number (RFC 9113, 5.1.1).
    #[error("streams are not opened in ascending order")]
    StreamOrder,
    /// A frame on a stream that was not opened (RFC 9113, 5.1).
    #[error("a frame is on a stream that was never opened")]
    StreamIdle,
    /// A frame behind the end of its stream (RFC 9113, 5.1).
    #[error("a frame is on a stream that has ended")]
    StreamClosed,
    /// Another frame inside a header block (RFC 9113, 6.10).
    #[error("a header block is interrupted by another frame")]
    ContinuationMissing,
    /// CONTINUATION without a header block to continue (RFC 9113, 6.10).
    #[error("a CONTINUATION frame continues nothing")]
    ContinuationUnexpected,
    /// Padding as long as the frame or longer (RFC 9113, 6.1).
    #[error("the padding of a frame is longer than the frame")]
    Padding,
    /// A stream that depends on itself (RFC 7540, 5.3.1).
    #[error("a stream depends on itself")]
    PrioritySelf,
    /// A header block that cannot be decoded (RFC 9113, 4.3).
    #[error("{0}")]
    Compression(hpack::Error),
    /// A header block far above the limits, so that it is not even followed.
    #[error("a header block is too large")]
    BlockTooLarge,
    /// A setting with a value that it cannot have (RFC 9113, 6.5.2).
    #[error("a setting has a value that it cannot have")]
    SettingValue,
    /// SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1, or one that takes a window there (RFC 9113, 6.5.2 and 6.9.2).
    #[error("SETTINGS_INITIAL_WINDOW_SIZE makes a window too large")]
    SettingWindow,
    /// SETTINGS were not acknowledged in time (RFC 9113, 6.5.3).
    #[error("SETTINGS were not acknowledged in time")]
    SettingsTimeout,
    /// An acknowledgement of SETTINGS that were not sent (RFC 9113, 6.5).
    #[error("SETTINGS were acknowledged that were not sent")]
    SettingsAcknowledgement,
    /// WINDOW_UPDATE by nothing (RFC 9113, 6.9).
    #[error("WINDOW_UPDATE has an increment of 0")]
    WindowIncrement,
    /// A window above 2^31-1 (RFC 9113, 6.9.1).
    #[error("WINDOW_UPDATE makes a window larger than 2^31-1")]
    WindowTooLarge,
    /// DATA beyond the window (RFC 9113, 6.9.1).
    #[error("DATA exceeds the window of flow control")]
    WindowExceeded,
    /// PUSH_PROMISE, which no client may send and which this side has turned off (RFC 9113, 8.4).
    #[error("PUSH_PROMISE is not allowed")]
    PushPromise,
    /// PRIORITY_UPDATE for no stream of a client (RFC 9218, 7.1).
    #[error("PRIORITY_UPDATE names no stream of a client")]
    PriorityUpdate,
    /// More or less DATA than `content-length` says (RFC 9113, 8.1.1).
    #[error("the DATA is not as long as content-length says")]
    ContentLength,
    /// DATA before the head, or a second head (RFC 9113, 8.1).
    #[error("a message does not have its parts in order")]
    MessageOrder,
    /// Trailers without the end of the stream (RFC 9113, 8.1).
    #[error("trailers do not end their stream")]
    TrailersUnfinished,
    /// A head or trailers that are malformed; for a request see [`super::Event::Refused`] (RFC 9113, 8.1.1).
    #[error("a head or trailers are malformed")]
    Malformed,
    /// Interim responses without a final one.
    #[error("a response is preceded by too many interim ones")]
    InterimTooMany,
    /// Trailers above the limits of the head they belong to.
    #[error("trailers are too large")]
    TrailersTooLarge,
    /// Output waits for a window for longer than `Limits::write_timeout_ms`.
    #[error("the client takes no data of a stream for too long")]
    Stalled,
    /// Nothing: this side has ended the connection by [`super::Connection::abort`].
    #[error("this side has ended the connection")]
    Aborted,
    /// More of something cheap to send than is reasonable.
    #[error("too many frames: {0}")]
    Flood(Flood),
}

impl Violation {
    /// The code that goes on the wire.
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
