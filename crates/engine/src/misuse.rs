//! What an embedder's program asks for that cannot be done: mistakes of the programmer, each with what to write instead.

use fermata_hub::{CHANNEL_BYTES_MAX, INFO_BYTES_MAX, PublishError, USER_BYTES_MAX};
use fermata_proto::ws::close::REASON_BYTES_MAX;

/// Longest part of a name of the program's that a message shows.
const SHOWN_CHARS_MAX: usize = 64;

/// An argument that is not acceptable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// It is no name of a channel.
    #[error(
        "channel name \"{shown}\": {problem}; use 1 to {CHANNEL_BYTES_MAX} bytes of printable text"
    )]
    ChannelName {
        /// The beginning of it.
        shown: String,
        /// What is wrong with it.
        problem: NameProblem,
    },
    /// An event's name ends its line.
    #[error("event name: it contains a line break or NUL; use one line")]
    EventName,
    /// So does its id.
    #[error("event id: it contains a line break or NUL; use one line")]
    EventId,
    /// Its name or its data is binary.
    #[error(
        "event: it is not valid UTF-8, which events are by definition; encode binary data, for example as base64"
    )]
    EventEncoding,
    /// It is larger than its client may be sent.
    #[error(
        "event: it has {bytes} bytes, more than event_bytes_max ({max}); send it in parts or raise the setting"
    )]
    EventBytes {
        /// Bytes that it has.
        bytes: usize,
        /// The setting.
        max: usize,
    },
    /// The ring refuses the event.
    #[error("{0}{setting}", setting = setting_of(.0))]
    Record(PublishError),
    /// A user's name that presence cannot keep.
    #[error("user: use 1 to {USER_BYTES_MAX} bytes of UTF-8")]
    User,
    /// More about a user than presence keeps.
    #[error("info: its JSON has more than {INFO_BYTES_MAX} bytes")]
    UserInfo,
    /// A hold of no channel, or of too many.
    #[error("a hold has 1 to {max} channels (channels_per_hold_max), this one has {count}")]
    HoldChannels {
        /// Channels that it has.
        count: usize,
        /// The setting.
        max: usize,
    },
    /// A hold that the GRIP edge in front cannot be told, and why.
    #[error("{0}")]
    Edge(String),
    /// A hold in a format that the GRIP edge in front has no events in.
    #[error("clients of a GRIP edge get events as text/event-stream alone; hold them so")]
    EdgeFormat,
    /// A channel twice in one hold.
    #[error("channel name \"{0}\" is given twice to one hold")]
    HoldChannelTwice(String),
    /// A stream that ends before its `Content-Length`.
    #[error("the stream has ended {0} bytes before the length it was given")]
    StreamShort(u64),
    /// A stream that goes on behind its `Content-Length`.
    #[error(
        "the stream is longer than the length it was given: a piece of {piece} bytes with {left} left"
    )]
    StreamLong {
        /// Bytes of the piece.
        piece: usize,
        /// Bytes that there is room for.
        left: u64,
    },
    /// A message for the workers of other servers that is too large.
    #[error(
        "the message takes {bytes} bytes, but between servers at most {max} are allowed (event_bytes_max)"
    )]
    ServersMessageBytes {
        /// Bytes that it has.
        bytes: usize,
        /// The setting.
        max: usize,
    },
    /// A message for a socket of another worker that is too large.
    #[error(
        "the message has {bytes} bytes, but between workers at most {max} are allowed (event_bytes_max)"
    )]
    SocketMessageBytes {
        /// Bytes that it has.
        bytes: usize,
        /// The setting.
        max: usize,
    },
    /// A text message that is binary.
    #[error(
        "the message is not valid UTF-8, which text messages are by definition; send it as binary"
    )]
    TextEncoding,
    /// It is no id of a socket.
    #[error("\"{0}\" is no id of a socket; use what WebSocket::id() has returned")]
    SocketId(String),
    /// The socket is in the channel.
    #[error("the socket has joined the channel \"{0}\" already; leave() it first")]
    Joined(String),
    /// The socket may join no other channel.
    #[error(
        "the socket is in {max} channels already (channels_per_hold_max); leave() one before it joins \"{channel}\""
    )]
    SocketChannels {
        /// The setting.
        max: usize,
        /// The channel that it would be in.
        channel: String,
    },
    /// A close code that no peer may send (RFC 6455, 7.4).
    #[error("close code {0} must not be sent; use 1000 to 1003, 1007 to 1014 or 3000 to 4999")]
    CloseCode(u16),
    /// A close reason that is too long or no text.
    #[error("the close reason is not UTF-8 or has more than {REASON_BYTES_MAX} bytes; shorten it")]
    CloseReason,
    /// What is to be accepted is an ordinary request.
    #[error("the request is no WebSocket handshake; answer it with a response")]
    NoHandshake,
    /// A subprotocol that the client does not speak.
    #[error(
        "the client does not offer the subprotocol \"{0}\"; accept one of those it offers, or none"
    )]
    Subprotocol(String),
    /// A header of the handshake that the server writes by itself.
    #[error("the header {0} is the server's own; leave it out")]
    ReservedHeader(String),
    /// A header that cannot be written.
    #[error("the header \"{0}\" is malformed; use a token and one line of text")]
    Header(String),
}

/// What is wrong with a channel's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameProblem {
    /// It has no byte.
    #[error("it is empty")]
    Empty,
    /// It has too many of them.
    #[error("it has more than {CHANNEL_BYTES_MAX} bytes")]
    Long,
    /// It is binary.
    #[error("it is not valid UTF-8")]
    Encoding,
    /// A line break, for example.
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

/// A text of the program's, on one line.
fn escaped(text: &[u8]) -> String {
    String::from_utf8_lossy(text).escape_debug().to_string()
}

/// The setting that bounds what the ring has refused.
fn setting_of(error: &PublishError) -> &'static str {
    match error {
        PublishError::TooLarge { .. } => " (event_bytes_max)",
        _ => "",
    }
}
