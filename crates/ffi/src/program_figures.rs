//! Figures of the program's own work: tasks, fibers, jobs.

use fermata_engine::{JobEnd, TaskKind};

use crate::abi::ask;
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
/// It is no longer awaited.
pub const FM_JOB_CANCELLED: u32 = 4;
/// It was not taken.
pub const FM_JOB_REJECTED: u32 = 5;

/// A task of a kind (FM_TASK_*) has ended.
#[unsafe(no_mangle)]
pub extern "C" fn fm_count_task(worker: Option<&mut FmWorker>, kind: u32, has_failed: bool) {
    ask(worker, (), |worker| {
        if let Some(kind) = TaskKind::from_number(kind) {
            worker.worker.net.count_task(kind, has_failed);
        }
    })
}

/// So many runs of `every()` were left out.
#[unsafe(no_mangle)]
pub extern "C" fn fm_count_skipped(worker: Option<&mut FmWorker>, runs: u64) {
    ask(worker, (), |worker| {
        worker.worker.net.count_skipped(runs);
    })
}

/// So many handlers and tasks wait now, and so many tasks have not begun.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_waiting(worker: Option<&mut FmWorker>, fibers: u32, tasks: u32) {
    ask(worker, (), |worker| {
        worker.worker.reporter.set_waiting(fibers, tasks);
    })
}

/// So many calls of jobs have not ended.
#[unsafe(no_mangle)]
pub extern "C" fn fm_worker_jobs(worker: Option<&mut FmWorker>, pending: u32) {
    ask(worker, (), |worker| {
        worker.worker.reporter.set_jobs_pending(pending);
    })
}

/// A call of a job has ended in one of the ways FM_JOB_*.
#[unsafe(no_mangle)]
pub extern "C" fn fm_count_job(worker: Option<&mut FmWorker>, end: u32) {
    ask(worker, (), |worker| {
        if let Some(end) = JobEnd::from_number(end) {
            worker.worker.net.count_job(end);
        }
    })
}
