//! Records of requests in progress: for the access log, spans and the latency histogram.
//!
//! A worker has a `Trace` only if one of them is enabled; otherwise each call below costs one test.
//! Entries are indexed by connection: a connection has one request in progress.

mod line;
mod sink;
mod span;

use std::collections::HashMap;

use fermata_config::{LogLevel, Settings};
use fermata_io::{Driver, Peer, clock};
use fermata_proto::http1;

use crate::admin::otlp::Outbox;
use crate::admin::stats::{Counter, Counts};
use crate::channels::publish::{EventId, PublishFailure};
use crate::http::protocol::Protocol;
use crate::id::PublishId;
use crate::log;
use crate::missed::{Known, missed};
use crate::net::Net;
use crate::net::connection::{Connection, Origin};
use crate::net::index::ExchangeIndex;

use line::{Format, Line, Stamp};
pub(crate) use sink::{Sink, SinkError};
pub(crate) use span::{Client, Span};
use span::{Ending, STATUS_CLIENT_LEFT, Spans, Within};
pub use span::{SpanIds, Upstream};

/// Maximum number of text buffers kept for reuse.
const SPARE_TEXTS_MAX: usize = 256;

/// State that exists only if requests are traced.
struct Trace {
    /// Entries by connection index; never shrinks.
    entries: Vec<Entry>,
    /// Time at which this turn's events were collected.
    turn_us: u64,
    log: Option<Log>,
    spans: Option<Spans>,
    /// Spans of publishes that wait for a cluster log, by record; at most as many as may wait
    /// there.
    publishing: HashMap<PublishId, Box<Span>>,
    counts_latency: bool,
}

/// The access log of one worker.
struct Log {
    sink: Sink,
    format: Format,
    has_query: bool,
    worker: u16,
    spare: Vec<Vec<u8>>,
    stamp: Stamp,
    /// Number of dropped lines not yet reported in the server's log.
    unreported: u64,
}

/// States when a response counts as complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// A response counts as complete when it is queued.
    #[default]
    Queued,
    /// When everything was sent: a file or a stream.
    Sent,
    /// When the connection closes, for a held client or a WebSocket. The latency still ends when
    /// the request is accepted.
    Closed,
}

/// One request in progress.
#[derive(Default)]
pub(crate) struct Entry {
    is_open: bool,
    end: End,
    /// 0 = no response yet.
    status: u16,
    started_us: u64,
    /// Number of unsent bytes on the connection that precede the response body.
    skip: u64,
    /// Number of bytes of the response body.
    bytes: u64,
    /// The prepared part of the log line about the request.
    text: Vec<u8>,
    /// Span of the request, or after the response the span of the hold.
    span: Option<Box<Span>>,
}

impl Trace {
    /// Creates the state; `None` if nothing is enabled.
    fn new(
        settings: &Settings,
        sink: Option<Sink>,
        outbox: Option<Outbox>,
        worker: u16,
    ) -> Option<Box<Trace>> {
        let counts_latency = settings.metrics_listen.is_some();
        let log = sink.map(|sink| Log {
            sink,
            format: Format::of(&settings.access_log_format),
            has_query: settings.access_log_query == "on",
            worker,
            spare: Vec::new(),
            stamp: Stamp::default(),
            unreported: 0,
        });
        let spans = outbox.map(|outbox| Spans::new(settings, outbox));
        (counts_latency || log.is_some() || spans.is_some()).then(|| {
            Box::new(Trace {
                entries: Vec::new(),
                turn_us: clock::monotonic_us(),
                log,
                spans,
                publishing: HashMap::new(),
                counts_latency,
            })
        })
    }

    fn entry(&mut self, index: ExchangeIndex) -> &mut Entry {
        let at = index.0 as usize;
        if at >= self.entries.len() {
            self.entries.resize_with(at + 1, Entry::default);
        }
        &mut self.entries[at]
    }

