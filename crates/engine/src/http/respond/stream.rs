//! Bodies that the application produces piece by piece while the client reads.
//!
//! The application is polled for a piece when the kernel has accepted the complete previous piece.
//! So each piece is sent before the next one is produced, however long that takes. A slow client
//! costs at most one piece, of which the core copies `queue_bytes_max` at a time. Streams take
//! turns: each gets one piece per turn of the loop.

use fermata_config::LogLevel;
use fermata_io::Driver;
use fermata_proto::response;

use crate::admin::stats::Counter;
use crate::embed::event::Event;
use crate::http::Http;
use crate::http::protocol::BodyLength;
use crate::http::respond::Gone;
use crate::http::respond::outgoing::{Outgoing, StreamBody};
use crate::http::respond::streams::{StreamError, Wanted};
use crate::id::RequestId;
use crate::log::Detail;
use crate::missed::missed;
use crate::misuse::Misuse;
use crate::net::connection::{Connection, Origin};
use crate::net::index::ExchangeIndex;
use crate::net::{Net, relief};

/// Maximum number of bytes of a piece copied in one step.
const COPY_BYTES_MAX: usize = 256 * 1024;

/// Minimum size of a piece sent without a copy; a smaller one is sent together with other output of
/// this turn.
const DIRECT_BYTES_MIN: usize = 16 * 1024;

/// Time in milliseconds for which streams are polled for pieces before input is processed. A piece
/// that takes longer is not interrupted.
const SLICE_MS: u64 = 10;

/// Returns the number of bytes of a streamed response that the client has not read, including bytes
/// in the kernel. The number decreases while the client reads.
pub fn unread_bytes<D: Driver>(net: &Net<D>, handle: RequestId) -> usize {
    let Ok(index) = net.open_stream(handle) else {
        return 0;
    };
    let connection = net.connections.at(index.connection());
    let unsent = connection.map_or(0, Connection::unsent);
    unsent + relief::unacknowledged_bytes(net, index.connection()).unwrap_or(0)
}

impl<D: Driver> Net<D> {
    /// Returns the exchange of a stream that has not ended.
    pub(crate) fn open_stream(&self, handle: RequestId) -> Result<ExchangeIndex, Gone> {
        let index = handle.exchange();
        let exchange = self.connections.exchange(index);
        match exchange.map(|it| it.body.as_deref()) {
            Some(Some(Outgoing::Stream(stream))) if stream.handle == handle => Ok(index),
            _ => Err(Gone),
        }
    }
}

impl<D: Driver> Net<D> {
    /// Accepts a part of a piece and returns its length; pass the rest again after the next
    /// [`Event::Stream`].
    pub fn write_stream(&mut self, handle: RequestId, piece: &[u8]) -> Result<usize, StreamError> {
        let index = self.open_stream(handle)?;
        let room = self.settings.queue_bytes_max.min(COPY_BYTES_MAX);
        let Some((connection, exchange)) = self.connections.pair_mut(index) else {
            return Err(missed(Gone).into());
        };
        exchange.is_deferred = false;
        let Some(Outgoing::Stream(stream)) = exchange.body.as_deref_mut() else {
            return Err(Gone.into());
        };
        let taken = &piece[..piece.len().min(room)];
        if let Some(left) = &mut stream.left {
            check_length(*left, piece.len())?;
            *left -= taken.len() as u64;
        }
        let holds_rest = taken.len() < piece.len();
        let is_held = holds_rest || stream.piece_bytes > 0;
        if is_held {
            // PHP retains the complete piece until its last byte is accepted.
            stream.piece_bytes = if holds_rest {
                stream.piece_bytes.max(piece.len())
            } else {
                0
            };
        }
        let has_length = stream.left.is_some();
        let out = connection.take_buffer(&mut self.pool);
        if has_length {
            out.extend_from_slice(taken);
        } else {
            exchange.protocol.write_piece(out, taken);
        }
        self.mark_dirty(index.connection());
        if is_held {
            self.note_buffered(index.connection());
        }
        Ok(taken.len())
    }
}

impl<D: Driver> Net<D> {
    /// Reports that the embedder holds `bytes` until the client has read earlier data. These bytes
    /// count as buffered for the client. 0 means the embedder holds none any more.
    pub fn hold_piece(&mut self, handle: RequestId, bytes: usize) {
        if let Ok(index) = self.open_stream(handle)
            && let Some(exchange) = self.connections.exchange_mut(index)
            && let Some(Outgoing::Stream(stream)) = exchange.body.as_deref_mut()
        {
            stream.held_bytes = bytes;
            self.note_buffered(index.connection());
        }
    }
}

