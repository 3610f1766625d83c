//! Answers whose bodies are not at hand as one string: streams and files.

use std::mem::MaybeUninit;

use fermata_engine::files::ContentHeaders;
use fermata_engine::{FileAnswer, FilePlace, StaticFound, StreamError, Wanted};

use crate::abi::{FM_GONE, FM_MISUSE, FmError, FmHeader, FmRequest, FmStr, array, ask, guard, put};
use crate::worker::{FmDetail, FmResponse, FmWorker, Known};

/// `fm_stream_wanted`: the client has left, or the request was answered before.
pub const FM_STREAM_NOTHING: u32 = 0;
/// `fm_stream_wanted`: give the first piece to `fm_stream_begin`.
pub const FM_STREAM_PIECES: u32 = 1;
/// `fm_stream_wanted`: call `fm_stream_begin` without a piece; nothing follows.
pub const FM_STREAM_HEAD: u32 = 2;
/// `fm_stream_wanted`: there are as many streams as there may be; answer 503.
pub const FM_STREAM_REFUSAL: u32 = 3;

/// No number of a handler.
pub const FM_NO_HANDLER: u32 = 0xffff_ffff;

/// `fm_static_find`: a file, which `fm_respond_file` sends.
pub const FM_STATIC_FILE: u32 = 0;
/// `fm_static_find`: nothing; answer 404.
pub const FM_STATIC_NOTHING: u32 = 1;
/// `fm_static_find`: a directory; answer 308 to the same path with a slash at its end.
pub const FM_STATIC_DIRECTORY: u32 = 2;
/// `fm_static_find`: a file that cannot be read, as the log says; answer 500.
pub const FM_STATIC_FAILED: u32 = 3;

/// A file to answer with.
#[repr(C)]
pub struct FmFile {
    /// Where it is: below `root` if there is one, else as the process sees it.
    pub path: FmStr,
    /// The directory that it must lie in; `ptr` NULL for anywhere.
    pub root: FmStr,
    /// The handler of `fm_server_guard_files` whose tree it is of, FM_NO_HANDLER for none; `path` is then that of the
    /// request, decoded.
    pub tree: u32,
    /// Content-Type; `ptr` NULL goes by the name.
    pub content_type: FmStr,
    /// 200 to 599; conditions and ranges count with 200 alone.
    pub status: u32,
    /// Further field lines of the answer; each has passed `fm_header_valid`.
    pub headers: *const FmHeader,
    /// Their number.
    pub headers_len: usize,
    /// Field lines of the request; those about conditions, ranges and codings count.
    pub asked: *const FmHeader,
    /// Their number.
    pub asked_len: usize,
}

impl FmFile {
    fn lines(&self) -> &[FmHeader] {
        // SAFETY: C sets both fields: an array, and how many values it has.
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

/// What to do about a request that is to be answered by a stream: FM_STREAM_*.
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

/// Answers a request by a stream whose first piece is the body of `response`, of which it takes `taken` bytes.
/// `length` is what all pieces have together, -1 if that is not known. FM_EVENT_STREAM asks for more. FM_GONE;
/// FM_MISUSE when the piece is longer than `length`, and the request is still open.
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

/// Gives a stream's next piece, of which `taken` bytes are taken; the rest is to be given at the next
/// FM_EVENT_STREAM. FM_GONE; FM_MISUSE when it is longer than was promised: end it with `fm_stream_fail`.
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
        put(taken, outcome.map_err(failure)?);
        Ok(())
    })
}

/// Ends a stream. FM_GONE; FM_MISUSE when it is shorter than was promised: end it with `fm_stream_fail`.
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

/// Ends a stream that cannot go on: its client sees that something is missing, and `message` and what is known go to
/// the log. FM_GONE.
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

/// Ends a stream without its end and without a word in the log, if it has not ended.
#[unsafe(no_mangle)]
pub extern "C" fn fm_stream_cut(worker: Option<&mut FmWorker>, request: FmRequest) {
    ask(worker.zip(request.id()), (), |(worker, request)| {
        worker.worker.drop_stream(request);
    })
}

/// What the decoded `path` of a request leads to in the tree that `handler` stands in front of: FM_STATIC_*.
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

/// Answers a request with a file: whole, in parts, or by saying that the client's copy is right; 404 when it is not
/// there. FM_GONE.
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