    fn open_entry(&mut self, index: ExchangeIndex) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(index.0 as usize);
        entry.filter(|entry| entry.is_open)
    }

    /// Records a response head, which is the last of `unsent` bytes queued for the client.
    fn on_head(&mut self, index: ExchangeIndex, status: u16, unsent: usize) {
        let entry = self.entry(index);
        entry.is_open = true;
        entry.status = status;
        entry.skip = unsent as u64;
        entry.bytes = 0;
    }

    /// Records bytes accepted by the kernel.
    #[inline(never)]
    fn on_sent(&mut self, index: ExchangeIndex, bytes: usize) {
        if let Some(entry) = self.open_entry(index) {
            let bytes = bytes as u64;
            let skipped = entry.skip.min(bytes);
            entry.skip -= skipped;
            entry.bytes += bytes - skipped;
        }
    }

    /// Finishes a request.
    fn end<D: Driver>(&mut self, index: ExchangeIndex, net: &mut Net<D>) {
        let unix_ms = net.driver.unix_ms();
        let Some(connection) = net.connections.at(index.connection()) else {
            return missed(());
        };
        let peer = connection.peer;
        let now_us = clock::monotonic_us();
        let Some(entry) = self.open_entry(index) else {
            return;
        };
        let Entry {
            status,
            started_us,
            bytes,
            end,
            text,
            span,
            ..
        } = std::mem::take(entry);
        // A request that could not be parsed has no start time.
        let duration_us = if started_us == 0 {
            0
        } else {
            now_us.saturating_sub(started_us)
        };
        let is_timed = started_us != 0 && end != End::Closed && status != STATUS_CLIENT_LEFT;
        if self.counts_latency && is_timed {
            net.counts.latency(duration_us);
        }
        if let (Some(spans), Some(span)) = (&mut self.spans, span) {
            let ending = Ending {
                now_us,
                status,
                bytes: Some(bytes),
                peer,
            };
            spans.end(span, ending);
        }
        if let Some(log) = &mut self.log {
            log.write(&Line {
                unix_ms,
                peer,
                text: &text,
                status,
                bytes,
                duration_us,
            });
            if log.spare.len() < SPARE_TEXTS_MAX {
                let mut text = text;
                text.clear();
                log.spare.push(text);
            }
        }
    }

    /// Finishes the span of a request whose client is held, and starts the span of the hold.
    fn end_request(&mut self, index: ExchangeIndex, span: Box<Span>, peer: Peer) {
        let now_us = clock::monotonic_us();
        let (Some(spans), Some(entry)) = (&mut self.spans, self.entries.get_mut(index.0 as usize))
        else {
            return;
        };
        entry.span = Some(spans.begin_hold(&span, now_us));
        let ending = Ending {
            now_us,
            status: entry.status,
            bytes: None,
            peer,
        };
        spans.end(span, ending);
    }

    /// Writes collected lines and spans, if they are large or `is_due`.
    fn flush(&mut self, is_due: bool) {
        if let Some(log) = &mut self.log
            && (is_due || log.sink.is_worth_writing())
        {
            log.sink.write();
        }
        if let Some(spans) = &mut self.spans {
            spans.flush(is_due);
        }
    }
}

/// The trace of a worker, if tracing is enabled.
pub(crate) struct Tracing(Option<Box<Trace>>);