impl Http {
    /// See `Worker::pass_stream`.
    pub(crate) fn pass_stream<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        piece: &[u8],
    ) -> Result<usize, StreamError> {
        let sent = self.send_from_where_it_is(net, handle, piece)?;
        Ok(sent + net.write_stream(handle, &piece[sent..])?)
    }

    /// Sends a piece without copying it, if it is long enough and the client has no earlier unsent
    /// output. Returns the number of bytes that the kernel accepted.
    fn send_from_where_it_is<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        piece: &[u8],
    ) -> Result<usize, StreamError> {
        let index = net.open_stream(handle)?;
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return Err(missed(Gone).into());
        };
        let Some(fd) = connection.line.socket() else {
            return Ok(0);
        };
        let Some(Outgoing::Stream(stream)) = exchange.body.as_deref_mut() else {
            return Err(Gone.into());
        };
        let Some(left) = &mut stream.left else {
            return Ok(0);
        };
        if piece.len() < DIRECT_BYTES_MIN || connection.unsent() > 0 || connection.is_blocked {
            return Ok(0);
        }
        check_length(*left, piece.len())?;
        // Ignore an error here: sending the rest meets the same error again and handles it.
        let sent = net.driver.send_one(fd, piece).ok().flatten();
        let sent = sent.unwrap_or_default();
        *left -= sent as u64;
        if connection.origin == Origin::Public {
            net.counts.add(Counter::BytesSent, sent as u64);
        }
        self.trace.on_sent(index, sent);
        Ok(sent)
    }

    /// Returns the handler of the stream in the last [`Event::Stream`].
    pub fn stream_handler(&self) -> u32 {
        self.streams.handler
    }

    /// Postpones a stream whose next piece the application cannot produce now. The stream is polled
    /// again when handlers are free, see `set_full`.
    pub fn hold_stream_back(&mut self, handle: RequestId) {
        self.streams.held_back.push_back(handle);
    }

    /// Notifies the application that the connection closed while this body was being sent.
    pub(crate) fn drop_body(&mut self, body: &Outgoing) {
        if let Outgoing::Stream(stream) = body {
            self.streams.open -= 1;
            self.streams.handler = stream.handler;
            self.streams.ended.push_back(stream.handle);
        }
    }
}

impl Http {
    /// See `Worker::stream_wanted`.
    pub(crate) fn stream_wanted<D: Driver>(
        &self,
        net: &Net<D>,
        handle: RequestId,
        status: u16,
    ) -> Wanted {
        let Ok(index) = net.open_request(handle) else {
            return Wanted::Nothing;
        };
        match net.connections.exchange(index) {
            Some(exchange) if exchange.is_head || response::contentless(status) => Wanted::Head,
            _ if self.streams.open >= net.settings.streams_max => Wanted::Refusal,
            _ => Wanted::Pieces,
        }
    }

