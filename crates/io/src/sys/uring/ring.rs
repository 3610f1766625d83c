//! The two queues shared with the kernel, as calls that are safe to hold wrong.
//!
//! Task work is deferred (`DEFER_TASKRUN`): the kernel touches sockets for us only inside `wait` and
//! `poll`, never behind our back and never inside `submit`, which starts operations and runs what can
//! be done at once. Older kernels do not know the flags, and `new` fails there.

use std::collections::VecDeque;
use std::io;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{self, CancelBuilder, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use super::ticket::{Op, Ticket};
use crate::driver::Fd;

/// Operations that are collected before they must be given to the kernel.
const SUBMISSIONS: u32 = 256;

/// Completions that the kernel keeps without allocating. Over it they queue up inside the kernel, and
/// multishot operations end, to be started anew.
const COMPLETIONS: u32 = 4096;

/// `IORING_ENTER_GETEVENTS`: run deferred task work and report what it completes.
const GETEVENTS: u32 = 1;

/// A buffer group's number; there is one.
pub(super) const GROUP: u16 = 0;

/// What the kernel says about an operation.
#[derive(Clone, Copy)]
pub(super) struct Completion {
    pub ticket: Ticket,
    /// A count, a descriptor, or a negated error number.
    pub result: i32,
    /// The provided buffer that was filled.
    pub buffer: Option<u16>,
    /// The operation goes on and completes again.
    pub has_more: bool,
}

/// How long `wait` may sleep.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleep {
    Never,
    ForMs(u64),
    Forever,
}

pub(super) struct Ring {
    io: IoUring,
    /// Operations for which the queue had no room, because the kernel took none.
    overflow: VecDeque<Entry>,
    /// Descriptors of the operations that the kernel has not been given.
    unsubmitted: Vec<Fd>,
}

impl Ring {
    /// Opens a ring for the calling thread alone.
    pub fn new() -> io::Result<Ring> {
        let io = IoUring::builder()
            .dontfork()
            .setup_clamp()
            .setup_submit_all()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(COMPLETIONS)
            .build(SUBMISSIONS)?;
        if !io.params().is_feature_ext_arg() || !io.params().is_feature_nodrop() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(Ring {
            io,
            overflow: VecDeque::new(),
            unsubmitted: Vec::with_capacity(SUBMISSIONS as usize),
        })
    }

    pub fn accept(&mut self, ticket: Ticket) {
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let entry = opcode::AcceptMulti::new(types::Fd(ticket.fd)).flags(flags);
        self.start(entry.build(), ticket);
    }

    pub fn recv(&mut self, ticket: Ticket) {
        self.start(
            opcode::RecvMulti::new(types::Fd(ticket.fd), GROUP).build(),
            ticket,
        );
    }

    /// Reports once when one of `flags` (those of `poll(2)`) holds.
    pub fn poll_add(&mut self, ticket: Ticket, flags: i16) {
        let entry = opcode::PollAdd::new(types::Fd(ticket.fd), flags as u32);
        self.start(entry.build(), ticket);
    }

    /// Reports the peer's end, and once more when the connection is broken.
    pub fn poll_hangup(&mut self, ticket: Ticket) {
        let entry = opcode::PollAdd::new(types::Fd(ticket.fd), libc::POLLRDHUP as u32);
        self.start(entry.multi(true).build(), ticket);
    }

    /// Sends without waiting for room: it completes inside the call that submits it.
    ///
    /// # Safety
    /// `bytes` stay where they are and as they are until the ticket has completed.
    pub unsafe fn send(&mut self, fd: Fd, bytes: *const u8, len: u32, ticket: Ticket) {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let entry = opcode::Send::new(types::Fd(fd), bytes, len).flags(flags);
        self.start(entry.build(), ticket);
    }

    /// Ends an operation. It completes as cancelled if it has not completed yet; this tells nothing.
    pub fn cancel(&mut self, ticket: Ticket) {
        let entry = opcode::AsyncCancel::new(ticket.to_u64()).build();
        let own = Ticket {
            op: Op::Cancel,
            ..ticket
        };
        self.start(entry.flags(Flags::SKIP_SUCCESS), own);
    }

    /// Ends an operation and returns when it has: its last completion is in the queue.
    pub fn cancel_now(&mut self, ticket: Ticket) -> io::Result<()> {
        self.submit();
        let which = CancelBuilder::user_data(ticket.to_u64());
        match self.io.submitter().register_sync_cancel(None, which) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
        // Its last completions may be deferred work of ours still, which only entering runs.
        // SAFETY: nothing is submitted, and no argument points anywhere.
        unsafe {
            self.io
                .submitter()
                .enter::<libc::sigset_t>(0, 0, GETEVENTS, None)
        }
        .map(|_| ())
    }

