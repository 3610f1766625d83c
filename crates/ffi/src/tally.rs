//! Figures of the program's own work: tasks, fibers, jobs.

use fermata_engine::{JobEnd, TaskKind};

use crate::abi::guard_bool;
use crate::worker::FmWorker;

/// A handler or another task has begun it.
pub const FM_TASK_ASYNC: u32 = 0;
/// A run of `every()`.
pub const FM_TASK_EVERY: u32 = 1;
/// A call of `defer()`.
pub const FM_TASK_DEFERRED: u32 = 2;
/// It reads messages of other workers.
pub const FM_TASK_MESSAGES: u32 = 3;

/// The job has given a result.
pub const FM_JOB_DONE: u32 = 0;
/// The job has thrown.
pub const FM_JOB_FAILED: u32 = 1;
/// Its process has died.
pub const FM_JOB_CRASHED: u32 = 2;
/// It took too long.
pub const FM_JOB_TIMED_OUT: u32 = 3;
/// Nobody waits for it any more.
pub const FM_JOB_CANCELLED: u32 = 4;
/// It was not taken.
pub const FM_JOB_REJECTED: u32 = 5;

/// A task of a kind (FM_TASK_*) has ended.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_count_task(worker: *mut FmWorker, kind: u32, has_failed: bool) {
    guard_bool(|| {
        let kind = TaskKind::from_number(kind);
        if let Some(kind) = kind {
            // SAFETY: passed on from this function's contract.
            unsafe { (*worker).worker.count_task(kind, has_failed) };
        }
        kind.is_some()
    });
}

/// So many runs of `every()` were left out.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_count_skipped(worker: *mut FmWorker, runs: u64) {
    guard_bool(|| {
        // SAFETY: passed on from this function's contract.
        unsafe { (*worker).worker.count_skipped(runs) };
        true
    });
}

/// So many handlers and tasks wait now, and so many tasks have not begun.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_worker_waiting(worker: *mut FmWorker, fibers: u32, tasks: u32) {
    guard_bool(|| {
        // SAFETY: passed on from this function's contract.
        unsafe { (*worker).worker.set_waiting(fibers, tasks) };
        true
    });
}

/// So many calls of jobs have not ended.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_worker_jobs(worker: *mut FmWorker, pending: u32) {
    guard_bool(|| {
        // SAFETY: passed on from this function's contract.
        unsafe { (*worker).worker.set_jobs_pending(pending) };
        true
    });
}

/// A call of a job has ended in one of the ways FM_JOB_*.
///
/// # Safety
/// `worker` is a live worker.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fm_count_job(worker: *mut FmWorker, end: u32) {
    guard_bool(|| {
        let end = JobEnd::from_number(end);
        if let Some(end) = end {
            // SAFETY: passed on from this function's contract.
            unsafe { (*worker).worker.count_job(end) };
        }
        end.is_some()
    });
}
