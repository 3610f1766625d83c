//! Descriptors of the application, each reported once when it is ready.
//!
//! The application waits for its own sockets, pipes and processes. They are in a separate epoll instance, which the loop's driver
//! watches like a waker. Without such descriptors this instance causes no overhead. It works the same with every driver, and never
//! affects a connection.
//!
//! An interest is reported once and is level-triggered: immediately if the descriptor is already ready. Consequences
//! for the caller:
//!
//! - A descriptor may be closed at any time; its interest disappears without a report.
//! - Another file may get the same number afterwards. Late events of the first file, which a forked child may keep
//!   open, are dropped.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::Timespec;

use crate::driver::{Fd, borrow};

/// Maximum number of descriptors that one [`Watch::collect`] reports; the next call reports the rest.
const READY_MAX: usize = 256;

/// Conditions to wait for, or that occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest(u8);

impl Interest {
    /// No condition: removes the interest.
    pub const NONE: Interest = Interest(0);
    /// Bytes can be read, a connection can be accepted, or the stream has ended.
    pub const READ: Interest = Interest(1);
    /// Bytes can be written.
    pub const WRITE: Interest = Interest(2);
    /// Urgent data can be read.
    pub const PRIORITY: Interest = Interest(4);
    /// The peer closed, or the file is broken. Always reported, never requested.
    pub const HANGUP: Interest = Interest(8);

    /// Creates an interest from [`bits`](Self::bits); ignores other bits.
    #[must_use]
    pub fn from_bits(bits: u8) -> Interest {
        Interest(bits & 15)
    }

    /// Returns one bit for each of the constants.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    fn from_flags(flags: EventFlags) -> Interest {
        let mut bits = 0;
        for (flag, interest) in [
            (EventFlags::IN, Interest::READ),
            (EventFlags::OUT, Interest::WRITE),
            (EventFlags::PRI, Interest::PRIORITY),
            (EventFlags::HUP | EventFlags::ERR, Interest::HANGUP),
        ] {
            if flags.intersects(flag) {
                bits |= interest.0;
            }
        }
        Interest(bits)
    }

    fn flags(self) -> EventFlags {
        let mut flags = EventFlags::empty();
        for (flag, interest) in [
            (EventFlags::IN, Interest::READ),
            (EventFlags::OUT, Interest::WRITE),
            (EventFlags::PRI, Interest::PRIORITY),
        ] {
            if self.0 & interest.0 != 0 {
                flags |= flag;
            }
        }
        // With only `ONESHOT`, nothing is reported, not even a hang-up.
        flags | EventFlags::ONESHOT
    }
}

/// A descriptor that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// The descriptor.
    pub fd: Fd,
    /// The conditions that occurred.
    pub what: Interest,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    /// Number of files that were registered under this descriptor number.
    generation: u32,
    is_known: bool,
    is_armed: bool,
}

/// The set of watched descriptors. Create one per process, after the fork.
pub struct Watch {
    epoll: OwnedFd,
    /// Indexed by descriptor.
    entries: Vec<Entry>,
    armed: usize,
    /// Buffer for the kernel's events.
    ready: Vec<epoll::Event>,
}

impl Watch {
    /// Creates an empty set.
    ///
    /// # Errors
    /// No descriptor or memory is left.
    pub fn new() -> io::Result<Watch> {
        Ok(Watch {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            entries: Vec::new(),
            armed: 0,
            ready: Vec::with_capacity(READY_MAX),
        })
    }

    /// Returns the descriptor for [`crate::Driver::add_wake`]. It is readable while ready descriptors can be collected.
    #[must_use]
    pub fn fd(&self) -> Fd {
        self.epoll.as_raw_fd()
    }

    /// Returns the number of descriptors with an unreported interest.
    #[must_use]
    pub fn armed(&self) -> usize {
        self.armed
    }

    /// Requests one report when `fd` is ready for any of `interest`. Replaces an earlier interest.
    ///
    /// # Errors
    /// `PermissionDenied` for a file that is always ready (a regular file, a directory), or the kernel's error, for
    /// example for a number that is not open.
    pub fn arm(&mut self, fd: Fd, interest: Interest) -> io::Result<()> {
        let index = usize::try_from(fd).map_err(|_| io::Error::from(Errno::BADF))?;
        if index >= self.entries.len() {
            self.entries.resize(index + 1, Entry::default());
        }
        let mut entry = self.entries[index];
        let result = self.register(fd, &mut entry, interest);
        entry.is_armed = result.is_ok() && interest != Interest::NONE;
        self.armed -= usize::from(self.entries[index].is_armed);
        self.armed += usize::from(entry.is_armed);
        self.entries[index] = entry;
        result.map_err(io::Error::from)
    }

    /// Removes the interest in `fd`, which may already be closed.
    pub fn disarm(&mut self, fd: Fd) {
        let is_armed = usize::try_from(fd)
            .ok()
            .and_then(|index| self.entries.get(index))
            .is_some_and(|entry| entry.is_armed);
        if is_armed {
            // Fails if the descriptor was closed; the kernel has then removed it.
            let _ = self.arm(fd, Interest::NONE);
        }
    }

