//! Received bytes of connections until their owner reads them.
//!
//! Bytes arrive in the pool's buffers and stay there until the next wait. If their owner has not read them by then, they are
//! copied out of the pool, and the connection receives no more until they are read. So the complete pool belongs to the kernel
//! during every sleep, and no connection can withhold buffers from others. The received bytes of a connection use at most as
//! much memory as the pool.

use std::io;

use super::Uring;
use super::buffers::BUFFER_BYTES;
use super::ring::Completion;
use super::slot::{Kind, Receiving, Remote};
use super::ticket::Op;
use crate::driver::Fd;
use crate::sys::socket;

impl Uring {
    pub(super) fn read(&mut self, fd: Fd, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let at = fd as usize;
        let Some(slot) = self.slots.get(at) else {
            // The descriptor was never watched.
            return socket::recv(fd, buf);
        };
        if slot.errno == 0 && !slot.is_watched_stream() && !slot.has_unread() {
            return socket::recv(fd, buf);
        }
        let mut filled = self.read_aside(fd, buf);
        loop {
            let slot = &mut self.slots[at];
            filled += self.buffers.read(&mut slot.chain, &mut buf[filled..]);
            if filled == buf.len() || !slot.may_hold_more {
                break;
            }
            // Handle completed receives before the socket is read, because their bytes arrived earlier.
            if self.ring.has_completions() {
                self.reap();
                continue;
            }
            self.read_directly(fd, buf, &mut filled)?;
            break;
        }
        let slot = &mut self.slots[at];
        if !slot.has_unread() && slot.receiving == Receiving::Stopped {
            slot.receiving = Receiving::Off;
            self.list_idle(fd);
        }
        let slot = &self.slots[at];
        match slot.errno {
            _ if filled > 0 => Ok(Some(filled)),
            0 if slot.has_ended => Ok(Some(0)),
            0 => Ok(None),
            errno => Err(io::Error::from_raw_os_error(i32::from(errno))),
        }
    }

    fn read_directly(&mut self, fd: Fd, buf: &mut [u8], filled: &mut usize) -> io::Result<()> {
        let slot = &mut self.slots[fd as usize];
        let wanted = buf.len() - *filled;
        match socket::recv(fd, &mut buf[*filled..]) {
            Ok(Some(read)) if read == wanted => *filled += read,
            Ok(read) => {
                slot.may_hold_more = false;
                slot.has_ended |= read == Some(0);
                let is_to_be_told = slot.has_ended && *filled > 0;
                *filled += read.unwrap_or(0);
                if is_to_be_told {
                    self.record_end(fd);
                }
            }
            Err(error) => {
                slot.may_hold_more = false;
                slot.errno = errno_of(&error);
                if *filled == 0 {
                    return Err(error);
                }
                self.tell_broken(fd);
            }
        }
        Ok(())
    }

    fn read_aside(&mut self, fd: Fd, buf: &mut [u8]) -> usize {
        let slot = &mut self.slots[fd as usize];
        if !slot.has_aside {
            return 0;
        }
        let Some(aside) = self.aside.get_mut(&fd) else {
            slot.has_aside = false;
            return 0;
        };
        let read = aside.read(buf);
        if aside.is_read() {
            slot.has_aside = false;
            self.aside.remove(&fd);
        }
        read
    }

    /// Copies unread bytes out of the pool, so that the kernel has all buffers during the wait. A connection with unread bytes
    /// receives nothing until its owner has read them.
    pub(super) fn set_unread_aside(&mut self) {
        let mut unread = std::mem::take(&mut self.unread);
        for fd in unread.drain(..) {
            let slot = &mut self.slots[fd as usize];
            if !std::mem::take(&mut slot.is_unread) || slot.chain.is_empty() {
                continue;
            }
            let aside = self.aside.entry(fd).or_default();
            let start = aside.bytes.len();
            aside.bytes.resize(start + self.buffers.len(&slot.chain), 0);
            self.buffers
                .read(&mut slot.chain, &mut aside.bytes[start..]);
            slot.has_aside = true;
            match slot.receiving {
                Receiving::On => {
                    slot.receiving = Receiving::Stopping;
                    let ticket = slot.ticket(Op::Recv, fd);
                    self.ring.cancel(ticket);
                }
                Receiving::Off => slot.receiving = Receiving::Stopped,
                Receiving::Stopping | Receiving::Stopped => {}
            }
            // List the descriptor although it receives nothing, so that the next wait polls for the peer's end.
            self.list_idle(fd);
        }
        self.unread = unread;
    }

