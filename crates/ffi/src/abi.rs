//! Types that cross the border, how errors do, and the gate of every function that C calls.
//!
//! What C promises is said once, at the head of the header: a pointer is NULL or valid. So objects, inputs and places for
//! answers come as `Option` of a reference, and `guard` and `ask` refuse to run without those that a function needs. What
//! a reference cannot say, that a number beside a pointer is its length, is taken by the few converters here.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fermata_config::{LogLevel, mask_secrets};
use fermata_engine::websocket::SendError;
use fermata_engine::{Gone, PublishId, RequestId, SocketId};
use fermata_io::files::JobId;

/// Bytes with a length, not NUL-terminated. `ptr` is NULL if and only if the value is absent.
///
/// Invariant: of those that C makes, `ptr` is NULL or has `len` bytes that stay as they are until the function returns.
/// Those that are made here, by `lend`, are only handed out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FmStr {
    /// First byte.
    ptr: *const c_char,
    /// Number of bytes.
    len: usize,
}

/// Success.
pub const FM_OK: u32 = 0;
/// A setting, a file or an address is wrong: ConfigurationException.
pub const FM_CONFIGURATION: u32 = 1;
/// The program uses the API in a way that cannot work: MisuseError.
pub const FM_MISUSE: u32 = 2;
/// A bound is reached, trying again later may work: BackpressureException.
pub const FM_BACKPRESSURE: u32 = 3;
/// The other process cannot be reached: ConnectionException.
pub const FM_IO: u32 = 4;
/// No answer in time: TimeoutException.
pub const FM_TIMEOUT: u32 = 5;
/// The request's client has left or it was answered before; nothing to report.
pub const FM_GONE: u32 = 6;
/// A panic was caught: a bug of ours.
pub const FM_INTERNAL: u32 = 7;
/// There is nothing wrong with the bytes so far, and some are missing; nothing to report.
pub const FM_PARTIAL: u32 = 8;
/// The peer breaks the protocol: ProtocolException.
pub const FM_PROTOCOL: u32 = 9;

/// Room for an error sentence.
pub const FM_ERROR_BYTES: usize = 1020;

/// An error sentence for the user: UTF-8, `len` bytes, cut at the end of a character if too long.
#[repr(C)]
pub struct FmError {
    /// Bytes used of `message`.
    pub len: u32,
    /// The sentence.
    pub message: [c_char; FM_ERROR_BYTES],
}

/// Room for the text of an event id.
pub const FM_ID_BYTES: usize = 60;

/// A request, from its event until its client has been let go: also the stream or the hold that answers it. 0 is none.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct FmRequest(u64);

/// A WebSocket, from `fm_ws_accept_request` until FM_EVENT_WS_CLOSE. 0 is none.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct FmSocket(u64);

impl FmRequest {
    pub(crate) const NONE: FmRequest = FmRequest(0);

    #[inline]
    pub(crate) fn id(self) -> Option<RequestId> {
        RequestId::from_raw(self.0)
    }

    /// One that is needed.
    #[inline]
    pub(crate) fn known(self) -> Result<RequestId, Failure> {
        self.id().ok_or_else(|| (FM_GONE, Gone.to_string()))
    }
}

impl From<RequestId> for FmRequest {
    #[inline]
    fn from(id: RequestId) -> FmRequest {
        FmRequest(id.to_raw())
    }
}

impl FmSocket {
    pub(crate) const NONE: FmSocket = FmSocket(0);

    #[inline]
    pub(crate) fn id(self) -> Option<SocketId> {
        SocketId::from_raw(self.0)
    }

    /// One that is needed.
    #[inline]
    pub(crate) fn known(self) -> Result<SocketId, Failure> {
        self.id()
            .ok_or_else(|| (FM_GONE, SendError::Gone.to_string()))
    }
}

impl From<SocketId> for FmSocket {
    #[inline]
    fn from(id: SocketId) -> FmSocket {
        FmSocket(id.to_raw())
    }
}

