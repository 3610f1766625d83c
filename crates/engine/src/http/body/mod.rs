//! Storage of a request body while it arrives.
//!
//! Small bodies are collected in memory. A body larger than `body_memory_bytes_max` is written to a
//! temporary file as it arrives. A `multipart/form-data` body is parsed: files go to temporary
//! files, fields to memory. So the memory of a body is bounded, whatever its size.
//!
//! The loop itself writes the files, at most [`SPOOL_TURN_BYTES`] plus one read per turn. Price: a
//! write that waits for the disk delays other clients; a write to the page cache costs as much as a
//! copy.

mod arriving;
mod early;
mod form;
mod reading;
mod spool;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;

use fermata_config::Settings;
use fermata_io::process;
use fermata_proto::{Refusal, chunked, http1};

use crate::net::index::ConnectionIndex;
pub(crate) use early::StreamedBody;
#[cfg(test)]
pub(crate) use early::TURN_BYTES_MAX;
pub use early::{ARRIVING, Read, ReadError};
pub(crate) use form::Form;
pub use form::UploadedFile;
pub use spool::Temporary;
pub(crate) use spool::{Spool, Spools};

/// Maximum number of bytes that all bodies together write to temporary files per turn, before other
/// work continues: less than a millisecond of copying.
pub(crate) const SPOOL_TURN_BYTES: u64 = 1024 * 1024;

/// A request whose body is still arriving.
pub(crate) struct Partial {
    pub head_bytes: Vec<u8>,
    pub head: http1::Head,
    /// The received part of the body, or the part about to be moved to the sink.
    pub body: Vec<u8>,
    pub rest: BodyRest,
    /// Maximum size in bytes: the route's limit or the setting.
    pub bytes_max: u64,
    pub pace: BodyPace,
    pub sink: Sink,
    /// Bytes received so far, without transfer coding.
    pub received: u64,
    /// Start of the body's time limit: the time at which the head was complete. While the body
    /// arrives fast, the start moves along, so that no client can save up time for a pause longer
    /// than `body_timeout_ms`.
    pub begun_ms: u64,
    /// State of a body that its handler already reads; `None` otherwise.
    pub early: Option<StreamedBody>,
}

/// Time limits of an arriving body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyPace {
    /// Base time limit in milliseconds.
    pub timeout_ms: u64,
    /// Rate in bytes per second that extends the limit; 0 = never extended.
    pub rate_min: u64,
    /// Name of the time limit's setting, for messages.
    pub setting: &'static str,
}

impl BodyPace {
    /// Returns the time limit of a body of which `received` bytes have arrived.
    pub(crate) fn allowed_ms(&self, received: u64) -> u64 {
        self.timeout_ms.saturating_add(self.earned_ms(received))
    }

    /// Returns the additional time for `received` bytes; 0 if the limit is never extended.
    pub(crate) fn earned_ms(&self, received: u64) -> u64 {
        let earned_ms = received.saturating_mul(1_000).checked_div(self.rate_min);
        earned_ms.unwrap_or(0)
    }
}

/// Limits for the request bodies of one handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Maximum size in bytes.
    pub bytes_max: u64,
    /// Time limits; `None` = the time limits of the settings.
    pub pace: Option<BodyPace>,
}

/// How to receive a request's body. Determined when the head is parsed.
pub(crate) struct Plan {
    /// Time limits; `None` = the time limits of the settings.
    pub pace: Option<BodyPace>,
    /// Maximum size in bytes: the route's limit or the setting.
    pub bytes_max: u64,
    /// The route's own size limit in bytes; `None` = the limit of the settings.
    pub own_bytes_max: Option<u64>,
    /// Boundary of a form to parse.
    pub boundary: Option<Vec<u8>>,
    /// The handler reads the body while it arrives.
    pub is_early: bool,
}

/// The missing part of a body.
pub(crate) enum BodyRest {
    Length(u64),
    Chunked(chunked::Decoder),
    /// The body ends with its HTTP/2 stream.
    Stream {
        /// True if all bytes of the stream have been passed on.
        has_ended: bool,
    },
}

/// Location of the head of an arriving body.
pub(crate) enum HeadAt {
    /// In the input buffer.
    Input(Range<usize>),
    /// The head is in `Request::head_bytes`.
    Request,
}

impl HeadAt {
    #[inline]
    pub fn of<'a>(&self, input: &'a [u8], head_bytes: &'a [u8]) -> &'a [u8] {
        match self {
            HeadAt::Input(range) => &input[range.clone()],
            HeadAt::Request => head_bytes,
        }
    }
}

/// Destination of a body.
pub(crate) enum Sink {
    /// The body is stored in `Partial::body`.
    Memory,
    File(Spool),
    Form(Box<Form>),
}

/// A received body of which at least a part is in files.
#[derive(Debug, Default)]
pub struct Upload {
    /// File and length of the complete body, if the body was too large for memory.
    pub body: Option<(Temporary, u64)>,
    /// Names and values of a form's fields, in order.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Files of a form, in order.
    pub files: Vec<UploadedFile>,
    /// File fields without a chosen file, in order.
    pub unchosen: Vec<Unchosen>,
}

/// A file field of a form for which the user has chosen no file.
#[derive(Debug, PartialEq, Eq)]
pub struct Unchosen {
    /// Name of the field.
    pub name: Vec<u8>,
    /// Number of files that precede this field in the form.
    pub files_before: usize,
}

/// Why a body is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// Malformed, or over a limit of the parser.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The body exceeds the limit of a setting, which the message names.
    #[error("{0}")]
    TooLarge(String),
    /// A temporary file cannot be written.
    #[error(
        "cannot write a temporary file in {directory}: {source}; free space there or set upload_directory"
    )]
    Io {
        directory: String,
        source: io::Error,
    },
}