    /// Lists a descriptor that needs a new receive or poll in the next wait.
    pub(super) fn list_idle(&mut self, fd: Fd) {
        let slot = &mut self.slots[fd as usize];
        if !std::mem::replace(&mut slot.is_idle, true) {
            self.idle.push(fd);
        }
    }

    /// Starts receives and polls of the listed descriptors.
    pub(super) fn ask_idle(&mut self) {
        let mut idle = std::mem::take(&mut self.idle);
        for fd in idle.drain(..) {
            let slot = &mut self.slots[fd as usize];
            // The number may belong to another descriptor now.
            if !std::mem::take(&mut slot.is_idle) {
                continue;
            }
            match slot.kind {
                Kind::Wake => {
                    let ticket = slot.ticket(Op::Wake, fd);
                    self.ring.poll_add(ticket, libc::POLLIN);
                }
                Kind::Stream => {
                    if slot.receiving == Receiving::Off && !slot.is_over() {
                        slot.receiving = Receiving::On;
                        let ticket = slot.ticket(Op::Recv, fd);
                        self.ring.recv(ticket);
                    }
                    self.await_hangup(fd);
                }
                Kind::Unwatched | Kind::Leaving => {}
            }
        }
        self.idle = idle;
    }

    /// Polls for the end of the peer's stream in addition to the receive. The kernel may wake the receive only once for bytes
    /// and a reset that follows them, and the receive then misses the reset. It also reports no reset after the peer's end.
    fn await_hangup(&mut self, fd: Fd) {
        let slot = &mut self.slots[fd as usize];
        let is_broken = slot.remote == Remote::Broken || slot.errno != 0;
        if !is_broken && !std::mem::replace(&mut slot.awaits_hangup, true) {
            let ticket = slot.ticket(Op::Hangup, fd);
            self.ring.poll_hangup(ticket);
        }
    }

    pub(super) fn on_hangup(&mut self, fd: Fd, is_broken: bool, has_more: bool) {
        let slot = &mut self.slots[fd as usize];
        let remote = if is_broken {
            Remote::Broken
        } else {
            Remote::Ended
        };
        if !has_more {
            slot.awaits_hangup = false;
            self.list_idle(fd);
        }
        let slot = &mut self.slots[fd as usize];
        if remote > slot.remote {
            slot.remote = remote;
            // The receive may have missed the end. Then the owner's next read calls `recv` on the socket.
            slot.may_hold_more |= !slot.is_over();
            self.record_end(fd);
        }
    }

    pub(super) fn on_recv(&mut self, done: Completion) {
        let fd = done.ticket.fd;
        let slot = &mut self.slots[fd as usize];
        let is_ours = slot.generation == done.ticket.generation;
        if !is_ours || slot.kind != Kind::Stream || done.result <= 0 {
            if let Some(buffer) = done.buffer {
                self.buffers.give_back(buffer);
            }
            if !is_ours {
                return;
            }
        } else if let Some(buffer) = done.buffer {
            let length = done.result as usize;
            self.buffers.append(&mut slot.chain, buffer, length);
            // The buffer is full, so the socket may have further bytes.
            slot.may_hold_more = length == BUFFER_BYTES;
            if !std::mem::replace(&mut slot.is_unread, true) {
                self.unread.push(fd);
            }
            if !slot.awaits_hangup {
                self.list_idle(fd);
            }
            self.record(fd, |slot| slot.readable = true);
        }
        let slot = &mut self.slots[fd as usize];
        match -done.result {
            0 => {
                slot.has_ended = true;
                slot.remote = slot.remote.max(Remote::Ended);
                self.record_end(fd);
                self.list_idle(fd);
            }
            // The pool had no free buffer, so the bytes are still in the socket.
            libc::ENOBUFS => slot.may_hold_more = true,
            libc::ECANCELED | ..0 => {}
            errno => {
                slot.errno = errno as u16;
                self.tell_broken(fd);
            }
        }
        if !done.has_more {
            self.on_recv_stopped(fd);
        }
    }

    fn on_recv_stopped(&mut self, fd: Fd) {
        let slot = &mut self.slots[fd as usize];
        // Receive again only after the owner has read these bytes.
        if slot.receiving == Receiving::Stopping && slot.has_unread() {
            slot.receiving = Receiving::Stopped;
            return;
        }
        slot.receiving = Receiving::Off;
        if !slot.is_over() {
            self.list_idle(fd);
        }
    }
}

/// Returns the error number of a kernel error.
pub(super) fn errno_of(error: &io::Error) -> u16 {
    error.raw_os_error().unwrap_or(libc::EIO) as u16
}
