//! Errors in the options of a WebSocket route.

use fermata_proto::ws::extension::{WINDOW_BITS_MAX, WINDOW_BITS_MIN};

/// Maximum number of subprotocols of a route. A socket stores the number of its subprotocol.
pub(super) const PROTOCOLS_MAX: usize = 64;

/// An invalid option of a route, with a suggested fix.
#[derive(Debug, thiserror::Error)]
pub enum OptionError {
    /// An origin that no browser sends.
    #[error(
        "the origin \"{0}\" is malformed; write scheme://host or scheme://host:port, without a path, or ['*'] for all pages"
    )]
    Origin(String),
    /// The socket's URL instead of a page's origin.
    #[error(
        "the origin \"{origin}\" names the socket and would never match; name the page it is opened from: {page}"
    )]
    SocketOrigin {
        /// The origin as given.
        origin: String,
        /// The page that was probably meant.
        page: String,
    },
    /// Too many subprotocols.
    #[error("it has more than {PROTOCOLS_MAX} subprotocols; list fewer")]
    ProtocolCount,
    /// Not a token (RFC 6455, section 4.1).
    #[error("the subprotocol \"{0}\" is malformed; use letters, digits and .-_ as in \"chat.v2\"")]
    Protocol(String),
    /// A repeated subprotocol.
    #[error("the subprotocol \"{0}\" is listed twice; remove one")]
    ProtocolTwice(String),
    /// A window size outside RFC 7692, or unsupported by zlib.
    #[error("windowBits is {0}; give {WINDOW_BITS_MIN} to {WINDOW_BITS_MAX}")]
    WindowBits(u8),
    /// A level that zlib does not support.
    #[error("level is {0}; give 1 (fast) to 9 (small)")]
    Level(u8),
    /// Compression with context takeover cannot skip messages.
    #[error(
        "serverContextTakeover and the queue policy drop-oldest exclude each other: clients could not read what follows a dropped message; give up one of them"
    )]
    TakeoverDropsOldest,
    /// A limit that ordinary clients would exceed.
    #[error("{name} is too small; give at least {min}")]
    TooSmall {
        /// The option.
        name: &'static str,
        /// Its minimum.
        min: u64,
    },
    /// Too many WebSocket routes.
    #[error("there are 65,536 others; use parameters in paths")]
    Count,
}
