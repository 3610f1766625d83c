//! Responses of handlers, and of the server itself.

use fermata_config::LogLevel;
use fermata_io::Driver;
use fermata_proto::response::{self, contentless};

use crate::admin::stats::Counter;
use crate::admin::trace::End;
use crate::http::Http;
use crate::http::exchange::Stage;
use crate::http::protocol::{BodyLength, Protocol};
use crate::http::respond::Gone;
use crate::id::RequestId;
use crate::log::Detail;
use crate::missed::missed;
use crate::net::Net;
use crate::net::buffered::LARGE_BYTES;
use crate::net::connection::{Origin, Phase, Writing};
use crate::net::index::ExchangeIndex;
use crate::net::running::Running;

const TEXT: &[u8] = b"text/plain; charset=utf-8";

impl<D: Driver> Net<D> {
    /// Returns the exchange of a request that waits for its response.
    pub(crate) fn open_request(&self, handle: RequestId) -> Result<ExchangeIndex, Gone> {
        let index = handle.exchange();
        let serial = handle.serial();
        match self.connections.pair(index) {
            Some((connection, exchange))
                if exchange.serial == serial
                    && exchange.is_handling()
                    && connection.phase == Phase::Open
                    // No response may follow a response that closes the connection.
                    && connection.writing == Writing::Open
                    // A response that is being streamed has started already.
                    && exchange.body.is_none() =>
            {
                Ok(index)
            }
            _ => Err(Gone),
        }
    }
}

impl<D: Driver> Net<D> {
    /// Counts a failed handler if the application itself answers the client.
    pub fn note_failure(&mut self) {
        self.counts.add(Counter::HandlerFailures, 1);
    }
}

impl Http {
    /// See `Worker::respond`.
    #[inline]
    pub(crate) fn respond<'h, D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        status: u16,
        content_type: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])> + Clone,
        body: &[u8],
    ) -> Result<(), Gone> {
        let index = net.open_request(handle)?;
        if body.len() >= net.settings.compression_bytes_min || headers.size_hint().0 > 0 {
            self.answer_chosen(net, handle, status, content_type, headers, body);
            if body.len() >= LARGE_BYTES {
                net.flush(self, index.connection());
            }
        } else {
            self.answer(net, index, status, content_type, headers, body);
        }
        Ok(())
    }
}

