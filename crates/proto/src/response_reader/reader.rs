//! Reading the response to one request, from any pieces.

use super::head::{Body, HEAD_BYTES_MAX, Head, HeadError, RequestKind, end_of};
use crate::{Refusal, chunked};

/// Interim responses of one request; more is a server that never answers.
const INTERIM_COUNT_MAX: u32 = 16;
/// Bytes by which HTTP is told from something else.
const HEAD_START_BYTES: usize = b"HTTP/1.".len();

/// What a server sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A head before the head: 100, 102, 103.
    Interim(Head),
    /// The head.
    Head(Head),
    /// A piece of the body, without its framing.
    Body(Vec<u8>),
    /// The response is complete.
    End {
        /// Whether the connection may take another request.
        is_reusable: bool,
    },
    /// From here on these and all later bytes are of another protocol.
    Upgraded(Vec<u8>),
}

/// Why a connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// Of the head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// Of a chunk.
    #[error("the response has a malformed chunk: {0}")]
    Chunk(Refusal),
    /// It ended before the response did.
    #[error("the server closed the connection within its response")]
    Truncated,
    /// It ended before the response began. On a connection that was kept, this is how idle ones end.
    #[error("the server closed the connection without a response")]
    Empty,
    /// Bytes after the response.
    #[error("the server goes on after the end of its response")]
    Rest,
    /// Interim responses without end.
    #[error("the server sends more than {INTERIM_COUNT_MAX} interim responses")]
    Interim,
}

/// The response to one request, as its bytes come.
#[derive(Debug)]
pub struct ResponseReader {
    request: RequestKind,
    state: State,
    /// A head that is not complete.
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
    /// For a request of this kind: to a HEAD there is no body, and 101 only where an upgrade was asked for.
    pub fn new(request: RequestKind) -> Self {
        Self {
            request,
            state: State::Head,
            head: Vec::new(),
            keep_alive: false,
            interim_count: 0,
        }
    }

    /// Takes bytes of the connection in and appends what they say.
    ///
    /// # Errors
    /// The connection is to be closed; events before the error stand.
    pub fn handle(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), ResponseError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = match &mut self.state {
                State::Head => self.head(rest, events)?,
                State::Length(left) => {
                    // `min` keeps it below the input's length, so it fits.
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

    /// Takes bytes in that are body and nothing else, and behind which the body goes on: whoever has them passes them on as they
    /// lie. False: they are for [`ResponseReader::handle`].
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

    /// The server has closed its side. A body that ends with the connection is complete now.
    ///
    /// # Errors
    /// The response is not.
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

    /// Whether the response is complete.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn head<'a>(
        &mut self,
        bytes: &'a [u8],
        events: &mut Vec<Event>,
    ) -> Result<&'a [u8], ResponseError> {
        let before = self.head.len();
        // One that has come in one piece, as nearly all do, is read where it lies.
        if before == 0 && end_of(bytes).is_some() {
            return match Head::read(bytes, self.request)? {
                Some((head, len)) => self.on_head(head, &bytes[len..], events),
                None => Ok(&[]),
            };
        }
        self.head.extend_from_slice(bytes);
        // A head that drips in is looked at anew only when its end may have come, or its cost would be a square.
        let tail = &self.head[before.saturating_sub(3)..];
        let may_end = tail.windows(4).any(|four| four == b"\r\n\r\n");
        if before >= HEAD_START_BYTES && !may_end && self.head.len() < HEAD_BYTES_MAX {
            return Ok(&[]);
        }
        let Some((head, len)) = Head::read(&self.head, self.request)? else {
            return Ok(&[]);
        };
        self.head.clear();
        // The end lies in the new bytes, or it would have been found before.
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

    /// A connection with bytes that nobody asked for is not to be used again.
    fn end(&mut self, is_clean: bool, events: &mut Vec<Event>) {
        self.state = State::Ended;
        events.push(Event::End {
            is_reusable: self.keep_alive && is_clean,
        });
    }
}
