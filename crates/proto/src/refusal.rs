//! Why a request is refused, and with which status.

/// Hard errors of the peer. Each one ends the connection after the answer: where a message ends is no longer certain.
///
/// `Display` is one sentence with cause and fix, fit for the log and for the body of the answer; it never
/// repeats bytes of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A line ended in LF without CR (RFC 9112, 2.2).
    #[error("a line ends in LF alone; end every line of the head with CRLF")]
    BareLineFeed,
    /// A CR that is not followed by LF (RFC 9112, 2.2).
    #[error("a CR is not followed by LF; end every line of the head with CRLF")]
    BareCarriageReturn,
    /// The first line is not `METHOD TARGET HTTP/1.x` with single spaces (RFC 9112, 3).
    #[error("the request line is malformed; send `METHOD TARGET HTTP/1.1`")]
    RequestLine,
    /// A method longer than [`crate::http1::METHOD_BYTES_MAX`] (RFC 9112, 3).
    #[error("the method is too long; use a method the server knows")]
    MethodTooLong,
    /// `CONNECT`: this is not a tunnel.
    #[error("CONNECT is not supported; this server is not a proxy")]
    Connect,
    /// Neither a path nor an `http` URL nor `OPTIONS *`, or it holds a fragment, user name, control byte or byte from 0x80
    /// (RFC 9112, 3.2).
    #[error("the request target is malformed; percent-encode it and leave out the fragment")]
    Target,
    /// Longer than `Limits::target_bytes_max` (RFC 9110, 15.5.15).
    #[error("the request target is too long; shorten it or raise target_bytes_max")]
    TargetTooLong,
    /// Not HTTP/1.x (RFC 9110, 15.6.6).
    #[error("only HTTP/1.0 and HTTP/1.1 are spoken here; use one of them")]
    Version,
    /// Longer than `Limits::head_bytes_max` (RFC 6585, 5).
    #[error(
        "the request head is too large; send fewer or shorter headers or raise header_bytes_max"
    )]
    HeadTooLarge,
    /// More than `Limits::headers_count_max` lines (RFC 6585, 5).
    #[error("the request has too many headers; send fewer or raise headers_count_max")]
    HeadersTooMany,
    /// A header line goes on in the next line (RFC 9112, 5.2).
    #[error("a header is folded over lines; send it in one line")]
    LineFolding,
    /// Empty or not a token (RFC 9110, 5.1).
    #[error("a header name is malformed; use letters, digits and hyphens")]
    HeaderName,
    /// Space between name and colon (RFC 9112, 5.1).
    #[error("a header name is followed by a space; put the colon right after the name")]
    SpaceBeforeColon,
    /// NUL or another control byte in a value (RFC 9110, 5.5).
    #[error("a header value holds a control byte; remove or encode it")]
    HeaderValue,
    /// HTTP/1.1 without `Host` (RFC 9112, 3.2).
    #[error("the Host header is missing; HTTP/1.1 needs exactly one")]
    HostMissing,
    /// Several `Host` lines (RFC 9112, 3.2).
    #[error("there are several Host headers; send exactly one")]
    HostRepeated,
    /// Not `host` or `host:port` (RFC 9112, 3.2).
    #[error("the Host header is malformed; send a host name or address and an optional port")]
    HostInvalid,
    /// Not a plain decimal number below 2^64 (RFC 9110, 8.6).
    #[error("Content-Length is malformed; send one decimal number")]
    ContentLengthInvalid,
    /// Several `Content-Length` lines, equal or not (RFC 9110, 8.6).
    #[error("there are several Content-Length headers; send exactly one")]
    ContentLengthRepeated,
    /// `Content-Length` beside `Transfer-Encoding`: the mark of request smuggling (RFC 9112, 6.1).
    #[error("Content-Length and Transfer-Encoding are both present; send only one of them")]
    LengthAndChunked,
    /// `chunked` is repeated or not last, or the list is malformed (RFC 9112, 6.3).
    #[error("Transfer-Encoding is malformed; send `chunked` exactly once")]
    TransferEncodingInvalid,
    /// A coding other than `chunked` (RFC 9112, 6.1).
    #[error("only the transfer coding `chunked` is supported; send the body without another one")]
    TransferEncodingUnknown,
    /// `Transfer-Encoding` in an HTTP/1.0 request (RFC 9112, 6.1).
    #[error("HTTP/1.0 has no Transfer-Encoding; send Content-Length or use HTTP/1.1")]
    TransferEncodingVersion,
    /// A pseudo-header that is unknown, repeated or malformed (RFC 9113, 8.3).
    #[error("a pseudo-header is unknown, repeated or malformed")]
    PseudoHeader,
    /// A pseudo-header behind another header (RFC 9113, 8.3).
    #[error("a pseudo-header comes behind another header; send it first")]
    PseudoHeaderLate,
    /// A request without `:method`, `:scheme` or `:path` (RFC 9113, 8.3.1).
    #[error("a pseudo-header is missing; send :method, :scheme and :path")]
    PseudoHeaderMissing,
    /// A header name in upper case, over HTTP/2 (RFC 9113, 8.2.1).
    #[error("a header name is in upper case; HTTP/2 has them in lower case")]
    HeaderNameCase,
    /// A header of the connection, over HTTP/2 (RFC 9113, 8.2.2).
    #[error(
        "a header of the connection came over HTTP/2; leave out Connection, Keep-Alive, Proxy-Connection, Transfer-Encoding, Upgrade and TE"
    )]
    ConnectionHeader,
    /// `host` is another than `:authority`: the mark of request smuggling (RFC 9113, 8.3.1).
    #[error("the Host header is another than :authority; send only one of them")]
    AuthorityDiffers,
    /// `content-length` although the stream has ended, over HTTP/2 (RFC 9113, 8.1.1).
    #[error("Content-Length is not what the body has; send its length or none")]
    ContentLengthMismatch,
    /// A stream that depends on itself, over HTTP/2 (RFC 7540, 5.3.1).
    #[error("a stream depends on itself; leave the deprecated priority out")]
    PriorityInvalid,
    /// More streams than the server takes (RFC 9113, 5.1.2).
    #[error("there are too many streams; wait until one has ended")]
    StreamsTooMany,
    /// An expectation other than `100-continue` (RFC 9110, 10.1.1).
    #[error("the expectation is unknown; only 100-continue is supported")]
    Expectation,
    /// No hexadecimal chunk size, or 2^64 and more (RFC 9112, 7.1).
    #[error("a chunk size is malformed; send a hexadecimal number")]
    ChunkSize,
    /// Something other than CRLF where a chunk or its size line ends (RFC 9112, 7.1).
    #[error("a chunk is malformed; end its size and its data with CRLF")]
    ChunkFraming,
    /// More than [`crate::chunked::EXTENSION_BYTES_MAX`] in one body (RFC 9112, 7.1.1).
    #[error("the chunk extensions are too long; leave them out")]
    ChunkExtensions,
    /// More than [`crate::chunked::TRAILER_BYTES_MAX`] after the last chunk (RFC 9112, 7.1.2).
    #[error("the trailer section is too large; leave it out")]
    TrailersTooLarge,
    /// The body is longer than the server takes (RFC 9110, 15.5.14).
    #[error("the request body is too large; send less or raise body_bytes_max")]
    BodyTooLarge,
    /// `multipart/form-data` without a boundary of 1 to 70 allowed characters (RFC 2046, 5.1.1).
    #[error(
        "the Content-Type multipart/form-data has no valid boundary; send 1 to 70 letters, digits or signs of '()+_,-./:=? as one"
    )]
    MultipartBoundary,
    /// A line begins like a delimiter and goes on otherwise (RFC 2046, 5.1.1).
    #[error("a multipart delimiter is malformed; end its line with CRLF, and the last with --")]
    MultipartDelimiter,
    /// Part headers that are no headers (RFC 7578, 4).
    #[error(
        "the headers of a multipart part are malformed; send lines `Name: value` that end with CRLF"
    )]
    MultipartHead,
    /// More than [`crate::multipart::PART_HEAD_BYTES_MAX`].
    #[error("the headers of a multipart part are too large; shorten its names")]
    MultipartHeadTooLarge,
    /// No `Content-Disposition: form-data` with a name, several of them, or one that cannot be read (RFC 7578, 4.2).
    #[error(
        "a multipart part has no valid Content-Disposition; send form-data; name=\"...\" exactly once"
    )]
    MultipartDisposition,
    /// The last delimiter is missing.
    #[error("the multipart body ends before its last delimiter; send all of it")]
    MultipartUnfinished,
    /// A `%` without two hexadecimal digits (RFC 3986, 2.1).
    #[error("the path holds a malformed percent escape; write a literal % as %25")]
    PercentEncoding,
    /// A NUL byte, or `%00`: no name of anything.
    #[error("the path holds a NUL byte (%00); leave it out")]
    PathNul,
    /// A segment `.` or `..`, which clients resolve before they send (RFC 3986, 5.2.4).
    #[error("the path holds a segment . or ..; resolve it before sending")]
    DotSegment,
    /// A backslash, which some programs take for a slash and no URL may hold (RFC 3986, 3.3).
    #[error("the path holds a backslash; write it as %5C")]
    Backslash,
}

impl Refusal {
    /// The status code of the answer.
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
