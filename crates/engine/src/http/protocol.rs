//! Writing responses to connections: the differences between HTTP versions.

use fermata_proto::http1::Head;
use fermata_proto::http2::{self, hpack};
use fermata_proto::response::{Connection as KeepAlive, Framing};
use fermata_proto::{chunk, number, response};

use crate::embed::relayed::ResponseHead;

/// Protocol of an exchange's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http10,
    Http11,
    /// A response head is a header block, and a body ends with its stream.
    Http2,
}

/// Body length announced in a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// No body, and no length field.
    None,
    Known(u64),
    /// Unknown: `write_piece` and `end` write the body.
    Unknown,
}

impl Protocol {
    #[inline]
    pub fn of(head: &Head) -> Protocol {
        match head.minor_version {
            0 => Protocol::Http10,
            _ => Protocol::Http11,
        }
    }

    /// Returns true if a body of unknown length has an end mark; otherwise it ends with the
    /// connection.
    #[inline]
    pub fn marks_end(self) -> bool {
        self != Protocol::Http10
    }

    /// Returns true if a body of unknown length uses chunked coding.
    #[inline]
    pub fn is_chunked(self) -> bool {
        self == Protocol::Http11
    }

    /// Appends the head of a response of the application or the server.
    #[inline]
    pub fn write_head<'h>(
        self,
        out: &mut Vec<u8>,
        (status, date): (u16, &[u8; 29]),
        content_type: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        length: BodyLength,
        keeps_alive: bool,
    ) {
        if self == Protocol::Http2 {
            write_block(out, (status, date), content_type, headers, length);
            return;
        }
        let (framing, keep_alive) = (self.framing(length), self.keep_alive(keeps_alive));
        response::write_head(
            out,
            status,
            date,
            content_type,
            headers,
            framing,
            keep_alive,
        );
    }

    /// Appends a forwarded head unchanged.
    pub fn write_passed_head(
        self,
        out: &mut Vec<u8>,
        head: &ResponseHead<'_>,
        date: &[u8; 29],
        length: BodyLength,
        keeps_alive: bool,
    ) {
        if self == Protocol::Http2 {
            let headers = head.headers.iter().copied();
            let has_date = |(name, _): &(&[u8], &[u8])| name.eq_ignore_ascii_case(b"date");
            if head.headers.iter().any(has_date) {
                write_block_of(out, head.status, headers, length);
            } else {
                write_block(out, (head.status, date), None, headers, length);
            }
            return;
        }
        response::write_passed_head(
            out,
            head.status,
            head.reason,
            date,
            head.headers,
            self.framing(length),
            self.keep_alive(keeps_alive),
        );
    }

    /// Appends bytes of a body of unknown length.
    pub fn write_piece(self, out: &mut Vec<u8>, bytes: &[u8]) {
        match self {
            Protocol::Http10 | Protocol::Http2 => out.extend_from_slice(bytes),
            Protocol::Http11 => chunk::wrap(out, bytes),
        }
    }

    /// Appends the bytes that `write` produces as part of a body of unknown length.
    pub fn write_piece_with(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Protocol::Http10 | Protocol::Http2 => write(out),
            Protocol::Http11 => {
                chunk::wrap_with(out, write);
            }
        }
    }

    /// Appends the end of a body of unknown length, if the protocol marks it in the bytes.
    pub fn end(self, out: &mut Vec<u8>) {
        if self.is_chunked() {
            out.extend_from_slice(chunk::LAST_CHUNK);
        }
    }

    #[inline]
    fn framing(self, length: BodyLength) -> Framing {
        match (length, self) {
            (BodyLength::None, _) => Framing::None,
            (BodyLength::Known(length), _) => Framing::Length(length),
            (BodyLength::Unknown, Protocol::Http10) => Framing::UntilClose,
            // Header blocks contain no framing fields.
            (BodyLength::Unknown, Protocol::Http11 | Protocol::Http2) => Framing::Chunked,
        }
    }

    #[inline]
    fn keep_alive(self, keeps_alive: bool) -> KeepAlive {
        match (keeps_alive, self) {
            (false, _) => KeepAlive::Close,
            (true, Protocol::Http10) => KeepAlive::KeepAliveExplicit,
            (true, Protocol::Http11 | Protocol::Http2) => KeepAlive::KeepAlive,
        }
    }
}

/// Appends the head of a response as a header block, in the order of HTTP/1.
fn write_block<'h>(
    out: &mut Vec<u8>,
    (status, date): (u16, &[u8; 29]),
    content_type: Option<&[u8]>,
    headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    length: BodyLength,
) {
    hpack::encode_status(out, status);
    if let Some(content_type) = content_type {
        hpack::encode(out, b"content-type", content_type);
    }
    write_length(out, length);
    hpack::encode(out, b"date", date);
    write_fields(out, headers);
}

/// Appends a header block whose `headers` include the date.
fn write_block_of<'h>(
    out: &mut Vec<u8>,
    status: u16,
    headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    length: BodyLength,
) {
    hpack::encode_status(out, status);
    write_length(out, length);
    write_fields(out, headers);
}

fn write_length(out: &mut Vec<u8>, length: BodyLength) {
    if let BodyLength::Known(length) = length {
        let mut digits = Vec::with_capacity(20);
        number::decimal(&mut digits, length);
        hpack::encode(out, b"content-length", &digits);
    }
}

/// Omits connection-specific fields of HTTP/1.
fn write_fields<'h>(out: &mut Vec<u8>, headers: impl Iterator<Item = (&'h [u8], &'h [u8])>) {
    for (name, value) in headers {
        if !http2::is_of_connection(name) {
            hpack::encode(out, name, value);
        }
    }
}
