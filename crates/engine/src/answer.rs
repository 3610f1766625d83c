//! Responses: from the handler, and those the server gives by itself.

use std::path::Path;

use fermata_config::LogLevel;
use fermata_io::Driver;
use fermata_proto::http1::Span;
use fermata_proto::response::{self, Connection as KeepAlive, Framing};

use crate::connection::{FileBody, Origin, Reading, Writing};
use crate::files::{self, FileError};
use crate::slab::Key;
use crate::stats::Counter;
use crate::trace::End;
use crate::worker::{Running, Worker};

const TEXT: &[u8] = b"text/plain; charset=utf-8";

/// The handle names a request that is not open any more: its client has left, or it was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request is gone: its client has left or it has been answered")]
pub struct Gone;

impl<D: Driver> Worker<D> {
    /// Answers a request with a complete response.
    ///
    /// Names and values of `headers` must have passed `fermata_proto::response::valid_name` and
    /// `valid_value`, and must not be reserved. `Date`, `Content-Length` and `Connection` are ours.
    #[inline]
    pub fn respond<'h>(
        &mut self,
        handle: u64,
        status: u16,
        content_type: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        body: &[u8],
    ) -> Result<(), Gone> {
        let index = self.open_request(handle)?;
        self.answer(index, status, content_type, headers, body);
        Ok(())
    }

    /// Answers a request whose handler failed: `status` to the client, the reason to the log only.
    pub fn fail(&mut self, handle: u64, status: u16, log_message: &str) -> Result<(), Gone> {
        let index = self.open_request(handle)?;
        self.counts.add(Counter::HandlerFailures, 1);
        self.log(LogLevel::Error, log_message);
        let body = match status {
            500 => "The server has failed to answer; its log tells why.\n",
            _ => "The request cannot be answered.\n",
        };
        self.answer(
            index,
            status,
            Some(TEXT),
            std::iter::empty(),
            body.as_bytes(),
        );
        Ok(())
    }

    /// Counts a handler that has failed, whose client the program itself answers.
    pub fn note_failure(&mut self) {
        self.counts.add(Counter::HandlerFailures, 1);
    }

    /// The connection of a request that is waiting for its answer.
    pub(crate) fn open_request(&self, handle: u64) -> Result<u32, Gone> {
        let Key {
            index,
            generation: serial,
        } = Key::from_u64(handle);
        match self.connections.at(index) {
            Some(connection)
                if connection.serial == serial
                    && connection.reading == Reading::Handling
                    // A last response ends the reading, too: it must not be followed by another.
                    && connection.writing == Writing::Open =>
            {
                Ok(index)
            }
            _ => Err(Gone),
        }
    }

    /// A text response of the server itself.
    pub(crate) fn answer_plain(
        &mut self,
        index: u32,
        status: u16,
        allow: Option<&str>,
        body: &[u8],
    ) {
        let headers = allow.map(|allow| (&b"Allow"[..], allow.as_bytes()));
        let content_type = if body.is_empty() { None } else { Some(TEXT) };
        self.answer(index, status, content_type, headers.into_iter(), body);
    }

    /// A file below a static root, or why not.
    pub(crate) fn answer_file(&mut self, index: u32, root: &Path, rest: Span) {
        let view = self.request.view(&self.input);
        let path = view.path();
        let found = files::resolve(root, rest.of(path));
        let file = match found {
            Ok(file) => file,
            Err(FileError::NotFound) => {
                self.answer_plain(index, 404, None, b"Nothing is here.\n");
                return;
            }
            Err(FileError::Directory) => {
                // Relative links in the page need the path to end in a slash.
                let mut location = self.request.head.path.of(view.head).to_vec();
                location.push(b'/');
                let headers = std::iter::once((&b"Location"[..], &location[..]));
                self.answer(index, 308, None, headers, b"");
                return;
            }
            Err(FileError::Io(error)) => {
                let message = format!(
                    "static file {}: {error}",
                    String::from_utf8_lossy(path).escape_debug()
                );
                self.log_for_client(LogLevel::Error, &message);
                self.answer_plain(index, 500, None, b"The file cannot be read.\n");
                return;
            }
        };
        let is_fresh = files::is_not_modified(
            &file,
            view.header(b"if-none-match", 0),
            view.header(b"if-modified-since", 0),
        );
        let headers = [
            (&b"ETag"[..], file.etag.as_bytes()),
            (&b"Last-Modified"[..], &file.last_modified[..]),
        ];
        if is_fresh {
            self.answer(index, 304, None, headers.into_iter(), b"");
            return;
        }
        let framing = Framing::Length(file.len);
        let content_type = file.content_type.as_bytes();
        self.write_head(index, 200, Some(content_type), headers.into_iter(), framing);
        if let Some(connection) = self.connections.at_mut(index)
            && !connection.is_head
            && file.len > 0
        {
            let body = FileBody {
                file: file.file,
                remaining: file.len,
            };
            connection.file = Some(Box::new(body));
            // Nothing may be appended to `out` before the file has gone out.
            connection.is_paused = true;
        }
        self.finish_answer(index);
    }

    #[inline]
    pub(crate) fn answer<'h>(
        &mut self,
        index: u32,
        status: u16,
        content_type: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        body: &[u8],
    ) {
        let framing = match status {
            100..=199 | 204 | 304 => Framing::None,
            _ => Framing::Length(body.len() as u64),
        };
        self.write_head(index, status, content_type, headers, framing);
        if let Some(connection) = self.connections.at_mut(index)
            && !connection.is_head
            && !matches!(framing, Framing::None)
        {
            connection.out.extend_from_slice(body);
        }
        self.finish_answer(index);
    }

    /// Writes a response head to the connection's output.
    #[inline]
    pub(crate) fn write_head<'h>(
        &mut self,
        index: u32,
        status: u16,
        content_type: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        framing: Framing,
    ) {
        let is_draining = self.running != Running::Serving;
        let Some(connection) = self.connections.at_mut(index) else {
            return;
        };
        if connection.origin == Origin::Public {
            self.counts.response(status);
        }
        if is_draining {
            connection.keeps_alive = false;
        }
        if connection.out.capacity() == 0 {
            connection.out = self.pool.take();
        }
        let keep_alive = match (connection.keeps_alive, connection.is_http10) {
            (false, _) => KeepAlive::Close,
            (true, true) => KeepAlive::KeepAliveExplicit,
            (true, false) => KeepAlive::KeepAlive,
        };
        response::write_head(
            &mut connection.out,
            status,
            &self.date,
            content_type,
            headers,
            framing,
            keep_alive,
        );
        self.trace_head(index, status);
    }

    /// The response is complete: the next request may come, or the connection ends.
    #[inline]
    pub(crate) fn finish_answer(&mut self, index: u32) {
        let current = self.current.filter(|current| current.index == index);
        let Some(connection) = self.connections.at(index) else {
            return;
        };
        let end = if connection.file.is_some() {
            End::Sent
        } else {
            End::Queued
        };
        self.trace_answered(index, end);
        let Some(connection) = self.connections.at_mut(index) else {
            return;
        };
        connection.is_deferred = false;
        if connection.keeps_alive {
            connection.reading = Reading::Head;
        } else {
            let is_parsed = match current {
                Some(current) => current.at == current.filled,
                None => connection.inbox.is_empty(),
            };
            let is_read_whole = is_parsed && !connection.has_unread;
            if connection.writing == Writing::Open {
                connection.writing = if is_read_whole {
                    Writing::Close
                } else {
                    Writing::Linger
                };
            }
        }
        if current.is_none() && connection.keeps_alive {
            // Answered later than in its own turn: what has arrived meanwhile is waiting.
            self.go_on(index);
        }
        self.mark_dirty(index);
    }

    /// Lists a connection for the flush at the end of the turn.
    #[inline]
    pub(crate) fn mark_dirty(&mut self, index: u32) {
        if let Some(connection) = self.connections.at_mut(index)
            && !connection.is_dirty
        {
            connection.is_dirty = true;
            self.dirty.push(index);
        }
    }
}

/// A short closing response for a connection that never became one of ours.
pub(crate) fn write_plain(out: &mut Vec<u8>, status: u16, date: &[u8; 29], body: &[u8]) {
    let framing = Framing::Length(body.len() as u64);
    let none = std::iter::empty();
    response::write_head(
        out,
        status,
        date,
        Some(TEXT),
        none,
        framing,
        KeepAlive::Close,
    );
    out.extend_from_slice(body);
}
