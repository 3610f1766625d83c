//! Response bodies sent piece by piece as the client reads: files, and streams of the application.
//!
//! This file contains all functions that depend on the kind of body. A new kind is a new variant.

use crate::id::RequestId;
use std::collections::VecDeque;
use std::fs;
use std::ops::Range;

/// Rest of a response body after the bytes in `Connection::out`.
pub(crate) enum Outgoing {
    File(FileBody),
    Stream(StreamBody),
}

/// A file, or parts of it, being sent.
pub(crate) struct FileBody {
    pub file: fs::File,
    /// Position of the unsent rest of the current part.
    pub offset: u64,
    pub remaining: u64,
    /// Parts that follow the current part.
    pub parts: VecDeque<Part>,
    /// The kernel cannot send this file directly, so the server reads it.
    pub must_read: bool,
}

/// A part of a file, and the text before it. The last part consists of text only.
pub(crate) struct Part {
    pub head: Vec<u8>,
    pub range: Range<u64>,
}

/// A body that the application produces while it is sent.
pub(crate) struct StreamBody {
    /// The request that the stream answers.
    pub handle: RequestId,
    /// The handler that started the stream.
    pub handler: u32,
    /// Number of announced bytes that were not written yet; `None` = no length announced.
    pub left: Option<u64>,
    /// True while the stream is in `Streams::ready`.
    pub is_listed: bool,
    /// Size of the piece that the embedder holds until all of its bytes are accepted. 0 without a
    /// piece.
    pub piece_bytes: usize,
    /// Number of bytes that the embedder has reported as still to write; see `Net::hold_piece`.
    pub held_bytes: usize,
}

impl FileBody {
    /// Creates a body from the bytes of `range`.
    pub fn new(file: fs::File, range: Range<u64>) -> FileBody {
        FileBody {
            file,
            offset: range.start,
            remaining: range.end - range.start,
            parts: VecDeque::new(),
            must_read: false,
        }
    }

    /// Returns the number of bytes left to send.
    pub fn unsent(&self) -> u64 {
        let later = |part: &Part| part.range.end - part.range.start + part.head.len() as u64;
        self.remaining + self.parts.iter().map(later).sum::<u64>()
    }
}

impl Outgoing {
    /// Returns the number of bytes left to send, as far as it is known.
    pub fn unsent(&self) -> u64 {
        match self {
            Outgoing::File(file) => file.unsent(),
            Outgoing::Stream(stream) => stream.left.unwrap_or(0),
        }
    }

    /// Returns the number of bytes of memory that the body uses.
    pub fn buffered_bytes(&self) -> usize {
        match self {
            Outgoing::File(_) => 0,
            Outgoing::Stream(stream) => stream.piece_bytes + stream.held_bytes,
        }
    }

    /// Returns true if the server can send the rest without the application.
    pub fn is_here(&self) -> bool {
        match self {
            Outgoing::File(_) => true,
            Outgoing::Stream(_) => false,
        }
    }

    /// Returns the next piece after all earlier bytes were sent. `Bytes` are put into `out`.
    pub fn next_piece(&mut self, out: &mut Vec<u8>) -> Piece<'_> {
        match self {
            Outgoing::File(file) if file.remaining == 0 => {
                let Some(part) = file.parts.pop_front() else {
                    return Piece::End;
                };
                out.extend_from_slice(&part.head);
                file.offset = part.range.start;
                file.remaining = part.range.end - part.range.start;
                Piece::Bytes
            }
            Outgoing::File(file) => Piece::OfFile(file),
            // The application writes the piece when it is ready.
            Outgoing::Stream(_) => Piece::Bytes,
        }
    }
}

/// The next piece of a body.
pub(crate) enum Piece<'a> {
    /// Bytes that were put into the output.
    Bytes,
    /// Bytes of a file.
    OfFile(&'a mut FileBody),
    /// No more bytes: the body is complete.
    End,
}
