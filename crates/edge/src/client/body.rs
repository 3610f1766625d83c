//! Request bodies that arrive after their heads.

use std::fs::File;
use std::io;

use fermata_engine::{Read, ReadError, RequestId, Temporary};
use fermata_proto::number;

use crate::client::request::ClientRequest;
use crate::client::source::{Engine, Source};
use crate::numbered::Numbered;
use crate::routes::{Origin, Target};
use crate::upstream::reply::INSTRUCT_BYTES_MAX;

/// Maximum number of bytes per read of a body. A piece is smaller than the kernel's largest segment (64 KiB with headers).
/// Otherwise the rest of each piece would be sent as a separate packet.
pub(crate) const PIECE_BYTES_MAX: usize = 48 * 1024;
/// Maximum number of bytes of a body that are read per turn of the event loop.
pub(crate) const TURN_BYTES_MAX: usize = 512 * 1024;

/// Bodies of open requests, by request.
#[derive(Default)]
pub(crate) struct Bodies {
    collecting: Numbered<RequestId, Box<Collecting>>,
    /// Files that the edge created.
    temporaries: Numbered<RequestId, Temporary>,
    /// Files that the engine created.
    uploads: Numbered<RequestId, u32>,
}

/// Result of reading from a body that is being collected.
pub(crate) enum Collected {
    /// More has to arrive.
    Waits,
    /// The limit of this turn was reached.
    Turn,
    /// The body is complete.
    Whole(Box<Collecting>),
    /// The body is too large for memory, and every target accepts a body that is still arriving.
    Streams(Box<Collecting>),
    /// The rest of the body cannot be read.
    Failed(ReadError),
    /// The body cannot be written to a file.
    Unstored(io::Error),
}

/// A request whose body is being collected.
pub(crate) struct Collecting {
    pub(crate) source: Source,
    /// Offset in the path after the SockJS prefix, for SockJS requests.
    pub(crate) sockjs: Option<usize>,
    pub(crate) body: Vec<u8>,
    /// File for a body that is too large for memory, if a target needs the complete body.
    pub(crate) file: Option<(File, Temporary, u64)>,
}

/// Rest of a body that is forwarded while it arrives.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    /// More bytes were read than the request retains in memory, so the request cannot be sent again.
    pub has_begun: bool,
    /// The complete body was read.
    pub has_ended: bool,
    /// Error that ended the body.
    pub failure: Option<ReadError>,
}

impl Bodies {
    pub fn len(&self) -> usize {
        self.collecting.len() + self.temporaries.len() + self.uploads.len()
    }

    /// Registers a body that the engine stored in a file.
    pub fn keep_upload(&mut self, handle: RequestId, upload: u32) {
        self.uploads.insert(handle, upload);
    }

    /// Registers a body that the edge stored in a file.
    pub fn keep_temporary(&mut self, handle: RequestId, temporary: Temporary) {
        self.temporaries.insert(handle, temporary);
    }

    pub fn collect(&mut self, handle: RequestId, collecting: Collecting) {
        self.collecting.insert(handle, Box::new(collecting));
    }

    pub fn stop_collecting(&mut self, handle: RequestId) {
        self.collecting.remove(&handle);
    }

    /// Continues to read a body. Returns `None` if no body of this request is being collected.
    pub fn collect_on(&mut self, worker: &mut Engine, handle: RequestId) -> Option<Collected> {
        let mut it = self.collecting.remove(&handle)?;
        let collected = match it.read_on(worker, handle) {
            Progress::Waits => Collected::Waits,
            Progress::Turn => Collected::Turn,
            Progress::Whole => return Some(Collected::Whole(it)),
            Progress::Streams => return Some(Collected::Streams(it)),
            Progress::Failed(error) => return Some(Collected::Failed(error)),
            Progress::Unstored(error) => return Some(Collected::Unstored(error)),
        };
        self.collecting.insert(handle, it);
        Some(collected)
    }

