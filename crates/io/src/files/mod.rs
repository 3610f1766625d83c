//! Work on files that does not hold the loop.
//!
//! What is in the page cache is done at once, with system calls that refuse rather than wait, and so is what is short
//! while the disk is not busy ([`patience`]). All else is given to the kernel through io_uring, or, where that is forbidden,
//! to a few threads ([`pool`]). Nobody notices which: a [`Job`] is straight-line code over operations ([`op`]).
//!
//! - Work on one path, or with one handle, is done in the order in which it was asked for, as far as it changes anything;
//!   so is work that blocks ([`Files::run`]).
//! - A job that nobody waits for any more is finished all the same: what was half written would be worse.
//! - [`Files`] that are dropped finish first what they have accepted.

mod cached;
mod call;
mod data;
mod failure;
mod handle;
mod handle_work;
mod id;
mod job;
mod key;
mod op;
mod patience;
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
use job::Step;
use key::Key;
use op::{Manner, Op};
use patience::Patience;
use pool::{Ended, Pool};
use ring::Ring;
use syscall::Answer;
use turns::Turns;

/// What does the work that cannot be done in the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// io_uring where it is allowed, else threads.
    Auto,
    /// Threads.
    Threads,
}

/// Bounds.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Jobs that are worked on at a time; each has one operation under way.
    pub jobs_max: usize,
    /// Jobs that wait for their turn.
    pub waiting_max: usize,
    /// Bytes of all jobs that have not ended and write something; more only if it is all of one job.
    pub waiting_bytes_max: usize,
    /// Threads.
    pub threads_max: usize,
    /// Bytes that one call moves in the loop itself.
    pub inline_bytes_max: usize,
}

/// What became of a job that was begun.
pub enum Started {
    /// It has ended already.
    Over(Outcome),
    /// It is under way.
    Pending(JobId),
}

/// What is left of what one call may do in the loop.
struct Credit {
    bytes: usize,
    /// How often this thread had slept when its first short operation began.
    sleeps: Option<i64>,
}

/// There is as much as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Of jobs.
    Jobs,
    /// Of bytes that they write.
    Bytes,
}

/// The files of one process. Make it after the fork, and use it in the thread that made it.
pub struct Files {
    bounds: Bounds,
    waker: Waker,
    ring: Option<Ring>,
    pool: Option<Pool>,
    jobs: HashMap<JobId, Job>,
    next_id: JobId,
    /// Jobs that are worked on.
    working: usize,
    /// Jobs that wait for nothing but room.
    waiting: VecDeque<JobId>,
    turns: Turns,
    /// How many wait, for room or for their turn.
    waiting_len: usize,
    /// Bytes of jobs that have not ended.
    waiting_bytes: usize,
    /// Jobs that have ended and are waited for, by number: what to tell, and how they have ended.
    over: HashMap<JobId, Outcome>,
    news: VecDeque<(JobId, u64)>,
    patience: Patience,
    /// When a call of the program's own began in the loop, and how often this thread had slept then.
    tried: Option<(Instant, i64)>,
    ended: Vec<Ended>,
}

