//! Types that cross the border, and how errors do.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes with a length, not NUL-terminated. `ptr` is NULL if and only if the value is absent.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FmStr {
    /// First byte.
    pub ptr: *const c_char,
    /// Number of bytes.
    pub len: usize,
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

    pub(crate) fn lend_option(bytes: Option<&[u8]>) -> FmStr {
        bytes.map_or(FmStr::ABSENT, FmStr::lend)
    }

    /// The bytes, empty when absent.
    ///
    /// # Safety
    /// `ptr` is NULL or points to `len` bytes that stay unchanged for `'a`.
    pub(crate) unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.ptr.is_null() {
            return &[];
        }
        // SAFETY: not NULL, so by this function's contract `len` readable bytes for `'a`.
        unsafe { std::slice::from_raw_parts(self.ptr.cast(), self.len) }
    }

    /// The bytes, or `None` when absent.
    ///
    /// # Safety
    /// As `bytes`.
    pub(crate) unsafe fn option<'a>(self) -> Option<&'a [u8]> {
        if self.ptr.is_null() {
            return None;
        }
        // SAFETY: the same contract.
        Some(unsafe { self.bytes() })
    }

    /// The text, with what is not UTF-8 replaced.
    ///
    /// # Safety
    /// As `bytes`.
    pub(crate) unsafe fn text<'a>(self) -> std::borrow::Cow<'a, str> {
        // SAFETY: the same contract.
        String::from_utf8_lossy(unsafe { self.bytes() })
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

/// Writes through a pointer that C handed over, unless it is NULL.
///
/// # Safety
/// `place` is NULL or valid for writing.
pub(crate) unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not NULL, so valid for writing by this function's contract. `T` has no drop.
        unsafe { place.write(value) }
    }
}

/// Runs `body`, keeps panics from crossing into C, and fills `error`.
///
/// # Safety
/// `error` is NULL or valid for writing.
pub(crate) unsafe fn guard(
    error: *mut FmError,
    body: impl FnOnce() -> Result<(), (u32, String)>,
) -> u32 {
    // A panic may leave our state half changed. The worker ends after it (C raises a fatal error),
    // so nothing looks at that state again.
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        let message = "a panic in the native core, see the log; please report it".to_owned();
        Err((FM_INTERNAL, message))
    });
    match outcome {
        Ok(()) => FM_OK,
        Err((code, message)) => {
            if !error.is_null() {
                let mut end = message.len().min(FM_ERROR_BYTES);
                while !message.is_char_boundary(end) {
                    end -= 1;
                }
                // SAFETY: `error` is not NULL, so valid for writing. Its fields are plain bytes, so
                // a reference to uninitialised ones is avoided by writing through raw pointers.
                unsafe {
                    (&raw mut (*error).len).write(end as u32);
                    let place = (&raw mut (*error).message).cast::<u8>();
                    std::ptr::copy_nonoverlapping(message.as_ptr(), place, end);
                }
            }
            code
        }
    }
}

/// As `guard` for functions that only say yes or no.
pub(crate) fn guard_bool(body: impl FnOnce() -> bool) -> bool {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(false)
}
