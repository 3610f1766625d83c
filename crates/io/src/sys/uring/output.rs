//! Sends in batches, stores bytes that the kernel did not accept, and delivers them after a close.

use std::fs::File;
use std::io::{self, IoSlice};

use super::Uring;
use super::ring::Completion;
use super::sends::SEND_BYTES_MAX;
use super::slot::{Kind, Rest};
use super::streams::errno_of;
use super::ticket::Op;
use crate::driver::Fd;
use crate::sys::socket;

/// Maximum time for sending the bytes accepted before a close.
const LEAVING_MS: u64 = 5_000;

/// Maximum number of closed connections whose stored bytes are still being sent. Above it, the oldest connection is closed
/// immediately.
const LEAVING_MAX: usize = 512;

impl Uring {
    /// Prepares a send to `fd`. Returns `None` if the send would block; an event follows then.
    fn begin_send(&mut self, fd: Fd) -> io::Result<Option<()>> {
        if self.slot(fd).is_sending {
            // Complete the earlier send first. If the kernel accepts only a part of it, the bytes of the second send must not
            // overtake the rest.
            self.submit_sends();
        }
        let slot = self.slot(fd);
        if slot.errno != 0 {
            return Err(io::Error::from_raw_os_error(i32::from(slot.errno)));
        }
        if slot.is_sending || slot.has_rest {
            slot.wants_room = true;
            return Ok(None);
        }
        if !self.sends.has_room() {
            self.submit_sends();
        }
        Ok(Some(()))
    }

    pub(super) fn write_one(&mut self, fd: Fd, buf: &[u8]) -> io::Result<Option<usize>> {
        if self.begin_send(fd)?.is_none() {
            return Ok(None);
        }
        if buf.len() <= SEND_BYTES_MAX && self.sends.has_room() {
            self.slot(fd).is_sending = true;
            self.sends.add(&mut self.ring, fd, buf);
            return Ok(Some(buf.len()));
        }
        let sent = socket::send_one(fd, buf)?;
        self.after_send(fd, sent, buf.len());
        Ok(sent)
    }

    pub(super) fn write(&mut self, fd: Fd, bufs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        if self.begin_send(fd)?.is_none() {
            return Ok(None);
        }
        let length: usize = bufs.iter().map(|buf| buf.len()).sum();
        if length <= SEND_BYTES_MAX && self.sends.has_room() {
            self.slot(fd).is_sending = true;
            self.sends.add_pieces(&mut self.ring, fd, bufs);
            return Ok(Some(length));
        }
        let sent = socket::send(fd, bufs)?;
        self.after_send(fd, sent, length);
        Ok(sent)
    }

    pub(super) fn write_file(
        &mut self,
        fd: Fd,
        file: &File,
        offset: u64,
        len: usize,
    ) -> io::Result<Option<usize>> {
        if self.begin_send(fd)?.is_none() {
            return Ok(None);
        }
        let sent = socket::send_file(fd, file, offset, len)?;
        self.after_send(fd, sent, len);
        Ok(sent)
    }

    fn after_send(&mut self, fd: Fd, sent: Option<usize>, length: usize) {
        // If the kernel accepted only a part, the caller sends the rest after an event.
        if sent != Some(length) {
            self.slot(fd).wants_room = true;
            self.await_room(fd);
        }
    }

    /// Polls for POLLOUT unless a poll is pending.
    pub(super) fn await_room(&mut self, fd: Fd) {
        let slot = self.slot(fd);
        if !std::mem::replace(&mut slot.awaits_room, true) {
            let ticket = slot.ticket(Op::Room, fd);
            self.ring.poll_add(ticket, libc::POLLOUT);
        }
    }

    /// Submits the collected sends.
    pub(super) fn submit_sends(&mut self) {
        if self.sends.has_open() {
            self.ring.submit();
            self.reap();
        }
    }

    pub(super) fn on_send(&mut self, done: Completion) {
        let Some(send) = self.sends.complete(done.ticket) else {
            return;
        };
        let fd = send.fd;
        let slot = &mut self.slots[fd as usize];
        slot.is_sending = false;
        let sent = match -done.result {
            ..=0 => done.result as usize,
            // The kernel accepted no byte, so all bytes are stored below.
            libc::EAGAIN | libc::EINTR => 0,
            errno => {
                slot.errno = errno as u16;
                self.tell_broken(fd);
                return;
            }
        };
        if sent == send.len as usize {
            self.on_sent(fd);
            return;
        }
        // The receive has found that the connection is broken, so the rest cannot be sent.
        if slot.errno != 0 {
            self.tell_broken(fd);
            return;
        }
        let rest = Rest {
            bytes: self.sends.bytes(&send)[sent..].to_vec(),
            sent: 0,
            shuts_down: false,
        };
        slot.has_rest = true;
        let is_leaving = slot.kind == Kind::Leaving;
        self.rests.insert(fd, rest);
        self.await_room(fd);
        if is_leaving {
            self.await_leaving(fd);
        }
    }

