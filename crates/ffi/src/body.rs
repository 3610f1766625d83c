//! Responses with a streamed or file body.

use std::mem::MaybeUninit;

use fermata_engine::files::ContentHeaders;
use fermata_engine::{FileAnswer, FilePlace, StaticFound, StreamError, Wanted};

use crate::abi::{FM_GONE, FM_MISUSE, FmError, FmHeader, FmRequest, FmStr, array, ask, guard, put};
use crate::worker::{FmDetail, FmResponse, FmWorker, Known};

/// `fm_stream_wanted`: the client disconnected, or the request already has a response.
pub const FM_STREAM_NOTHING: u32 = 0;
/// `fm_stream_wanted`: pass the first piece to `fm_stream_begin`.
pub const FM_STREAM_PIECES: u32 = 1;
/// Result of `fm_stream_wanted`: call `fm_stream_begin` without a piece. No other call follows.
pub const FM_STREAM_HEAD: u32 = 2;
/// `fm_stream_wanted`: the limit of streams is reached; respond with 503.
pub const FM_STREAM_REFUSAL: u32 = 3;

/// Handler number that means none.
pub const FM_NO_HANDLER: u32 = 0xffff_ffff;

/// `fm_static_find`: a file, which `fm_respond_file` sends.
pub const FM_STATIC_FILE: u32 = 0;
/// Result of `fm_static_find`: nothing was found, so respond with 404.
pub const FM_STATIC_NOTHING: u32 = 1;
/// Result of `fm_static_find`: the path is a directory, so redirect with 308 to the same path with a trailing slash.
pub const FM_STATIC_DIRECTORY: u32 = 2;
/// `fm_static_find`: an unreadable file; the error is logged; respond with 500.
pub const FM_STATIC_FAILED: u32 = 3;

/// A file as a response.
#[repr(C)]
pub struct FmFile {
    /// Path below `root`, or path of the file system without `root`.
    pub path: FmStr,
    /// Directory that must contain the file; `ptr` NULL for any.
    pub root: FmStr,
    /// Handler of `fm_server_guard_files` whose tree contains the file. FM_NO_HANDLER: no tree contains it. With a handler, `path`
    /// is the decoded path of the request.
    pub tree: u32,
    /// Content-Type. If `ptr` is NULL, it is derived from the file name.
    pub content_type: FmStr,
    /// Status, 200 to 599. Conditions and ranges apply only to 200.
    pub status: u32,
    /// Additional field lines of the response; each has passed `fm_header_valid`.
    pub headers: *const FmHeader,
    /// Number of `headers`.
    pub headers_len: usize,
    /// Field lines of the request; only conditions, ranges and codings are used.
    pub asked: *const FmHeader,
    /// Number of `asked`.
    pub asked_len: usize,
}

impl FmFile {
    fn lines(&self) -> &[FmHeader] {
        // SAFETY: C sets both fields: an array and its length.
        unsafe { array(self.headers, self.headers_len) }
    }

    fn asked(&self) -> &[FmHeader] {
        // SAFETY: as above.
        unsafe { array(self.asked, self.asked_len) }
    }
}

pub(crate) fn failure(error: StreamError) -> (u32, String) {
    let code = match error {
        StreamError::Gone(_) => FM_GONE,
        StreamError::Misuse(_) => FM_MISUSE,
    };
    (code, error.to_string())
}

/// Returns how to respond to a request with a stream: FM_STREAM_*.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_wanted(
    worker: Option<&FmWorker>,
    request: FmRequest,
    status: u32,
) -> u32 {
    ask(
        worker.zip(request.id()),
        FM_STREAM_NOTHING,
        |(worker, request)| {
            let status = u16::try_from(status).unwrap_or(500);
            match worker.worker.stream_wanted(request, status) {
                Wanted::Nothing => FM_STREAM_NOTHING,
                Wanted::Pieces => FM_STREAM_PIECES,
                Wanted::Head => FM_STREAM_HEAD,
                Wanted::Refusal => FM_STREAM_REFUSAL,
            }
        },
    )
}

