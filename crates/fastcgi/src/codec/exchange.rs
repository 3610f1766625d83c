//! Parses the response to one request.

use super::head::{HEAD_BYTES_MAX, Head, HeadError};
use super::record::{ID, Kind, RecordHead, STDERR_BYTES_MAX};

/// Output of the FastCGI application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The head of the response.
    Head(Head),
    /// An interim head: hints that a client may use before the response arrives (RFC 8297).
    Interim(Head),
    /// A piece of the response body.
    Body(Vec<u8>),
    /// A piece of the script's standard error output, for the log.
    Stderr(Vec<u8>),
    /// The response is complete.
    End {
        /// The application's exit status.
        exit_status: u32,
    },
}

/// Reason why a connection becomes unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FastCgiError {
    /// Another protocol, or another version.
    #[error("the peer does not speak FastCGI 1")]
    Version,
    /// A record that is not expected here.
    #[error("the peer sent an unexpected FastCGI record")]
    Record,
    /// The application is overloaded or does not support the request.
    #[error("the FastCGI program refuses the request with protocol status {0}")]
    Refused(u8),
    /// The response's head is invalid.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// Bytes follow the end.
    #[error("the peer sent bytes after the end of the response")]
    Rest,
}

/// Parser of the response to one request.
#[derive(Debug, Default)]
pub struct Exchange {
    state: State,
    /// An incomplete record head.
    pending: Vec<u8>,
    /// Output up to the end of the response's head.
    head: Vec<u8>,
    has_head: bool,
    interim_count: u8,
    stderr_bytes: usize,
}

/// Maximum number of interim heads before the final one, as in HTTP.
const INTERIM_COUNT_MAX: u8 = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// Remaining content and padding.
    Content(u8, usize, usize),
    Padding(usize),
    Ended,
}

impl Exchange {
    /// Handles bytes of the connection and appends the events that they contain.
    ///
    /// # Errors
    /// The connection has to be closed; events before the error are valid.
    pub fn handle(&mut self, bytes: &[u8], events: &mut Vec<Event>) -> Result<(), FastCgiError> {
        let mut rest = bytes;
        loop {
            match self.state {
                State::Padding(0) => self.state = State::Head,
                _ if rest.is_empty() => return Ok(()),
                State::Padding(left) => {
                    let len = left.min(rest.len());
                    rest = &rest[len..];
                    self.state = State::Padding(left - len);
                }
                State::Ended => {
                    // The last record's padding was read before the end was reported.
                    return Err(FastCgiError::Rest);
                }
                State::Head => {
                    let len = (8 - self.pending.len()).min(rest.len());
                    self.pending.extend_from_slice(&rest[..len]);
                    rest = &rest[len..];
                    if let Ok(head) = <[u8; 8]>::try_from(&self.pending[..]) {
                        self.pending.clear();
                        self.record(head)?;
                    } else if self.pending.first().is_some_and(|&version| version != 1) {
                        return Err(FastCgiError::Version);
                    }
                }
                State::Content(kind, left, padding) => {
                    let len = left.min(rest.len());
                    let (piece, after) = rest.split_at(len);
                    rest = after;
                    self.state = match left - len {
                        0 => State::Padding(padding),
                        left => State::Content(kind, left, padding),
                    };
                    self.content(kind, piece, events)?;
                }
            }
        }
    }

    /// Handles the end of the connection.
    ///
    /// # Errors
    /// The connection ended before the response.
    pub fn finish(&self) -> Result<(), FastCgiError> {
        match self.state {
            State::Ended => Ok(()),
            _ => Err(HeadError::Truncated.into()),
        }
    }

    /// Returns true if the response is complete, so that the connection can be reused.
    pub fn is_complete(&self) -> bool {
        self.state == State::Ended
    }

    fn record(&mut self, head: [u8; 8]) -> Result<(), FastCgiError> {
        let head = RecordHead::read(head).ok_or(FastCgiError::Version)?;
        let is_known = [Kind::Stdout, Kind::Stderr, Kind::End]
            .iter()
            .any(|&kind| kind as u8 == head.kind);
        let is_end = head.kind == Kind::End as u8;
        if !is_known || head.id != ID || (is_end && head.content_bytes != 8) {
            return Err(FastCgiError::Record);
        }
        // An empty record ends a stream, and is redundant with the end of the request.
        self.state = match head.content_bytes {
            0 => State::Padding(head.padding_bytes.into()),
            length => State::Content(head.kind, length.into(), head.padding_bytes.into()),
        };
        Ok(())
    }

    fn content(
        &mut self,
        kind: u8,
        piece: &[u8],
        events: &mut Vec<Event>,
    ) -> Result<(), FastCgiError> {
        if kind == Kind::Stderr as u8 {
            let piece = &piece[..piece.len().min(STDERR_BYTES_MAX - self.stderr_bytes)];
            self.stderr_bytes += piece.len();
            if !piece.is_empty() {
                events.push(Event::Stderr(piece.to_vec()));
            }
            return Ok(());
        }
        if kind == Kind::End as u8 {
            self.pending.extend_from_slice(piece);
            let Ok([a, b, c, d, protocol, ..]) = <[u8; 8]>::try_from(&self.pending[..]) else {
                return Ok(());
            };
            self.pending.clear();
            if protocol != 0 {
                return Err(FastCgiError::Refused(protocol));
            }
            if !self.has_head {
                return Err(HeadError::Truncated.into());
            }
            // PHP-FPM does not pad this record, and no other application is known to pad it.
            match self.state {
                State::Padding(0) => self.state = State::Ended,
                _ => return Err(FastCgiError::Record),
            }
            events.push(Event::End {
                exit_status: u32::from_be_bytes([a, b, c, d]),
            });
            return Ok(());
        }
        if self.has_head {
            events.push(Event::Body(piece.to_vec()));
            return Ok(());
        }
        self.head.extend_from_slice(piece);
        // Without a new line end, parsing again would have the same result.
        if !piece.contains(&b'\n') && self.head.len() < HEAD_BYTES_MAX {
            return Ok(());
        }
        while let Some((head, bytes)) = Head::read(&self.head)? {
            if head.is_interim() {
                self.interim_count += 1;
                if self.interim_count > INTERIM_COUNT_MAX {
                    return Err(HeadError::Interim.into());
                }
                events.push(Event::Interim(head));
                self.head.drain(..bytes);
                continue;
            }
            self.has_head = true;
            events.push(Event::Head(head));
            let body = std::mem::take(&mut self.head).split_off(bytes);
            if !body.is_empty() {
                events.push(Event::Body(body));
            }
            break;
        }
        Ok(())
    }
}
