//! Reasons why a request is rejected, and the status code for each.

/// A protocol error of the peer. An HTTP/1 connection closes after the error response, because the end of the message
/// is no longer certain.
///
/// `Display` is one sentence with cause and fix for the log and the response body. It never repeats the peer's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A line ends in LF without CR (RFC 9112, section 2.2).
    #[error("a line ends with LF without CR; end every line of the head with CRLF")]
    BareLineFeed,
    /// A CR is not followed by LF (RFC 9112, section 2.2).
    #[error("a CR is not followed by LF; end every line of the head with CRLF")]
    BareCarriageReturn,
    /// The first line is not `METHOD TARGET HTTP/1.x` with single spaces (RFC 9112, section 3).
    #[error("the request line is malformed; send `METHOD TARGET HTTP/1.1`")]
    RequestLine,
    /// The method is longer than [`crate::http1::METHOD_BYTES_MAX`] (RFC 9112, section 3).
    #[error("the method is too long; use a method the server knows")]
    MethodTooLong,
    /// The method is `CONNECT`; the server is no tunnel.
    #[error("CONNECT is not supported; this server is not a proxy")]
    Connect,
    /// The target is neither a path, nor an `http` URL, nor `*` of `OPTIONS`; or it contains a fragment, user name,
    /// control byte or byte above 0x7F (RFC 9112, section 3.2).
    #[error("the request target is malformed; percent-encode it and remove the fragment")]
    Target,
    /// The target is longer than `Limits::target_bytes_max` (RFC 9110, section 15.5.15).
    #[error("the request target is too long; shorten it or raise target_bytes_max")]
    TargetTooLong,
    /// The version is not HTTP/1.x (RFC 9110, section 15.6.6).
    #[error("only HTTP/1.0 and HTTP/1.1 are supported; use one of them")]
    Version,
    /// The head is longer than `Limits::head_bytes_max` (RFC 6585, section 5).
    #[error(
        "the request head is too large; send fewer or shorter headers or raise header_bytes_max"
    )]
    HeadTooLarge,
    /// The head has more than `Limits::headers_count_max` lines (RFC 6585, section 5).
    #[error("the request has too many headers; send fewer or raise headers_count_max")]
    HeadersTooMany,
    /// A header continues on the next line (RFC 9112, section 5.2).
    #[error("a header is folded over lines; send it in one line")]
    LineFolding,
    /// A header name is empty or not a token (RFC 9110, section 5.1).
    #[error("a header name is malformed; use letters, digits and hyphens")]
    HeaderName,
    /// White space between header name and colon (RFC 9112, section 5.1).
    #[error("a header name is followed by a space; put the colon right after the name")]
    SpaceBeforeColon,
    /// NUL or another control byte in a header value (RFC 9110, section 5.5).
    #[error("a header value holds a control byte; remove or encode it")]
    HeaderValue,
    /// HTTP/1.1 without `Host` (RFC 9112, section 3.2).
    #[error("the Host header is missing; HTTP/1.1 needs exactly one")]
    HostMissing,
    /// Several `Host` lines (RFC 9112, section 3.2).
    #[error("there are several Host headers; send exactly one")]
    HostRepeated,
    /// `Host` is not `host` or `host:port` (RFC 9112, section 3.2).
    #[error("the Host header is malformed; send a host name or address and an optional port")]
    HostInvalid,
    /// `Content-Length` is not a plain decimal number below 2^64 (RFC 9110, section 8.6).
    #[error("Content-Length is malformed; send one decimal number")]
    ContentLengthInvalid,
    /// Several `Content-Length` lines, equal or not (RFC 9110, section 8.6).
    #[error("there are several Content-Length headers; send exactly one")]
    ContentLengthRepeated,
    /// `Content-Length` together with `Transfer-Encoding`, a sign of request smuggling (RFC 9112, section 6.1).
    #[error("Content-Length and Transfer-Encoding are both present; send only one of them")]
    LengthAndChunked,
    /// `chunked` is repeated or not last, or the list is malformed (RFC 9112, section 6.3).
    #[error("Transfer-Encoding is malformed; send `chunked` exactly once")]
    TransferEncodingInvalid,
    /// A transfer coding other than `chunked` (RFC 9112, section 6.1).
    #[error("only the transfer coding `chunked` is supported; send the body without another one")]
    TransferEncodingUnknown,
    /// `Transfer-Encoding` in an HTTP/1.0 request (RFC 9112, section 6.1).
    #[error("HTTP/1.0 has no Transfer-Encoding; send Content-Length or use HTTP/1.1")]
    TransferEncodingVersion,
    /// HTTP/2: an unknown, repeated or malformed pseudo-header (RFC 9113, section 8.3).
    #[error("a pseudo-header is unknown, repeated or malformed")]
    PseudoHeader,
    /// HTTP/2: a pseudo-header after a regular header (RFC 9113, section 8.3).
    #[error("a pseudo-header follows a regular header; send it first")]
    PseudoHeaderLate,
    /// HTTP/2: a request without `:method`, `:scheme` or `:path` (RFC 9113, section 8.3.1).
    #[error("a pseudo-header is missing; send :method, :scheme and :path")]
    PseudoHeaderMissing,
    /// HTTP/2: a header name with an upper-case letter (RFC 9113, section 8.2.1).
    #[error("a header name is in upper case; HTTP/2 has them in lower case")]
    HeaderNameCase,
    /// HTTP/2: a connection-specific header (RFC 9113, section 8.2.2).
    #[error(
        "HTTP/2 forbids connection-specific headers; remove Connection, Keep-Alive, Proxy-Connection, Transfer-Encoding, Upgrade and TE"
    )]
    ConnectionHeader,
    /// HTTP/2: `host` differs from `:authority`, a sign of request smuggling (RFC 9113, section 8.3.1).
    #[error("the Host header differs from :authority; send only one of them")]
    AuthorityDiffers,
    /// HTTP/2: `content-length` differs from the length of the DATA frames (RFC 9113, section 8.1.1).
    #[error("Content-Length differs from the length of the body; send the right length or none")]
    ContentLengthMismatch,
    /// HTTP/2: a stream depends on itself (RFC 7540, section 5.3.1).
    #[error("a stream depends on itself; remove the deprecated priority")]
    PriorityInvalid,
    /// HTTP/2: more concurrent streams than the server accepts (RFC 9113, section 5.1.2).
    #[error("there are too many streams; wait until one has ended")]
    StreamsTooMany,
    /// An expectation other than `100-continue` (RFC 9110, section 10.1.1).
    #[error("the expectation is unknown; only 100-continue is supported")]
    Expectation,
    /// A chunk size that is not hexadecimal, or 2^64 or more (RFC 9112, section 7.1).
    #[error("a chunk size is malformed; send a hexadecimal number")]
    ChunkSize,
    /// A chunk or its size line does not end with CRLF (RFC 9112, section 7.1).
    #[error("a chunk is malformed; end its size and its data with CRLF")]
    ChunkFraming,
    /// Chunk extensions of one body exceed [`crate::chunked::EXTENSION_BYTES_MAX`] (RFC 9112, section 7.1.1).
    #[error("the chunk extensions are too long; remove them")]
    ChunkExtensions,
    /// Trailer lines exceed [`crate::chunked::TRAILER_BYTES_MAX`] (RFC 9112, section 7.1.2).
    #[error("the trailer section is too large; remove it")]
    TrailersTooLarge,
    /// The body is longer than `body_bytes_max` (RFC 9110, section 15.5.14).
    #[error("the request body is too large; send less or raise body_bytes_max")]
    BodyTooLarge,
    /// `multipart/form-data` without a boundary of 1 to 70 allowed characters (RFC 2046, section 5.1.1).
    #[error(
        "the Content-Type multipart/form-data has no valid boundary; send 1 to 70 letters, digits or signs of '()+_,-./:=? as one"
    )]
    MultipartBoundary,
    /// A line starts with the delimiter but continues with other bytes (RFC 2046, section 5.1.1).
    #[error("a multipart delimiter is malformed; end its line with CRLF, and the last with --")]
    MultipartDelimiter,
    /// Malformed part headers (RFC 7578, section 4).
    #[error(
        "the headers of a multipart part are malformed; send lines `Name: value` that end with CRLF"
    )]
    MultipartHead,
    /// Part headers exceed [`crate::multipart::PART_HEAD_BYTES_MAX`].
    #[error("the headers of a multipart part are too large; shorten its names")]
    MultipartHeadTooLarge,
    /// `Content-Disposition: form-data` with a name is absent, repeated or malformed (RFC 7578, section 4.2).
    #[error(
        "a multipart part has no valid Content-Disposition; send form-data; name=\"...\" exactly once"
    )]
    MultipartDisposition,
    /// The last delimiter is missing.
    #[error("the multipart body ends before its last delimiter; send all of it")]
    MultipartUnfinished,
    /// A `%` without two hexadecimal digits (RFC 3986, section 2.1).
    #[error("the path holds a malformed percent escape; write a literal % as %25")]
    PercentEncoding,
    /// The path contains a NUL byte or `%00`.
    #[error("the path holds a NUL byte (%00); leave it out")]
    PathNul,
    /// The path contains a segment `.` or `..`, which clients must resolve before sending (RFC 3986, section 5.2.4).
    #[error("the path holds a segment . or ..; resolve it before sending")]
    DotSegment,
    /// The path contains a backslash, which no URL may contain (RFC 3986, section 3.3) and some software treats as a
    /// slash.
    #[error("the path holds a backslash; write it as %5C")]
    Backslash,
}

impl Refusal {
    /// Returns the status code of the error response.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::BodyTooLarge => 413,
            Self::TargetTooLong => 414,
            Self::Expectation => 417,
            Self::HeadTooLarge | Self::HeadersTooMany | Self::TrailersTooLarge => 431,
            Self::MethodTooLong | Self::Connect | Self::TransferEncodingUnknown => 501,
            Self::StreamsTooMany => 503,
            Self::Version => 505,
            _ => 400,
        }
    }
}
