//! Readiness of descriptors that the application owns.

use std::io::ErrorKind;
use std::mem::MaybeUninit;

use fermata_io::watch::Interest;

use crate::abi::{FM_MISUSE, FmError, guard};
use crate::worker::FmWorker;

/// Bytes, a connection to accept, or the end of the stream.
pub const FM_WATCH_READ: u32 = 1;
/// The descriptor has space for writing.
pub const FM_WATCH_WRITE: u32 = 2;
/// Urgent data.
pub const FM_WATCH_PRIORITY: u32 = 4;
/// The peer closed the connection, or the file has an error. Reported without a request.
pub const FM_WATCH_HANGUP: u32 = 8;
/// The file is always ready: a regular file or a directory.
pub const FM_ALWAYS_READY: u32 = 64;

/// Requests one FM_EVENT_READY when `fd` is ready for any of `interest` (FM_WATCH_*) or has hung up. Replaces an earlier request; 0
/// cancels it. The descriptor may be closed at any time. It then causes no event. FM_ALWAYS_READY and FM_MISUSE (not open; no
/// memory left): no request was made.
#[unsafe(no_mangle)]
pub extern "C" fn fm_watch(
    worker: Option<&mut FmWorker>,
    fd: i32,
    interest: u32,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let interest = Interest::from_bits(interest as u8);
        worker
            .worker
            .watch_descriptor(fd, interest)
            .map_err(|error| match error.kind() {
                ErrorKind::PermissionDenied => (FM_ALWAYS_READY, error.to_string()),
                _ => (FM_MISUSE, error.to_string()),
            })
    })
}
