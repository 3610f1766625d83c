//! Why a text is no value of a setting. Each message is a clause that goes on after "that is …".

/// Why a text is no value of a setting's kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// It is empty, and the kind has no such value.
    #[error("empty")]
    Empty,
    /// It is none of the words that the setting knows.
    #[error("not known")]
    Unknown,
    /// It is no single value, and the setting is no list.
    #[error("no single value")]
    Several,
    /// The number is below the setting's range.
    #[error("too small")]
    TooSmall,
    /// The number is above the setting's range.
    #[error("too large")]
    TooLarge,
    /// The number has a minus sign.
    #[error("negative")]
    Negative,
    /// It is not of this form.
    #[error("not {0}")]
    Form(&'static str),
    /// It has more bytes than this.
    #[error("longer than {0} bytes")]
    TooLong(usize),
    /// It is longer than a line may be, or has control characters.
    #[error("too long, or not one line")]
    Line,
    /// The path has a NUL byte.
    #[error("not a path: it contains a NUL byte")]
    NulInPath,
    /// One of the paths is empty.
    #[error("a list with an empty path")]
    EmptyPath,
    /// It is no address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// It is no list of networks.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// It is no list of headers.
    #[error(transparent)]
    ProxyHeaders(#[from] ProxyHeadersError),
}

/// Why a text is no address, or no list of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is empty.
    #[error("empty")]
    Empty,
    /// It is no address, for this reason.
    #[error("not an address: {0}")]
    Form(&'static str),
    /// It names no host.
    #[error("without a host; 0.0.0.0 means every IPv4 address")]
    NoHost,
    /// It names no port.
    #[error("without a port")]
    NoPort,
    /// Its port is no number of a port.
    #[error("not a port from 0 to 65535")]
    Port,
    /// Only the form `http://HOST:PORT` is taken here.
    #[error("not an http:// address, the only kind that is served here")]
    NotHttp,
    /// It asks for the PROXY protocol twice.
    #[error("an address with {0} twice")]
    PrefaceTwice(&'static str),
    /// The permissions of a Unix socket are no octal number.
    #[error("with mode {0:?}; give an octal one such as 660")]
    Mode(String),
    /// Behind the path of a Unix socket stands something else than its access.
    #[error(
        "with {0:?} behind the path; mode=660, user=NAME and group=NAME may stand there, and a path with a question mark ends with one"
    )]
    Access(String),
    /// The address of a control socket does not start with `unix:`.
    #[error("not a control address: it must start with unix:")]
    NotUnix,
    /// A Unix socket has no path.
    #[error("without a path")]
    NoPath,
    /// The path of a Unix socket has a NUL byte.
    #[error("not a path: it contains a NUL byte")]
    NulInPath,
    /// The path of a Unix socket is longer than the kernel takes.
    #[error("{bytes} bytes of path, over {bytes_max}")]
    PathTooLong {
        /// Its bytes.
        bytes: usize,
        /// What the kernel takes.
        bytes_max: usize,
    },
    /// There are more addresses than a server may listen at.
    #[error("{count} addresses, over {count_max}")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many there may be.
        count_max: usize,
    },
    /// The same address is there twice.
    #[error("twice {0}")]
    Twice(String),
}

/// Why a text is no list of networks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Nothing stands between two commas.
    #[error("a list with an empty place")]
    EmptyPlace,
    /// This is no network.
    #[error("not a list of networks: {0:?} is none")]
    Form(String),
    /// The prefix of a network is out of range.
    #[error("not a list of networks: {text:?} has no prefix from 0 to {bits_max}")]
    Prefix {
        /// The network.
        text: String,
        /// Bits of its addresses.
        bits_max: u8,
    },
    /// A network has bits that its prefix does not cover.
    #[error("not a list of networks: {0:?} has bits behind its prefix")]
    HostBits(String),
}

/// Why a text is no list of the headers of proxies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyHeadersError {
    /// This is none of them.
    #[error("a list of headers with {0:?}")]
    Unknown(String),
    /// This one is there twice.
    #[error("a list with {0} twice")]
    Twice(String),
}
