//! File operations that do not block the loop.
//!
//! Operations on cached data run immediately, with system calls that fail instead of waiting. Short operations run immediately too
//! while the disk is not busy ([`inline_io_budget`]). All other operations are passed to the kernel through io_uring, or to a few
//! threads if io_uring is not available ([`pool`]). Callers see no difference: a [`Job`] is straight-line code over operations
//! ([`op`]).
//!
//! - Jobs that change the same path or handle run in the order of their requests, including blocking ones
//!   ([`Files::run`]).
//! - A job that its user abandons is still finished: half-written data would be worse.
//! - Dropping [`Files`] first finishes all accepted jobs.

mod cached;
mod call;
mod data;
mod failure;
mod handle;
mod handle_work;
mod hole;
mod id;
mod inline_io_budget;
mod job;
mod key;
mod op;
mod pool;
mod ready;
mod ring;
mod stat;
mod syscall;
mod tree;
mod turns;
mod work;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::Instant;

pub use cached::Cached;
pub use call::{Call, call};
pub use data::Data;
pub use failure::{Failure, Kind};
pub use handle::{Handle, Lock};
pub use hole::free_range;
pub use id::JobId;
pub use job::{Job, Outcome, Output};
pub use stat::{FileType, Stat};
pub use work::{
    OpenMode, WriteMode, copy, list, make_directory, make_temporary, open_file, read_file, remove,
    rename, stat, write_file,
};

use crate::driver::Fd;
use crate::wake::Waker;
use id::Waiter;
use inline_io_budget::InlineIoBudget;
use job::Step;
use key::Key;
use op::{Manner, Op};
use pool::{Ended, Pool};
use ring::Ring;
use syscall::Answer;
use turns::Turns;

/// Executor of operations that cannot run in the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// io_uring if it is available, otherwise threads.
    Auto,
    /// Threads.
    Threads,
}

/// Limits of a [`Files`].
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of running jobs. Each job has one operation in progress.
    pub jobs_max: usize,
    /// Maximum number of waiting jobs.
    pub waiting_max: usize,
    /// Maximum number of bytes that all unfinished jobs write together. A single job may exceed it.
    pub waiting_bytes_max: usize,
    /// Maximum number of threads.
    pub threads_max: usize,
    /// Maximum number of bytes that one call moves in the loop.
    pub inline_bytes_max: usize,
}

/// Result of starting a job.
pub enum Started {
    /// The job has already ended.
    Over(Outcome),
    /// The job is running or waiting.
    Pending(JobId),
}

/// Work that one call may still do in the loop.
struct Credit {
    bytes: usize,
    /// Number of voluntary context switches of this thread before its first short operation. If the number grows, an operation
    /// has waited.
    sleeps: Option<i64>,
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Number of waiting jobs.
    Jobs,
    /// Bytes that unfinished jobs write.
    Bytes,
}

/// File operations of one process. Create it after the fork and use it in the thread that created it.
pub struct Files {
    bounds: Bounds,
    waker: Waker,
    ring: Option<Ring>,
    pool: Option<Pool>,
    jobs: HashMap<JobId, Job>,
    next_id: JobId,
    /// Number of running jobs.
    working: usize,
    /// Jobs that only wait until fewer than `jobs_max` jobs are running.
    waiting: VecDeque<JobId>,
    turns: Turns,
    /// Number of all waiting jobs: those in `waiting`, and those that wait for resources of other jobs.
    waiting_len: usize,
    /// Bytes of unfinished jobs.
    waiting_bytes: usize,
    /// Results of ended jobs that their users have not taken.
    over: HashMap<JobId, Outcome>,
    results: VecDeque<(JobId, u64)>,
    inline_io_budget: InlineIoBudget,
    /// Start time of a short call that the application makes in the loop, and the number of the thread's voluntary context
    /// switches before it.
    tried: Option<(Instant, i64)>,
    ended: Vec<Ended>,
}

