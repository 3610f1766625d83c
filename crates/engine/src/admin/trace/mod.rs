//! What is remembered of a request until it has been answered: for the access log and for the
//! histogram of latencies.
//!
//! A worker has a `Trace` only when somebody wants one of them; without it each place below costs one
//! test. Entries are found by the connection's index: a connection has one request in progress.

mod line;
mod sink;

use fermata_config::Settings;
use fermata_io::{Driver, Peer, clock};

use crate::admin::stats::Counter;
use crate::net::connection::{Connection, Origin};
use crate::worker::Worker;

use line::{Format, Line, Stamp};
pub(crate) use sink::{Sink, SinkError};

/// Status of a request whose client has left before the answer; servers agree on the number.
const STATUS_CLIENT_LEFT: u16 = 499;

/// Texts of finished requests that are kept for the next ones.
const SPARE_TEXTS_MAX: usize = 256;

/// Upper bounds of the histogram's buckets in microseconds, in the order of `Counter::Latency…`.
pub(crate) const LATENCY_BOUNDS_US: [u64; 16] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 10_000_000,
];

/// Everything that is only there when requests are traced.
pub(crate) struct Trace {
    /// By index of the connection; longer than needed at most by what was needed once.
    entries: Vec<Entry>,
    /// When the events of this turn were collected.
    turn_us: u64,
    log: Option<Log>,
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
    /// Lines left out that the log of the server has not told yet.
    untold: u64,
}

/// When an answer is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// As soon as it is queued.
    #[default]
    Queued,
    /// When everything has been sent: a file, a stream.
    Sent,
    /// With the connection: a held client, a WebSocket. Its time for the histogram ends when it begins.
    Closed,
}

/// One request in progress.
#[derive(Default)]
struct Entry {
    is_open: bool,
    end: End,
    /// 0 = no answer yet.
    status: u16,
    started_us: u64,
    /// Bytes that have to be sent before those of its body.
    skip: u64,
    /// Bytes of its body.
    bytes: u64,
    /// What the line says of the request itself, ready to be written.
    text: Vec<u8>,
}

impl Trace {
    /// `None` when nobody wants to know.
    pub fn new(settings: &Settings, sink: Option<Sink>, worker: u16) -> Option<Box<Trace>> {
        let counts_latency = settings.metrics_listen.is_some();
        let log = sink.map(|sink| Log {
            sink,
            format: Format::of(&settings.access_log_format),
            has_query: settings.access_log_query == "on",
            worker,
            spare: Vec::new(),
            stamp: Stamp::default(),
            untold: 0,
        });
        (counts_latency || log.is_some()).then(|| {
            Box::new(Trace {
                entries: Vec::new(),
                turn_us: clock::monotonic_us(),
                log,
                counts_latency,
            })
        })
    }

    /// A turn begins: what it has collected has arrived by now.
    pub fn begin_turn(&mut self) {
        self.turn_us = clock::monotonic_us();
    }

    fn entry(&mut self, index: u32) -> &mut Entry {
        let at = index as usize;
        if at >= self.entries.len() {
            self.entries.resize_with(at + 1, Entry::default);
        }
        &mut self.entries[at]
    }

    fn open_entry(&mut self, index: u32) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(index as usize);
        entry.filter(|entry| entry.is_open)
    }

    /// The answer's head is the last of `unsent` bytes that wait for the client.
    fn on_head(&mut self, index: u32, status: u16, unsent: usize) {
        let entry = self.entry(index);
        entry.is_open = true;
        entry.status = status;
        entry.skip = unsent as u64;
        entry.bytes = 0;
    }

    /// The kernel has taken bytes.
    #[inline(never)]
    pub fn on_sent(&mut self, index: u32, bytes: usize) {
        if let Some(entry) = self.open_entry(index) {
            let bytes = bytes as u64;
            let skipped = entry.skip.min(bytes);
            entry.skip -= skipped;
            entry.bytes += bytes - skipped;
        }
    }

    /// Writes what has been collected, when it is enough or `is_due`.
    pub fn flush(&mut self, is_due: bool) {
        if let Some(log) = &mut self.log
            && (is_due || log.sink.is_worth_writing())
        {
            log.sink.write();
        }
    }
}

impl<D: Driver> Worker<D> {
    /// The head of a request has been read: it begins at `at` in the input.
    pub(crate) fn trace_request(&mut self, index: u32, at: usize, head_bytes: usize) {
        let Some(trace) = &mut self.trace else {
            return;
        };
        let is_public = |it: &Connection| it.origin == Origin::Public;
        if !self.net.connections.at(index).is_some_and(is_public) {
            return;
        }
        let started_us = trace.turn_us;
        let mut text = Vec::new();
        if let Some(log) = &mut trace.log {
            text = log.spare.pop().unwrap_or_default();
            let head = &self.input[at..at + head_bytes];
            line::write_request(
                &mut text,
                log.format,
                &self.http.request.head,
                head,
                log.has_query,
            );
        }
        *trace.entry(index) = Entry {
            is_open: true,
            started_us,
            text,
            ..Entry::default()
        };
    }