impl Files {
    /// Opens a ring where it may. `Err` of the second value says why it may not.
    ///
    /// # Errors
    /// No descriptor left.
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
            news: VecDeque::new(),
            patience: Patience::default(),
            tried: None,
            ended: Vec::new(),
        };
        Ok((files, why))
    }

    /// What to watch for reading: [`on_ready`](Files::on_ready) has something to do.
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.waker.fd()
    }

    /// Begins a job, and does of it what can be done at once. `user` is told when it has ended.
    ///
    /// # Errors
    /// There are too many.
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
        // The kernel may have found everything in its cache.
        if self.ring.is_some() {
            self.reap();
        }
        match self.take(id) {
            Some(outcome) => Ok(Started::Over(outcome)),
            None => Ok(Started::Pending(id)),
        }
    }

    /// Does a job before it returns, when its turn has come. What has to end first is waited for.
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

    /// Whether the program may make a short call in the loop itself, which moves `bytes` and, if it writes, writes to this file
    /// (its device and inode): [`tried`](Files::tried) is told when it has returned.
    pub fn may_try(&mut self, written: Option<(u64, u64)>, bytes: usize) -> bool {
        let is_taken = written
            .is_some_and(|(device, inode)| self.turns.are_taken(&[Key::Inode(device, inode)]));
        let bytes_max = self.bounds.inline_bytes_max;
        let now = Instant::now();
        if is_taken || bytes_max == 0 || bytes > bytes_max || !self.patience.is_there(now) {
            return false;
        }
        self.tried = Some((now, patience::sleeps()));
        true
    }

    /// The call has returned.
    pub fn tried(&mut self) {
        let Some((began, sleeps)) = self.tried.take() else {
            return;
        };
        let now = Instant::now();
        if patience::is_slow(now - began) && patience::sleeps() != sleeps {
            self.patience.lose(now - began, now);
        }
    }

    /// Finishes what is to be written to a file, for whoever writes to it and cannot wait.
    pub fn settle(&mut self, device: u64, inode: u64) {
        let key = [Key::Inode(device, inode)];
        while self.turns.are_taken(&key) && self.wait() {}
    }

    /// Takes note of operations that have ended.
    pub fn on_ready(&mut self) {
        self.waker.drain();
        self.reap();
    }

    /// Whether a job has ended that somebody waits for.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// The next job that has ended: its number, and what was to be told.
    pub fn next_over(&mut self) -> Option<(JobId, u64)> {
        self.news.pop_front()
    }

    /// How a job has ended; `None` while it has not.
    pub fn take(&mut self, id: JobId) -> Option<Outcome> {
        let outcome = self.over.remove(&id)?;
        self.news.retain(|(ended, _)| *ended != id);
        Some(outcome)
    }

    /// Stops waiting for this job, which is finished all the same.
    pub fn forget(&mut self, id: JobId) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.waiter = Waiter::Nobody;
        } else {
            self.take(id);
        }
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Finishes everything that was accepted.
    pub fn finish(&mut self) {
        while self.wait() {}
    }

    /// Waits until some operation has ended. False when none is under way.
    fn wait(&mut self) -> bool {
        if self.working == 0 {
            return false;
        }
        let has_ring_work = self.ring.as_ref().is_some_and(|ring| !ring.is_idle());
        match (&mut self.ring, &self.pool) {
            (Some(ring), _) if has_ring_work => ring.wait(),
            (_, Some(pool)) => pool.wait(),
            // A job in progress has given an operation to one of them.
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

    /// A job has to wait, and has lined up.
    fn put_off(&mut self, id: JobId, mut job: Job) {
        self.keep_data(&mut job);
        if self.turns.has_all(id, &job.keys) {
            self.waiting.push_back(id);
        }
        self.waiting_len += 1;
        self.jobs.insert(id, job);
    }

    /// What a job writes outlives the call that has lent it.
    fn keep_data(&mut self, job: &mut Job) {
        if let Some(data) = &job.data
            && !job.is_counted
        {
            data.own();
            job.is_counted = true;
            self.waiting_bytes += data.len();
        }
    }

    /// Works on a job whose turn it is.
    fn begin(&mut self, id: JobId, job: Job) -> Option<Outcome> {
        self.working += 1;
        self.work(id, job)
    }

    /// Goes on with a job until it has ended, or waits for an operation.
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
                            // There is neither ring nor thread to be had.
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
                if !self.patience.is_there(began) {
                    return None;
                }
                let sleeps = *credit.sleeps.get_or_insert_with(patience::sleeps);
                let answer = op.run();
                let now = Instant::now();
                if patience::is_slow(now - began) {
                    // Another process may have had the processor meanwhile, which is not the disk's fault.
                    let since = patience::sleeps();
                    if since != sleeps {
                        self.patience.lose(now - began, now);
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

    /// Has the kernel or a thread do an operation.
    fn give_away(&mut self, id: JobId, job: &mut Job, mut op: Op) -> Result<(), Op> {
        self.keep_data(job);
        if let Some(data) = &job.data
            && let Op::Write { bytes, .. } = &mut op
            && matches!(bytes, data::Bytes::Lent(..))
        {
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
                    self.tell(id, waiter, outcome);
                }
            }
        }
        self.ended = ended;
        self.begin_waiting();
    }

    /// A job has ended: the one that waits for its keys is next.
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
                // It has waited longer than those that wait for room alone.
                self.waiting.push_front(next);
            }
        }
    }

    /// Begins jobs that have waited, as far as there is room.
    fn begin_waiting(&mut self) {
        while self.working < self.bounds.jobs_max {
            let Some(id) = self.waiting.pop_front() else {
                return;
            };
            self.waiting_len -= 1;
            let Some(job) = self.jobs.remove(&id) else {
                // Each that waits has a job.
                continue;
            };
            let waiter = job.waiter;
            if let Some(outcome) = self.begin(id, job) {
                self.tell(id, waiter, outcome);
            }
        }
    }

    fn tell(&mut self, id: JobId, waiter: Waiter, outcome: Outcome) {
        if waiter != Waiter::Nobody {
            self.over.insert(id, outcome);
        }
        if let Waiter::User(user) = waiter {
            self.news.push_back((id, user));
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