impl BodyError {
    /// Returns the status of the response.
    pub fn status(&self) -> u16 {
        match self {
            Self::Refused(refusal) => refusal.status(),
            Self::TooLarge(_) => 413,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => 507,
                _ if process::is_short_of_descriptors(source) => 503,
                _ => 500,
            },
        }
    }

    /// Returns the message for the client. File names are only logged.
    pub fn client_message(&self) -> String {
        match self {
            Self::Io { .. } => "The server cannot store the body; its log tells why.\n".to_owned(),
            _ => format!("{self}.\n"),
        }
    }

    fn io(directory: &Path, source: io::Error) -> BodyError {
        let directory = directory.display().to_string();
        BodyError::Io { directory, source }
    }
}

impl Partial {
    /// Returns the number of bytes of memory that the body uses.
    pub fn buffered_bytes(&self) -> usize {
        let of_sink = match &self.sink {
            Sink::Memory | Sink::File(_) => 0,
            Sink::Form(form) => form.buffered_bytes(),
        };
        self.body.capacity() + self.head_bytes.capacity() + of_sink
    }

    /// Returns the number of bytes written to temporary files.
    pub fn spooled(&self) -> u64 {
        match self.sink {
            Sink::Memory => 0,
            Sink::File(_) | Sink::Form(_) => self.received,
        }
    }

    /// Consumes the part of `input` that belongs to the body. Returns its length, and true if the
    /// body is complete.
    pub fn take(
        &mut self,
        input: &[u8],
        settings: &Settings,
        spools: &Spools,
    ) -> Result<(usize, bool), BodyError> {
        match &mut self.rest {
            BodyRest::Length(missing) => {
                let taken = (*missing).min(input.len() as u64);
                *missing -= taken;
                let is_done = *missing == 0;
                self.received += taken;
                let taken = taken as usize;
                match &mut self.sink {
                    Sink::Memory => self.body.extend_from_slice(&input[..taken]),
                    Sink::File(spool) => spool.write(&input[..taken])?,
                    Sink::Form(form) => form.feed(&input[..taken])?,
                }
                Ok((taken, is_done))
            }
            BodyRest::Chunked(decoder) => {
                let decoded = decoder.decode(input, &mut self.body, self.bytes_max)?;
                self.received = decoder.body_bytes();
                self.settle(settings, spools)?;
                Ok((decoded.consumed, decoded.done))
            }
            BodyRest::Stream { has_ended } => {
                let has_ended = *has_ended;
                self.received += input.len() as u64;
                if self.received > self.bytes_max {
                    return Err(Refusal::BodyTooLarge.into());
                }
                self.body.extend_from_slice(input);
                self.settle(settings, spools)?;
                Ok((input.len(), has_ended))
            }
        }
    }

    /// Moves decoded bytes to the sink.
    fn settle(&mut self, settings: &Settings, spools: &Spools) -> Result<(), BodyError> {
        match &mut self.sink {
            Sink::Memory if self.body.len() <= settings.body_memory_bytes_max => return Ok(()),
            Sink::Memory => {
                let mut spool = spools.create()?;
                spool.write(&self.body)?;
                self.sink = Sink::File(spool);
                self.body = Vec::new();
            }
            Sink::File(spool) => spool.write(&self.body)?,
            Sink::Form(form) => form.feed(&self.body)?,
        }
        self.body.clear();
        Ok(())
    }

    /// Completes the body; returns the part that is not in `body`.
    pub fn finish(sink: Sink) -> Result<Option<Upload>, BodyError> {
        match sink {
            Sink::Memory => Ok(None),
            Sink::File(spool) => Ok(Some(Upload {
                body: Some(spool.finish()),
                ..Upload::default()
            })),
            Sink::Form(form) => form.finish().map(Some),
        }
    }
}

/// Stored bodies of open requests, by number. Removing an entry deletes its files.
#[derive(Default)]
pub(crate) struct Uploads {
    live: HashMap<u32, Upload>,
    last: u32,
    /// Number of this turn of the loop.
    pub turn: u64,
    /// Bytes written to temporary files in this turn.
    pub turn_bytes: u64,
    /// Connections postponed to the next turn because the limit of this turn was reached.
    pub postponed: Vec<ConnectionIndex>,
    /// Raw bytes last read of a streamed body.
    raw: Vec<u8>,
    /// Bytes of the last piece without the transfer coding.
    piece: Vec<u8>,
}

impl Uploads {
    /// Drops the last piece. If the piece is the receive buffer, the buffer is reused, which avoids
    /// filling it with zeros again.
    fn take_back_piece(&mut self) {
        if self.piece.len() > self.raw.len() {
            std::mem::swap(&mut self.piece, &mut self.raw);
        }
        self.piece.clear();
    }

    /// Starts a turn of the loop.
    pub fn begin_turn(&mut self) {
        self.turn += 1;
        self.turn_bytes = 0;
    }

    /// Stores a body until it is released; its number is neither 0 nor `ARRIVING`.
    pub fn keep(&mut self, upload: Upload) -> u32 {
        loop {
            self.last = self.last.wrapping_add(1);
            if self.last != 0 && self.last != ARRIVING && !self.live.contains_key(&self.last) {
                break;
            }
        }
        self.live.insert(self.last, upload);
        self.last
    }

    pub fn get(&self, number: u32) -> Option<&Upload> {
        self.live.get(&number)
    }

    pub fn release(&mut self, number: u32) {
        self.live.remove(&number);
    }
}
