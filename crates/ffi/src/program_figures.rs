//! Metrics of the application's tasks, fibers and jobs.

use fermata_engine::{JobEnd, TaskKind};

use crate::abi::ask;
use crate::worker::FmWorker;

/// A task that a handler or another task started.
pub const FM_TASK_ASYNC: u32 = 0;
/// A run of `every()`.
pub const FM_TASK_EVERY: u32 = 1;
/// A call of `defer()`.
pub const FM_TASK_DEFERRED: u32 = 2;
/// A task that reads messages of other workers.
pub const FM_TASK_MESSAGES: u32 = 3;

/// The job returned a result.
pub const FM_JOB_DONE: u32 = 0;
/// The job threw an exception.
pub const FM_JOB_FAILED: u32 = 1;
/// The job's process crashed.
pub const FM_JOB_CRASHED: u32 = 2;
/// The job timed out.
pub const FM_JOB_TIMED_OUT: u32 = 3;
/// The caller no longer waits for the job.
pub const FM_JOB_CANCELLED: u32 = 4;
/// The job was rejected.
pub const FM_JOB_REJECTED: u32 = 5;

/// Counts a finished task of a kind (FM_TASK_*).
#[unsafe(no_mangle)]
pub extern "C" fn fm_count_task(worker: Option<&mut FmWorker>, kind: u32, has_failed: bool) {
    ask(worker, (), |worker| {
        if let Some(kind) = TaskKind::from_number(kind) {
            worker.worker.net.count_task(kind, has_failed);
        }
    })
}

/// Counts skipped runs of `every()`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_count_skipped(worker: Option<&mut FmWorker>, runs: u64) {
    ask(worker, (), |worker| {
        worker.worker.net.count_skipped(runs);
    })
}

/// Sets the number of waiting handlers and tasks, and of tasks that have not started.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_waiting(worker: Option<&mut FmWorker>, fibers: u32, tasks: u32) {
    ask(worker, (), |worker| {
        worker.worker.reporter.set_waiting(fibers, tasks);
    })
}

/// Sets the number of pending job calls.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_jobs(worker: Option<&mut FmWorker>, pending: u32) {
    ask(worker, (), |worker| {
        worker.worker.reporter.set_jobs_pending(pending);
    })
}

/// Counts a finished job call by its outcome (FM_JOB_*).
#[unsafe(no_mangle)]
pub extern "C" fn fm_count_job(worker: Option<&mut FmWorker>, end: u32) {
    ask(worker, (), |worker| {
        if let Some(end) = JobEnd::from_number(end) {
            worker.worker.net.count_job(end);
        }
    })
}
