//! Response bodies that go out piece by piece as the client takes them: files, and streams of the program.
//!
//! All that a connection asks of the body of its answer is asked here: a new kind is a new variant with what it does below.

use crate::id::RequestId;
use std::collections::VecDeque;
use std::fs;
use std::ops::Range;

/// What follows the bytes in `Connection::out`.
pub(crate) enum Outgoing {
    File(FileBody),
    Stream(StreamBody),
}

/// A file, or parts of one, on the way to the client.
pub(crate) struct FileBody {
    pub file: fs::File,
    /// What is left of the present part.
    pub offset: u64,
    pub remaining: u64,
    /// The parts after it.
    pub parts: VecDeque<Part>,
    /// The kernel has refused to send this file by itself, so it is read.
    pub must_read: bool,
}

/// A part of a file with what stands before it; the last one is nothing but such text.
pub(crate) struct Part {
    pub head: Vec<u8>,
    pub range: Range<u64>,
}

/// A body that the program makes while it is sent.
pub(crate) struct StreamBody {
    /// The request it answers.
    pub handle: RequestId,
    /// What answered it.
    pub handler: u32,
    /// What is left of the length that its head has promised; `None` = none was.
    pub left: Option<u64>,
    /// It stands in `Streams::ready`.
    pub is_listed: bool,
}

impl FileBody {
    /// The bytes from `range.start` on.
    pub fn new(file: fs::File, range: Range<u64>) -> FileBody {
        FileBody {
            file,
            offset: range.start,
            remaining: range.end - range.start,
            parts: VecDeque::new(),
            must_read: false,
        }
    }

    /// Bytes that the file has still to give.
    pub fn unsent(&self) -> u64 {
        let later = |part: &Part| part.range.end - part.range.start + part.head.len() as u64;
        self.remaining + self.parts.iter().map(later).sum::<u64>()
    }
}

impl Outgoing {
    /// Bytes that are known to follow.
    pub fn unsent(&self) -> u64 {
        match self {
            Outgoing::File(file) => file.unsent(),
            Outgoing::Stream(stream) => stream.left.unwrap_or(0),
        }
    }

    /// Whether the server has what follows, and is not given it.
    pub fn is_here(&self) -> bool {
        match self {
            Outgoing::File(_) => true,
            Outgoing::Stream(_) => false,
        }
    }

    /// What follows the bytes that have been taken. Bytes are put into `out`.
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
            // It is given when the program has made it.
            Outgoing::Stream(_) => Piece::Bytes,
        }
    }
}

/// What follows of a body.
pub(crate) enum Piece<'a> {
    /// The bytes that were put into the output.
    Bytes,
    /// What is in a file.
    OfFile(&'a mut FileBody),
    /// Nothing: that was all.
    End,
}
