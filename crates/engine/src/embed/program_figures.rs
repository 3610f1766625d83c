//! Statistics reported by the application: tasks, fibers, jobs.

use fermata_io::Driver;

use crate::admin::stats::Reporter;
use crate::admin::stats::{Counter, EdgeOpen};
use crate::net::Net;

/// Origin of a task, in the order of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Started by a handler or another task.
    Async,
    /// Run periodically.
    Every,
    /// Postponed by a handler until after its response.
    Deferred,
    /// Reads messages of other workers.
    Messages,
}

impl TaskKind {
    const ALL: [TaskKind; 4] = [
        TaskKind::Async,
        TaskKind::Every,
        TaskKind::Deferred,
        TaskKind::Messages,
    ];

    /// Returns the kind with this number, which the PHP extension uses; `None` if there is none.
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

/// Result of a job call, in the order of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// The job returned a result.
    Done,
    /// The job threw an exception.
    Failed,
    /// The job's process crashed.
    Crashed,
    /// The job exceeded its time limit.
    TimedOut,
    /// The caller stopped waiting.
    Cancelled,
    /// The job was refused.
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

    /// Returns the result with this number.
    pub fn from_number(number: u32) -> Option<JobEnd> {
        JobEnd::ALL.get(number as usize).map(|(end, _)| *end)
    }
}

impl<D: Driver> Net<D> {
    /// Counts a finished task.
    pub fn count_task(&mut self, kind: TaskKind, has_failed: bool) {
        let (all, failed) = kind.counters();
        self.counts.add(all, 1);
        self.counts.add(failed, u64::from(has_failed));
    }

    /// Counts skipped runs of a periodic task.
    pub fn count_skipped(&mut self, runs: u64) {
        self.counts.add(Counter::EverySkipped, runs);
    }

    /// Counts a finished job call.
    pub fn count_job(&mut self, end: JobEnd) {
        for (one, counter) in JobEnd::ALL {
            self.counts.add(counter, u64::from(one == end));
        }
    }
}

impl Reporter {
    /// Sets the number of waiting handlers and tasks, and of tasks that have not started.
    pub fn set_waiting(&mut self, fibers: u32, tasks: u32) {
        self.program.fibers_waiting = u64::from(fibers);
        self.program.tasks_queued = u64::from(tasks);
    }

    /// Sets the number of unfinished job calls.
    pub fn set_jobs_pending(&mut self, calls: u32) {
        self.program.jobs_pending = u64::from(calls);
    }

    /// Sets the number of PHP-FPM requests with a connection, and the number of requests that wait
    /// for a connection.
    pub fn set_fastcgi_open(&mut self, running: usize, queued: usize) {
        self.program.fastcgi_running = running as u64;
        self.program.fastcgi_queued = queued as u64;
    }

    /// Sets the gauges of the GRIP edge.
    pub fn set_edge_open(&mut self, open: EdgeOpen) {
        self.program.edge = open;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_variants_by_number() {
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
