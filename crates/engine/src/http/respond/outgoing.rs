//! Response bodies sent piece by piece as the client reads: files, and streams of the application.
//!
//! This file has all functions that depend on the kind of body; a new kind is a new variant.

use crate::id::RequestId;
use std::collections::VecDeque;
use std::fs;
use std::ops::Range;

/// Rest of a response after the bytes in `Connection::out`.
pub(crate) enum Outgoing {
    File(FileBody),
    Stream(StreamBody),
}

/// A file, or parts of it, being sent.
pub(crate) struct FileBody {
    pub file: fs::File,
    /// Rest of the current part.
    pub offset: u64,
    pub remaining: u64,
    /// Further parts.
    pub parts: VecDeque<Part>,
    /// The kernel cannot send this file directly, so it is read.
    pub must_read: bool,
}

/// A part of a file with the text before it; the last one consists of text only.
pub(crate) struct Part {
    pub head: Vec<u8>,
    pub range: Range<u64>,
}

/// A body that the application produces while it is sent.
pub(crate) struct StreamBody {
    /// The request that it answers.
    pub handle: RequestId,
    /// The handler that started it.
    pub handler: u32,
    /// Rest of the length announced in the head; `None` = no length announced.
    pub left: Option<u64>,
    /// True while it is in `Streams::ready`.
    pub is_listed: bool,
    /// Size of the piece that the embedder holds until all of it is accepted; 0 without one.
    pub piece_bytes: usize,
    /// Bytes that the embedder has still to write, as it has reported; see `Net::hold_piece`.
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
    /// Returns the known number of bytes left to send.
    pub fn unsent(&self) -> u64 {
        match self {
            Outgoing::File(file) => file.unsent(),
            Outgoing::Stream(stream) => stream.left.unwrap_or(0),
        }
    }

    /// Returns the memory it uses, in bytes.
    pub fn buffered_bytes(&self) -> usize {
        match self {
            Outgoing::File(_) => 0,
            Outgoing::Stream(stream) => stream.piece_bytes + stream.held_bytes,
        }
    }

    /// Returns true if the server has the rest itself, without the application.
    pub fn is_here(&self) -> bool {
        match self {
            Outgoing::File(_) => true,
            Outgoing::Stream(_) => false,
        }
    }

    /// Returns the next piece after all bytes so far were sent. `Bytes` are put into `out`.
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
            // The application writes it when it is ready.
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
