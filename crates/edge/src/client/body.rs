//! Bodies of requests that are not here with their heads.

use std::fs::File;
use std::io;
use std::io::Write as _;

use fermata_engine::{Read, ReadError, RequestId, Temporary};
use fermata_proto::number;

use crate::client::request::ClientRequest;
use crate::client::source::{Engine, Source};
use crate::numbered::Numbered;
use crate::routes::{Origin, Target};
use crate::upstream::reply::INSTRUCT_BYTES_MAX;

/// What is read of a body at once, and how much in a row before others get their turn. Less than the kernel puts into one
/// packet (64 KiB with its headers), or the rest of each piece would be a packet of its own.
pub(crate) const PIECE_BYTES_MAX: usize = 48 * 1024;
pub(crate) const TURN_BYTES_MAX: usize = 512 * 1024;

/// What is kept for the bodies of open requests, by their handles.
#[derive(Default)]
pub(crate) struct Bodies {
    collecting: Numbered<RequestId, Box<Collecting>>,
    /// In files of our own.
    temporaries: Numbered<RequestId, Temporary>,
    /// That the engine has put aside.
    uploads: Numbered<RequestId, u32>,
}

/// How a body that is collected has come on.
pub(crate) enum Collected {
    /// Nothing more is there.
    Waits,
    /// Others get their turn.
    Turn,
    /// All of it is there.
    Whole(Box<Collecting>),
    /// It is too large for memory, and every target takes the rest as it comes.
    Streams(Box<Collecting>),
    /// The engine has no more of it, and says why.
    Failed(ReadError),
    /// It could not be written into a file.
    Unstored(io::Error),
}

/// A request whose body is being collected.
pub(crate) struct Collecting {
    pub(crate) source: Source,
    /// Where the path goes on below that of SockJS, where it is one of those.
    pub(crate) sockjs: Option<usize>,
    pub(crate) body: Vec<u8>,
    /// Where it goes when it is too large for memory and no target takes it as it comes.
    pub(crate) file: Option<(File, Temporary, u64)>,
}

/// What is left of a body that goes to the origin as it arrives.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    /// More was read than the request has in memory: it cannot be said again.
    pub has_begun: bool,
    /// All of it was read.
    pub has_ended: bool,
    /// Why there is no more.
    pub failure: Option<ReadError>,
}

impl Bodies {
    pub fn len(&self) -> usize {
        self.collecting.len() + self.temporaries.len() + self.uploads.len()
    }

    /// The engine has the body in a file.
    pub fn keep_upload(&mut self, handle: RequestId, upload: u32) {
        self.uploads.insert(handle, upload);
    }

    /// We have.
    pub fn keep_temporary(&mut self, handle: RequestId, temporary: Temporary) {
        self.temporaries.insert(handle, temporary);
    }

    pub fn collect(&mut self, handle: RequestId, collecting: Collecting) {
        self.collecting.insert(handle, Box::new(collecting));
    }

    pub fn stop_collecting(&mut self, handle: RequestId) {
        self.collecting.remove(&handle);
    }

    /// Reads on in a body that is collected; `None`: this one is not.
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

    /// The request is over.
    pub fn forget(&mut self, worker: &mut Engine, handle: RequestId) {
        self.temporaries.remove(&handle);
        if let Some(upload) = self.uploads.remove(&handle) {
            worker.http.release_upload(upload);
        }
    }
}

/// The same as [`Collected`], while the body stays where it is.
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
            Some((file, _, bytes)) => {
                *bytes += piece.len() as u64;
                file.write_all(piece)
            }
            None => {
                self.body.extend_from_slice(piece);
                Ok(())
            }
        }
    }

    /// Gives a body that is too large for memory a file, if no target takes it as it comes.
    fn make_room(&mut self, worker: &Engine, is_last: bool) -> io::Result<()> {
        let fits = self.file.is_some() || self.body.len() <= INSTRUCT_BYTES_MAX;
        if is_last || fits || self.may_stream() {
            return Ok(());
        }
        let (mut file, temporary) = worker.http.new_temporary()?;
        let body = std::mem::take(&mut self.body);
        file.write_all(&body)?;
        self.file = Some((file, temporary, body.len() as u64));
        Ok(())
    }

    /// Whether every target takes it as it comes.
    pub(crate) fn may_stream(&self) -> bool {
        let has_length = self.source.request.said_length().is_some();
        let takes = |target: &Target| match target.origin {
            Origin::Host { .. } | Origin::Unix(_) | Origin::Files(_) | Origin::Test => true,
            // Programs are told the length before the body.
            Origin::FastCgiHost { .. } | Origin::FastCgiUnix(_) => has_length,
            Origin::Zhttp(_) => true,
            Origin::ZhttpReq(_) => false,
        };
        // What is too large for SockJS is refused, and not read.
        let rule = self.source.rule().filter(|_| self.sockjs.is_none());
        rule.is_none_or(|rule| rule.targets.iter().all(takes))
    }

    /// A body that says that it is too large is not collected up to there: each of its bytes would be copied twice more.
    fn is_to_stream(&self) -> bool {
        let said = self.source.request.said_length().unwrap_or_default();
        let is_large = self.body.len() > INSTRUCT_BYTES_MAX
            || (said > INSTRUCT_BYTES_MAX as u64 && !self.body.is_empty() && self.may_stream());
        self.file.is_none() && is_large
    }
}

impl ClientRequest {
    /// The length that the client has announced.
    pub(crate) fn said_length(&self) -> Option<u64> {
        let value = self.header("content-length")?;
        number::parse_decimal(value.trim_ascii())
    }
}
