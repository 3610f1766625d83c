//! Reasons why a text is not a valid value of a setting. Each message is a clause that completes "that is …".

/// Reason why a text is not a valid value of a setting's [`Kind`](crate::Kind).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Empty text for a kind that requires a value.
    #[error("empty")]
    Empty,
    /// The word is not one of the setting's choices.
    #[error("not known")]
    Unknown,
    /// Several values, or no value, for a setting that is not a list.
    #[error("no single value")]
    Several,
    /// Number below the setting's range.
    #[error("too small")]
    TooSmall,
    /// Number above the setting's range.
    #[error("too large")]
    TooLarge,
    /// Number with a minus sign.
    #[error("negative")]
    Negative,
    /// Text that does not have this form.
    #[error("not {0}")]
    Form(&'static str),
    /// Text longer than this number of bytes.
    #[error("longer than {0} bytes")]
    TooLong(usize),
    /// Text that is too long for one line or contains control characters.
    #[error("too long, or not one line")]
    Line,
    /// Path that contains a NUL byte.
    #[error("not a path: it contains a NUL byte")]
    NulInPath,
    /// List of paths with an empty path.
    #[error("a list with an empty path")]
    EmptyPath,
    /// Invalid address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Invalid list of networks.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Invalid list of proxy headers.
    #[error(transparent)]
    ProxyHeaders(#[from] ProxyHeadersError),
}

/// Reason why a text is not an address or a list of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Empty text.
    #[error("empty")]
    Empty,
    /// Malformed address, with the reason.
    #[error("not an address: {0}")]
    Form(&'static str),
    /// Missing host.
    #[error("without a host; 0.0.0.0 means every IPv4 address")]
    NoHost,
    /// Missing port.
    #[error("without a port")]
    NoPort,
    /// Port that is not a valid port number.
    #[error("not a port from 0 to 65535")]
    Port,
    /// Another form of address where only `http://HOST:PORT` is accepted.
    #[error("not an http:// address, the only kind that is served here")]
    NotHttp,
    /// PROXY protocol requested twice.
    #[error("an address with {0} twice")]
    PrefaceTwice(&'static str),
    /// Permissions of a Unix socket that are not an octal number.
    #[error("with mode {0:?}; give an octal one such as 660")]
    Mode(String),
    /// Unknown parameter after the path of a Unix socket.
    #[error(
        "with {0:?} behind the path; mode=660, user=NAME and group=NAME may stand there, and a path with a question mark ends with one"
    )]
    Access(String),
    /// Control socket address that does not start with `unix:`.
    #[error("not a control address: it must start with unix:")]
    NotUnix,
    /// Unix socket without a path.
    #[error("without a path")]
    NoPath,
    /// Unix socket path that contains a NUL byte.
    #[error("not a path: it contains a NUL byte")]
    NulInPath,
    /// Unix socket path longer than the kernel accepts.
    #[error("{bytes} bytes of path, over {bytes_max}")]
    PathTooLong {
        /// Length of the path in bytes.
        bytes: usize,
        /// Maximum length in bytes.
        bytes_max: usize,
    },
    /// More addresses than a server can listen at.
    #[error("{count} addresses, over {count_max}")]
    TooMany {
        /// Number of addresses given.
        count: usize,
        /// Maximum number of addresses.
        count_max: usize,
    },
    /// Address that occurs twice.
    #[error("twice {0}")]
    Twice(String),
}

/// Reason why a text is not a list of networks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Empty list item.
    #[error("a list with an empty place")]
    EmptyPlace,
    /// Item that is not a network.
    #[error("not a list of networks: {0:?} is none")]
    Form(String),
    /// Network whose prefix length is out of range.
    #[error("not a list of networks: {text:?} has no prefix from 0 to {bits_max}")]
    Prefix {
        /// Network as written.
        text: String,
        /// Address length in bits: 32 or 128.
        bits_max: u8,
    },
    /// Network with nonzero bits after its prefix.
    #[error("not a list of networks: {0:?} has bits behind its prefix")]
    HostBits(String),
}

/// Reason why a text is not a list of proxy headers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeadersError {
    /// Unsupported header.
    #[error("a list of headers with {0:?}")]
    Unknown(String),
    /// Header that occurs twice.
    #[error("a list with {0} twice")]
    Twice(String),
}
