//! What the program tells of its own work, for the figures: tasks, fibers, jobs.

use fermata_io::Driver;

use crate::admin::stats::Reporter;
use crate::admin::stats::{Counter, EdgeOpen};
use crate::net::Net;

/// Where a task comes from. The order is that of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// A handler or another task has begun it.
    Async,
    /// It is run again and again.
    Every,
    /// A handler has left it for after its answer.
    Deferred,
    /// It reads messages of other workers.
    Messages,
}

impl TaskKind {
    const ALL: [TaskKind; 4] = [
        TaskKind::Async,
        TaskKind::Every,
        TaskKind::Deferred,
        TaskKind::Messages,
    ];

    /// The kind with this number.
    pub fn from_number(number: u32) -> Option<TaskKind> {
        TaskKind::ALL.get(number as usize).copied()
    }

    fn counters(self) -> (Counter, Counter) {
        match self {
            TaskKind::Async => (Counter::TasksAsync, Counter::TasksFailedAsync),
            TaskKind::Every => (Counter::TasksEvery, Counter::TasksFailedEvery),
            TaskKind::Deferred => (Counter::TasksDeferred, Counter::TasksFailedDeferred),
            TaskKind::Messages => (Counter::TasksMessages, Counter::TasksFailedMessages),
        }
    }
}

/// How a call of a job has ended. The order is that of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// With a result.
    Done,
    /// The job has thrown.
    Failed,
    /// Its process has died.
    Crashed,
    /// It took too long.
    TimedOut,
    /// It is no longer awaited.
    Cancelled,
    /// It was not taken.
    Rejected,
}

impl JobEnd {
    const ALL: [(JobEnd, Counter); 6] = [
        (JobEnd::Done, Counter::JobsDone),
        (JobEnd::Failed, Counter::JobsFailed),
        (JobEnd::Crashed, Counter::JobsCrashed),
        (JobEnd::TimedOut, Counter::JobsTimedOut),
        (JobEnd::Cancelled, Counter::JobsCancelled),
        (JobEnd::Rejected, Counter::JobsRejected),
    ];

    /// The end with this number.
    pub fn from_number(number: u32) -> Option<JobEnd> {
        JobEnd::ALL.get(number as usize).map(|(end, _)| *end)
    }
}

impl<D: Driver> Net<D> {
    /// A task has ended.
    pub fn count_task(&mut self, kind: TaskKind, has_failed: bool) {
        let (all, failed) = kind.counters();
        self.counts.add(all, 1);
        self.counts.add(failed, u64::from(has_failed));
    }

    /// Runs of a repeated task were left out.
    pub fn count_skipped(&mut self, runs: u64) {
        self.counts.add(Counter::EverySkipped, runs);
    }

    /// A call of a job has ended.
    pub fn count_job(&mut self, end: JobEnd) {
        for (one, counter) in JobEnd::ALL {
            self.counts.add(counter, u64::from(one == end));
        }
    }
}

impl Reporter {
    /// So many handlers and tasks wait, and so many tasks have not begun.
    pub fn set_waiting(&mut self, fibers: u32, tasks: u32) {
        self.program.fibers_waiting = u64::from(fibers);
        self.program.tasks_queued = u64::from(tasks);
    }

    /// So many calls of jobs have not ended.
    pub fn set_jobs_pending(&mut self, calls: u32) {
        self.program.jobs_pending = u64::from(calls);
    }

    /// So many requests have a connection to PHP-FPM, and so many wait for one.
    pub fn set_fastcgi_open(&mut self, running: usize, queued: usize) {
        self.program.fastcgi_running = running as u64;
        self.program.fastcgi_queued = queued as u64;
    }

    /// What the GRIP edge has open.
    pub fn set_edge_open(&mut self, open: EdgeOpen) {
        self.program.edge = open;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places() {
        for (place, kind) in TaskKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
            assert_eq!(TaskKind::from_number(place as u32), Some(kind));
        }
        assert_eq!(TaskKind::from_number(4), None);
        for (place, (end, counter)) in JobEnd::ALL.into_iter().enumerate() {
            assert_eq!(end as usize, place);
            assert_eq!(counter as usize, Counter::JobsDone as usize + place);
        }
        assert_eq!(JobEnd::from_number(6), None);
    }
}
