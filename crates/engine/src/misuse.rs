//! Invalid requests of an application: programming mistakes, each with a suggested fix.

use fermata_hub::{CHANNEL_BYTES_MAX, INFO_BYTES_MAX, PublishError, USER_BYTES_MAX};
use fermata_proto::ws::close::REASON_BYTES_MAX;

/// Maximum length of a user-supplied name in a message, in characters.
const SHOWN_CHARS_MAX: usize = 64;

/// An unacceptable argument.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// Not a valid channel name.
    #[error(
        "channel name \"{shown}\": {problem}; use 1 to {CHANNEL_BYTES_MAX} bytes of printable text"
    )]
    ChannelName {
        /// Its start.
        shown: String,
        /// The reason.
        problem: NameProblem,
    },
    /// An event name with a line break.
    #[error("event name: it contains a line break or NUL; use one line")]
    EventName,
    /// An event id with a line break.
    #[error("event id: it contains a line break or NUL; use one line")]
    EventId,
    /// Event name or data that is not UTF-8.
    #[error(
        "event: it is not valid UTF-8, which events are by definition; encode binary data, for example as base64"
    )]
    EventEncoding,
    /// An event larger than `event_bytes_max`.
    #[error(
        "event: it has {bytes} bytes, more than event_bytes_max ({max}); send it in parts or raise the setting"
    )]
    EventBytes {
        /// Size of the event in bytes.
        bytes: usize,
        /// The setting, in bytes.
        max: usize,
    },
    /// An event larger than the cluster log accepts.
    #[error(
        "event: it has {bytes} bytes with its headers, and the log of the cluster takes {max} (max_payload of NATS); send it in \
         parts, or raise max_payload there; an event_bytes_max below it is checked earlier"
    )]
    LogEventBytes {
        /// Size in the log, in bytes.
        bytes: u64,
        /// The log's limit, in bytes.
        max: u64,
    },
    /// An event that the ring refuses.
    #[error("{0}{setting}", setting = setting_of(.0))]
    Record(PublishError),
    /// A user name that presence cannot store.
    #[error("user: use 1 to {USER_BYTES_MAX} bytes of UTF-8")]
    User,
    /// User info larger than presence stores.
    #[error("info: its JSON has more than {INFO_BYTES_MAX} bytes")]
    UserInfo,
    /// A hold with no channel or too many.
    #[error("a hold has 1 to {max} channels (channels_per_hold_max), this one has {count}")]
    HoldChannels {
        /// Number of channels of the hold.
        count: usize,
        /// The setting `channels_per_hold_max`.
        max: usize,
    },
    /// A hold that cannot be sent to the GRIP edge in front; contains the reason.
    #[error("{0}")]
    Edge(String),
    /// A hold in a format that the GRIP edge in front does not support.
    #[error("a GRIP edge supports only text/event-stream; hold its clients in that format")]
    EdgeFormat,
    /// A channel listed twice in one hold.
    #[error("channel name \"{0}\" is given twice to one hold")]
    HoldChannelTwice(String),
    /// Too many open readers of channels.
    #[error(
        "this worker has {max} open readers of channels, which is the maximum; release a reader when its loop ends"
    )]
    TooManyReaders {
        /// Maximum number.
        max: usize,
    },
    /// A stream that ends before its `Content-Length`.
    #[error("the stream ended {0} bytes before its announced length")]
    StreamShort(u64),
    /// A stream longer than its `Content-Length`.
    #[error("the stream exceeds its announced length: a piece of {piece} bytes with {left} left")]
    StreamLong {
        /// Size of the piece in bytes.
        piece: usize,
        /// Number of bytes left of the `Content-Length`.
        left: u64,
    },
    /// A message for workers of other servers that is too large.
    #[error(
        "the message takes {bytes} bytes, but between servers at most {max} are allowed (event_bytes_max)"
    )]
    ServersMessageBytes {
        /// Size in bytes.
        bytes: usize,
        /// The setting `event_bytes_max`.
        max: usize,
    },
    /// A message for a socket of another worker that is too large.
    #[error(
        "the message has {bytes} bytes, but between workers at most {max} are allowed (event_bytes_max)"
    )]
    SocketMessageBytes {
        /// Size in bytes.
        bytes: usize,
        /// The setting `event_bytes_max`.
        max: usize,
    },
    /// A text message that is not UTF-8.
    #[error(
        "the message is not valid UTF-8, which text messages are by definition; send it as binary"
    )]
    TextEncoding,
    /// Not a socket id.
    #[error("\"{0}\" is not a socket id; use the result of WebSocket::id()")]
    SocketId(String),
    /// The socket is already in the channel.
    #[error("the socket has joined the channel \"{0}\" already; leave() it first")]
    Joined(String),
    /// The socket is in the maximum number of channels.
    #[error(
        "the socket is in {max} channels already (channels_per_hold_max); leave() one before it joins \"{channel}\""
    )]
    SocketChannels {
        /// The setting `channels_per_hold_max`.
        max: usize,
        /// The channel to join.
        channel: String,
    },
    /// A close code that must not be sent (RFC 6455, section 7.4).
    #[error("close code {0} must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999")]
    CloseCode(u16),
    /// A close reason that is too long or not UTF-8.
    #[error("the close reason is not UTF-8 or has more than {REASON_BYTES_MAX} bytes; shorten it")]
    CloseReason,
    /// An ordinary request instead of a handshake.
    #[error("the request is not a WebSocket handshake; send a response")]
    NoHandshake,
    /// A subprotocol that the client does not offer.
    #[error(
        "the client does not offer the subprotocol \"{0}\"; accept one of those it offers, or none"
    )]
    Subprotocol(String),
    /// A handshake header that the server writes itself.
    #[error("the server writes the header {0}; remove it")]
    ReservedHeader(String),
    /// A malformed header.
    #[error("the header \"{0}\" is malformed; use a token and one line of text")]
    Header(String),
}

/// Reason why a channel name is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// No bytes.
    #[error("it is empty")]
    Empty,
    /// Too many bytes.
    #[error("it has more than {CHANNEL_BYTES_MAX} bytes")]
    Long,
    /// Not UTF-8.
    #[error("it is not valid UTF-8")]
    Encoding,
    /// A control character, for example a line break.
    #[error("it contains a control character")]
    Control,
}

impl Misuse {
    pub(crate) fn channel_name(name: &[u8], problem: NameProblem) -> Misuse {
        Misuse::ChannelName {
            shown: escaped(name).chars().take(SHOWN_CHARS_MAX).collect(),
            problem,
        }
    }

    pub(crate) fn subprotocol(name: &[u8]) -> Misuse {
        Misuse::Subprotocol(escaped(name))
    }

    pub(crate) fn socket_id(id: &[u8]) -> Misuse {
        let shown = &id[..id.len().min(SHOWN_CHARS_MAX)];
        Misuse::SocketId(escaped(shown))
    }

    pub(crate) fn header(name: &[u8]) -> Misuse {
        Misuse::Header(escaped(name))
    }
}

/// Escapes user-supplied text, on one line.
fn escaped(text: &[u8]) -> String {
    String::from_utf8_lossy(text).escape_debug().to_string()
}

/// Returns the setting whose limit the ring's error concerns.
fn setting_of(error: &PublishError) -> &'static str {
    match error {
        PublishError::TooLarge { .. } => " (event_bytes_max)",
        _ => "",
    }
}
