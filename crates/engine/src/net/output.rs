//! Bytes to sockets, and the end of connections.

use std::io;
use std::os::unix::fs::FileExt;

use fermata_config::LogLevel;
use fermata_hub::SubId;
use fermata_io::Driver;
use fermata_proto::ws::close::CloseCode;

use crate::admin::stats::Counter;
use crate::http::exchange::Stage;
use crate::http::respond::outgoing::Outgoing;
use crate::net::connection::{Connection, Origin, Phase, Writing};
use crate::net::index::ConnectionIndex;
use crate::websocket::Socket;
use crate::worker::Worker;

/// How long a finished connection waits for its peer's end of stream.
const LINGER_MS: u64 = 2_000;

/// Piece of a file that is read at once.
const FILE_PIECE_BYTES: usize = 64 * 1024;

/// Most that the kernel is asked to send of a file at once.
const FILE_SEND_BYTES: u64 = 256 * 1024;

/// Bytes of a file that are sent in a row before other clients get their turn.
const FILE_TURN_BYTES: u64 = 1024 * 1024;

impl<D: Driver> Worker<D> {
    /// Sends what this turn has produced: one write per connection.
    pub(crate) fn flush_dirty(&mut self) {
        let mut dirty = std::mem::take(&mut self.net.dirty);
        for index in dirty.drain(..) {
            let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange())
            else {
                continue;
            };
            connection.is_dirty = false;
            if connection.rests_when_sent() && exchange.is_over() && !self.trace.is_on() {
                self.flush_usual(index);
            } else {
                self.flush(index);
            }
        }
        // Flushing may have listed connections again (a held one with more in its log).
        dirty.append(&mut self.net.dirty);
        self.net.dirty = dirty;
    }

    /// What `flush` does for a client that `rests_when_sent`.
    #[inline]
    fn flush_usual(&mut self, index: ConnectionIndex) {
        let Some(connection) = self.net.connections.at_mut(index) else {
            return;
        };
        let unsent = &connection.out[connection.out_sent as usize..];
        let length = unsent.len();
        if length > 0 {
            match self.net.driver.send_one(connection.fd, unsent) {
                Ok(Some(sent)) if sent == length => {}
                Ok(sent) => {
                    self.on_refused(index, sent);
                    return;
                }
                Err(error) => {
                    self.close_broken(index, &error);
                    return;
                }
            }
            if connection.origin == Origin::Public {
                self.net.counts.add(Counter::BytesSent, length as u64);
            }
        }
        connection.out_sent = 0;
        self.net.pool.give(std::mem::take(&mut connection.out));
        if connection.deadline_ms == u64::MAX {
            if connection.inbox.is_empty() {
                let due_ms = self.net.driver.now_ms() + self.settings.idle_timeout_ms;
                self.net.set_deadline(index, due_ms);
            } else {
                self.restart_deadline(index);
            }
        }
    }

    /// The kernel has taken less than there is, or nothing.
    fn on_refused(&mut self, index: ConnectionIndex, sent: Option<usize>) {
        if let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange())
            && let Some(sent) = sent
        {
            exchange.drop_sent(connection, sent);
            if connection.origin == Origin::Public {
                self.net.counts.add(Counter::BytesSent, sent as u64);
            }
            self.trace.on_sent(index.exchange(), sent);
            self.net.gauges.end_blocked(connection);
        }
        self.block(index);
    }

    /// Sends as much of a connection's output as the kernel takes, then does what was waiting for
    /// it: closing, the next piece of a file, live events, requests that were held back.
    pub(crate) fn flush(&mut self, index: ConnectionIndex) {
        let is_blocked = |connection: &Connection| connection.is_blocked;
        if !self.net.connections.at(index).is_none_or(is_blocked) {
            self.write_out(index);
        }
    }

    /// The kernel takes bytes again, or says so.
    pub(crate) fn on_writable(&mut self, index: ConnectionIndex) {
        if self
            .net
            .connections
            .at(index)
            .is_some_and(|it| it.is_blocked)
        {
            self.write_out(index);
        }
    }

    fn write_out(&mut self, index: ConnectionIndex) {
        if self.write_all(index) {
            self.on_flushed(index);
        }
    }

    /// Gives the kernel what there is, to a connection that is not blocked. True when it has taken
    /// everything; what follows from that is up to the caller.
    pub(crate) fn write_all(&mut self, index: ConnectionIndex) -> bool {
        let mut turn_bytes = 0;
        loop {
            let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange())
            else {
                return false;
            };
            if connection.unsent() > 0 {
                let fd = connection.fd;
                let unsent = &connection.out[connection.out_sent as usize..];
                let length = unsent.len();
                match self.net.driver.send_one(fd, unsent) {
                    Ok(Some(sent)) if sent == length => {
                        if connection.origin == Origin::Public {
                            self.net.counts.add(Counter::BytesSent, sent as u64);
                        }
                        self.trace.on_sent(index.exchange(), sent);
                    }
                    Ok(sent) => {
                        self.on_refused(index, sent);
                        return false;
                    }
                    Err(error) => {
                        self.close_broken(index, &error);
                        return false;
                    }
                }
            }
            connection.out_sent = 0;
            if let Some(socket) = exchange.socket_mut() {
                socket.on_flushed();
            }
            if !matches!(exchange.body.as_deref(), Some(Outgoing::File(_))) {
                let out = std::mem::take(&mut connection.out);
                if out.capacity() > 0 {
                    self.net.pool.give(out);
                }
                return true;
            }
            // Taken by the kernel: what stays in `out` would be sent again.
            connection.out.clear();
            if turn_bytes >= FILE_TURN_BYTES {
                self.net.gauges.end_blocked(connection);
                self.net.gauges.begin_active(connection, exchange);
                connection.deadline_ms = u64::MAX;
                self.net.mark_dirty(index);
                return false;
            }
            match self.advance_file(index) {
                Advance::Went(bytes) => turn_bytes += bytes,
                Advance::Blocked => {
                    self.block(index);
                    return false;
                }
                Advance::Over => return false,
            }
        }
    }

    /// Everything has been taken by the kernel.
    fn on_flushed(&mut self, index: ConnectionIndex) {
        self.trace.on_flushed(index.exchange(), &mut self.net);
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return;
        };
        let was_blocked = self.net.gauges.end_blocked(connection);
        if connection.is_active && exchange.awaits_head() && connection.inbox.is_empty() {
            self.net.gauges.end_active(connection);
        }
        match connection.writing {
            Writing::Close if !connection.has_unread => {
                self.close(index);
                return;
            }
            Writing::Close | Writing::Linger => {
                if connection.phase != Phase::Lingering {
                    connection.phase = Phase::Lingering;
                    let fd = connection.fd;
                    if !exchange.socket().is_some_and(Socket::awaits_answer) {
                        self.net.driver.shutdown_write(fd);
                    }
                    let now_ms = self.net.driver.refresh_now();
                    self.net.set_deadline(index, now_ms + LINGER_MS);
                    self.net.go_on(index);
                }
                return;
            }
            Writing::Open => {}
        }
        let is_held = match &exchange.stage {
            Stage::Held(_) => true,
            Stage::Socket(socket) => exchange.chain != SubId::NONE || socket.is_resuming(),
            _ => false,
        };
        let was_paused = std::mem::take(&mut connection.is_paused);
        if !connection.is_settled && self.settle(index) {
            return;
        }
        let Some(connection) = self.net.connections.at_mut(index) else {
            return;
        };
        if was_blocked || connection.deadline_ms == u64::MAX {
            self.restart_deadline(index);
        }
        if was_paused {
            self.net.go_on(index);
        }
        self.list_stream(index.exchange());
        if is_held {
            self.send_held(index.exchange());
        }
    }

    /// The kernel's buffer is full: a writable event will come, or the write time-out.
    pub(crate) fn block(&mut self, index: ConnectionIndex) {
        if self
            .net
            .connections
            .at(index)
            .is_none_or(|it| it.is_blocked)
        {
            // It has taken nothing since: the time-out runs on.
            return;
        }
        let due_ms = self.net.driver.refresh_now() + self.settings.write_timeout_ms;
        self.net.set_deadline(index, due_ms);
        if let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) {
            connection.is_blocked = true;
            self.net.gauges.blocked += 1;
            self.net.gauges.begin_active(connection, exchange);
            self.net.counts.add(Counter::Blocked, 1);
        }
    }

    /// Gets on with a file whose bytes so far have been taken: lets the kernel send from it, or puts its next piece
    /// into `out`.
    fn advance_file(&mut self, index: ConnectionIndex) -> Advance {
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return Advance::Over;
        };
        let (fd, out) = (connection.fd, &mut connection.out);
        let Some(Outgoing::File(file)) = exchange.body.as_deref_mut() else {
            return Advance::Went(0);
        };
        if file.remaining == 0 {
            match file.parts.pop_front() {
                Some(part) => {
                    out.extend_from_slice(&part.head);
                    file.offset = part.range.start;
                    file.remaining = part.range.end - part.range.start;
                }
                None => exchange.body = None,
            }
            return Advance::Went(0);
        }
        let mut went = None;
        if !file.must_read && self.net.driver.can_send_file(fd) {
            let wanted = file.remaining.min(FILE_SEND_BYTES) as usize;
            match self
                .net
                .driver
                .send_file(fd, &file.file, file.offset, wanted)
            {
                Ok(Some(sent)) => went = Some(Ok(sent)),
                Ok(None) => return Advance::Blocked,
                // Not from this file system; then as everywhere else.
                Err(error) if is_unsupported(&error) => file.must_read = true,
                Err(error) => went = Some(Err(error)),
            }
            if let Some(Ok(sent)) = went {
                self.net.gauges.end_blocked(connection);
                if connection.origin == Origin::Public {
                    self.net.counts.add(Counter::BytesSent, sent as u64);
                    self.trace.on_sent(index.exchange(), sent);
                }
            }
        }
        let went = went.unwrap_or_else(|| self.read_file_piece(index));
        match went {
            Ok(bytes) if bytes > 0 => {
                if let Some(exchange) = self.net.connections.exchange_mut(index.exchange())
                    && let Some(Outgoing::File(file)) = exchange.body.as_deref_mut()
                {
                    file.offset += bytes as u64;
                    file.remaining -= bytes as u64;
                }
                Advance::Went(bytes as u64)
            }
            outcome => {
                self.cut_file(index, outcome.err());
                Advance::Over
            }
        }
    }

    /// Puts the next piece of a file into `out`, and returns its length.
    fn read_file_piece(&mut self, index: ConnectionIndex) -> io::Result<usize> {
        let Some((connection, exchange)) = self.net.connections.pair_mut(index.exchange()) else {
            return Ok(0);
        };
        let out = &mut connection.out;
        let Some(Outgoing::File(file)) = exchange.body.as_deref() else {
            return Ok(0);
        };
        let wanted = file.remaining.min(FILE_PIECE_BYTES as u64) as usize;
        out.clear();
        out.resize(wanted, 0);
        let read = file.file.read_at(out, file.offset)?;
        out.truncate(read);
        Ok(read)
    }

    /// The rest of a file is not to be had. Its length has been promised already; only closing tells the client.
    fn cut_file(&mut self, index: ConnectionIndex, error: Option<io::Error>) {
        let Some(connection) = self.net.connections.at(index) else {
            return;
        };
        let peer = connection.peer;
        match error {
            // The client's doing, not the file's.
            Some(error) if is_of_connection(&error) => {
                self.close_broken(index, &error);
                return;
            }
            Some(error) => {
                self.log_for_client(
                    LogLevel::Error,
                    &format!("file for {peer} cut short: {error}"),
                );
            }
            None => {
                let cause = "it has become shorter while it was sent";
                self.log_for_client(
                    LogLevel::Error,
                    &format!("file for {peer} cut short: {cause}"),
                );
            }
        }
        self.close(index);
    }

    /// Ends a connection that a call on its socket has found broken. What the kernel has taken of the output is its to
    /// deliver, and it says by `TimedOut` that the client has taken none of it for `write_timeout_ms`.
    pub(crate) fn close_broken(&mut self, index: ConnectionIndex, error: &io::Error) {
        if error.kind() == io::ErrorKind::TimedOut {
            self.note_write_timeout(index);
        }
        self.close(index);
    }

    /// Ends a connection and everything that was kept for it.
    pub(crate) fn close(&mut self, index: ConnectionIndex) {
        self.note_left(index.exchange());
        self.tell_ended(index.exchange(), CloseCode::Abnormal as u16, "");
        self.trace.on_close(index.exchange(), &mut self.net);
        self.tell_reader(index.exchange());
        let Some((mut connection, exchange)) = self.net.connections.remove(index) else {
            return;
        };
        self.net.gauges.end(&mut connection, &exchange);
        if connection.is_settled {
            self.reporter.shared.remove_settled(self.slot);
        }
        if !self.sockets.upgrades.is_empty() {
            self.sockets.upgrades.remove(&index.exchange());
        }
        if !self.sockets.clients.is_empty() {
            self.sockets.clients.remove(&index.exchange());
        }
        self.net.driver.close(connection.fd);
        self.channels.local.unsubscribe(exchange.chain);
        if let Some(presence) = exchange.presence {
            self.leave(*presence);
        }
        if let Stage::Socket(mut socket) = exchange.stage {
            for presence in socket.take_presences() {
                self.leave(presence);
            }
        }
        if let Some(body) = &exchange.body {
            self.drop_body(body);
        }
        if connection.out.capacity() > 0 {
            self.net.pool.give(connection.out);
        }
        if connection.inbox.capacity() > 0 {
            self.net.pool.give(connection.inbox);
        }
        if self.settings.connections_per_address_max > 0
            && connection.phase != Phase::Preface
            && let Some(address) = connection.peer.ip()
            && let Some(count) = self.net.addresses.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.net.addresses.remove(&address);
            }
        }
        if self.current.is_some_and(|current| current.index == index) {
            self.current = None;
        }
    }
}

/// How far a file came.
enum Advance {
    /// So many bytes on; look again.
    Went(u64),
    /// The kernel's buffer is full.
    Blocked,
    /// The connection has ended.
    Over,
}

/// What `sendfile` says about files that it cannot send.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput
    )
}

fn is_of_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::TimedOut
    )
}