    /// See `Worker::begin_stream`.
    pub(crate) fn begin_stream<'h, D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        (status, content_type): (u16, Option<&[u8]>),
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        length: Option<u64>,
        first: &[u8],
    ) -> Result<usize, StreamError> {
        let index = net.open_request(handle)?;
        if let Some(length) = length
            && !response::contentless(status)
            && net
                .connections
                .exchange(index)
                .is_some_and(|it| !it.is_head)
        {
            check_length(length, first.len())?;
        }
        self.write_head(
            net,
            index,
            status,
            content_type,
            headers,
            in_head(status, length),
        );
        if !self.start_stream(net, index, handle, length, status) {
            return Ok(first.len());
        }
        net.write_stream(handle, first)
    }

    /// See `Worker::fail_stream`.
    pub(crate) fn fail_stream<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        log_message: &str,
        detail: &Detail<'_>,
    ) -> Result<(), StreamError> {
        let index = net.open_stream(handle)?;
        net.counts
            .add(crate::admin::stats::Counter::HandlerFailures, 1);
        net.log_detailed(LogLevel::Error, log_message, detail);
        self.cut_stream(net, index);
        Ok(())
    }

    /// See `Worker::drop_stream`.
    pub(crate) fn drop_stream<D: Driver>(&mut self, net: &mut Net<D>, handle: RequestId) {
        if let Ok(index) = net.open_stream(handle) {
            self.cut_stream(net, index);
        }
    }

    /// Cuts off a stream before its end.
    pub(crate) fn cut_stream<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) {
        let is_stream = |(connection, _): (&Connection, _)| connection.line.is_stream();
        let is_of_http2 = net.connections.pair(index).is_some_and(is_stream);
        if is_of_http2 {
            // Send written bytes before the reset.
            net.flush(self, index.connection());
        }
        if let Some((connection, exchange)) = net.connections.pair_mut(index)
            && let Some(Outgoing::Stream(stream)) = exchange.body.as_deref()
        {
            let ends_by_close = stream.left.is_none() && !exchange.protocol.marks_end();
            exchange.body = None;
            connection.keeps_alive = false;
            self.streams.open -= 1;
            let line = connection.line;
            net.note_buffered(index.connection());
            if ends_by_close || is_of_http2 {
                // A regular close would look like the end of a complete body, so reset the
                // connection.
                net.reset_on_close(line);
                net.close(self, index.connection());
            } else {
                self.finish_answer(net, index);
            }
        }
    }

    /// Returns the next stream event: an ended stream, or one to poll.
    pub(crate) fn next_stream_event<D: Driver>(&mut self, net: &mut Net<D>) -> Option<Event> {
        if let Some(handle) = self.streams.ended.pop_front() {
            return Some(Event::StreamEnd(handle));
        }
        while self.streams.budget > 0 {
            let unix_ms = net.driver.unix_ms();
            if self.streams.since_unix_ms == 0 {
                self.streams.since_unix_ms = unix_ms;
            } else if unix_ms.abs_diff(self.streams.since_unix_ms) >= SLICE_MS {
                return None;
            }
            self.streams.budget -= 1;
            let handle = self.streams.ready.pop_front()?;
            let Ok(index) = net.open_stream(handle) else {
                continue;
            };
            if let Some((connection, exchange)) = net.connections.pair_mut(index) {
                let has_unsent = connection.unsent() > 0;
                let Some(Outgoing::Stream(stream)) = exchange.body.as_deref_mut() else {
                    continue;
                };
                stream.is_listed = false;
                if has_unsent {
                    // The application has written to the stream since it was listed; sending lists
                    // it again.
                    continue;
                }
                self.streams.handler = stream.handler;
                return Some(Event::Stream(handle));
            }
        }
        None
    }
}

impl Http {
    /// Makes the response a stream after its head was written. Returns false if the request needs
    /// no body.
    pub(crate) fn start_stream<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        handle: RequestId,
        left: Option<u64>,
        status: u16,
    ) -> bool {
        let handler = self.request.handler;
        match net.connections.pair_mut(index) {
            Some((connection, exchange)) if !exchange.is_head && !response::contentless(status) => {
                exchange.body = Some(Box::new(Outgoing::Stream(StreamBody {
                    handle,
                    handler,
                    left,
                    is_listed: false,
                    piece_bytes: 0,
                    held_bytes: 0,
                })));
                // The handler has returned; from here on the stream reports its own end.
                exchange.is_deferred = false;
                net.gauges.begin_active(connection, exchange);
                self.streams.open += 1;
                true
            }
            _ => {
                self.finish_answer(net, index);
                false
            }
        }
    }
    /// See `Worker::end_stream`.
    pub(crate) fn end_stream<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
    ) -> Result<(), StreamError> {
        let index = net.open_stream(handle)?;
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return Err(missed(Gone).into());
        };
        let Some(Outgoing::Stream(stream)) = exchange.body.as_deref() else {
            return Err(Gone.into());
        };
        match stream.left {
            None => exchange.protocol.end(&mut connection.out),
            Some(0) => {}
            Some(left) => {
                return Err(Misuse::StreamShort(left).into());
            }
        }
        exchange.body = None;
        self.streams.open -= 1;
        self.finish_answer(net, index);
        Ok(())
    }

    /// Lists a stream for polling, since all its bytes were sent.
    pub(crate) fn list_stream<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) {
        if let Some(exchange) = net.connections.exchange_mut(index)
            && let Some(Outgoing::Stream(stream)) = exchange.body.as_deref_mut()
            && !stream.is_listed
        {
            stream.is_listed = true;
            self.streams.ready.push_back(stream.handle);
        }
    }
}

/// Returns the body length for the head of a stream.
pub(crate) fn in_head(status: u16, length: Option<u64>) -> BodyLength {
    match length {
        _ if response::bodiless(status) => BodyLength::None,
        _ if response::contentless(status) => BodyLength::Known(0),
        Some(length) => BodyLength::Known(length),
        None => BodyLength::Unknown,
    }
}

fn check_length(left: u64, piece_len: usize) -> Result<(), StreamError> {
    if piece_len as u64 > left {
        let piece = piece_len;
        return Err(Misuse::StreamLong { piece, left }.into());
    }
    Ok(())
}
