//! Names of jobs, and what waits for their end.

use std::num::NonZeroU64;

/// A job that was begun, until its end was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId(NonZeroU64);

impl JobId {
    /// Of the first job.
    pub(super) const FIRST: JobId = JobId(NonZeroU64::MIN);

    /// Of the one behind this.
    #[must_use]
    pub(super) fn next(self) -> JobId {
        JobId(self.0.saturating_add(1))
    }

    /// What [`JobId::to_raw`] gave; `None` for zero.
    #[must_use]
    pub fn from_raw(raw: u64) -> Option<JobId> {
        NonZeroU64::new(raw).map(JobId)
    }

    /// For a program that has no types of Rust's, and for the kernel. Not zero.
    #[must_use]
    pub fn to_raw(self) -> u64 {
        self.0.get()
    }
}

/// One that waits for the end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// There is none, or none any more.
    Nobody,
    /// The caller that has begun it, and does nothing else meanwhile.
    Caller,
    /// A user who is told, by a number of its own.
    User(u64),
}