    /// Appends the descriptors that are ready now, without waiting.
    ///
    /// # Errors
    /// The kernel's error; none is expected in operation.
    pub fn collect(&mut self, ready: &mut impl Extend<Ready>) -> io::Result<()> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.ready), Some(&now)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let Watch {
            entries,
            armed,
            ready: found,
            ..
        } = self;
        ready.extend(found.drain(..).filter_map(|event| {
            let token = event.data.u64();
            let (index, generation) = ((token & 0xffff_ffff) as usize, (token >> 32) as u32);
            let entry = entries.get_mut(index)?;
            if entry.generation != generation || !entry.is_armed {
                return None;
            }
            entry.is_armed = false;
            *armed -= 1;
            Some(Ready {
                fd: Fd::try_from(index).ok()?,
                what: Interest::from_flags(event.flags),
            })
        }));
        Ok(())
    }

    fn register(&self, fd: Fd, entry: &mut Entry, interest: Interest) -> Result<(), Errno> {
        let token = |generation: u32| {
            EventData::new_u64((u64::from(generation) << 32) | u64::from(fd.cast_unsigned()))
        };
        if entry.is_known {
            let data = token(entry.generation);
            match epoll::modify(&self.epoll, borrow(fd), data, interest.flags()) {
                // The number now belongs to another file.
                Err(Errno::NOENT) => {}
                result => return result,
            }
        }
        if interest == Interest::NONE {
            entry.is_known = false;
            return Ok(());
        }
        entry.generation = entry.generation.wrapping_add(1);
        let data = token(entry.generation);
        epoll::add(&self.epoll, borrow(fd), data, interest.flags())?;
        entry.is_known = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn collect(watch: &mut Watch) -> Vec<Ready> {
        let mut ready = Vec::new();
        watch.collect(&mut ready).expect("collected");
        ready
    }

    #[test]
    fn an_interest_is_reported_once_and_by_level() {
        let (mut ours, mut theirs) = UnixStream::pair().expect("a pair");
        let mut watch = Watch::new().expect("a set");
        let fd = ours.as_raw_fd();
        watch.arm(fd, Interest::READ).expect("armed");
        assert_eq!(watch.armed(), 1);
        assert!(collect(&mut watch).is_empty());
        theirs.write_all(b"ab").expect("written");
        let ready = Ready {
            fd,
            what: Interest::READ,
        };
        assert_eq!(collect(&mut watch), [ready]);
        assert_eq!(watch.armed(), 0);
        assert!(collect(&mut watch).is_empty());
        // The descriptor is still readable.
        watch.arm(fd, Interest::READ).expect("armed");
        assert_eq!(collect(&mut watch), [ready]);
        ours.read_exact(&mut [0; 2]).expect("read");
        watch.arm(fd, Interest::READ).expect("armed");
        assert!(collect(&mut watch).is_empty());
        drop(theirs);
        let found = collect(&mut watch);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].what.bits() & Interest::READ.bits(),
            Interest::READ.bits()
        );
    }

    #[test]
    fn the_last_interest_counts_and_none_removes_it() {
        let (ours, _theirs) = UnixStream::pair().expect("a pair");
        let mut watch = Watch::new().expect("a set");
        let fd = ours.as_raw_fd();
        watch.arm(fd, Interest::READ).expect("armed");
        watch.arm(fd, Interest::WRITE).expect("armed");
        assert_eq!(watch.armed(), 1);
        assert_eq!(
            collect(&mut watch),
            [Ready {
                fd,
                what: Interest::WRITE
            }]
        );
        watch.arm(fd, Interest::WRITE).expect("armed");
        watch.disarm(fd);
        watch.disarm(fd);
        assert_eq!(watch.armed(), 0);
        assert!(collect(&mut watch).is_empty());
    }

    #[test]
    fn a_hangup_is_not_reported_without_an_interest() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let mut watch = Watch::new().expect("a set");
        watch.arm(ours.as_raw_fd(), Interest::READ).expect("armed");
        watch.disarm(ours.as_raw_fd());
        drop(theirs);
        assert!(collect(&mut watch).is_empty());
        // The outer set must not report the inner one repeatedly either.
        let mut outer = Watch::new().expect("a set");
        outer.arm(watch.fd(), Interest::READ).expect("armed");
        assert!(collect(&mut outer).is_empty());
    }

    #[test]
    fn a_number_that_was_closed_may_belong_to_another_file() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let mut watch = Watch::new().expect("a set");
        let fd = ours.as_raw_fd();
        watch.arm(fd, Interest::READ).expect("armed");
        // The first file stays open in another process, as in a forked child.
        let kept = ours.try_clone().expect("a clone");
        let (second, mut peer) = UnixStream::pair().expect("a pair");
        rustix::io::dup3(
            &second,
            &mut std::mem::ManuallyDrop::new(OwnedFd::from(ours)),
            rustix::io::DupFlags::CLOEXEC,
        )
        .expect("duplicated");
        watch.arm(fd, Interest::READ).expect("armed");
        drop(theirs);
        assert!(collect(&mut watch).is_empty());
        peer.write_all(b"a").expect("written");
        assert_eq!(
            collect(&mut watch),
            [Ready {
                fd,
                what: Interest::READ
            }]
        );
        drop(kept);
        assert_eq!(watch.armed(), 0);
        // SAFETY: no other value owns the second file's copy under this number.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        watch.disarm(fd);
        assert!(watch.arm(fd, Interest::READ).is_err());
        assert_eq!(watch.armed(), 0);
    }

    #[test]
    fn a_regular_file_is_always_ready() {
        let file = std::fs::File::open("/proc/self/exe").expect("a file");
        let mut watch = Watch::new().expect("a set");
        let error = watch
            .arm(file.as_raw_fd(), Interest::READ)
            .expect_err("refused");
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(watch.arm(-1, Interest::READ).is_err());
    }
}
