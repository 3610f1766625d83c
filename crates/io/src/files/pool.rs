//! Threads that do what the kernel cannot do by itself: everything where io_uring is forbidden, and else the few
//! operations that it does not have.
//!
//! Threads are started one by one when there is work and all others are busy, never before the first, and see nothing of
//! the process but the operations they are given. They have all signals blocked, so those reach the loop.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::id::JobId;
use super::op::Op;
use super::syscall::Answer;
use crate::thread;
use crate::wake::Waker;

/// Enough for a system call.
const STACK_BYTES: usize = 256 * 1024;

/// An operation that has ended, by the job that has asked for it.
pub(super) type Ended = (JobId, Op, Answer);

#[derive(Default)]
struct Shared {
    work: VecDeque<(JobId, Op)>,
    ended: Vec<Ended>,
    idle: usize,
    is_over: bool,
}

struct Meeting {
    shared: Mutex<Shared>,
    /// There is work, or it is over.
    has_work: Condvar,
    /// Something has ended.
    has_ended: Condvar,
    waker: Waker,
}

impl Meeting {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        // Nothing between lock and unlock can panic half way.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Pool {
    meeting: Arc<Meeting>,
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
}

impl Pool {
    pub fn new(threads_max: usize, waker: Waker) -> Pool {
        Pool {
            meeting: Arc::new(Meeting {
                shared: Mutex::default(),
                has_work: Condvar::new(),
                has_ended: Condvar::new(),
                waker,
            }),
            threads: Vec::new(),
            threads_max,
        }
    }

    /// Takes an operation on. Where no thread can be had at all it is given back.
    pub fn submit(&mut self, job: JobId, op: Op) -> Result<(), Op> {
        let mut shared = self.meeting.lock();
        let needs_thread =
            shared.idle <= shared.work.len() && self.threads.len() < self.threads_max;
        if needs_thread {
            drop(shared);
            if let Err(_out_of_threads) = self.begin_thread()
                && self.threads.is_empty()
            {
                return Err(op);
            }
            shared = self.meeting.lock();
        }
        shared.work.push_back((job, op));
        drop(shared);
        self.meeting.has_work.notify_one();
        Ok(())
    }

    /// Moves what has ended to `ended`.
    pub fn reap(&self, ended: &mut Vec<Ended>) {
        ended.append(&mut self.meeting.lock().ended);
    }

    /// Waits until something has ended. There has to be something that will.
    pub fn wait(&self) {
        let mut shared = self.meeting.lock();
        while shared.ended.is_empty() {
            shared = self
                .meeting
                .has_ended
                .wait(shared)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn begin_thread(&mut self) -> io::Result<()> {
        let meeting = Arc::clone(&self.meeting);
        let begun = thread::begin("fermata-files", STACK_BYTES, move || work(&meeting))?;
        self.threads.push(begun);
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.meeting.lock().is_over = true;
        self.meeting.has_work.notify_all();
        for thread in self.threads.drain(..) {
            // It cannot have panicked on our account, and there is nobody left to tell.
            let _ = thread.join();
        }
    }
}

fn work(meeting: &Meeting) {
    let mut shared = meeting.lock();
    loop {
        if let Some((job, mut op)) = shared.work.pop_front() {
            drop(shared);
            let answer = op.run();
            shared = meeting.lock();
            shared.ended.push((job, op, answer));
            meeting.has_ended.notify_one();
            meeting.waker.wake();
        } else if shared.is_over {
            return;
        } else {
            shared.idle += 1;
            shared = meeting
                .has_work
                .wait(shared)
                .unwrap_or_else(PoisonError::into_inner);
            shared.idle -= 1;
        }
    }
}
