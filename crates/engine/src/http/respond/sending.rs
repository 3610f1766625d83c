//! Sends bodies that the server itself provides: files by the kernel if possible, otherwise piece
//! by piece.

use std::io;
use std::os::unix::fs::FileExt;

use fermata_config::LogLevel;
use fermata_io::Driver;

use crate::admin::stats::Counter;
use crate::http::Http;
use crate::http::respond::outgoing::{Outgoing, Piece};
use crate::missed::missed;
use crate::net::Net;
use crate::net::connection::Origin;
use crate::net::index::ConnectionIndex;

/// Maximum number of bytes read from a file in one step.
const FILE_PIECE_BYTES: usize = 64 * 1024;

/// Maximum number of bytes of a file that the kernel sends in one call.
const FILE_SEND_BYTES: u64 = 256 * 1024;

/// Progress of a body.
pub(crate) enum Advance {
    /// Number of bytes sent; try again.
    Went(u64),
    /// The kernel's buffer is full.
    Blocked,
    /// The connection was closed.
    Over,
}

impl<D: Driver> Net<D> {
    /// Puts the next piece of a file into `out`, and returns its length.
    fn read_file_piece(&mut self, index: ConnectionIndex) -> io::Result<usize> {
        let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
            return missed(Ok(0));
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
}

impl<D: Driver> Net<D> {
    /// Advances a body that the server itself provides, after all earlier bytes were sent: by a
    /// call of the kernel, or by putting the next piece into `out`. Removes the body at its end.
    pub(crate) fn advance_body(&mut self, http: &mut Http, index: ConnectionIndex) -> Advance {
        let Some((connection, exchange)) = self.connections.pair_mut(index.exchange()) else {
            return missed(Advance::Over);
        };
        let (line, out) = (connection.line, &mut connection.out);
        let Some(body) = exchange.body.as_deref_mut() else {
            return Advance::Went(0);
        };
        let file = match body.next_piece(out) {
            Piece::OfFile(file) => file,
            Piece::Bytes => return Advance::Went(out.len() as u64),
            Piece::End => {
                exchange.body = None;
                return Advance::Went(0);
            }
        };
        let mut went = None;
        if let Some(fd) = line.socket()
            && !file.must_read
            && self.driver.can_send_file(fd)
        {
            let wanted = file.remaining.min(FILE_SEND_BYTES) as usize;
            match self.driver.send_file(fd, &file.file, file.offset, wanted) {
                Ok(Some(sent)) => went = Some(Ok(sent)),
                Ok(None) => return Advance::Blocked,
                // This file system does not support the call, so read the file instead.
                Err(error) if is_unsupported(&error) => file.must_read = true,
                Err(error) => went = Some(Err(error)),
            }
            if let Some(Ok(sent)) = went {
                let was_blocked = self.gauges.end_blocked(connection);
                if connection.origin == Origin::Public {
                    self.counts.add(Counter::BytesSent, sent as u64);
                    http.trace.on_sent(index.exchange(), sent);
                }
                if was_blocked {
                    self.note_buffered(index);
                }
            }
        }
        let went = went.unwrap_or_else(|| self.read_file_piece(index));
        match went {
            Ok(bytes) if bytes > 0 => {
                if let Some(exchange) = self.connections.exchange_mut(index.exchange())
                    && let Some(Outgoing::File(file)) = exchange.body.as_deref_mut()
                {
                    file.offset += bytes as u64;
                    file.remaining -= bytes as u64;
                }
                Advance::Went(bytes as u64)
            }
            outcome => {
                self.cut_file(http, index, outcome.err());
                Advance::Over
            }
        }
    }

    /// Closes the connection because the rest of a file cannot be read. The length was already
    /// announced, so the client can detect the failure only by the close.
    fn cut_file(&mut self, http: &mut Http, index: ConnectionIndex, error: Option<io::Error>) {
        let Some(connection) = self.connections.at(index) else {
            return missed(());
        };
        let peer = connection.peer;
        match error {
            // An error of the connection, not of the file.
            Some(error) if is_of_connection(&error) => {
                self.close_broken(http, index, &error);
                return;
            }
            Some(error) => {
                self.log_for_client(
                    LogLevel::Error,
                    &format!("file for {peer} cut short: {error}"),
                );
            }
            None => {
                let cause = "it was truncated while it was sent";
                self.log_for_client(
                    LogLevel::Error,
                    &format!("file for {peer} cut short: {cause}"),
                );
            }
        }
        self.close(http, index);
    }
}

/// Returns true for errors of `sendfile` on unsupported files.
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
