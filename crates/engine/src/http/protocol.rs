//! How an exchange's answer lies on its connection: the one place that differs between versions of HTTP.

use fermata_proto::http1::Head;
use fermata_proto::response::{Connection as KeepAlive, Framing};
use fermata_proto::{chunk, response};

use crate::embed::relayed::ResponseHead;

/// What is spoken on the connection of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http10,
    Http11,
}

/// What a head says of the body behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// There is none, and nothing is said about it.
    None,
    Known(u64),
    /// It is as long as it gets: `write_piece` and `end` write it.
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

    /// Whether a body of unknown length has an end of its own; otherwise it ends with the connection.
    #[inline]
    pub fn marks_end(self) -> bool {
        self == Protocol::Http11
    }

    /// Appends the head of an answer of the program or the server.
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

    /// Appends a head that is passed on as it is.
    pub fn write_passed_head(
        self,
        out: &mut Vec<u8>,
        head: &ResponseHead<'_>,
        date: &[u8; 29],
        length: BodyLength,
        keeps_alive: bool,
    ) {
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
            Protocol::Http10 => out.extend_from_slice(bytes),
            Protocol::Http11 => chunk::wrap(out, bytes),
        }
    }

    /// Appends what `write` appends, likewise.
    pub fn write_piece_with(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Protocol::Http10 => write(out),
            Protocol::Http11 => {
                chunk::wrap_with(out, write);
            }
        }
    }

    /// Appends the end of a body of unknown length.
    pub fn end(self, out: &mut Vec<u8>) {
        if self.marks_end() {
            out.extend_from_slice(chunk::LAST_CHUNK);
        }
    }

    #[inline]
    fn framing(self, length: BodyLength) -> Framing {
        match (length, self) {
            (BodyLength::None, _) => Framing::None,
            (BodyLength::Known(length), _) => Framing::Length(length),
            (BodyLength::Unknown, Protocol::Http10) => Framing::UntilClose,
            (BodyLength::Unknown, Protocol::Http11) => Framing::Chunked,
        }
    }

    #[inline]
    fn keep_alive(self, keeps_alive: bool) -> KeepAlive {
        match (keeps_alive, self) {
            (false, _) => KeepAlive::Close,
            (true, Protocol::Http10) => KeepAlive::KeepAliveExplicit,
            (true, Protocol::Http11) => KeepAlive::KeepAlive,
        }
    }
}
