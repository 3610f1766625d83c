//! What may be wrong with the options of a WebSocket route.

use fermata_proto::ws::extension::{WINDOW_BITS_MAX, WINDOW_BITS_MIN};

/// Most subprotocols of a route; a socket remembers its own by number.
pub(super) const PROTOCOLS_MAX: usize = 64;

/// What is wrong with an option of a route, and what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum OptionError {
    /// An origin that no browser sends.
    #[error(
        "the origin \"{0}\" is malformed; write scheme://host or scheme://host:port, without a path, or ['*'] for all pages"
    )]
    Origin(String),
    /// The address of the socket in the place of a page's.
    #[error(
        "the origin \"{origin}\" names the socket and would never match; name the page it is opened from: {page}"
    )]
    SocketOrigin {
        /// As it was given.
        origin: String,
        /// The page that is likely meant.
        page: String,
    },
    /// More subprotocols than a socket has numbers for.
    #[error("it has more than {PROTOCOLS_MAX} subprotocols; list fewer")]
    ProtocolCount,
    /// No token (RFC 6455, 4.1).
    #[error("the subprotocol \"{0}\" is malformed; use letters, digits and .-_ as in \"chat.v2\"")]
    Protocol(String),
    /// The same subprotocol again.
    #[error("the subprotocol \"{0}\" is listed twice; remove one")]
    ProtocolTwice(String),
    /// A window that RFC 7692 does not have, or that zlib cannot make.
    #[error("windowBits is {0}; give {WINDOW_BITS_MIN} to {WINDOW_BITS_MAX}")]
    WindowBits(u8),
    /// A level that zlib does not have.
    #[error("level is {0}; give 1 (fast) to 9 (small)")]
    Level(u8),
    /// What is compressed refers to what a client may not have got.
    #[error(
        "serverContextTakeover and the queue policy drop-oldest exclude each other: clients could not read what follows a dropped message; give up one of them"
    )]
    TakeoverDropsOldest,
    /// A bound that a client would meet that does nothing unusual.
    #[error("{name} is too small; give at least {min}")]
    TooSmall {
        /// The option.
        name: &'static str,
        /// Its least value.
        min: u64,
    },
    /// More routes than there are numbers for.
    #[error("there are 65,536 others; use parameters in paths")]
    Count,
}