/// Starts a response stream. The first piece is the body of `response`. `taken` receives the number of bytes accepted. `length` is
/// the total length of all pieces, or -1 if it is unknown. FM_EVENT_STREAM requests more. FM_GONE; FM_MISUSE if the piece exceeds
/// `length`; the request is then still open.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_begin(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    response: Option<&FmResponse>,
    length: i64,
    taken: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker.zip(response), error, |(worker, response)| {
        let request = request.known()?;
        let headers = response.lines().iter().map(FmHeader::line);
        let status = u16::try_from(response.status).unwrap_or(500);
        response.set_reason(&mut worker.worker, request);
        let outcome = worker.worker.begin_stream(
            request,
            status,
            response.content_type.option(),
            headers,
            u64::try_from(length).ok(),
            response.body.bytes(),
        );
        put(taken, outcome.map_err(failure)?);
        Ok(())
    })
}

/// Passes the next piece of a stream. `taken` receives the number of bytes accepted. Pass the rest at the next FM_EVENT_STREAM.
/// FM_GONE; FM_MISUSE if the stream exceeds its length: end it with `fm_stream_fail`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_write(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    piece: FmStr,
    taken: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let request = request.known()?;
        let outcome = worker.worker.net.write_stream(request, piece.bytes());
        let accepted = outcome.map_err(failure)?;
        worker.worker.send_large(request, accepted);
        put(taken, accepted);
        Ok(())
    })
}

/// Ends a stream. FM_GONE; FM_MISUSE if it is shorter than its length: end it with `fm_stream_fail`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_end(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let request = request.known()?;
        worker.worker.end_stream(request).map_err(failure)
    })
}

/// Aborts a stream so that the client detects the truncation, and logs `message` with its details. FM_GONE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_fail(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    message: FmStr,
    detail: Option<&FmDetail>,
) -> u32 {
    guard(worker.zip(detail), None, |(worker, detail)| {
        let request = request.known()?;
        let worker = &mut worker.worker;
        let known = Known::of(worker, detail);
        let log_message = format!("stream: {}", message.text());
        worker
            .fail_stream(request, &log_message, &known.detail())
            .map_err(failure)
    })
}

/// Aborts a stream without a log line, unless it has ended.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_cut(worker: Option<&mut FmWorker>, request: FmRequest) {
    ask(worker.zip(request.id()), (), |(worker, request)| {
        worker.worker.drop_stream(request);
    })
}

/// Looks up the decoded `path` of a request in the file tree that `handler` guards. Returns FM_STATIC_*.
#[unsafe(no_mangle)]
pub extern "C" fn fm_static_find(worker: Option<&mut FmWorker>, handler: u32, path: FmStr) -> u32 {
    ask(worker, FM_STATIC_FAILED, |worker| {
        match worker.worker.find_static(handler, path.bytes()) {
            StaticFound::File => FM_STATIC_FILE,
            StaticFound::Nothing => FM_STATIC_NOTHING,
            StaticFound::Directory => FM_STATIC_DIRECTORY,
            StaticFound::Failed => FM_STATIC_FAILED,
        }
    })
}

/// Responds with a file: with the complete file, with a range, or with 304. Responds with 404 if the file does not exist. FM_GONE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_respond_file(
    worker: Option<&mut FmWorker>,
    request: FmRequest,
    file: Option<&FmFile>,
) -> u32 {
    guard(worker.zip(file), None, |(worker, file)| {
        let request = request.known()?;
        let mut asked = ContentHeaders::default();
        for line in file.asked() {
            asked.take(line.name.bytes(), line.value.bytes());
        }
        let place = match (file.tree, file.root.option()) {
            (FM_NO_HANDLER, None) => FilePlace::Anywhere,
            (FM_NO_HANDLER, Some(root)) => FilePlace::Below(root),
            (handler, _) => FilePlace::Static(handler),
        };
        let answer = FileAnswer {
            path: file.path.bytes(),
            place,
            content_type: file.content_type.option(),
            status: u16::try_from(file.status).unwrap_or(500),
        };
        let headers = file.lines().iter().map(FmHeader::line);
        let worker = &mut worker.worker;
        worker
            .respond_file(request, &answer, headers, &asked)
            .map_err(|gone| (FM_GONE, gone.to_string()))
    })
}
