//! The two queues shared with the kernel, as calls that tolerate misuse.
//!
//! Task work is deferred (`DEFER_TASKRUN`): the kernel processes sockets only inside `wait` and `poll`, not at arbitrary times.
//! `submit` starts operations, and completes only those that can complete immediately. Older kernels do not support the flags, so
//! `new` fails on them.

use std::collections::VecDeque;
use std::io;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{self, CancelBuilder, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode};

use super::ticket::{Op, Ticket};
use crate::driver::Fd;

/// Maximum number of collected operations before they must be submitted.
const SUBMISSIONS: u32 = 256;

/// Number of completions that the kernel stores without allocating. Above it, completions queue inside of the kernel, and multishot
/// operations end and must be restarted.
const COMPLETIONS: u32 = 4096;

/// `IORING_ENTER_GETEVENTS`: run deferred task work and report its completions.
const GETEVENTS: u32 = 1;

/// Number of the only buffer group.
pub(super) const GROUP: u16 = 0;

/// Result of an operation.
#[derive(Clone, Copy)]
pub(super) struct Completion {
    pub ticket: Ticket,
    /// A count, a descriptor, or a negated error number.
    pub result: i32,
    /// The provided buffer that was filled.
    pub buffer: Option<u16>,
    /// True if the operation continues and completes again.
    pub has_more: bool,
}

/// Maximum duration of `wait`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleep {
    Never,
    ForMs(u64),
    Forever,
}

pub(super) struct Ring {
    io: IoUring,
    /// Operations that did not fit into the queue because the kernel accepted no operation.
    overflow: VecDeque<Entry>,
    /// Descriptors of operations that were not submitted.
    unsubmitted: Vec<Fd>,
}

impl Ring {
    /// Opens a ring for the calling thread only.
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

    /// Reports once when one of the `flags` applies. The flags are those of `poll(2)`.
    pub fn poll_add(&mut self, ticket: Ticket, flags: i16) {
        let entry = opcode::PollAdd::new(types::Fd(ticket.fd), flags as u32);
        self.start(entry.build(), ticket);
    }

    /// Reports the peer's end, and again when the connection is broken.
    pub fn poll_hangup(&mut self, ticket: Ticket) {
        let entry = opcode::PollAdd::new(types::Fd(ticket.fd), libc::POLLRDHUP as u32);
        self.start(entry.multi(true).build(), ticket);
    }

    /// Sends without waiting for space; completes inside the call that submits it.
    ///
    /// # Safety
    /// `bytes` must stay valid and unchanged until the ticket has completed.
    pub unsafe fn send(&mut self, fd: Fd, bytes: *const u8, len: u32, ticket: Ticket) {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        let entry = opcode::Send::new(types::Fd(fd), bytes, len).flags(flags);
        self.start(entry.build(), ticket);
    }

    /// Cancels an operation. If the operation has not completed yet, it completes as cancelled. The cancellation itself is not
    /// reported.
    pub fn cancel(&mut self, ticket: Ticket) {
        let entry = opcode::AsyncCancel::new(ticket.to_u64()).build();
        let own = Ticket {
            op: Op::Cancel,
            ..ticket
        };
        self.start(entry.flags(Flags::SKIP_SUCCESS), own);
    }

    /// Cancels an operation and waits for it. The last completion of the operation is then in the queue.
    pub fn cancel_now(&mut self, ticket: Ticket) -> io::Result<()> {
        self.submit();
        let which = CancelBuilder::user_data(ticket.to_u64());
        match self.io.submitter().register_sync_cancel(None, which) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done?,
        }
        // The last completions may be deferred task work, which only entering the kernel runs. SAFETY: nothing is
        // submitted, and no argument is a pointer.
        unsafe {
            self.io
                .submitter()
                .enter::<libc::sigset_t>(0, 0, GETEVENTS, None)
        }
        .map(|_| ())
    }

    /// Submits collected operations of a descriptor before it is closed. Otherwise the kernel would start them for the
    /// next descriptor with that number.
    pub fn submit_before_close(&mut self, fd: Fd) {
        if self.unsubmitted.contains(&fd) {
            self.submit();
        }
    }

    fn start(&mut self, entry: Entry, ticket: Ticket) {
        // The ticket of a collected send has an index instead of a descriptor. Its descriptor is not closed before the send has
        // completed.
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
        // SAFETY: entries are only built in this file. They refer to memory only in `send`, whose caller guarantees its
        // validity, and in `recv`, whose buffers live as long as the ring.
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

    /// Submits the collected operations. Operations that cannot be started stay in the queue, and the next call retries them.
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
                // The kernel has no memory, or refuses operations until completions are read. The rest stays in the queue for
                // the next call.
                Err(_) => return,
            }
            if self.io.submission().len() == length {
                return;
            }
        }
    }

    /// Submits the collected operations, lets the kernel run task work, and sleeps until an operation completes.
    pub fn wait(&mut self, sleep: Sleep) -> io::Result<()> {
        self.submit_overflow();
        let length = self.io.submission().len() as u32;
        let entered = match sleep {
            Sleep::Never => {
                // SAFETY: no argument is passed, and the entries are valid as stated in `push`.
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
            // The time-out has passed, or a signal has arrived, whose handler wrote to a watched pipe, or the kernel waits
            // until completions are read. The caller reads them next.
            Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN), _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }

    /// Clears the list if the kernel has accepted all operations. The kernel accepts them in order, so only an empty queue shows
    /// that no operation of a descriptor is left.
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

    /// Moves completions to `done`.
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

    /// Registers the memory that `recv` fills.
    ///
    /// # Safety
    /// `entries` must be the page-aligned start of a buffer ring of `count` entries. The ring of entries, and all buffers ever
    /// entered into it, must stay mapped until the ring is dropped.
    pub unsafe fn provide(&mut self, entries: *mut u8, count: u16) -> io::Result<()> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            self.io
                .submitter()
                .register_buf_ring_with_flags(entries as u64, count, GROUP, 0)
        }
    }
}
