//! HTTP/1.1 response reader that returns only the status.

use fermata_proto::chunked;
use fermata_proto::response_reader::{self, HEAD_BYTES_MAX, HeadError, RequestKind};

/// Reasons why a response is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error(transparent)]
    Head(#[from] HeadError),
    #[error("a response has a malformed chunk")]
    Chunk,
}

/// Rest of a body and its framing.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// The given number of bytes remains.
    Length(u64),
    /// Chunked transfer coding.
    Chunked(chunked::Decoder),
    /// The body ends with the connection.
    UntilClose,
}

/// A response head.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub status: u16,
    /// True if the connection can be reused.
    pub keep_alive: bool,
    pub body: Body,
    /// Length of the head in bytes, including the empty line.
    pub bytes: usize,
}

impl Head {
    /// Parses the head at the start of `bytes`; returns `None` if it is incomplete.
    pub fn parse(bytes: &[u8], request: RequestKind) -> Result<Option<Self>, HeadError> {
        let head = response_reader::Head::read(bytes, request)?;
        Ok(head.map(|(head, bytes)| Self {
            status: head.status,
            keep_alive: head.keep_alive,
            body: match head.body {
                response_reader::Body::Empty | response_reader::Body::Upgraded => Body::Length(0),
                response_reader::Body::Length(length) => Body::Length(length),
                response_reader::Body::Chunked => Body::Chunked(chunked::Decoder::new()),
                response_reader::Body::UntilClose => Body::UntilClose,
            },
            bytes,
        }))
    }
}

/// A complete response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    pub status: u16,
    pub keep_alive: bool,
}

/// Reads the responses of one connection and returns their status.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Start of an incomplete head.
    partial: Vec<u8>,
    /// Head and remaining body of the current response.
    current: Option<Head>,
    /// The last head with a known length. Servers often repeat the same head, so in most cases a comparison replaces parsing.
    known: Option<(Vec<u8>, Head)>,
    /// Buffer for decoded chunks; empty between calls.
    scratch: Vec<u8>,
}

impl Reader {
    /// Consumes `input` up to the end of the first response in it, and returns that response. Advances `input` to the
    /// rest; call again until it returns `None`, when `input` is consumed.
    pub fn handle(
        &mut self,
        input: &mut &[u8],
        request: RequestKind,
    ) -> Result<Option<Done>, Malformed> {
        loop {
            if let Some(head) = &mut self.current {
                let done = match &mut head.body {
                    Body::Length(left) => {
                        let used = input
                            .len()
                            .min(usize::try_from(*left).unwrap_or(usize::MAX));
                        *input = &input[used..];
                        *left -= used as u64;
                        *left == 0
                    }
                    Body::Chunked(decoder) => {
                        let decoded = decoder.decode(input, &mut self.scratch, u64::MAX);
                        let decoded = decoded.map_err(|_| Malformed::Chunk)?;
                        self.scratch.clear();
                        *input = &input[decoded.consumed..];
                        decoded.done
                    }
                    Body::UntilClose => {
                        *input = &[];
                        false
                    }
                };
                if !done {
                    return Ok(None);
                }
                let done = Done {
                    status: head.status,
                    keep_alive: head.keep_alive,
                };
                self.current = None;
                // 1xx responses precede the final response.
                if done.status >= 200 {
                    return Ok(Some(done));
                }
            } else if input.is_empty() {
                return Ok(None);
            } else if let Some(head) = self.head(input, request)? {
                self.current = Some(head);
            } else {
                return Ok(None);
            }
        }
    }

    /// Handles the end of the stream. Returns the response that it completes, if any.
    pub fn handle_end(&mut self) -> Option<Done> {
        let head = self.current.take()?;
        matches!(head.body, Body::UntilClose).then_some(Done {
            status: head.status,
            keep_alive: false,
        })
    }

    /// Resets the state for a new connection.
    pub fn reset(&mut self) {
        self.partial = Vec::new();
        self.current = None;
    }

    fn head(&mut self, input: &mut &[u8], request: RequestKind) -> Result<Option<Head>, Malformed> {
        if self.partial.is_empty() {
            if let Some((bytes, head)) = &self.known
                && input.starts_with(bytes)
            {
                *input = &input[bytes.len()..];
                return Ok(Some(head.clone()));
            }
            let parsed = Head::parse(input, request)?;
            if let Some(head) = &parsed {
                if matches!(head.body, Body::Length(_)) && head.status >= 200 {
                    self.known = Some((input[..head.bytes].to_vec(), head.clone()));
                }
                *input = &input[head.bytes..];
            } else {
                self.partial.extend_from_slice(input);
                *input = &[];
            }
            return Ok(parsed);
        }
        let before = self.partial.len();
        let added = input.len().min(HEAD_BYTES_MAX + 4);
        self.partial.extend_from_slice(&input[..added]);
        let parsed = Head::parse(&self.partial, request)?;
        if let Some(head) = &parsed {
            *input = &input[head.bytes - before..];
            self.partial = Vec::new();
        } else {
            *input = &input[added..];
        }
        Ok(parsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
        HTTP/1.1 100 Continue\r\n\r\n\
        HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
        HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
        HTTP/1.1 204 No Content\r\n\r\n\
        HTTP/1.0 200 OK\r\n\r\nuntil the end";

    fn read(split: usize) -> Vec<(u16, bool)> {
        let mut reader = Reader::default();
        let mut statuses = Vec::new();
        for mut piece in STREAM.chunks(split) {
            while let Some(done) = reader
                .handle(&mut piece, RequestKind::default())
                .expect("well formed")
            {
                statuses.push((done.status, done.keep_alive));
            }
            assert!(piece.is_empty());
        }
        statuses.extend(
            reader
                .handle_end()
                .map(|done| (done.status, done.keep_alive)),
        );
        statuses
    }

    #[test]
    fn every_split_gives_the_same_responses() {
        let expected = [
            (200, true),
            (404, true),
            (200, true),
            (204, true),
            (200, false),
        ];
        for split in 1..=STREAM.len() {
            assert_eq!(read(split), expected, "pieces of {split}");
        }
    }

    #[test]
    fn a_response_to_head_has_no_body() {
        let head = RequestKind {
            is_head: true,
            ..RequestKind::default()
        };
        let mut reader = Reader::default();
        let mut input = &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: Close\r\n\r\n"[..];
        let done = reader.handle(&mut input, head).expect("well formed");
        assert_eq!(done.map(|done| done.keep_alive), Some(false));
    }
}