impl Http {
    /// See `Worker::fail`.
    pub(crate) fn fail<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        handle: RequestId,
        status: u16,
        log_message: &str,
        detail: &Detail<'_>,
    ) -> Result<(), Gone> {
        let index = net.open_request(handle)?;
        net.counts.add(Counter::HandlerFailures, 1);
        self.trace.on_failure(index, detail.exception);
        net.log_detailed(LogLevel::Error, log_message, detail);
        let text = match status {
            500 => "The server has failed to answer; its log tells why.",
            _ => "The request cannot be answered.",
        };
        self.answer_error(net, index, status, None, text);
        Ok(())
    }

    /// Writes a text response of the server itself.
    pub(crate) fn answer_plain<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        status: u16,
        allow: Option<&str>,
        body: &[u8],
    ) {
        let headers = allow.map(|allow| (&b"Allow"[..], allow.as_bytes()));
        let content_type = if body.is_empty() { None } else { Some(TEXT) };
        self.answer(net, index, status, content_type, headers.into_iter(), body);
    }

    #[inline]
    pub(crate) fn answer<'h, D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        status: u16,
        content_type: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        body: &[u8],
    ) {
        if let Some(content_type) = content_type
            && headers.size_hint() == (0, Some(0))
            && self.answer_usual(net, index, status, content_type, body)
        {
            return;
        }
        let (content_type, body) = match status {
            205 => (None, &b""[..]),
            _ => (content_type, body),
        };
        let length = match status {
            100..=199 | 204 | 304 => BodyLength::None,
            _ => BodyLength::Known(body.len() as u64),
        };
        self.write_head(net, index, status, content_type, headers, length);
        if let Some((connection, exchange)) = net.connections.pair_mut(index)
            && !exchange.is_head
            && length != BodyLength::None
        {
            connection.out.extend_from_slice(body);
        }
        self.finish_answer(net, index);
    }

    /// Fast path of `answer`: no further headers, keep-alive and no tracing. Returns false and does
    /// nothing if a condition is not met.
    #[inline]
    fn answer_usual<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        status: u16,
        content_type: &[u8],
        body: &[u8],
    ) -> bool {
        let Some(current) = net
            .input
            .current
            .filter(|current| current.index == index.connection())
        else {
            return false;
        };
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return missed(false);
        };
        if !connection.keeps_alive
            || exchange.protocol != Protocol::Http11
            || connection.origin != Origin::Public
            || contentless(status)
            || net.running != Running::Serving
            || self.trace.is_on()
            || self.reason.is_some()
        {
            return false;
        }
        net.counts.response(status);
        let has_body = !exchange.is_head;
        let out = connection.take_buffer(&mut net.pool);
        self.repeated
            .write(out, status, &self.date, content_type, body, has_body);
        exchange.is_deferred = false;
        exchange.enter(Stage::Head);
        // All input was parsed; further input raises an event.
        if current.at == current.filled && !connection.has_unread && exchange.body.is_none() {
            net.input.current = None;
        }
        if !connection.is_dirty {
            connection.is_dirty = true;
            net.dirty.push(index.connection());
        }
        true
    }

    /// Writes a response head to the connection's output.
    #[inline]
    pub(crate) fn write_head<'h, D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        status: u16,
        content_type: Option<&[u8]>,
        headers: impl Iterator<Item = (&'h [u8], &'h [u8])>,
        length: BodyLength,
    ) {
        self.write_head_by(
            net,
            index,
            status,
            length,
            |protocol, out, date, keeps_alive| {
                let line = (status, date);
                protocol.write_head(out, line, content_type, headers, length, keeps_alive);
            },
        );
    }

    /// Writes a response head to the connection's output by calling `write`.
    #[inline]
    pub(crate) fn write_head_by<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        index: ExchangeIndex,
        status: u16,
        length: BodyLength,
        write: impl FnOnce(Protocol, &mut Vec<u8>, &[u8; 29], bool),
    ) {
        let reason = match self.reason {
            None => None,
            Some(_) => self.take_reason(net, index, status),
        };
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return missed(());
        };
        if connection.origin == Origin::Public {
            net.counts.response(status);
        }
        let protocol = exchange.protocol;
        if let Some(place) = connection.line.stream() {
            let ends =
                exchange.is_head || !matches!(length, BodyLength::Unknown | BodyLength::Known(1..));
            let date = &self.date;
            net.http2.send_head(place, status, ends, |block| {
                write(protocol, block, date, false)
            });
            self.trace.on_head(index, connection, status);
            return;
        }
        let ends_by_close = length == BodyLength::Unknown && !protocol.marks_end();
        if net.running != Running::Serving || ends_by_close {
            connection.keeps_alive = false;
        }
        let keeps_alive = connection.keeps_alive;
        let out = connection.take_buffer(&mut net.pool);
        let start = out.len();
        write(protocol, out, &self.date, keeps_alive);
        if let Some(phrase) = reason {
            response::replace_reason(out, start, &phrase);
        }
        self.trace.on_head(index, connection, status);
    }

    /// Completes a response: the next request may start, or the connection closes.
    #[inline]
    pub(crate) fn finish_answer<D: Driver>(&mut self, net: &mut Net<D>, index: ExchangeIndex) {
        let current = net
            .input
            .current
            .filter(|current| current.index == index.connection());
        let Some(exchange) = net.connections.exchange(index) else {
            return missed(());
        };
        let end = if exchange.body.is_some() {
            End::Sent
        } else {
            End::Queued
        };
        self.trace.on_answer(index, end, net);
        let Some((connection, exchange)) = net.connections.pair_mut(index) else {
            return missed(());
        };
        exchange.is_deferred = false;
        if connection.keeps_alive {
            exchange.enter(Stage::Head);
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
        let has_more = connection.has_unread || !connection.inbox.is_empty();
        if current.is_none() && connection.keeps_alive && (has_more || connection.has_hung_up) {
            // The response comes in a later turn than its request. Parse the input that has arrived
            // since.
            net.go_on(index.connection());
        }
        net.mark_dirty(index.connection());
    }
}

/// Writes a short closing response for a connection that was not accepted.
pub(crate) fn write_plain(out: &mut Vec<u8>, status: u16, date: &[u8; 29], body: &[u8]) {
    let length = BodyLength::Known(body.len() as u64);
    let none = std::iter::empty();
    Protocol::Http11.write_head(out, (status, date), Some(TEXT), none, length, false);
    out.extend_from_slice(body);
}
