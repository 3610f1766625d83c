//! Where the body of a request goes while it arrives.
//!
//! Small ones collect in memory. What is larger than `body_memory_bytes_max` goes to a temporary file as it comes, and
//! a `multipart/form-data` body is taken apart: its files go to temporary files, its fields to memory. So the memory of
//! a body is bounded, however large it may be.
//!
//! Files are written by the loop itself, at most [`SPOOL_TURN_BYTES`] and one read in a turn of it. The price: a write
//! that has to wait for the disk makes the other clients wait; what the page cache takes costs what a copy costs.

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
pub(crate) use early::Early;
#[cfg(test)]
pub(crate) use early::TURN_BYTES_MAX;
pub use early::{ARRIVING, Read, ReadError};
pub(crate) use form::Form;
pub use form::UploadedFile;
pub use spool::Temporary;
pub(crate) use spool::{Spool, Spools};

/// Bytes that all bodies together write to temporary files before other work gets its turn: less than a millisecond of
/// copying.
pub(crate) const SPOOL_TURN_BYTES: u64 = 1024 * 1024;

/// A request whose body is still arriving.
pub(crate) struct Partial {
    pub head_bytes: Vec<u8>,
    pub head: http1::Head,
    /// The body so far, or what of it is about to go to the sink.
    pub body: Vec<u8>,
    pub rest: BodyRest,
    /// What it may have: the route's limit or the setting.
    pub bytes_max: u64,
    pub pace: BodyPace,
    pub sink: Sink,
    /// Bytes of it so far, as the client sees them.
    pub received: u64,
    /// When its head was complete.
    pub begun_ms: u64,
    /// Its handler has it already, and reads.
    pub early: Option<Early>,
}

/// How long a body may take to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyPace {
    /// Time that it has.
    pub timeout_ms: u64,
    /// Bytes a second at which it may take longer; 0: it may not.
    pub rate_min: u64,
    /// The setting of the time, for whoever is told that it is over.
    pub setting: &'static str,
}

impl BodyPace {
    /// The time for a body of which this much has come.
    pub(crate) fn allowed_ms(&self, received: u64) -> u64 {
        let earned_ms = received.saturating_mul(1_000).checked_div(self.rate_min);
        self.timeout_ms.saturating_add(earned_ms.unwrap_or(0))
    }
}

/// What the bodies of requests for one handler may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Their bytes.
    pub bytes_max: u64,
    /// Their time; `None`: that of the settings.
    pub pace: Option<BodyPace>,
}

/// How the body of a request is to be taken, known when its head is.
pub(crate) struct Plan {
    /// Its time; `None`: that of the settings.
    pub pace: Option<BodyPace>,
    /// What it may have: the route's limit or the setting.
    pub bytes_max: u64,
    /// The route's limit alone.
    pub own_bytes_max: Option<u64>,
    /// Of a form that is taken apart.
    pub boundary: Option<Vec<u8>>,
    /// The handler reads it while it arrives.
    pub is_early: bool,
}

/// What is missing of a body.
pub(crate) enum BodyRest {
    Length(u64),
    Chunked(chunked::Decoder),
    /// It ends with its stream.
    Stream {
        /// All that will come has been handed over with this.
        has_ended: bool,
    },
}

/// Where the head lies whose body is to come.
pub(crate) enum HeadAt {
    /// In the input buffer.
    Input(Range<usize>),
    /// In `Request::head_bytes`.
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

/// Where a body goes.
pub(crate) enum Sink {
    /// `Partial::body`.
    Memory,
    File(Spool),
    Form(Box<Form>),
}

/// A body that arrived and is not only in memory.
#[derive(Debug, Default)]
pub struct Upload {
    /// The whole body, when it was too large for memory: its file and length.
    pub body: Option<(Temporary, u64)>,
    /// Names and values of a form, in its order.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// Files of a form, in its order.
    pub files: Vec<UploadedFile>,
    /// Fields for files in which nothing was chosen, in order.
    pub unchosen: Vec<Unchosen>,
}

/// A field for a file in which nothing was chosen.
#[derive(Debug, PartialEq, Eq)]
pub struct Unchosen {
    /// Its name.
    pub name: Vec<u8>,
    /// Files that came before it.
    pub files_before: usize,
}

/// Why a body is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// Malformed, or over a limit of the parser.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// Over a limit that is a setting; the sentence names it.
    #[error("{0}")]
    TooLarge(String),
    /// A temporary file cannot be written.
    #[error(
        "a temporary file in {directory} cannot be written: {source}; free space there or set upload_directory"
    )]
    Io {
        directory: String,
        source: io::Error,
    },
}

impl BodyError {
    /// The status of the answer.
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

    /// What the client is told. The names of our files are for the log.
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
    /// Bytes of it that were written to temporary files.
    pub fn spooled(&self) -> u64 {
        match self.sink {
            Sink::Memory => 0,
            Sink::File(_) | Sink::Form(_) => self.received,
        }
    }

    /// Takes what of `input` belongs to the body. How much that was, and whether the body is complete.
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

    /// Moves what was decoded to where it belongs.
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

    /// The body has arrived: what of it is not in `body`.
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

/// Bodies whose requests are not over, by number. What is dropped here removes its files.
#[derive(Default)]
pub(crate) struct Uploads {
    live: HashMap<u32, Upload>,
    last: u32,
    /// The number of this turn of the loop.
    pub turn: u64,
    /// Bytes written to temporary files in this turn.
    pub turn_bytes: u64,
    /// Connections that have had to wait for the next turn because others have written so many.
    pub postponed: Vec<ConnectionIndex>,
    /// What was last read of a body whose handler reads it, as it came.
    raw: Vec<u8>,
    /// The same without the transfer coding.
    piece: Vec<u8>,
}

impl Uploads {
    /// Forgets the last piece. Where it is the buffer it was received in, that one is received in again: it need not be
    /// filled with zeros anew.
    fn take_back_piece(&mut self) {
        if self.piece.len() > self.raw.len() {
            std::mem::swap(&mut self.piece, &mut self.raw);
        }
        self.piece.clear();
    }

    /// A turn of the loop begins.
    pub fn begin_turn(&mut self) {
        self.turn += 1;
        self.turn_bytes = 0;
    }

    /// Keeps a body until it is released; its number is neither 0 nor `ARRIVING`.
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