    /// The body of a request is complete, later than its head: its time begins now.
    #[inline]
    pub(crate) fn trace_body(&mut self, index: u32) {
        if let Some(trace) = &mut self.trace {
            let started_us = trace.turn_us;
            if let Some(entry) = trace.open_entry(index) {
                entry.started_us = started_us;
            }
        }
    }

    /// The head of an answer has been put into the connection's output.
    #[inline]
    pub(crate) fn trace_head(&mut self, index: u32, status: u16) {
        if let Some(trace) = &mut self.trace
            && let Some(connection) = self.net.connections.at(index)
            && connection.origin == Origin::Public
        {
            trace.on_head(index, status, connection.unsent());
        }
    }

    /// The program has given its answer, which is complete at `end`.
    #[inline]
    pub(crate) fn trace_answered(&mut self, index: u32, end: End) {
        if let Some(trace) = &mut self.trace
            && let Some(connection) = self.net.connections.at(index)
            && let Some(entry) = trace.open_entry(index)
        {
            entry.end = end;
            match end {
                End::Queued => {
                    // Of a stream most has been sent before.
                    entry.bytes += (connection.unsent() as u64).saturating_sub(entry.skip);
                    self.trace_end(index);
                }
                End::Sent => {}
                End::Closed => {
                    let started_us = entry.started_us;
                    if trace.counts_latency && started_us != 0 {
                        let duration_us = clock::monotonic_us().saturating_sub(started_us);
                        self.net.counts.latency(duration_us);
                    }
                }
            }
        }
    }

    /// Everything has been sent to a client that is to be sent another answer.
    #[inline]
    pub(crate) fn trace_flushed(&mut self, index: u32) {
        if let Some(trace) = &mut self.trace
            && trace
                .open_entry(index)
                .is_some_and(|entry| entry.end == End::Sent)
        {
            self.trace_end(index);
        }
    }

    /// The connection is about to be forgotten.
    #[inline]
    pub(crate) fn trace_closed(&mut self, index: u32) {
        if let Some(trace) = &mut self.trace
            && let Some(entry) = trace.open_entry(index)
        {
            if entry.status == 0 {
                entry.status = STATUS_CLIENT_LEFT;
            }
            self.trace_end(index);
        }
    }

    /// A connection that never became one was answered and closed.
    pub(crate) fn trace_turned_away(&mut self, peer: Peer, status: u16, bytes: usize) {
        let unix_ms = self.net.driver.unix_ms();
        if let Some(log) = self.trace.as_mut().and_then(|trace| trace.log.as_mut()) {
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

    fn trace_end(&mut self, index: u32) {
        let unix_ms = self.net.driver.unix_ms();
        let (Some(trace), Some(connection)) = (&mut self.trace, self.net.connections.at(index))
        else {
            return;
        };
        let peer = connection.peer;
        let now_us = clock::monotonic_us();
        let Some(entry) = trace.open_entry(index) else {
            return;
        };
        let Entry {
            status,
            started_us,
            bytes,
            end,
            text,
            ..
        } = std::mem::take(entry);
        // A request that could not be read has no time of its own.
        let duration_us = if started_us == 0 {
            0
        } else {
            now_us.saturating_sub(started_us)
        };
        let is_timed = started_us != 0 && end != End::Closed && status != STATUS_CLIENT_LEFT;
        if trace.counts_latency && is_timed {
            self.net.counts.latency(duration_us);
        }
        if let Some(log) = &mut trace.log {
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

    /// Writes what the access log has collected; tells what was left out of it.
    pub(crate) fn flush_access_log(&mut self) {
        let Some(trace) = &mut self.trace else {
            return;
        };
        trace.flush(true);
        let Some(log) = &mut trace.log else {
            return;
        };
        let dropped = log.sink.take_dropped();
        self.net.counts.add(Counter::AccessLogDropped, dropped);
        log.untold += dropped;
        if log.untold > 0
            && let Some(told) = log.sink.failure()
        {
            let message = format!("access_log: {} lines were left out: {told}", log.untold);
            log.untold = 0;
            self.log_for_client(fermata_config::LogLevel::Warning, &message);
        }
    }

    /// Opens the access log anew: its file was moved away.
    pub(crate) fn reopen_access_log(&mut self) {
        self.flush_access_log();
        let Some(log) = self.trace.as_mut().and_then(|trace| trace.log.as_mut()) else {
            return;
        };
        if let Err(error) = log.sink.reopen() {
            let message = format!("{error}; the file that is open is written on");
            self.log(fermata_config::LogLevel::Error, &message);
        }
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
