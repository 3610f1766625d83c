//! Output, and what follows from it for the parts that `Net` does not know.

use std::io;

use fermata_io::Driver;

use crate::net::index::ConnectionIndex;
use crate::worker::Worker;

impl<D: Driver> Worker<D> {
    /// See `Net::flush_dirty`.
    pub(crate) fn flush_dirty(&mut self) {
        self.net.flush_dirty(&mut self.http);
        self.after_output();
    }

    /// See `Net::flush`. What follows for a held client is in the log of its channels.
    pub(crate) fn flush(&mut self, index: ConnectionIndex) {
        self.net.flush(&mut self.http, index);
        self.after_output();
    }

    /// See `Net::on_writable`.
    pub(crate) fn on_writable(&mut self, index: ConnectionIndex) {
        self.net.on_writable(&mut self.http, index);
        self.after_output();
    }

    /// See `Net::write_all`.
    pub(crate) fn write_all(&mut self, index: ConnectionIndex) -> bool {
        let is_taken = self.net.write_all(&mut self.http, index);
        self.tell_ended();
        is_taken
    }

    /// Ends a connection and everything that was kept for it.
    pub(crate) fn close(&mut self, index: ConnectionIndex) {
        self.net.close(&mut self.http, index);
        self.tell_ended();
    }

    /// See `Net::close_broken`.
    pub(crate) fn close_broken(&mut self, index: ConnectionIndex, error: &io::Error) {
        self.net.close_broken(&mut self.http, index, error);
        self.tell_ended();
    }

    /// Has held clients that have taken everything follow their channels, and tells of connections that have ended.
    #[inline]
    pub(crate) fn after_output(&mut self) {
        if !self.net.ended.is_empty() || !self.net.flushed.is_empty() {
            self.tell_of_output();
        }
    }

    /// Tells the parts that know of connections which of them have ended.
    #[inline]
    pub(crate) fn tell_ended(&mut self) {
        if !self.net.ended.is_empty() {
            self.tell_of_ended();
        }
    }

    #[inline(never)]
    fn tell_of_output(&mut self) {
        self.tell_ended();
        // What is sent here lists its client again, and is followed by itself.
        let mut flushed = std::mem::take(&mut self.net.flushed);
        for index in flushed.drain(..) {
            self.send_held(index);
        }
        if self.net.flushed.capacity() == 0 {
            self.net.flushed = flushed;
        }
    }

    #[inline(never)]
    fn tell_of_ended(&mut self) {
        while let Some(mut ended) = self.net.ended.pop_front() {
            self.waiting.note_ended(&ended);
            self.sockets.note_ended(&mut ended, &mut self.net.counts);
            self.channels.note_ended(&mut self.net, ended);
        }
    }
}