/// `fm_publish_begin`: begin again a little later.
pub const FM_PUBLISH_LATER: u64 = u64::MAX;

/// A publish that waits for the log of the cluster. 0 is none.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct FmPublish(u64);

impl FmPublish {
    pub(crate) const NONE: FmPublish = FmPublish(0);
    /// See FM_PUBLISH_LATER.
    pub(crate) const LATER: FmPublish = FmPublish(FM_PUBLISH_LATER);

    pub(crate) fn id(self) -> Option<PublishId> {
        PublishId::from_raw(self.0)
    }
}

impl From<PublishId> for FmPublish {
    fn from(id: PublishId) -> FmPublish {
        FmPublish(id.to_raw())
    }
}

/// A job on a file that is under way. 0 is none.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct FmFileJobId(u64);

impl FmFileJobId {
    pub(crate) const NONE: FmFileJobId = FmFileJobId(0);

    pub(crate) fn id(self) -> Option<JobId> {
        JobId::from_raw(self.0)
    }
}

impl From<JobId> for FmFileJobId {
    fn from(id: JobId) -> FmFileJobId {
        FmFileJobId(id.to_raw())
    }
}

/// History that the log of a cluster is asked for. 0 is none.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FmReading(u64);

impl FmReading {
    pub(crate) const NONE: FmReading = FmReading(0);

    /// The one after it.
    pub(crate) fn next(self) -> FmReading {
        FmReading(self.0 + 1)
    }
}

/// The text of an event id.
#[repr(C)]
pub struct FmId {
    /// Bytes used of `text`.
    pub len: u32,
    /// The id.
    pub text: [c_char; FM_ID_BYTES],
}

/// A field line of a response.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FmHeader {
    /// Field name.
    pub name: FmStr,
    /// Field value.
    pub value: FmStr,
}

/// A message to publish or to send.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FmMessage {
    /// Event name; `ptr` NULL for none.
    pub name: FmStr,
    /// Event data.
    pub data: FmStr,
}

impl FmStr {
    /// The absent value.
    pub const ABSENT: FmStr = FmStr {
        ptr: std::ptr::null(),
        len: 0,
    };

    /// Borrowed for the caller, for as long as the function that returns it promises.
    #[inline]
    pub(crate) fn lend(bytes: &[u8]) -> FmStr {
        // An empty slice may point nowhere, and C functions look at pointers even of no bytes.
        let ptr = if bytes.is_empty() {
            c"".as_ptr()
        } else {
            bytes.as_ptr().cast()
        };
        FmStr {
            ptr,
            len: bytes.len(),
        }
    }

    /// The same of what has a byte at least.
    #[inline]
    pub(crate) fn lend_some(bytes: &[u8]) -> FmStr {
        debug_assert!(!bytes.is_empty());
        FmStr {
            ptr: bytes.as_ptr().cast(),
            len: bytes.len(),
        }
    }

    pub(crate) fn lend_option(bytes: Option<&[u8]>) -> FmStr {
        bytes.map_or(FmStr::ABSENT, FmStr::lend)
    }

    /// The bytes, empty when absent.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.option().unwrap_or_default()
    }

    /// The bytes, or `None` when absent.
    pub(crate) fn option(&self) -> Option<&[u8]> {
        if self.ptr.is_null() {
            return None;
        }
        // SAFETY: not NULL, so `len` readable bytes by the invariant of the type.
        Some(unsafe { std::slice::from_raw_parts(self.ptr.cast(), self.len) })
    }

    /// The text, with what is not UTF-8 replaced.
    pub(crate) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }
}

impl FmHeader {
    pub(crate) fn line(&self) -> (&[u8], &[u8]) {
        (self.name.bytes(), self.value.bytes())
    }
}

