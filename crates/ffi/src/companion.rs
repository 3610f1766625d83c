//! The process beside the workers that `fm_server_companion` asks for, and those it forks: a log and figures.

use fermata_engine::Companion;

use crate::abi::{FmStr, guard, guard_bool};
use crate::server::log_level;

/// A job begins in this process.
pub const FM_COMPANION_JOB_BEGINS: u32 = 0;
/// A job has ended, or the process that was at it.
pub const FM_COMPANION_JOB_ENDS: u32 = 1;
/// A process for jobs has ended and is replaced.
pub const FM_COMPANION_PROCESS_REPLACED: u32 = 2;

/// The companion, in it and in every process it forks.
pub struct FmCompanion {
    pub(crate) companion: Companion,
}

/// Writes a log line under the companion's name; `level` from 0 (error) to 3 (debug).
///
/// # Safety
/// `companion` comes from `fm_server_start`; the string is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_companion_log(
    companion: *const FmCompanion,
    level: u32,
    message: FmStr,
) {
    // SAFETY: pointers and strings are valid by this function's contract.
    unsafe {
        guard(std::ptr::null_mut(), || {
            let level = log_level(level)?;
            (*companion).companion.log(level, &message.text());
            Ok(())
        });
    }
}

/// Counts what happens in the processes for jobs (FM_COMPANION_*).
///
/// # Safety
/// `companion` comes from `fm_server_start`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_companion_count(companion: *const FmCompanion, what: u32) {
    guard_bool(|| {
        // SAFETY: passed on from this function's contract.
        let companion = unsafe { &(*companion).companion };
        match what {
            FM_COMPANION_JOB_BEGINS => companion.job_begins(),
            FM_COMPANION_JOB_ENDS => companion.job_ends(),
            FM_COMPANION_PROCESS_REPLACED => companion.process_replaced(),
            _ => return false,
        }
        true
    });
}

/// The memory limit of a process in which PHP has none; 0 = it stays without one.
///
/// # Safety
/// `companion` comes from `fm_server_start`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_companion_memory_bytes_max(companion: *const FmCompanion) -> usize {
    let mut bytes_max = 0;
    guard_bool(|| {
        // SAFETY: passed on from this function's contract.
        bytes_max = unsafe { &(*companion).companion }.memory_bytes_max();
        true
    });
    bytes_max
}

/// Frees it, before the process ends.
///
/// # Safety
/// `companion` comes from `fm_server_start` and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_companion_free(companion: *mut FmCompanion) {
    guard_bool(|| {
        // SAFETY: made by `Box::into_raw` in `fm_server_start` and handed back for good.
        drop(unsafe { Box::from_raw(companion) });
        true
    });
}