    /// Starts what was collected for a descriptor that is about to be closed: the kernel would start it for the next of
    /// that number.
    pub fn submit_before_close(&mut self, fd: Fd) {
        if self.unsubmitted.contains(&fd) {
            self.submit();
        }
    }

    fn start(&mut self, entry: Entry, ticket: Ticket) {
        // A collected send names its place instead, and its descriptor stays open until it has completed.
        if !matches!(ticket.op, Op::Send | Op::Cancel) {
            self.unsubmitted.push(ticket.fd);
        }
        let entry = entry.user_data(ticket.to_u64());
        if !self.overflow.is_empty() || !self.push(&entry) {
            self.overflow.push_back(entry);
            self.submit();
        }
    }

    fn push(&mut self, entry: &Entry) -> bool {
        // SAFETY: entries are made above. None refers to memory but those of `send`, whose caller
        // answers for it, and those of `recv` over buffers that live as long as the ring.
        unsafe { self.io.submission().push(entry) }.is_ok()
    }

    fn push_overflow(&mut self) {
        while let Some(entry) = self.overflow.pop_front() {
            if !self.push(&entry) {
                self.overflow.push_front(entry);
                return;
            }
        }
    }

    /// Starts what was collected. What fails to start stays and is tried again by the next call.
    pub fn submit(&mut self) {
        loop {
            self.push_overflow();
            let length = self.io.submission().len();
            if length == 0 {
                self.unsubmitted.clear();
                return;
            }
            match self.io.submit() {
                Ok(_) if !self.overflow.is_empty() => {}
                Ok(_) => {
                    self.forget_submitted();
                    return;
                }
                // Out of memory, or too many completions are waiting to be read.
                Err(_) => return,
            }
            if self.io.submission().len() == length {
                return;
            }
        }
    }

    /// Starts what was collected, lets the kernel work, and sleeps until something completes.
    pub fn wait(&mut self, sleep: Sleep) -> io::Result<()> {
        self.submit_overflow();
        let length = self.io.submission().len() as u32;
        let entered = match sleep {
            Sleep::Never => {
                // SAFETY: no argument is passed, and the entries are valid as said in `push`.
                unsafe {
                    self.io
                        .submitter()
                        .enter::<libc::sigset_t>(length, 0, GETEVENTS, None)
                }
            }
            Sleep::ForMs(ms) => {
                let span = Timespec::new()
                    .sec(ms / 1000)
                    .nsec((ms % 1000) as u32 * 1_000_000);
                let args = SubmitArgs::new().timespec(&span);
                self.io.submitter().submit_with_args(1, &args)
            }
            Sleep::Forever => self.io.submit_and_wait(1),
        };
        self.forget_submitted();
        match entered.map_err(|error| (error.raw_os_error(), error)) {
            Ok(_) => Ok(()),
            // The time is over; a signal, whose handler has written to a pipe that is watched; too many
            // completions wait to be read, which comes next.
            Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN), _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }

    /// The kernel takes operations in order: only when it has taken all is none left of any descriptor.
    fn forget_submitted(&mut self) {
        if self.overflow.is_empty() && self.io.submission().is_empty() {
            self.unsubmitted.clear();
        }
    }

    fn submit_overflow(&mut self) {
        if !self.overflow.is_empty() {
            self.submit();
        }
    }

    pub fn has_completions(&mut self) -> bool {
        !self.io.completion().is_empty()
    }

    /// Moves what has completed to `done`.
    pub fn drain(&mut self, done: &mut Vec<Completion>) {
        done.extend(self.io.completion().map(|entry| {
            let flags = entry.flags();
            Completion {
                ticket: Ticket::from_u64(entry.user_data()),
                result: entry.result(),
                buffer: cqueue::buffer_select(flags),
                has_more: cqueue::more(flags),
            }
        }));
    }

    /// Names the memory that `recv` fills.
    ///
    /// # Safety
    /// `entries` is the page-aligned start of a buffer ring of `count` entries, and it and the buffers
    /// that are ever entered stay mapped until the ring is dropped.
    pub unsafe fn provide(&mut self, entries: *mut u8, count: u16) -> io::Result<()> {
        // SAFETY: as the caller has promised.
        unsafe {
            self.io
                .submitter()
                .register_buf_ring_with_flags(entries as u64, count, GROUP, 0)
        }
    }
}
