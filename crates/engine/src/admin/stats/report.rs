//! Copying what was counted to where others read it.

use std::cmp::Reverse;

use fermata_config::Settings;
use fermata_hub::Local;
use fermata_io::wake::Waker;
use fermata_io::{Deadline, Driver};
use fermata_tls::Failure;

use super::shared::{BusyChannel, LIST_MAX, Shared, SlowClient};
use super::table::{Counter, Gauge};
use super::{MoreMetrics, Tables};
use crate::net::Net;

/// Age that figures in shared memory may reach.
const REPORT_MS: u64 = 100;

/// How often lists are made while somebody watches: what they count is per second.
const SAMPLE_MS: u64 = 1_000;

/// How long lists are made after somebody has asked for them.
const WATCH_MS: u64 = 5_000;

/// A turn that long is counted as slow.
const SLOW_TURN_MS: u64 = 100;

/// The longest turn is that of this window and the one before.
const WINDOW_MS: u64 = 10_000;

/// What a GRIP edge has open at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeOpen {
    /// Requests to backends.
    pub requests: usize,
    /// Connections that these and WebSockets use.
    pub connections: usize,
    /// Connections to backends that wait for the next request.
    pub idle: usize,
    /// Clients that are held one by one, WebSockets, and sessions of SockJS.
    pub sessions: usize,
    /// Bodies of requests.
    pub bodies: usize,
}

/// What an embedder has going on, as it tells.
#[derive(Default)]
pub(crate) struct Program {
    /// Handlers and tasks that wait, and tasks that have not begun.
    pub fibers_waiting: u64,
    pub tasks_queued: u64,
    /// Calls of jobs that have not ended.
    pub jobs_pending: u64,
    /// Requests for PHP-FPM that have a connection to it, and that wait for one.
    pub fastcgi_running: u64,
    pub fastcgi_queued: u64,
    /// What a GRIP edge has open.
    pub edge: EdgeOpen,
}

/// When and where figures are copied to.
pub struct Reporter {
    pub(crate) shared: Shared,
    slot: u16,
    /// A client is blocked since so long before its deadline.
    write_timeout_ms: u64,
    pub(crate) program: Program,
    /// What an embedder adds to the text for Prometheus.
    pub(crate) more_metrics: Option<Box<MoreMetrics>>,
    /// What the program's tables have; the embedder knows them.
    pub(crate) tables: Option<Box<Tables>>,
    /// From when on figures may be copied again.
    copy: Deadline,
    /// Something has been counted since they were copied.
    has_news: bool,
    /// When the next lists are made, if anybody watches.
    sample: Deadline,
    /// Longest turns of this window and of the one before, and the end of this one.
    longest_ms: [u64; 2],
    window_ms: u64,
    /// Clients at the last copy, and when that was.
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
            has_news: false,
            sample: Deadline::NEVER,
            longest_ms: [0; 2],
            window_ms: 0,
            clients: 0,
            clients_ms: 0,
        }
    }

    /// When the worker has to wake for its figures.
    pub(crate) fn due(&self) -> Deadline {
        match self.has_news {
            true => self.copy.min(self.sample),
            false => self.sample,
        }
    }

    /// Accounts for a turn that has taken so long. True when it is time to copy the figures.
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
        self.has_news = true;
        // Also when only the lists are due: the loop would not sleep until both are.
        self.due().is_due(now_ms)
    }

    /// Copies the figures to shared memory, and the lists if somebody wants them.
    pub(crate) fn copy<D: Driver>(&mut self, net: &mut Net<D>, local: &mut Local, now_ms: u64) {
        self.copy = Deadline::after(now_ms, REPORT_MS);
        self.has_news = false;
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

    /// Lists were requested: all workers make them for a while.
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
            // What has happened until now belongs to no second.
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

    /// The clients that have taken nothing for the longest time.
    fn slowest<D: Driver>(&self, net: &Net<D>, local: &Local, now_ms: u64) -> Vec<SlowClient> {
        if net.gauges.blocked == 0 {
            return Vec::new();
        }
        let blocked_ms = |deadline: Deadline| {
            // It was set when the client was blocked; streams have none then.
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

/// The figures that the driver has counted of TLS.
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
