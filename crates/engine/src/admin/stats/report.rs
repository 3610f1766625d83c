//! Copying counters to shared memory.

use std::cmp::Reverse;

use fermata_config::Settings;
use fermata_hub::Local;
use fermata_io::wake::Waker;
use fermata_io::{Deadline, Driver};
use fermata_tls::Failure;

use super::shared::{BusyChannel, LIST_MAX, Shared, SlowClient};
use super::table::{Counter, Gauge};
use super::{MoreMetrics, Tables};
use crate::net::{Net, relief};

/// Maximum age of counters in shared memory, in milliseconds.
const REPORT_MS: u64 = 100;

/// Interval at which the lists are sampled while a client requests them. The values in the lists
/// are rates per second.
const SAMPLE_MS: u64 = 1_000;

/// Time for which lists are sampled after a request.
const WATCH_MS: u64 = 5_000;

/// Duration from which a turn counts as slow.
const SLOW_TURN_MS: u64 = 100;

/// Length of a window in milliseconds. The reported longest turn is the longest turn in the current
/// and the previous window.
const WINDOW_MS: u64 = 10_000;

/// Open requests and connections of a GRIP edge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeOpen {
    /// Requests to backends.
    pub requests: usize,
    /// Connections used by these requests and by WebSockets.
    pub connections: usize,
    /// Idle connections to backends.
    pub idle: usize,
    /// Individually held clients, WebSockets, and SockJS sessions.
    pub sessions: usize,
    /// Request bodies.
    pub bodies: usize,
}

/// Gauges reported by the embedder.
#[derive(Default)]
pub(crate) struct Program {
    /// Waiting handlers and tasks, and tasks that have not started.
    pub fibers_waiting: u64,
    pub tasks_queued: u64,
    /// Job calls that have not finished.
    pub jobs_pending: u64,
    /// PHP-FPM requests with a connection, and those that wait for one.
    pub fastcgi_running: u64,
    pub fastcgi_queued: u64,
    /// Gauges of a GRIP edge.
    pub edge: EdgeOpen,
}

/// Schedule and destination of statistics.
pub struct Reporter {
    pub(crate) shared: Shared,
    slot: u16,
    /// `write_timeout_ms`: the time from blocking a client to its deadline.
    write_timeout_ms: u64,
    pub(crate) program: Program,
    /// Adds the embedder's metrics to Prometheus text.
    pub(crate) more_metrics: Option<Box<MoreMetrics>>,
    /// Returns the statistics of the application's tables.
    pub(crate) tables: Option<Box<Tables>>,
    /// Earliest time at which the counters are copied to shared memory again.
    copy: Deadline,
    /// Counters have changed since the last copy.
    has_changes: bool,
    /// Time of the next sample; never if no client requests lists.
    sample: Deadline,
    /// Longest turn of this window and of the previous window, and the time at which this window
    /// ends.
    longest_ms: [u64; 2],
    window_ms: u64,
    /// Number of clients at the last copy, and the time of that copy.
    clients: u64,
    clients_ms: u64,
}

impl Reporter {
    pub(crate) fn new(shared: Shared, slot: u16, settings: &Settings) -> Reporter {
        Reporter {
            shared,
            slot,
            write_timeout_ms: settings.write_timeout_ms,
            program: Program::default(),
            more_metrics: None,
            tables: None,
            copy: Deadline::NOW,
            has_changes: false,
            sample: Deadline::NEVER,
            longest_ms: [0; 2],
            window_ms: 0,
            clients: 0,
            clients_ms: 0,
        }
    }

    /// Returns the time at which the worker has to wake for its statistics.
    pub(crate) fn due(&self) -> Deadline {
        if self.has_changes {
            self.copy.min(self.sample)
        } else {
            self.sample
        }
    }

