//! A piece of work on files, written as straight-line code.
//!
//! A job is a future whose only leaf is "do this operation", so the same code runs wherever operations are done: at once
//! by [`Job::run_now`], in the loop, in the kernel's ring or on a thread. There is no runtime: whoever drives the job polls
//! it when the operation it has asked for is over, and no waker is ever called.

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

/// What a job gives.
pub enum Output {
    /// It is done.
    Done,
    /// A number of bytes.
    Count(u64),
    /// What was read; `None` behind the last line.
    Bytes(Option<Vec<u8>>),
    /// An open file.
    Handle(Handle),
    /// A descriptor.
    File(OwnedFd),
    /// What a file is.
    Stat(Stat),
    /// Names, each with a NUL behind it.
    Names(Vec<u8>),
}

/// How a job ends.
pub type Outcome = Result<Output, Failure>;

#[derive(Default)]
struct Slot {
    asked: Option<Op>,
    answer: Option<(Op, Answer)>,
}

/// Where a job asks for operations.
#[derive(Clone, Default)]
pub(super) struct Ops(Rc<RefCell<Slot>>);

impl Ops {
    /// Does an operation, and gives it back with what came of it.
    pub async fn run(&self, op: Op) -> (Op, Answer) {
        self.0.borrow_mut().asked = Some(op);
        std::future::poll_fn(|_| match self.0.borrow_mut().answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => Poll::Pending,
        })
        .await
    }

    /// For operations of which nothing but the answer counts.
    pub async fn call(&self, op: Op) -> Result<u64, Failure> {
        self.run(op).await.1.map_err(Failure::from)
    }
}

/// What a job wants next.
pub(super) enum Step {
    Do(Op),
    Over(Outcome),
}

/// Work that has not ended.
pub struct Job {
    ops: Ops,
    future: Pin<Box<dyn Future<Output = Outcome>>>,
    /// What it writes.
    pub(super) data: Option<Data>,
    /// What it must have to itself; each once.
    pub(super) keys: Vec<Key>,
    /// Its bytes are among those that wait.
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
            waiter: Waiter::Nobody,
        }
    }

    /// Bytes that it writes.
    pub(super) fn data_len(&self) -> usize {
        self.data.as_ref().map_or(0, Data::len)
    }

    /// Goes on to the next operation. Meaningless after `Over`.
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

    /// The operation that was asked for is over.
    pub(super) fn answer(&mut self, op: Op, answer: Answer) {
        self.ops.0.borrow_mut().answer = Some((op, answer));
    }

    /// Does all of it before returning, however long that takes.
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
