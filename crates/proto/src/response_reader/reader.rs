//! Reads the response to one request from bytes split at any position.

use super::head::{Body, HEAD_BYTES_MAX, Head, HeadError, RequestKind, end_of};
use crate::{Refusal, chunked};

/// Maximum number of interim responses to one request. Above it, the connection fails.
const INTERIM_COUNT_MAX: u32 = 16;
/// Number of bytes that distinguish HTTP from another protocol.
const HEAD_START_BYTES: usize = b"HTTP/1.".len();

/// An event of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An interim head: 100, 102, 103.
    Interim(Head),
    /// The final head.
    Head(Head),
    /// A piece of the body without its framing.
    Body(Vec<u8>),
    /// End of the response.
    End {
        /// True if the connection can carry another request.
        is_reusable: bool,
    },
    /// The connection switched protocols; these and all later bytes belong to the new protocol.
    Upgraded(Vec<u8>),
}

/// Reason why a connection cannot be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// Invalid head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// Invalid chunk.
    #[error("the response has a malformed chunk: {0}")]
    Chunk(Refusal),
    /// The connection closed during the response.
    #[error("the server closed the connection during its response")]
    Truncated,
    /// The connection closed before the response. A server closes an idle persistent connection like this.
    #[error("the server closed the connection without a response")]
    Empty,
    /// Bytes after the end of the response.
    #[error("the server sent bytes after the end of its response")]
    Rest,
    /// Too many interim responses.
    #[error("the server sends more than {INTERIM_COUNT_MAX} interim responses")]
    Interim,
}

/// Incremental reader of the response to one request.
#[derive(Debug)]
pub struct ResponseReader {
    request: RequestKind,
    state: State,
    /// Bytes of an incomplete head.
    head: Vec<u8>,
    keep_alive: bool,
    interim_count: u32,
}

#[derive(Debug)]
enum State {
    Head,
    Length(u64),
    Chunked(chunked::Decoder),
    UntilClose,
    Upgraded,
    Ended,
}

impl ResponseReader {
    /// Creates a reader for the response to a request of this kind.
    pub fn new(request: RequestKind) -> Self {
        Self {
            request,
            state: State::Head,
            head: Vec::new(),
            keep_alive: false,
            interim_count: 0,
        }
    }

    /// Parses bytes of the connection and appends the events to `events`.
    ///
    /// # Errors
    /// The caller must close the connection. Events appended before the error are valid.
    pub fn handle(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), ResponseError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match &mut self.state {
                State::Head => self.head(rest, events)?,
                State::Length(left) => {
                    // The value is at most the input's length, so it fits into `usize`.
                    let len = (*left).min(rest.len() as u64) as usize;
                    let (piece, after) = rest.split_at(len);
                    *left -= len as u64;
                    let is_last = *left == 0;
                    events.push(Event::Body(piece.to_vec()));
                    if is_last {
                        self.end(after.is_empty(), events);
                    }
                    after
                }
                State::Chunked(decoder) => {
                    let mut piece = Vec::new();
                    let decoded = decoder
                        .decode(rest, &mut piece, u64::MAX)
                        .map_err(ResponseError::Chunk)?;
                    if !piece.is_empty() {
                        events.push(Event::Body(piece));
                    }
                    let after = &rest[decoded.consumed..];
                    if decoded.done {
                        self.end(after.is_empty(), events);
                    }
                    after
                }
                State::UntilClose => {
                    events.push(Event::Body(rest.to_vec()));
                    &[]
                }
                State::Upgraded => {
                    events.push(Event::Upgraded(rest.to_vec()));
                    &[]
                }
                State::Ended => return Err(ResponseError::Rest),
            };
        }
        Ok(())
    }

    /// Accounts for `bytes` and returns true if all of them are body data and the body continues after them. The caller can then
    /// forward them without a copy. Returns false if the caller must pass them to [`ResponseReader::handle`].
    #[must_use]
    pub fn pass(&mut self, bytes: &[u8]) -> bool {
        match &mut self.state {
            State::Length(left) if *left > bytes.len() as u64 => {
                *left -= bytes.len() as u64;
                true
            }
            State::UntilClose => true,
            _ => false,
        }
    }

    /// Handles the end of the connection. Completes a body that ends with the connection.
    ///
    /// # Errors
    /// The response is incomplete.
    pub fn finish(&mut self, events: &mut Vec<Event>) -> Result<(), ResponseError> {
        match self.state {
            State::Ended | State::Upgraded => Ok(()),
            State::UntilClose => {
                self.keep_alive = false;
                self.end(true, events);
                Ok(())
            }
            State::Head if self.head.is_empty() && self.interim_count == 0 => {
                Err(ResponseError::Empty)
            }
            State::Head | State::Length(_) | State::Chunked(_) => Err(ResponseError::Truncated),
        }
    }

    /// Returns true if the response is complete.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn head<'a>(
        &mut self,
        bytes: &'a [u8],
        events: &mut Vec<Event>,
    ) -> Result<&'a [u8], ResponseError> {
        let before = self.head.len();
        // Parse a head that arrived in one piece without a copy; nearly all heads do.
        if before == 0 && end_of(bytes).is_some() {
            return match Head::read(bytes, self.request)? {
                Some((head, len)) => self.on_head(head, &bytes[len..], events),
                None => Ok(&[]),
            };
        }
        self.head.extend_from_slice(bytes);
        // Parse an incomplete head again only if its end may have arrived; otherwise the cost would be quadratic. The end may
        // start in the last three bytes of the earlier pieces.
        let tail = &self.head[before.saturating_sub(3)..];
        let may_end = tail.windows(4).any(|four| four == b"\r\n\r\n")
            || tail.windows(2).any(|two| two == b"\n\n");
        if before >= HEAD_START_BYTES && !may_end && self.head.len() < HEAD_BYTES_MAX {
            return Ok(&[]);
        }
        let Some((head, len)) = Head::read(&self.head, self.request)? else {
            return Ok(&[]);
        };
        self.head.clear();
        // The end of the head is in the new bytes; otherwise an earlier call would have found it.
        self.on_head(head, &bytes[len - before..], events)
    }

    fn on_head<'a>(
        &mut self,
        head: Head,
        after: &'a [u8],
        events: &mut Vec<Event>,
    ) -> Result<&'a [u8], ResponseError> {
        if head.is_interim() {
            self.interim_count += 1;
            if self.interim_count > INTERIM_COUNT_MAX {
                return Err(ResponseError::Interim);
            }
            events.push(Event::Interim(head));
            return Ok(after);
        }
        self.keep_alive = head.keep_alive;
        let body = head.body;
        events.push(Event::Head(head));
        self.state = match body {
            Body::Length(length) => State::Length(length),
            Body::Chunked => State::Chunked(chunked::Decoder::new()),
            Body::UntilClose => State::UntilClose,
            Body::Upgraded => State::Upgraded,
            Body::Empty => {
                self.end(after.is_empty(), events);
                State::Ended
            }
        };
        Ok(after)
    }

    /// A connection with bytes after the response must not be reused.
    fn end(&mut self, is_clean: bool, events: &mut Vec<Event>) {
        self.state = State::Ended;
        events.push(Event::End {
            is_reusable: self.keep_alive && is_clean,
        });
    }
}
