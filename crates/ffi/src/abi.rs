//! Types that cross the C boundary, error reporting, and the guard functions around every exported function.
//!
//! The head of the generated header states the contract of C: every pointer is NULL or valid. So objects, inputs and
//! output locations arrive as `Option` of a reference. `guard` and `ask` refuse to run without the ones a function
//! requires. A reference cannot express that a number is the length of an array; the converters in this file rely on
//! C for that.

use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fermata_config::{LogLevel, mask_secrets};
use fermata_engine::websocket::SendError;
use fermata_engine::{Gone, PublishId, ReaderId, RequestId, SocketId};
use fermata_io::files::JobId;

/// Bytes with a length, not NUL-terminated. `ptr` is NULL if and only if the value is absent.
///
/// Invariant: in a value made by C, `ptr` is NULL or points to `len` bytes that stay unchanged until the function returns. Values
/// that Rust makes with `lend` are only returned to C.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FmStr {
    /// First byte.
    ptr: *const c_char,
    /// Number of bytes.
    len: usize,
}

/// The call succeeded.
pub const FM_OK: u32 = 0;
/// A setting, a file or an address is invalid: ConfigurationException.
pub const FM_CONFIGURATION: u32 = 1;
/// The application misuses the API: MisuseError.
pub const FM_MISUSE: u32 = 2;
/// A limit is reached, and a later retry may succeed. PHP throws BackpressureException.
pub const FM_BACKPRESSURE: u32 = 3;
/// The peer process cannot be reached: ConnectionException.
pub const FM_IO: u32 = 4;
/// No reply arrived in time: TimeoutException.
pub const FM_TIMEOUT: u32 = 5;
/// The client disconnected, or the request already has a response. There is nothing to report.
pub const FM_GONE: u32 = 6;
/// A panic was caught: a bug in the core.
pub const FM_INTERNAL: u32 = 7;
/// The bytes so far are valid but incomplete. There is nothing to report.
pub const FM_PARTIAL: u32 = 8;
/// The peer violates the protocol: ProtocolException.
pub const FM_PROTOCOL: u32 = 9;

/// Size of an error message buffer, in bytes.
pub const FM_ERROR_BYTES: usize = 1020;

/// An error message for the user: UTF-8, `len` bytes, truncated at a character boundary if too long.
#[repr(C)]
pub struct FmError {
    /// Bytes used of `message`.
    pub len: u32,
    /// The message.
    pub message: [c_char; FM_ERROR_BYTES],
}

/// Size of an event id buffer, in bytes.
pub const FM_ID_BYTES: usize = 60;

/// A request, from its event until its client is released. The handle also identifies the stream or hold that responds to the
/// request. 0 means none.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct FmRequest(u64);

/// A WebSocket, from `fm_ws_accept_request` until FM_EVENT_WS_CLOSE. 0 means none.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct FmSocket(u64);

impl FmRequest {
    pub(crate) const NONE: FmRequest = FmRequest(0);

    #[inline]
    pub(crate) fn id(self) -> Option<RequestId> {
        RequestId::from_raw(self.0)
    }

    /// Returns the id, or FM_GONE if there is none.
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

    /// Returns the id, or FM_GONE if there is none.
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

/// Result of `fm_publish_begin`. Start the publish again a little later.
pub const FM_PUBLISH_LATER: u64 = u64::MAX;

/// A publish that waits for the cluster log. 0 means none.
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

/// A pending file job. 0 means none.
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

/// A pending read of history from the cluster log. 0 means none.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FmReading(u64);

impl FmReading {
    pub(crate) const NONE: FmReading = FmReading(0);

    /// Returns the next number.
    pub(crate) fn next(self) -> FmReading {
        FmReading(self.0 + 1)
    }
}

/// A reader of a channel. 0 means none.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct FmReader(u64);

impl FmReader {
    pub(crate) const NONE: FmReader = FmReader(0);

    pub(crate) fn id(self) -> Option<ReaderId> {
        ReaderId::from_raw(self.0)
    }
}

impl From<ReaderId> for FmReader {
    fn from(id: ReaderId) -> FmReader {
        FmReader(id.to_raw())
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
    /// Event name. `ptr` is NULL for none.
    pub name: FmStr,
    /// Event data.
    pub data: FmStr,
}

impl FmStr {
    /// An absent value.
    pub const ABSENT: FmStr = FmStr {
        ptr: std::ptr::null(),
        len: 0,
    };

