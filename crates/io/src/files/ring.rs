//! The kernel's queue for file operations: a small io_uring, separate from the one for sockets.
//!
//! Operations on cached data complete within `submit`; the kernel runs all others on its own threads or by interrupts. Each
//! completion signals the eventfd that the loop watches.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::squeue::Entry;
use io_uring::types::{self, Fd};
use io_uring::{IoUring, opcode};

use super::id::JobId;
use super::op::{Op, STAT_MASK, rename_flags, stat_flags};
use super::pool::Ended;
use crate::wake::Waker;

/// Entries of the submission queue; each operation is submitted immediately.
const ENTRIES: u32 = 64;

/// Completions that the kernel stores without allocating.
const COMPLETIONS: u32 = 512;

/// `IORING_ENTER_GETEVENTS`: run deferred task work and report its completions.
const GETEVENTS: u32 = 1;

/// The current directory, for relative paths.
const CWD: Fd = Fd(libc::AT_FDCWD);

pub(super) struct Ring {
    io: IoUring,
    /// Submitted operations. They own the memory that the kernel accesses.
    running: HashMap<JobId, Op>,
}

impl Ring {
    pub fn new(waker: &Waker) -> io::Result<Ring> {
        let io = IoUring::builder()
            .dontfork()
            .setup_clamp()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_cqsize(COMPLETIONS)
            .build(ENTRIES)?;
        if !io.params().is_feature_nodrop() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        io.submitter().register_eventfd(waker.fd())?;
        Ok(Ring {
            io,
            running: HashMap::new(),
        })
    }

    /// Submits an operation. Returns it if the ring does not support it or the kernel has no memory.
    pub fn submit(&mut self, job: JobId, mut op: Op) -> Result<(), Op> {
        let Some(entry) = entry(&mut op) else {
            return Err(op);
        };
        // SAFETY: the operation owns everything the entry refers to, at fixed addresses, and stays in `running` until it
        // completes; `drop` waits for that.
        let pushed = unsafe { self.io.submission().push(&entry.user_data(job.to_raw())) };
        if pushed.is_err() {
            return Err(op);
        }
        self.running.insert(job, op);
        // If this fails, the next call submits the operation; `reap` makes such a call.
        let _ = self.io.submit();
        Ok(())
    }

    /// Moves completed operations to `ended`.
    pub fn reap(&mut self, ended: &mut Vec<Ended>) {
        if !self.io.submission().is_empty() {
            let _ = self.io.submit();
        }
        self.enter();
        for completion in self.io.completion() {
            let job = JobId::from_raw(completion.user_data());
            let found = job.and_then(|job| Some((job, self.running.remove(&job)?)));
            let Some((job, mut op)) = found else {
                // Every submitted operation is in `running`.
                continue;
            };
            let result = completion.result();
            let answer = if result < 0 {
                Err(-result)
            } else {
                Ok(result as u64)
            };
            if let (Op::Read { into, .. }, Ok(read)) = (&mut op, answer) {
                // SAFETY: the kernel has initialized `read` bytes after the end.
                unsafe { into.set_len(into.len() + read as usize) };
            }
            ended.push((job, op, answer));
        }
    }

    /// Waits until an operation has completed. At least one must be in progress.
    pub fn wait(&mut self) {
        // After a signal, or with too many unread completions, `reap` handles the available completions.
        let _ = self.io.submit_and_wait(1);
    }

    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Enters the kernel to run deferred work that produces completions.
    fn enter(&self) {
        // SAFETY: nothing is submitted, and no argument is a pointer.
        let _ = unsafe {
            self.io
                .submitter()
                .enter::<libc::sigset_t>(0, 0, GETEVENTS, None)
        };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut ended = Vec::new();
        while !self.running.is_empty() {
            if self.io.submit_and_wait(1).is_err_and(|error| {
                !matches!(
                    error.raw_os_error(),
                    Some(libc::EINTR | libc::EBUSY | libc::EAGAIN)
                )
            }) {
                // The kernel may still access the memory, so leak it.
                std::mem::forget(std::mem::take(&mut self.running));
                return;
            }
            self.reap(&mut ended);
        }
    }
}

/// Returns the ring entry of an operation; `None` if io_uring lacks it.
fn entry(op: &mut Op) -> Option<Entry> {
    Some(match op {
        Op::Open { path, flags, mode } => opcode::OpenAt::new(CWD, path.as_ptr())
            .flags(*flags)
            .mode(*mode)
            .build(),
        Op::Stat { path, follows, out } => {
            let out = (&raw mut **out).cast::<types::statx>();
            opcode::Statx::new(CWD, path.as_ptr(), out)
                .flags(stat_flags(*follows))
                .mask(STAT_MASK)
                .build()
        }
        Op::Read {
            file,
            into,
            len,
            offset,
        } => {
            into.reserve(*len);
            let to = into.spare_capacity_mut().as_mut_ptr().cast();
            opcode::Read::new(Fd(file.as_raw_fd()), to, *len as u32)
                .offset(*offset)
                .build()
        }
        Op::Write {
            file,
            bytes,
            range,
            offset,
        } => {
            let from = bytes.as_ptr().wrapping_add(range.start);
            opcode::Write::new(Fd(file.as_raw_fd()), from, range.len() as u32)
                .offset(*offset)
                .build()
        }
        Op::Sync { file } => opcode::Fsync::new(Fd(file.as_raw_fd())).build(),
        Op::Rename { from, to, replaces } => {
            opcode::RenameAt::new(CWD, from.as_ptr(), CWD, to.as_ptr())
                .flags(rename_flags(*replaces))
                .build()
        }
        Op::Unlink { path, is_directory } => {
            let flags = if *is_directory { libc::AT_REMOVEDIR } else { 0 };
            opcode::UnlinkAt::new(CWD, path.as_ptr())
                .flags(flags)
                .build()
        }
        Op::MakeDirectory { path, mode } => {
            opcode::MkDirAt::new(CWD, path.as_ptr()).mode(*mode).build()
        }
        Op::StatFile { .. }
        | Op::Permit { .. }
        | Op::Own { .. }
        | Op::Truncate { .. }
        | Op::List { .. }
        | Op::RemoveTree { .. }
        | Op::Call(_) => return None,
    })
}
