//! Threads for operations that the kernel cannot run asynchronously: without io_uring all operations, otherwise the few that
//! io_uring does not support.
//!
//! Threads are started one at a time when there is work and all others are busy. Threads access no data of the process except their
//! operations. They block all signals, so that the loop's thread receives them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::id::JobId;
use super::op::Op;
use super::syscall::Answer;
use crate::thread;
use crate::wake::Waker;

/// Stack size in bytes; sufficient for a system call.
const STACK_BYTES: usize = 256 * 1024;

/// A completed operation with its job and result.
pub(super) type Ended = (JobId, Op, Answer);

#[derive(Default)]
struct Shared {
    work: VecDeque<(JobId, Op)>,
    ended: Vec<Ended>,
    idle: usize,
    is_over: bool,
}

struct PoolState {
    shared: Mutex<Shared>,
    /// Signalled when an operation is queued, or when the pool shuts down.
    has_work: Condvar,
    /// Signalled when an operation has completed.
    has_ended: Condvar,
    waker: Waker,
}

impl PoolState {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        // No code between lock and unlock can panic and leave the state inconsistent.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Pool {
    state: Arc<PoolState>,
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
}

impl Pool {
    pub fn new(threads_max: usize, waker: Waker) -> Pool {
        Pool {
            state: Arc::new(PoolState {
                shared: Mutex::default(),
                has_work: Condvar::new(),
                has_ended: Condvar::new(),
                waker,
            }),
            threads: Vec::new(),
            threads_max,
        }
    }

    /// Queues an operation. Returns it if no thread can be started at all.
    pub fn submit(&mut self, job: JobId, op: Op) -> Result<(), Op> {
        let mut shared = self.state.lock();
        let needs_thread =
            shared.idle <= shared.work.len() && self.threads.len() < self.threads_max;
        if needs_thread {
            drop(shared);
            if let Err(_out_of_threads) = self.begin_thread()
                && self.threads.is_empty()
            {
                return Err(op);
            }
            shared = self.state.lock();
        }
        shared.work.push_back((job, op));
        drop(shared);
        self.state.has_work.notify_one();
        Ok(())
    }

    /// Moves completed operations to `ended`.
    pub fn reap(&self, ended: &mut Vec<Ended>) {
        ended.append(&mut self.state.lock().ended);
    }

    /// Waits until an operation has completed. At least one must be in progress.
    pub fn wait(&self) {
        let mut shared = self.state.lock();
        while shared.ended.is_empty() {
            shared = self
                .state
                .has_ended
                .wait(shared)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn begin_thread(&mut self) -> io::Result<()> {
        let state = Arc::clone(&self.state);
        let begun = thread::begin("fermata-files", STACK_BYTES, move || work(&state))?;
        self.threads.push(begun);
        Ok(())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.state.lock().is_over = true;
        self.state.has_work.notify_all();
        for thread in self.threads.drain(..) {
            // Ignore errors: operations do not panic, and no caller can receive them.
            let _ = thread.join();
        }
    }
}

fn work(state: &PoolState) {
    let mut shared = state.lock();
    loop {
        if let Some((job, mut op)) = shared.work.pop_front() {
            drop(shared);
            let answer = op.run();
            shared = state.lock();
            shared.ended.push((job, op, answer));
            state.has_ended.notify_one();
            state.waker.wake();
        } else if shared.is_over {
            return;
        } else {
            shared.idle += 1;
            shared = state
                .has_work
                .wait(shared)
                .unwrap_or_else(PoisonError::into_inner);
            shared.idle -= 1;
        }
    }
}
