//! Identifiers of jobs, and recipients of their results.

use std::num::NonZeroU64;

/// Id of a job, from its start until its result is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobId(NonZeroU64);

impl JobId {
    /// Identifier of the first job.
    pub(super) const FIRST: JobId = JobId(NonZeroU64::MIN);

    /// Returns the identifier after this one.
    #[must_use]
    pub(super) fn next(self) -> JobId {
        JobId(self.0.saturating_add(1))
    }

    /// Returns the identifier with the number from [`JobId::to_raw`]; `None` for zero.
    #[must_use]
    pub fn from_raw(raw: u64) -> Option<JobId> {
        NonZeroU64::new(raw).map(JobId)
    }

    /// Returns the number for C code and the kernel; never zero.
    #[must_use]
    pub fn to_raw(self) -> u64 {
        self.0.get()
    }
}

/// Recipient of a job's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// No recipient (any more).
    None,
    /// The caller that started the job, and blocks until it ends.
    Caller,
    /// A user that is notified, with a number of its choice.
    User(u64),
}
