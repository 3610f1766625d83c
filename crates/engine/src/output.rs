//! Bytes to sockets, and the end of connections.

use std::io::Read;

use fermata_config::LogLevel;
use fermata_hub::SubId;
use fermata_io::Driver;
use fermata_proto::ws::close::CloseCode;

use crate::connection::{Connection, Origin, Reading, Writing};
use crate::stats::Counter;
use crate::websocket::Socket;
use crate::worker::Worker;

/// How long a finished connection waits for its peer's end of stream.
const LINGER_MS: u64 = 2_000;

/// Piece of a file that is read at once.
const FILE_PIECE_BYTES: usize = 64 * 1024;

/// Pieces of a file that are sent in a row before other clients get their turn.
const FILE_PIECES_MAX: u32 = 16;

impl<D: Driver> Worker<D> {
    /// Sends what this turn has produced: one write per connection.
    pub(crate) fn flush_dirty(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            if let Some(connection) = self.connections.at_mut(index) {
                connection.is_dirty = false;
                self.flush(index);
            }
        }
        // Flushing may have listed connections again (a held one with more in its log).
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
    }

    /// Sends as much of a connection's output as the kernel takes, then does what was waiting for
    /// it: closing, the next piece of a file, live events, requests that were held back.
    pub(crate) fn flush(&mut self, index: u32) {
        let is_blocked = |connection: &Connection| connection.is_blocked;
        if !self.connections.at(index).is_none_or(is_blocked) {
            self.write_out(index);
        }
    }

    /// The kernel takes bytes again, or says so.
    pub(crate) fn on_writable(&mut self, index: u32) {
        if self.connections.at(index).is_some_and(|it| it.is_blocked) {
            self.write_out(index);
        }
    }

    fn write_out(&mut self, index: u32) {
        if self.write_all(index) {
            self.on_flushed(index);
        }
    }

    /// Gives the kernel what there is, to a connection that is not blocked. True when it has taken
    /// everything; what follows from that is up to the caller.
    pub(crate) fn write_all(&mut self, index: u32) -> bool {
        let mut pieces = 0;
        loop {
            let Some(connection) = self.connections.at_mut(index) else {
                return false;
            };
            if connection.unsent() > 0 {
                let fd = connection.fd;
                let unsent = &connection.out[connection.out_sent as usize..];
                let length = unsent.len();
                match self.driver.send_one(fd, unsent) {
                    Ok(Some(sent)) if sent == length => {
                        if connection.origin == Origin::Public {
                            self.counts.add(Counter::BytesSent, sent as u64);
                        }
                        if let Some(trace) = &mut self.trace {
                            trace.on_sent(index, sent);
                        }
                    }
                    Ok(Some(sent)) => {
                        connection.drop_sent(sent);
                        if connection.origin == Origin::Public {
                            self.counts.add(Counter::BytesSent, sent as u64);
                        }
                        if let Some(trace) = &mut self.trace {
                            trace.on_sent(index, sent);
                        }
                        self.reporter.end_blocked(connection);
                        self.block(index);
                        return false;
                    }
                    Ok(None) => {
                        self.block(index);
                        return false;
                    }
                    Err(_) => {
                        self.close(index);
                        return false;
                    }
                }
            }
            connection.out_sent = 0;
            if let Some(socket) = &mut connection.socket {
                socket.on_flushed();
            }
            if connection.file.is_none() {
                let out = std::mem::take(&mut connection.out);
                if out.capacity() > 0 {
                    self.pool.give(out);
                }
                return true;
            }
            // Taken by the kernel: what stays in `out` would be sent again.
            connection.out.clear();
            if pieces == FILE_PIECES_MAX {
                self.reporter.end_blocked(connection);
                self.reporter.begin_active(connection);
                connection.deadline_ms = u64::MAX;
                self.mark_dirty(index);
                return false;
            }
            pieces += 1;
            if !self.read_file_piece(index) {
                return false;
            }
        }
    }

    /// Everything has been taken by the kernel.
    fn on_flushed(&mut self, index: u32) {
        self.trace_flushed(index);
        let Some(connection) = self.connections.at_mut(index) else {
            return;
        };
        let was_blocked = self.reporter.end_blocked(connection);
        if connection.is_active
            && connection.reading == Reading::Head
            && connection.inbox.is_empty()
        {
            self.reporter.end_active(connection);
        }
        match connection.writing {
            Writing::Close if !connection.has_unread => {
                self.close(index);
                return;
            }
            Writing::Close | Writing::Linger => {
                if connection.reading != Reading::Lingering {
                    connection.reading = Reading::Lingering;
                    let fd = connection.fd;
                    if !connection
                        .socket
                        .as_ref()
                        .is_some_and(Socket::awaits_answer)
                    {
                        self.driver.shutdown_write(fd);
                    }
                    let now_ms = self.driver.refresh_now();
                    self.set_deadline(index, now_ms + LINGER_MS);
                    self.go_on(index);
                }
                return;
            }
            Writing::Open => {}
        }
        let is_held = match connection.reading {
            Reading::Held => true,
            Reading::WebSocket => {
                let socket = connection.socket.as_ref();
                connection.chain != SubId::NONE || socket.is_some_and(Socket::is_resuming)
            }
            _ => false,
        };
        let was_paused = std::mem::take(&mut connection.is_paused);
        if !connection.is_settled && self.settle(index) {
            return;
        }
        let Some(connection) = self.connections.at_mut(index) else {
            return;
        };
        if was_blocked || connection.deadline_ms == u64::MAX {
            self.restart_deadline(index);
        }
        if was_paused {
            self.go_on(index);
        }
        if is_held {
            self.send_held(index);
        }
    }

    /// The kernel's buffer is full: a writable event will come, or the write time-out.
    pub(crate) fn block(&mut self, index: u32) {
        if self.connections.at(index).is_none_or(|it| it.is_blocked) {
            // It has taken nothing since: the time-out runs on.
            return;
        }
        let due_ms = self.driver.refresh_now() + self.settings.write_timeout_ms;
        self.set_deadline(index, due_ms);
        if let Some(connection) = self.connections.at_mut(index) {
            connection.is_blocked = true;
            self.reporter.blocked += 1;
            self.reporter.begin_active(connection);
            self.counts.add(Counter::Blocked, 1);
        }
    }

    /// Puts the next piece of a file into `out`. False when the connection is gone.
    fn read_file_piece(&mut self, index: u32) -> bool {
        let Some(connection) = self.connections.at_mut(index) else {
            return false;
        };
        let Connection {
            out,
            file: body,
            peer,
            ..
        } = connection;
        let Some(file) = body else {
            return true;
        };
        let wanted = file.remaining.min(FILE_PIECE_BYTES as u64) as usize;
        out.clear();
        out.resize(wanted, 0);
        match file.file.read(out) {
            Ok(read) if read > 0 => {
                out.truncate(read);
                file.remaining -= read as u64;
                if file.remaining == 0 {
                    *body = None;
                }
                true
            }
            outcome => {
                // The length has been promised already; only closing tells the client.
                let cause = match outcome {
                    Ok(_) => "it has become shorter while it was sent".to_owned(),
                    Err(error) => error.to_string(),
                };
                let message = format!("static file for {peer} cut short: {cause}");
                self.log(LogLevel::Error, &message);
                self.close(index);
                false
            }
        }
    }

    /// Ends a connection and everything that was kept for it.
    pub(crate) fn close(&mut self, index: u32) {
        self.note_left(index);
        if self
            .connections
            .at(index)
            .is_some_and(|it| it.socket.is_some())
        {
            self.tell_ended(index, CloseCode::Abnormal as u16, "");
        }
        self.trace_closed(index);
        let Some(mut connection) = self.connections.remove(index) else {
            return;
        };
        self.reporter.closed(&mut connection);
        if connection.is_settled {
            self.reporter.shared.remove_settled(self.slot);
        }
        if !self.upgrades.is_empty() {
            self.upgrades.remove(&index);
        }
        self.driver.close(connection.fd);
        self.local.unsubscribe(connection.chain);
        if let Some(presence) = connection.presence {
            self.leave(*presence);
        }
        if let Some(mut socket) = connection.socket {
            for presence in socket.take_presences() {
                self.leave(presence);
            }
        }
        if connection.out.capacity() > 0 {
            self.pool.give(connection.out);
        }
        if connection.inbox.capacity() > 0 {
            self.pool.give(connection.inbox);
        }
        if self.settings.connections_per_address_max > 0
            && let Some(address) = connection.peer.ip()
            && let Some(count) = self.addresses.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&address);
            }
        }
        if self.current.is_some_and(|current| current.index == index) {
            self.current = None;
        }
    }
}