    /// Lends the bytes to C, for as long as the documentation of the calling function states.
    #[inline]
    pub(crate) fn lend(bytes: &[u8]) -> FmStr {
        // An empty slice may have a dangling pointer, and C functions check the pointer even if the length is 0.
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

    /// Like [`FmStr::lend`], for bytes that are never empty.
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

    /// Returns the bytes, or an empty slice if absent.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.option().unwrap_or_default()
    }

    /// Returns the bytes, or `None` if the value is absent.
    pub(crate) fn option(&self) -> Option<&[u8]> {
        if self.ptr.is_null() {
            return None;
        }
        // SAFETY: `ptr` is not NULL, so it points to `len` readable bytes by the invariant of the type.
        Some(unsafe { std::slice::from_raw_parts(self.ptr.cast(), self.len) })
    }

    /// Returns the text; replaces invalid UTF-8.
    pub(crate) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }
}

impl FmHeader {
    pub(crate) fn line(&self) -> (&[u8], &[u8]) {
        (self.name.bytes(), self.value.bytes())
    }
}

/// Borrows an array that C passed.
///
/// # Safety
/// `first` is NULL or points to `len` values that stay unchanged for `'a`.
pub(crate) unsafe fn array<'a, T>(first: *const T, len: usize) -> &'a [T] {
    if first.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: `first` is not NULL, so by this function's contract it points to `len` readable values for `'a`.
    unsafe { std::slice::from_raw_parts(first, len) }
}

/// Borrows an output buffer of `len` bytes that C passed. The buffer is empty if `first` is NULL.
///
/// # Safety
/// `first` is NULL or valid for writes of `len` bytes, which nothing else accesses for `'a`.
pub(crate) unsafe fn room<'a>(first: *mut c_char, len: usize) -> &'a mut [MaybeUninit<u8>] {
    if first.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: `first` is not NULL, so by this function's contract `len` bytes are writable for `'a`. They may be
    // uninitialized.
    unsafe { std::slice::from_raw_parts_mut(first.cast(), len) }
}

/// Copies `from` into a buffer of the same length.
pub(crate) fn copy(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    assert_eq!(from.len(), to.len());
    // The compiler turns this loop into one memcpy.
    for (to, from) in to.iter_mut().zip(from) {
        to.write(*from);
    }
}

/// Stores a result, unless C passed NULL for it.
pub(crate) fn put<T>(place: Option<&mut MaybeUninit<T>>, value: T) {
    if let Some(place) = place {
        place.write(value);
    }
}

/// A code other than FM_OK, and the message for the user.
pub(crate) type Failure = (u32, String);

/// Returns a failure caused by wrong use of the API.
pub(crate) fn misuse(cause: impl ToString) -> Failure {
    (FM_MISUSE, cause.to_string())
}

/// Argument of `guard` and `ask` for functions that need no object.
pub(crate) const NOTHING: Option<()> = Some(());

/// Guards functions that return a code: requires the objects, runs `body`, catches panics and fills `error`.
pub(crate) fn guard<T>(
    objects: Option<T>,
    error: Option<&mut MaybeUninit<FmError>>,
    body: impl FnOnce(T) -> Result<(), Failure>,
) -> u32 {
    let Some(objects) = objects else {
        return fail(error, FM_INTERNAL, "NULL where an object is needed");
    };
    // A panic may leave the state half changed. C then raises a fatal error and the worker exits, so no code reads
    // that state again.
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

/// Guards functions that return a value. Returns `otherwise` if an object is missing or `body` panics.
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
        // SAFETY: the pointer comes from a reference, so it is valid for writes, and the message has room for `end`
        // bytes. The raw pointers avoid a reference to the bytes that stay uninitialized.
        unsafe {
            (&raw mut (*error).len).write(end as u32);
            let place = (&raw mut (*error).message).cast::<u8>();
            std::ptr::copy_nonoverlapping(message.as_ptr(), place, end);
        }
    }
    code
}

/// Converts the number that C uses for a log level.
pub(crate) fn log_level(level: u32) -> Result<LogLevel, (u32, String)> {
    Ok(match level {
        0 => LogLevel::Error,
        1 => LogLevel::Warning,
        2 => LogLevel::Info,
        3 => LogLevel::Debug,
        _ => return Err((FM_INTERNAL, format!("level {level} does not exist"))),
    })
}