impl Tracing {
    pub fn new(
        settings: &Settings,
        sink: Option<Sink>,
        outbox: Option<Outbox>,
        worker: u16,
    ) -> Tracing {
        Tracing(Trace::new(settings, sink, outbox, worker))
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Starts a turn, with the current time as arrival time.
    #[inline]
    pub fn begin_turn(&mut self) {
        if let Some(trace) = &mut self.0 {
            trace.turn_us = clock::monotonic_us();
        }
    }

    /// Ends a turn: writes collected lines and spans if they are large.
    #[inline]
    pub fn end_turn(&mut self) {
        if let Some(trace) = &mut self.0 {
            trace.flush(false);
        }
    }

    /// Records a request; `head` was parsed from `bytes`.
    pub fn on_request(
        &mut self,
        index: ExchangeIndex,
        origin: Origin,
        protocol: Protocol,
        head: &http1::Head,
        bytes: &[u8],
    ) {
        let Some(trace) = &mut self.0 else {
            return;
        };
        if origin != Origin::Public {
            return;
        }
        let started_us = trace.turn_us;
        let spans = trace.spans.as_mut();
        let span = spans.and_then(|spans| spans.begin(started_us, protocol, (head, bytes)));
        let mut text = Vec::new();
        if let Some(log) = &mut trace.log {
            text = log.spare.pop().unwrap_or_default();
            line::write_request(
                &mut text,
                log.format,
                protocol,
                (head, bytes),
                log.has_query,
                span.as_deref().map(Span::recorded),
            );
        }
        *trace.entry(index) = Entry {
            is_open: true,
            started_us,
            text,
            span,
            ..Entry::default()
        };
    }

    /// Returns true if the request has a span.
    #[inline]
    pub fn is_recorded(&self, index: ExchangeIndex) -> bool {
        let entry = self
            .0
            .as_ref()
            .filter(|trace| trace.spans.is_some())
            .and_then(|trace| trace.entries.get(index.0 as usize));
        entry.is_some_and(|entry| entry.span.is_some())
    }

    /// Adds the client to the request's span.
    pub fn on_client(&mut self, index: ExchangeIndex, client: &Client) {
        if let Some(span) = self.span(index) {
            span.set_client(client);
        }
    }

    /// Adds the route to the request's span.
    pub fn on_route(&mut self, index: ExchangeIndex, label: Option<&str>) {
        if let Some(span) = self.span(index) {
            span.set_route(label);
        }
    }

    /// Adds delivered events to a held client's span.
    pub fn on_events(&mut self, index: ExchangeIndex, count: u64) {
        if let Some(span) = self.span(index) {
            span.set_event_count(count);
        }
    }

    /// Returns true if spans are enabled.
    #[inline]
    pub fn has_spans(&self) -> bool {
        self.0.as_ref().is_some_and(|trace| trace.spans.is_some())
    }

    /// Starts the span of a publish, if it is recorded; `request` belongs to the publishing
    /// handler.
    pub fn begin_publish(
        &mut self,
        request: Option<ExchangeIndex>,
        channel: &[u8],
        data: &[u8],
    ) -> Option<Box<Span>> {
        let Trace { spans, entries, .. } = &mut **self.0.as_mut()?;
        let entry = request.and_then(|index| entries.get(index.0 as usize));
        let within = match entry.filter(|entry| entry.is_open) {
            Some(entry) => match &entry.span {
                Some(span) => Within::Recorded(span),
                None => Within::Unrecorded,
            },
            None => Within::Nothing,
        };
        spans.as_mut()?.begin_publish(&within, channel, data)
    }

    /// Finishes the span of a publish.
    pub fn end_publish(
        &mut self,
        span: Option<Box<Span>>,
        outcome: Result<&EventId, &PublishFailure>,
    ) {
        let Some(span) = span else {
            return;
        };
        let outcome = outcome
            .map(EventId::as_str)
            .map_err(|failure| match failure {
                PublishFailure::Misuse(_) => "misuse",
                PublishFailure::Backpressure(_) => "backpressure",
            });
        let spans = self.0.as_mut().and_then(|trace| trace.spans.as_mut());
        if let Some(spans) = spans {
            spans.end_publish(span, outcome);
        }
    }

    /// Stores the span of a publish that waits for the cluster log.
    pub fn await_publish(&mut self, record: PublishId, span: Option<Box<Span>>) {
        if let (Some(span), Some(trace)) = (span, &mut self.0) {
            trace.publishing.insert(record, span);
        }
    }

    /// Removes and returns the span of a publish that `begin_publish` started.
    #[inline]
    pub fn take_publish(&mut self, record: PublishId) -> Option<Box<Span>> {
        self.0.as_mut()?.publishing.remove(&record)
    }

    /// Returns trace and span id of a recorded request.
    pub fn ids(&self, index: ExchangeIndex) -> Option<SpanIds> {
        let entry = self.0.as_ref()?.entries.get(index.0 as usize)?;
        let span = entry.span.as_ref().filter(|_| entry.is_open)?;
        Some(span.ids())
    }

    /// Starts the span of an upstream request, if its request is recorded.
    pub fn begin_upstream(&mut self, index: ExchangeIndex) -> Option<Box<Span>> {
        let Trace { spans, entries, .. } = &mut **self.0.as_mut()?;
        let entry = entries.get(index.0 as usize)?;
        let request = entry.span.as_deref().filter(|_| entry.is_open)?;
        Some(spans.as_mut()?.begin_upstream(request))
    }

    /// Finishes the span of an upstream request.
    pub fn end_upstream(&mut self, span: Box<Span>, upstream: &Upstream<'_>) {
        let spans = self.0.as_mut().and_then(|trace| trace.spans.as_mut());
        if let Some(spans) = spans {
            spans.end_upstream(span, upstream);
        }
    }

    /// Adds a handler's exception to the request's span.
    pub fn on_failure(&mut self, index: ExchangeIndex, exception: &str) {
        if !exception.is_empty()
            && let Some(span) = self.span(index)
        {
            span.set_failure(exception);
        }
    }

    fn span(&mut self, index: ExchangeIndex) -> Option<&mut Span> {
        let entry = self.0.as_mut()?.open_entry(index)?;
        entry.span.as_deref_mut()
    }

    /// Notes that the body arrived after its head. The request's duration starts now.
    #[inline]
    pub fn on_body(&mut self, index: ExchangeIndex) {
        if let Some(trace) = &mut self.0 {
            let started_us = trace.turn_us;
            if let Some(entry) = trace.open_entry(index) {
                entry.started_us = started_us;
            }
        }
    }

    /// Records that a response head was queued as the last bytes of the connection's output.
    #[inline]
    pub fn on_head(&mut self, index: ExchangeIndex, connection: &Connection, status: u16) {
        if let Some(trace) = &mut self.0
            && connection.origin == Origin::Public
        {
            trace.on_head(index, status, connection.unsent());
        }
    }

    /// Records bytes accepted by the kernel.
    #[inline]
    pub fn on_sent(&mut self, index: ExchangeIndex, bytes: usize) {
        if let Some(trace) = &mut self.0 {
            trace.on_sent(index, bytes);
        }
    }

    /// Records that the application has completed its response. `end` specifies when the response
    /// counts as complete.
    #[inline]
    pub fn on_answer<D: Driver>(&mut self, index: ExchangeIndex, end: End, net: &mut Net<D>) {
        if let Some(trace) = &mut self.0
            && let Some(connection) = net.connections.at(index.connection()).known()
            && let Some(entry) = trace.open_entry(index)
        {
            entry.end = end;
            match end {
                End::Queued => {
                    // Most of a stream was sent before.
                    entry.bytes += (connection.unsent() as u64).saturating_sub(entry.skip);
                    trace.end(index, net);
                }
                End::Sent => {}
                End::Closed => {
                    let (started_us, span) = (entry.started_us, entry.span.take());
                    if let Some(span) = span {
                        trace.end_request(index, span, connection.peer);
                    }
                    if trace.counts_latency && started_us != 0 {
                        let duration_us = clock::monotonic_us().saturating_sub(started_us);
                        net.counts.latency(duration_us);
                    }
                }
            }
        }
    }

    /// Notes that all output of a connection was sent.
    #[inline]
    pub fn on_flushed<D: Driver>(&mut self, index: ExchangeIndex, net: &mut Net<D>) {
        if let Some(trace) = &mut self.0
            && trace
                .open_entry(index)
                .is_some_and(|entry| entry.end == End::Sent)
        {
            trace.end(index, net);
        }
    }

    /// Removes the record of a request that moves to another worker. That worker records the
    /// request.
    pub fn take_entry(&mut self, index: ExchangeIndex) -> Option<Entry> {
        let entry = self.0.as_mut()?.open_entry(index)?;
        Some(std::mem::take(entry))
    }

    /// Restores the record of a request that stays on this worker.
    pub fn put_back(&mut self, index: ExchangeIndex, entry: Option<Entry>) {
        if let (Some(trace), Some(entry)) = (&mut self.0, entry) {
            *trace.entry(index) = entry;
        }
    }

    /// Finishes the request of a closing connection.
    #[inline]
    pub fn on_close<D: Driver>(&mut self, index: ExchangeIndex, net: &mut Net<D>) {
        if let Some(trace) = &mut self.0
            && let Some(entry) = trace.open_entry(index)
        {
            if entry.status == 0 {
                entry.status = STATUS_CLIENT_LEFT;
            }
            trace.end(index, net);
        }
    }

    /// Logs a connection that was refused with a response.
    pub fn on_refused(&mut self, unix_ms: u64, peer: Peer, status: u16, bytes: usize) {
        if let Some(log) = self.log() {
            let (text, bytes, duration_us) = (&[][..], bytes as u64, 0);
            log.write(&Line {
                unix_ms,
                peer,
                text,
                status,
                bytes,
                duration_us,
            });
        }
    }

    /// Writes collected lines of the access log, and reports dropped lines.
    pub fn write_log(&mut self, counts: &mut Counts, server_log: &mut log::Log, unix_ms: u64) {
        let Some(trace) = &mut self.0 else {
            return;
        };
        trace.flush(true);
        let Some(log) = &mut trace.log else {
            return;
        };
        let dropped = log.sink.take_dropped();
        counts.add(Counter::AccessLogDropped, dropped);
        log.unreported += dropped;
        if log.unreported > 0
            && let Some(failure) = log.sink.failure()
        {
            let message = format!("access_log: dropped {} lines: {failure}", log.unreported);
            log.unreported = 0;
            server_log.write_limited(LogLevel::Warning, unix_ms, &message);
        }
    }

    /// Reopens the access log after log rotation.
    ///
    /// # Errors
    /// It cannot be opened; the open file stays in use.
    pub fn reopen_log(&mut self) -> Result<(), SinkError> {
        self.log().map_or(Ok(()), |log| log.sink.reopen())
    }

    fn log(&mut self) -> Option<&mut Log> {
        self.0.as_mut()?.log.as_mut()
    }
}

impl Log {
    fn write(&mut self, line: &Line<'_>) {
        self.stamp.refresh(line.unix_ms);
        let (format, worker, stamp) = (self.format, self.worker, &self.stamp);
        self.sink
            .append(|out| line.write(out, format, worker, stamp));
    }
}
