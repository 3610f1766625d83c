//! Bodies that the program makes piece by piece while the client takes them.
//!
//! The program is asked for the next piece when the kernel has taken all of the last one. So each piece is on its way
//! before the next is made, however long that takes, and a client that reads slowly costs at most one piece, of which
//! the core copies `queue_bytes_max` at a time. Streams take turns: each gets one piece per turn of the loop.

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
use crate::net::Net;
use crate::net::connection::{Connection, Origin};
use crate::net::index::ExchangeIndex;

/// Most of a piece that is copied at once.
const COPY_BYTES_MAX: usize = 256 * 1024;

/// Least of a piece that is sent from where it is: a smaller one goes with what else its client gets in this turn.
const DIRECT_BYTES_MIN: usize = 16 * 1024;

/// Time that pieces may take in a row before input gets its turn. A piece that takes longer is not interrupted.
const SLICE_MS: u64 = 10;

impl<D: Driver> Net<D> {
    /// The connection of a stream that has not ended.
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
    /// Takes as much of a piece as it returns; what is left is to be given again when [`Event::Stream`] asks.
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
        let has_length = stream.left.is_some();
        let out = connection.take_buffer(&mut self.pool);
        if has_length {
            out.extend_from_slice(taken);
        } else {
            exchange.protocol.write_piece(out, taken);
        }
        self.mark_dirty(index.connection());
        Ok(taken.len())
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

    /// Gives the kernel a piece for a client that waits for nothing else.
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
        // An error is met again, and then handled, where the rest is sent.
        let sent = net.driver.send_one(fd, piece).ok().flatten();
        let sent = sent.unwrap_or_default();
        *left -= sent as u64;
        if connection.origin == Origin::Public {
            net.counts.add(Counter::BytesSent, sent as u64);
        }
        self.trace.on_sent(index, sent);
        Ok(sent)
    }

    /// The handler that has answered by the stream of the last [`Event::Stream`].
    pub fn stream_handler(&self) -> u32 {
        self.streams.handler
    }

    /// The program cannot make the piece it was asked for now: it is asked again when it has room, see `set_full`.
    pub fn hold_stream_back(&mut self, handle: RequestId) {
        self.streams.held_back.push_back(handle);
    }

    /// A connection has ended with this body: its program is told.
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

    /// Ends a stream without its end.
    pub(crate) fn cut_stream<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) {
        let is_stream = |(connection, _): (&Connection, _)| connection.line.is_stream();
        let is_of_http2 = net.connections.pair(index).is_some_and(is_stream);
        if is_of_http2 {
            // What was given goes before the reset.
            net.flush(self, index.connection());
        }
        if let Some((connection, exchange)) = net.connections.pair_mut(index)
            && let Some(Outgoing::Stream(stream)) = exchange.body.as_deref()
        {
            let ends_by_close = stream.left.is_none() && !exchange.protocol.marks_end();
            exchange.body = None;
            connection.keeps_alive = false;
            self.streams.open -= 1;
            if ends_by_close || is_of_http2 {
                // The end of the connection would look like that of a whole body.
                let line = connection.line;
                net.reset_on_close(line);
                net.close(self, index.connection());
            } else {
                self.finish_answer(net, index);
            }
        }
    }

    /// The next stream to be told about or asked.
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
                    // Given something since it was listed; it is listed again when that is taken.
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
    /// The head is written: pieces follow. False when none is wanted.
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
                })));
                // Its handler is done; the stream's own end is told from here on.
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

    /// Everything that was given has been taken: the program is asked for more.
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

/// What the head of a stream says of its body.
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
