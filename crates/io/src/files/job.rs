//! A sequence of file operations, written as straight-line code.
//!
//! A job is a future that awaits only operations. So the same code is used wherever operations run: in [`Job::run_now`], in the
//! loop, in the kernel's ring or on a thread. There is no runtime: the owner polls the job after each completed operation, and no
//! waker is ever called.

use std::cell::RefCell;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::data::Data;
use super::failure::Failure;
use super::handle::Handle;
use super::id::Waiter;
use super::key::Key;
use super::op::Op;
use super::stat::Stat;
use super::syscall::Answer;

/// Result of a successful job.
pub enum Output {
    /// No value.
    Done,
    /// A number of bytes.
    Count(u64),
    /// Bytes that were read; `None` after the last line.
    Bytes(Option<Vec<u8>>),
    /// An open file.
    Handle(Handle),
    /// A descriptor.
    File(OwnedFd),
    /// Metadata of a file.
    Stat(Stat),
    /// Names, each followed by a NUL.
    Names(Vec<u8>),
}

/// Result of a job.
pub type Outcome = Result<Output, Failure>;

#[derive(Default)]
struct Slot {
    asked: Option<Op>,
    answer: Option<(Op, Answer)>,
}

/// Requests operations on behalf of a job.
#[derive(Clone, Default)]
pub(super) struct Ops(Rc<RefCell<Slot>>);

impl Ops {
    /// Runs an operation and returns it with its result.
    pub async fn run(&self, op: Op) -> (Op, Answer) {
        self.0.borrow_mut().asked = Some(op);
        std::future::poll_fn(|_| match self.0.borrow_mut().answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }

    /// Runs an operation of which only the result is needed.
    pub async fn call(&self, op: Op) -> Result<u64, Failure> {
        self.run(op).await.1.map_err(Failure::from)
    }
}

/// Next step of a job.
pub(super) enum Step {
    Do(Op),
    Over(Outcome),
}

/// A job that has not ended.
pub struct Job {
    ops: Ops,
    future: Pin<Box<dyn Future<Output = Outcome>>>,
    /// Bytes that the job writes.
    pub(super) data: Option<Data>,
    /// Keys that the job needs exclusively; no key occurs twice.
    pub(super) keys: Vec<Key>,
    /// True if the job's bytes count toward `waiting_bytes`.
    pub(super) is_counted: bool,
    pub(super) waiter: Waiter,
}

impl Job {
    pub(super) fn new<F>(keys: Vec<Key>, data: Option<Data>, work: impl FnOnce(Ops) -> F) -> Job
    where
        F: Future<Output = Outcome> + 'static,
    {
        let ops = Ops::default();
        Job {
            future: Box::pin(work(ops.clone())),
            ops,
            data,
            keys,
            is_counted: false,
            waiter: Waiter::None,
        }
    }

    /// Returns the number of bytes that the job writes.
    pub(super) fn data_len(&self) -> usize {
        self.data.as_ref().map_or(0, Data::len)
    }

    /// Runs the job up to its next operation. Must not be called after `Over`.
    pub(super) fn step(&mut self) -> Step {
        let mut context = Context::from_waker(Waker::noop());
        match self.future.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => Step::Over(outcome),
            Poll::Pending => {
                let op = self.ops.0.borrow_mut().asked.take();
                Step::Do(
                    op.expect("a job waits for nothing but the operation it has just asked for"),
                )
            }
        }
    }

    /// Passes the result of the requested operation to the job.
    pub(super) fn answer(&mut self, op: Op, answer: Answer) {
        self.ops.0.borrow_mut().answer = Some((op, answer));
    }

    /// Runs the complete job before it returns, however long the job takes.
    pub fn run_now(mut self) -> Outcome {
        loop {
            match self.step() {
                Step::Over(outcome) => return outcome,
                Step::Do(mut op) => {
                    let answer = op.run();
                    self.answer(op, answer);
                }
            }
        }
    }
}