/// An array that C handed over.
///
/// # Safety
/// `first` is NULL or points to `len` values that stay unchanged for `'a`.
pub(crate) unsafe fn array<'a, T>(first: *const T, len: usize) -> &'a [T] {
    if first.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: not NULL, so by this function's contract `len` readable values for `'a`.
    unsafe { std::slice::from_raw_parts(first, len) }
}

/// Room that C handed over for `len` bytes; empty when there is none.
///
/// # Safety
/// `first` is NULL or valid for writing `len` bytes, which nothing else looks at for `'a`.
pub(crate) unsafe fn room<'a>(first: *mut c_char, len: usize) -> &'a mut [MaybeUninit<u8>] {
    if first.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: not NULL, so by this function's contract `len` writable bytes for `'a`. They need not hold anything yet.
    unsafe { std::slice::from_raw_parts_mut(first.cast(), len) }
}

/// Fills room that is as large as `from`.
pub(crate) fn copy(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    assert_eq!(from.len(), to.len());
    // The compiler makes one memcpy of this loop.
    for (to, from) in to.iter_mut().zip(from) {
        to.write(*from);
    }
}

/// Gives an answer, if C wants it.
pub(crate) fn put<T>(place: Option<&mut MaybeUninit<T>>, value: T) {
    if let Some(place) = place {
        place.write(value);
    }
}

/// A code that is not FM_OK, and the sentence for the user.
pub(crate) type Failure = (u32, String);

/// A mistake of the program's.
pub(crate) fn misuse(cause: impl ToString) -> Failure {
    (FM_MISUSE, cause.to_string())
}

/// For `guard` and `ask`: a function that needs no object.
pub(crate) const NOTHING: Option<()> = Some(());

/// The gate of functions that return a code: runs `body` with the objects it needs, keeps panics from crossing into C, and
/// fills `error`.
pub(crate) fn guard<T>(
    objects: Option<T>,
    error: Option<&mut MaybeUninit<FmError>>,
    body: impl FnOnce(T) -> Result<(), Failure>,
) -> u32 {
    let Some(objects) = objects else {
        return fail(error, FM_INTERNAL, "NULL where an object is needed");
    };
    // A panic may leave our state half changed. The worker ends after it (C raises a fatal error),
    // so nothing looks at that state again.
    match catch_unwind(AssertUnwindSafe(|| body(objects))) {
        Ok(Ok(())) => FM_OK,
        Ok(Err((code, message))) => fail(error, code, &message),
        Err(_) => fail(
            error,
            FM_INTERNAL,
            "a panic in the native core, see the log; please report it",
        ),
    }
}

/// The gate of functions that return something else: `otherwise` without an object, and after a panic.
pub(crate) fn ask<T, R>(objects: Option<T>, otherwise: R, body: impl FnOnce(T) -> R) -> R {
    let Some(objects) = objects else {
        return otherwise;
    };
    catch_unwind(AssertUnwindSafe(|| body(objects))).unwrap_or(otherwise)
}

fn fail(error: Option<&mut MaybeUninit<FmError>>, code: u32, message: &str) -> u32 {
    if let Some(error) = error {
        let message = &*mask_secrets(message);
        let mut end = message.len().min(FM_ERROR_BYTES);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        let error = error.as_mut_ptr();
        // SAFETY: from a reference, so valid for writing, and the message has room for `end` bytes. Only what is used of
        // it is written, through raw pointers, because the rest holds nothing yet.
        unsafe {
            (&raw mut (*error).len).write(end as u32);
            let place = (&raw mut (*error).message).cast::<u8>();
            std::ptr::copy_nonoverlapping(message.as_ptr(), place, end);
        }
    }
    code
}

/// The number that C has for a level.
pub(crate) fn log_level(level: u32) -> Result<LogLevel, (u32, String)> {
    Ok(match level {
        0 => LogLevel::Error,
        1 => LogLevel::Warning,
        2 => LogLevel::Info,
        3 => LogLevel::Debug,
        _ => return Err((FM_INTERNAL, format!("level {level} does not exist"))),
    })
}