    /// Deletes the files of a request that ended.
    pub fn forget(&mut self, worker: &mut Engine, handle: RequestId) {
        self.temporaries.remove(&handle);
        if let Some(upload) = self.uploads.remove(&handle) {
            worker.http.release_upload(upload);
        }
    }
}

/// Like [`Collected`], without the body.
enum Progress {
    Waits,
    Turn,
    Whole,
    Streams,
    Failed(ReadError),
    Unstored(io::Error),
}

impl Collecting {
    fn read_on(&mut self, worker: &mut Engine, handle: RequestId) -> Progress {
        let mut turn_bytes = 0;
        loop {
            let read = match worker.read_body(handle, PIECE_BYTES_MAX) {
                Ok(Read::Pending) => return Progress::Waits,
                Ok(read) => read,
                Err(error) => return Progress::Failed(error),
            };
            let is_last = read != Read::Piece;
            let piece = match read {
                Read::Piece | Read::Last => worker.http.body_piece(),
                _ => &[],
            };
            turn_bytes += piece.len();
            let stored = self.store(piece);
            if let Err(error) = stored.and_then(|()| self.make_room(worker, is_last)) {
                return Progress::Unstored(error);
            }
            if is_last {
                return Progress::Whole;
            }
            if self.is_to_stream() {
                return Progress::Streams;
            }
            if turn_bytes >= TURN_BYTES_MAX {
                return Progress::Turn;
            }
        }
    }

    fn store(&mut self, piece: &[u8]) -> io::Result<()> {
        match &mut self.file {
            Some((file, temporary, bytes)) => {
                *bytes += piece.len() as u64;
                temporary.append(file, piece)
            }
            None => {
                self.body.extend_from_slice(piece);
                Ok(())
            }
        }
    }

    /// Moves a body that is too large for memory to a file, if a target needs the complete body.
    fn make_room(&mut self, worker: &Engine, is_last: bool) -> io::Result<()> {
        let fits = self.file.is_some() || self.body.len() <= INSTRUCT_BYTES_MAX;
        if is_last || fits || self.may_stream() {
            return Ok(());
        }
        let (mut file, mut temporary) = worker.http.new_temporary()?;
        let body = std::mem::take(&mut self.body);
        temporary.append(&mut file, &body)?;
        self.file = Some((file, temporary, body.len() as u64));
        Ok(())
    }

    /// Returns true if every target accepts a body that is still arriving.
    pub(crate) fn may_stream(&self) -> bool {
        let takes = |target: &Target| match target.origin {
            Origin::Host { .. } | Origin::Unix(_) | Origin::Files(_) | Origin::Test => true,
            // FastCGI targets receive complete bodies: a slow client would otherwise occupy a PHP-FPM process.
            Origin::FastCgiHost { .. } | Origin::FastCgiUnix(_) => false,
            Origin::Zhttp(_) => true,
            Origin::ZhttpReq(_) => false,
        };
        // Never forward the body of a SockJS request early: SockJS refuses large bodies.
        let rule = self.source.rule().filter(|_| self.sockjs.is_none());
        rule.is_none_or(|rule| rule.targets.iter().all(takes))
    }

    /// Returns true if the body is known to be too large. The edge then forwards the body from its start, which saves two copies
    /// per byte.
    fn is_to_stream(&self) -> bool {
        let declared = self.source.request.declared_length().unwrap_or_default();
        let is_large = self.body.len() > INSTRUCT_BYTES_MAX
            || (declared > INSTRUCT_BYTES_MAX as u64 && !self.body.is_empty() && self.may_stream());
        self.file.is_none() && is_large
    }
}

impl ClientRequest {
    /// Returns the client's `Content-Length`.
    pub(crate) fn declared_length(&self) -> Option<u64> {
        let value = self.header("content-length")?;
        number::parse_decimal(value.trim_ascii())
    }
}
