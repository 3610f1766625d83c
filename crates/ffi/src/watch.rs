//! Descriptors of the program: C asks when one is ready.

use std::io::ErrorKind;
use std::mem::MaybeUninit;

use fermata_io::watch::Interest;

use crate::abi::{FM_MISUSE, FmError, guard};
use crate::worker::FmWorker;

/// There are bytes, a connection to accept, or the end of the stream.
pub const FM_WATCH_READ: u32 = 1;
/// There is room to write.
pub const FM_WATCH_WRITE: u32 = 2;
/// There is urgent data.
pub const FM_WATCH_PRIORITY: u32 = 4;
/// The other end has closed, or the file is broken: told, never asked for.
pub const FM_WATCH_HANGUP: u32 = 8;
/// The file is one that is always ready: a regular file, a directory.
pub const FM_ALWAYS_READY: u32 = 64;

/// Asks for one FM_EVENT_READY when `fd` is ready for any of `interest` (FM_WATCH_*) or has hung up; this replaces
/// what was asked for before, and 0 takes it back. The descriptor may be closed at any time: nothing is told of it
/// then. FM_ALWAYS_READY and FM_MISUSE (not open; no memory left): nothing was asked for.
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