impl Files {
    /// Creates the executor, with a ring if possible. The second value is the reason if no ring is available.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new(bounds: Bounds, backend: Backend) -> io::Result<(Files, io::Result<()>)> {
        let waker = Waker::new()?;
        let ring = match backend {
            Backend::Auto => Ring::new(&waker).map(Some),
            Backend::Threads => Ok(None),
        };
        let (ring, why) = match ring {
            Ok(ring) => (ring, Ok(())),
            Err(error) => (None, Err(error)),
        };
        let files = Files {
            bounds,
            waker,
            ring,
            pool: None,
            jobs: HashMap::new(),
            next_id: JobId::FIRST,
            working: 0,
            waiting: VecDeque::new(),
            turns: Turns::default(),
            waiting_len: 0,
            waiting_bytes: 0,
            over: HashMap::new(),
            results: VecDeque::new(),
            inline_io_budget: InlineIoBudget::default(),
            tried: None,
            ended: Vec::new(),
        };
        Ok((files, why))
    }

    /// Returns the descriptor to watch for reading; when it is readable, call [`on_ready`](Files::on_ready).
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.waker.fd()
    }

    /// Starts a job and immediately runs the part that cannot block. `user` is reported when the job ends.
    ///
    /// # Errors
    /// A limit is reached.
    pub fn start(&mut self, job: Job, user: u64) -> Result<Started, Full> {
        self.start_for(Waiter::User(user), job)
    }

    fn start_for(&mut self, waiter: Waiter, mut job: Job) -> Result<Started, Full> {
        if let Some(full) = self.is_full_for(&job) {
            return Err(full);
        }
        job.waiter = waiter;
        let id = self.next_id;
        self.next_id = id.next();
        let has_to_wait = self.working >= self.bounds.jobs_max || self.turns.are_taken(&job.keys);
        self.turns.join(id, &job.keys);
        if has_to_wait {
            self.put_off(id, job);
            return Ok(Started::Pending(id));
        }
        if let Some(outcome) = self.begin(id, job) {
            return Ok(Started::Over(outcome));
        }
        // Operations on cached data may already be complete.
        if self.ring.is_some() {
            self.reap();
        }
        match self.take(id) {
            Some(outcome) => Ok(Started::Over(outcome)),
            None => Ok(Started::Pending(id)),
        }
    }

    /// Runs a job and waits for its end, including jobs that must end before it.
    pub fn run(&mut self, job: Job) -> Outcome {
        while self.is_full_for(&job).is_some() && self.wait() {}
        match self.start_for(Waiter::Caller, job) {
            Ok(Started::Over(outcome)) => outcome,
            Ok(Started::Pending(id)) => loop {
                if let Some(outcome) = self.take(id) {
                    return outcome;
                }
                if !self.wait() {
                    return Err(libc::EIO.into());
                }
            },
            Err(_full) => Err(libc::EAGAIN.into()),
        }
    }

    /// Returns true if the application may make a short call in the loop that moves `bytes`. `written` is the device and inode of
    /// the file that the call writes to. Call [`tried`](Files::tried) after the call.
    pub fn may_try(&mut self, written: Option<(u64, u64)>, bytes: usize) -> bool {
        let is_taken = written
            .is_some_and(|(device, inode)| self.turns.are_taken(&[Key::Inode(device, inode)]));
        let bytes_max = self.bounds.inline_bytes_max;
        let now = Instant::now();
        if is_taken
            || bytes_max == 0
            || bytes > bytes_max
            || !self.inline_io_budget.is_available(now)
        {
            return false;
        }
        self.tried = Some((now, inline_io_budget::sleeps()));
        true
    }

    /// Ends a call that [`may_try`](Files::may_try) allowed.
    pub fn tried(&mut self) {
        let Some((began, sleeps)) = self.tried.take() else {
            return;
        };
        let now = Instant::now();
        if inline_io_budget::is_slow(now - began) && inline_io_budget::sleeps() != sleeps {
            self.inline_io_budget.spend(now - began, now);
        }
    }

    /// Waits until all pending writes to a file are complete, for callers that write to it directly.
    pub fn settle(&mut self, device: u64, inode: u64) {
        let key = [Key::Inode(device, inode)];
        while self.turns.are_taken(&key) && self.wait() {}
    }

    /// Handles completed operations.
    pub fn on_ready(&mut self) {
        self.waker.drain();
        self.reap();
    }

    /// Returns true if a job with a user has ended.
    #[must_use]
    pub fn has_results(&self) -> bool {
        !self.results.is_empty()
    }

    /// Returns the next ended job and its user.
    pub fn next_over(&mut self) -> Option<(JobId, u64)> {
        self.results.pop_front()
    }

    /// Returns the result of a job; `None` if it has not ended.
    pub fn take(&mut self, id: JobId) -> Option<Outcome> {
        let outcome = self.over.remove(&id)?;
        self.results.retain(|(ended, _)| *ended != id);
        Some(outcome)
    }

    /// Abandons a job, which is still finished.
    pub fn forget(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.waiter = Waiter::None;
        } else {
            self.take(id);
        }
    }

    /// Returns true if no job is running or waiting.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Waits until all accepted jobs are finished.
    pub fn finish(&mut self) {
        while self.wait() {}
    }

    /// Waits until an operation completes. Returns false if none is in progress.
    fn wait(&mut self) -> bool {
        if self.working == 0 {
            return false;
        }
        let has_ring_work = self.ring.as_ref().is_some_and(|ring| !ring.is_idle());
        match (&mut self.ring, &self.pool) {
            (Some(ring), _) if has_ring_work => ring.wait(),
            (_, Some(pool)) => pool.wait(),
            // Not reached: each running job has an operation in the ring or the pool.
            _ => return false,
        }
        self.reap();
        true
    }

    fn is_full_for(&self, job: &Job) -> Option<Full> {
        let has_to_wait = self.working >= self.bounds.jobs_max || self.turns.are_taken(&job.keys);
        if has_to_wait && self.waiting_len >= self.bounds.waiting_max {
            return Some(Full::Jobs);
        }
        let bytes = self.waiting_bytes.saturating_add(job.data_len());
        (self.waiting_bytes > 0 && bytes > self.bounds.waiting_bytes_max).then_some(Full::Bytes)
    }

    /// Stores a job that must wait. The job has already joined the queues of its keys.
    fn put_off(&mut self, id: JobId, mut job: Job) {
        self.keep_data(&mut job);
        if self.turns.has_all(id, &job.keys) {
            self.waiting.push_back(id);
        }
        self.waiting_len += 1;
        self.jobs.insert(id, job);
    }

    /// Copies the job's borrowed bytes, so that they outlive the caller.
    fn keep_data(&mut self, job: &mut Job) {
        if let Some(data) = &job.data
            && !job.is_counted
        {
            data.own();
            job.is_counted = true;
            self.waiting_bytes += data.len();
        }
    }

    /// Starts a job that is the first in the queues of all its keys.
    fn begin(&mut self, id: JobId, job: Job) -> Option<Outcome> {
        self.working += 1;
        self.work(id, job)
    }

    /// Runs a job until it ends or waits for an operation.
    fn work(&mut self, id: JobId, mut job: Job) -> Option<Outcome> {
        let mut credit = Credit {
            bytes: self.bounds.inline_bytes_max,
            sleeps: None,
        };
        loop {
            match job.step() {
                Step::Over(outcome) => {
                    self.release(&job);
                    return Some(outcome);
                }
                Step::Do(mut op) => {
                    let answer = match self.try_at_once(&mut op, &mut credit) {
                        Some(answer) => answer,
                        None => match self.give_away(id, &mut job, op) {
                            Ok(()) => {
                                self.jobs.insert(id, job);
                                return None;
                            }
                            // Neither the ring nor a thread is available, so run the operation here.
                            Err(given_back) => {
                                op = given_back;
                                op.run()
                            }
                        },
                    };
                    job.answer(op, answer);
                }
            }
        }
    }

    fn try_at_once(&mut self, op: &mut Op, credit: &mut Credit) -> Option<Answer> {
        let len = op.bytes_len();
        if len > credit.bytes {
            return None;
        }
        let answer = match op.manner() {
            Manner::Cached => op.run_cached(),
            Manner::AtOnce => Some(op.run()),
            Manner::Short => {
                let began = Instant::now();
                if !self.inline_io_budget.is_available(began) {
                    return None;
                }
                let sleeps = *credit.sleeps.get_or_insert_with(inline_io_budget::sleeps);
                let answer = op.run();
                let now = Instant::now();
                if inline_io_budget::is_slow(now - began) {
                    // Without a voluntary context switch, the thread did not wait for the disk. Another process had the core,
                    // so the budget is not charged.
                    let since = inline_io_budget::sleeps();
                    if since != sleeps {
                        self.inline_io_budget.spend(now - began, now);
                    }
                    credit.sleeps = Some(since);
                }
                Some(answer)
            }
            Manner::Long => None,
        };
        if answer.is_some() {
            credit.bytes -= len;
        }
        answer
    }

    /// Passes an operation to the ring or a thread.
    fn give_away(&mut self, id: JobId, job: &mut Job, mut op: Op) -> Result<(), Op> {
        self.keep_data(job);
        if let Some(data) = &job.data
            && let Op::Write { bytes, .. } = &mut op
            && matches!(bytes, data::Bytes::Lent(..))
        {
            // The operation still has the caller's bytes. Replace them with the copy, which outlives the call.
            *bytes = data.bytes();
        }
        if let Some(ring) = &mut self.ring {
            match ring.submit(id, op) {
                Ok(()) => return Ok(()),
                Err(given_back) => op = given_back,
            }
        }
        if self.pool.is_none() {
            match self.waker.share() {
                Ok(waker) => self.pool = Some(Pool::new(self.bounds.threads_max, waker)),
                Err(_) => return Err(op),
            }
        }
        match &mut self.pool {
            Some(pool) => pool.submit(id, op),
            None => Err(op),
        }
    }

    fn reap(&mut self) {
        let mut ended = std::mem::take(&mut self.ended);
        if let Some(ring) = &mut self.ring {
            ring.reap(&mut ended);
        }
        if let Some(pool) = &self.pool {
            pool.reap(&mut ended);
        }
        for (id, op, answer) in ended.drain(..) {
            if let Some(mut job) = self.jobs.remove(&id) {
                job.answer(op, answer);
                let waiter = job.waiter;
                if let Some(outcome) = self.work(id, job) {
                    self.record(id, waiter, outcome);
                }
            }
        }
        self.ended = ended;
        self.begin_waiting();
    }

    /// Releases the resources of an ended job. The next jobs in the queues of these resources may become ready.
    fn release(&mut self, job: &Job) {
        self.working -= 1;
        if job.is_counted {
            self.waiting_bytes -= job.data_len();
        }
        for key in &job.keys {
            if let Some(next) = self.turns.leave(key)
                && self
                    .jobs
                    .get(&next)
                    .is_some_and(|job| self.turns.has_all(next, &job.keys))
            {
                // This job has also waited for its keys, so it starts before the jobs that only wait for `jobs_max`.
                self.waiting.push_front(next);
            }
        }
    }

    /// Starts waiting jobs while fewer than `jobs_max` are running.
    fn begin_waiting(&mut self) {
        while self.working < self.bounds.jobs_max {
            let Some(id) = self.waiting.pop_front() else {
                return;
            };
            self.waiting_len -= 1;
            let Some(job) = self.jobs.remove(&id) else {
                // Not reached: every waiting job is in `jobs`.
                continue;
            };
            let waiter = job.waiter;
            if let Some(outcome) = self.begin(id, job) {
                self.record(id, waiter, outcome);
            }
        }
    }

    fn record(&mut self, id: JobId, waiter: Waiter, outcome: Outcome) {
        if waiter != Waiter::None {
            self.over.insert(id, outcome);
        }
        if let Waiter::User(user) = waiter {
            self.results.push_back((id, user));
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests;