    /// Handles a connection all of whose bytes were accepted by the kernel.
    fn on_sent(&mut self, fd: Fd) {
        let slot = self.slot(fd);
        if slot.kind == Kind::Leaving {
            self.finish_close(fd);
        } else if std::mem::take(&mut slot.wants_room) {
            self.record(fd, |slot| slot.writable = true);
        }
    }

    /// Handles free space or a broken connection.
    pub(super) fn on_room(&mut self, fd: Fd, is_broken: bool) {
        let slot = self.slot(fd);
        slot.awaits_room = false;
        if slot.has_rest {
            self.send_rest(fd);
            return;
        }
        slot.wants_room = false;
        self.record(fd, |slot| {
            slot.writable = true;
            slot.hangup |= is_broken;
        });
    }

    fn send_rest(&mut self, fd: Fd) {
        let Some(rest) = self.rests.get_mut(&fd) else {
            // All stored bytes were sent before this event.
            return;
        };
        while rest.sent < rest.bytes.len() {
            match socket::send_one(fd, &rest.bytes[rest.sent..]) {
                Ok(Some(sent)) => rest.sent += sent,
                Ok(None) => {
                    self.await_room(fd);
                    return;
                }
                Err(error) => {
                    self.slot(fd).errno = errno_of(&error);
                    self.drop_rest(fd);
                    self.tell_broken(fd);
                    return;
                }
            }
        }
        if rest.shuts_down {
            socket::shutdown_write(fd);
        }
        self.drop_rest(fd);
        self.on_sent(fd);
    }

    pub(super) fn drop_rest(&mut self, fd: Fd) {
        self.rests.remove(&fd);
        self.slot(fd).has_rest = false;
    }

    pub(super) fn shut_down(&mut self, fd: Fd) {
        if self.slot(fd).is_sending {
            self.submit_sends();
        }
        match self.rests.get_mut(&fd) {
            Some(rest) => rest.shuts_down = true,
            None => socket::shutdown_write(fd),
        }
    }

    /// Closes immediately, or when the kernel has accepted the bytes sent before.
    pub(super) fn close_stream(&mut self, fd: Fd) {
        let slot = self.slot(fd);
        if slot.is_sending || (slot.has_rest && slot.errno == 0) {
            slot.kind = Kind::Leaving;
            let has_rest = slot.has_rest;
            self.leaving_len += 1;
            self.drop_unread(fd);
            if has_rest {
                self.await_leaving(fd);
            }
        } else {
            self.finish_close(fd);
        }
    }

    fn await_leaving(&mut self, fd: Fd) {
        let generation = self.slot(fd).generation;
        let due_ms = self.now_ms + LEAVING_MS;
        self.leaving.push_back((due_ms, fd, generation));
        if self.leaving.len() > LEAVING_MAX {
            self.cut_off_first();
        }
    }

    fn cut_off_first(&mut self) {
        if let Some((_, fd, generation)) = self.leaving.pop_front()
            && self.slot(fd).generation == generation
        {
            self.finish_close(fd);
        }
    }

    /// Closes connections whose time has expired.
    pub(super) fn expire_leaving(&mut self) {
        while self
            .leaving
            .front()
            .is_some_and(|&(due_ms, _, _)| due_ms <= self.now_ms)
        {
            self.cut_off_first();
        }
    }

    fn drop_unread(&mut self, fd: Fd) {
        let slot = &mut self.slots[fd as usize];
        self.buffers.drop_chain(&mut slot.chain);
        if std::mem::take(&mut slot.has_aside) {
            self.aside.remove(&fd);
        }
    }

    /// Cancels all operations of `fd` and closes it. The peer receives the close when the operations have ended, in the next call
    /// that enters the kernel.
    pub(super) fn finish_close(&mut self, fd: Fd) {
        self.drop_unread(fd);
        self.ring.submit_before_close(fd);
        let slot = *self.slot(fd);
        for (is_running, op) in slot.operations() {
            if is_running {
                self.ring.cancel(slot.ticket(op, fd));
            }
        }
        if slot.has_rest {
            self.rests.remove(&fd);
        }
        if slot.kind == Kind::Leaving {
            self.leaving_len -= 1;
        }
        *self.slot(fd) = slot.successor();
        socket::close(fd);
    }
}