    /// Counts a turn. Returns true if counters have to be copied.
    pub(crate) fn end_turn<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        now_ms: u64,
        took_ms: u64,
    ) -> bool {
        net.counts.add(Counter::Turns, 1);
        net.counts.add(Counter::BusyMs, took_ms);
        if took_ms > self.longest_ms[0] {
            self.longest_ms[0] = took_ms;
        }
        if took_ms >= SLOW_TURN_MS {
            net.counts.add(Counter::SlowTurns, 1);
        }
        self.has_changes = true;
        // Copy also if only the lists are due; otherwise the loop could not sleep until counters
        // and lists are both due.
        self.due().is_due(now_ms)
    }

    /// Copies the counters to shared memory, and the lists if they are requested.
    pub(crate) fn copy<D: Driver>(&mut self, net: &mut Net<D>, local: &mut Local, now_ms: u64) {
        self.copy = Deadline::after(now_ms, REPORT_MS);
        self.has_changes = false;
        net.buffered.trim(now_ms);
        relief::end_spared(net);
        if now_ms >= self.window_ms {
            self.window_ms = now_ms + WINDOW_MS;
            self.longest_ms = [0, self.longest_ms[0]];
        }
        let connected_ms = self.clients * now_ms.saturating_sub(self.clients_ms);
        net.counts.add(Counter::ConnectedMs, connected_ms);
        self.clients = net.gauges.active + net.gauges.held + net.gauges.sockets;
        self.clients_ms = now_ms;
        net.counts.add(Counter::Missed, crate::missed::take());
        let traffic = local.traffic();
        net.counts.set(Counter::RecordsRead, traffic.records_read);
        net.counts.set(Counter::Deliveries, traffic.deliveries);
        let http = net.connections.len() as u64
            - net.gauges.held
            - net.gauges.sockets
            - net.gauges.control
            - net.http2.carriers_len() as u64;
        let mut gauges = [0; Gauge::WRITTEN];
        for (gauge, value) in [
            (Gauge::HttpActive, net.gauges.active),
            (Gauge::HttpIdle, http.saturating_sub(net.gauges.active)),
            (Gauge::Sse, net.gauges.held),
            (Gauge::WebSocket, net.gauges.sockets),
            (Gauge::Control, net.gauges.control),
            (Gauge::Http2, net.http2.carriers_len() as u64),
            (Gauge::BlockedNow, net.gauges.blocked),
            (Gauge::BufferedBytes, net.buffered.total() as u64),
            (Gauge::FibersWaiting, self.program.fibers_waiting),
            (Gauge::TasksQueued, self.program.tasks_queued),
            (Gauge::JobsPending, self.program.jobs_pending),
            (Gauge::FastCgiRunning, self.program.fastcgi_running),
            (Gauge::FastCgiQueued, self.program.fastcgi_queued),
            (Gauge::EdgeRequests, self.program.edge.requests as u64),
            (Gauge::EdgeConnections, self.program.edge.connections as u64),
            (Gauge::EdgeIdle, self.program.edge.idle as u64),
            (Gauge::EdgeSessions, self.program.edge.sessions as u64),
            (Gauge::EdgeBodies, self.program.edge.bodies as u64),
            (Gauge::Channels, local.channels() as u64),
            (Gauge::Subscriptions, local.subscriptions() as u64),
            (
                Gauge::LongestTurnMs,
                self.longest_ms[0].max(self.longest_ms[1]),
            ),
        ] {
            gauges[gauge as usize] = value;
        }
        copy_tls(net, &mut gauges);
        self.shared.write(self.slot, net.counts.all(), &gauges);
        let is_watched = now_ms < self.shared.watched_until_ms();
        if is_watched || !self.sample.is_never() {
            self.sample(net, local, now_ms, is_watched);
        }
    }

    /// Makes all workers sample lists for a while, after a request.
    pub(crate) fn watch(&mut self, now_ms: u64, wakers: &[Waker]) {
        if self.shared.watch_until(now_ms, now_ms + WATCH_MS) {
            for waker in wakers {
                waker.wake();
            }
        }
    }

    fn sample<D: Driver>(
        &mut self,
        net: &Net<D>,
        local: &mut Local,
        now_ms: u64,
        is_watched: bool,
    ) {
        if !is_watched {
            self.sample = Deadline::NEVER;
            local.end_tally();
            self.shared.write_lists(self.slot, &[], &[]);
            return;
        }
        if self.sample.is_never() {
            // Discard the counts from before the first sample.
            local.begin_tally();
        } else if !self.sample.is_due(now_ms) {
            return;
        }
        self.sample = Deadline::after(now_ms, SAMPLE_MS);
        let mut channels = Vec::new();
        local.take_tally(&mut |name, subscribers, records, deliveries| {
            channels.push((deliveries, records, subscribers, name));
        });
        channels.sort_unstable_by(|one, other| other.cmp(one));
        channels.truncate(LIST_MAX);
        let channels: Vec<_> = channels
            .into_iter()
            .map(|(deliveries, records, subscribers, name)| BusyChannel {
                channel: String::from_utf8_lossy(name).into_owned(),
                subscribers,
                records,
                deliveries,
            })
            .collect();
        let clients = self.slowest(net, local, now_ms);
        self.shared.write_lists(self.slot, &channels, &clients);
    }

    /// Returns the clients blocked for the longest time.
    fn slowest<D: Driver>(&self, net: &Net<D>, local: &Local, now_ms: u64) -> Vec<SlowClient> {
        if net.gauges.blocked == 0 {
            return Vec::new();
        }
        let blocked_ms = |deadline: Deadline| {
            // The deadline was set when the client became blocked. Streams of HTTP/2 have no
            // deadline.
            let left_ms = deadline.left_ms(now_ms).unwrap_or(u64::MAX);
            self.write_timeout_ms.saturating_sub(left_ms)
        };
        let mut blocked: Vec<_> = net
            .connections
            .iter()
            .filter(|(connection, _)| connection.is_blocked)
            .map(|(connection, exchange)| (blocked_ms(connection.deadline), connection, exchange))
            .collect();
        blocked.sort_unstable_by_key(|(blocked_ms, ..)| Reverse(*blocked_ms));
        blocked.truncate(LIST_MAX);
        blocked
            .into_iter()
            .map(|(blocked_ms, connection, exchange)| {
                let (channel, behind_bytes) = local.behind(exchange.chain);
                let unsent = connection.unsent() as u64;
                let body = exchange.body.as_ref().map_or(0, |body| body.unsent());
                SlowClient {
                    peer: connection.peer.to_string(),
                    channel: String::from_utf8_lossy(channel).into_owned(),
                    blocked_ms,
                    waiting_bytes: unsent + body + behind_bytes,
                }
            })
            .collect()
    }
}

/// Copies the driver's TLS counters.
fn copy_tls<D>(net: &mut Net<D>, gauges: &mut [u64]) {
    let Some(tls) = &net.tls else {
        return;
    };
    let handle = &tls.handle;
    for (counter, value) in [
        (Counter::TlsFull, handle.full()),
        (Counter::TlsResumed, handle.resumed()),
    ] {
        net.counts.set(counter, value);
    }
    for (counter, failure) in [
        (Counter::TlsPlainHttp, Failure::PlainHttp),
        (Counter::TlsIncompatible, Failure::Incompatible),
        (Counter::TlsCertificate, Failure::Certificate),
        (Counter::TlsAlert, Failure::Alert),
        (Counter::TlsProtocol, Failure::Protocol),
        (Counter::TlsAbandoned, Failure::Abandoned),
    ] {
        net.counts.set(counter, handle.failed(failure));
    }
    gauges[Gauge::TlsOpen as usize] = handle.open();
}
