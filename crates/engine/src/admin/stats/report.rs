//! The worker's side: counting, and copying what was counted to where others read it.

use fermata_io::Driver;

use super::shared::{BusyChannel, LIST_MAX, Shared, SlowClient};
use super::table::{Counter, Gauge, LATENCY_BOUNDS_US};
use crate::net::connection::{Connection, Origin, Reading};
use crate::worker::Worker;

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

/// What this worker has counted.
pub(crate) struct Counts([u64; Counter::LEN]);

impl Counts {
    pub const fn new() -> Counts {
        Counts([0; Counter::LEN])
    }

    #[inline(always)]
    pub fn add(&mut self, counter: Counter, by: u64) {
        self.0[counter as usize] += by;
    }

    #[cfg(test)]
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Sets what somebody else counts.
    pub fn set(&mut self, counter: Counter, value: u64) {
        self.0[counter as usize] = value;
    }

    /// Counts a response by the first digit of its status.
    #[inline(always)]
    pub fn response(&mut self, status: u16) {
        let class = usize::from(status / 100);
        let class = if class <= 5 { class } else { 0 };
        self.0[Counter::ResponsesOther as usize + class] += 1;
    }

    /// Counts the time of a request.
    pub fn latency(&mut self, duration_us: u64) {
        let bucket = LATENCY_BOUNDS_US.partition_point(|bound| *bound < duration_us);
        self.0[Counter::Latency0 as usize + bucket] += 1;
        self.0[Counter::LatencySumUs as usize] += duration_us;
    }

    /// Counts a request that the server itself refuses.
    pub fn refusal(&mut self, status: u16) {
        let counter = match status {
            400 => Counter::Refused400,
            408 => Counter::Refused408,
            413 => Counter::Refused413,
            414 => Counter::Refused414,
            417 => Counter::Refused417,
            431 => Counter::Refused431,
            501 => Counter::Refused501,
            503 => Counter::Refused503,
            505 => Counter::Refused505,
            _ => Counter::RefusedOther,
        };
        self.add(counter, 1);
    }
}

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

/// When and where figures are copied to, and the gauges that cost too much to find out later.
pub(crate) struct Reporter {
    pub shared: Shared,
    /// Public connections with `Connection::is_active`.
    pub active: u64,
    /// Connections that are `Reading::Held`.
    pub held: u64,
    /// Connections with `Connection::socket`.
    pub sockets: u64,
    /// Connections from the control socket.
    pub control: u64,
    /// Connections with `Connection::is_blocked`.
    pub blocked: u64,
    /// Handlers and tasks of the program that wait, and tasks that have not begun.
    pub fibers_waiting: u64,
    pub tasks_queued: u64,
    /// Calls of jobs that have not ended.
    pub jobs_pending: u64,
    /// What a GRIP edge has open.
    pub edge: EdgeOpen,
    /// From when on figures may be copied again.
    due_ms: u64,
    /// Something has been counted since they were copied.
    has_news: bool,
    /// When the next lists are made; `u64::MAX` = nobody watches.
    sample_ms: u64,
    /// Longest turns of this window and of the one before, and the end of this one.
    longest_ms: [u64; 2],
    window_ms: u64,
    /// Clients at the last copy, and when that was.
    clients: u64,
    clients_ms: u64,
}

impl Reporter {
    pub fn new(shared: Shared) -> Reporter {
        Reporter {
            shared,
            active: 0,
            held: 0,
            sockets: 0,
            control: 0,
            blocked: 0,
            fibers_waiting: 0,
            tasks_queued: 0,
            jobs_pending: 0,
            edge: EdgeOpen::default(),
            due_ms: 0,
            has_news: false,
            sample_ms: u64::MAX,
            longest_ms: [0; 2],
            window_ms: 0,
            clients: 0,
            clients_ms: 0,
        }
    }

    /// When the worker has to wake for its figures; `u64::MAX` = not by itself.
    pub fn due_ms(&self) -> u64 {
        let copy_ms = if self.has_news { self.due_ms } else { u64::MAX };
        copy_ms.min(self.sample_ms)
    }

    /// A public connection has something on its way.
    pub fn begin_active(&mut self, connection: &mut Connection) {
        let counts = connection.origin == Origin::Public
            && connection.reading != Reading::Held
            && connection.socket.is_none();
        if counts && !std::mem::replace(&mut connection.is_active, true) {
            self.active += 1;
        }
    }

    /// It is at rest again, or is not an HTTP connection any more.
    #[inline]
    pub fn end_active(&mut self, connection: &mut Connection) {
        if std::mem::take(&mut connection.is_active) {
            self.active -= 1;
        }
    }

    /// The kernel takes bytes for a client again.
    #[inline]
    pub fn end_blocked(&mut self, connection: &mut Connection) -> bool {
        let was_blocked = std::mem::take(&mut connection.is_blocked);
        self.blocked -= u64::from(was_blocked);
        was_blocked
    }

    /// A connection is gone: it is in no gauge any more.
    pub fn closed(&mut self, connection: &mut Connection) {
        self.end_active(connection);
        self.end_blocked(connection);
        self.held -= u64::from(connection.reading == Reading::Held);
        self.sockets -= u64::from(connection.socket.is_some());
        self.control -= u64::from(connection.origin != Origin::Public);
    }
}

impl<D: Driver> Worker<D> {
    /// Accounts for the turn that ends, and copies the figures when it is time.
    pub(crate) fn report_turn(&mut self) {
        let now_ms = self.net.driver.now_ms();
        let took_ms = now_ms.saturating_sub(self.turn_ms);
        self.net.counts.add(Counter::Turns, 1);
        self.net.counts.add(Counter::BusyMs, took_ms);
        if took_ms > self.reporter.longest_ms[0] {
            self.reporter.longest_ms[0] = took_ms;
        }
        if took_ms >= SLOW_TURN_MS {
            self.net.counts.add(Counter::SlowTurns, 1);
        }
        self.reporter.has_news = true;
        // Also when only the lists are due: the loop would not sleep until both are.
        if now_ms >= self.reporter.due_ms() {
            self.report(now_ms);
        }
    }

    /// Copies the figures to shared memory, and the lists if somebody wants them.
    pub(crate) fn report(&mut self, now_ms: u64) {
        let unix_ms = self.net.driver.unix_ms();
        self.trace
            .write_log(&mut self.net.counts, &mut self.log, unix_ms);
        self.log.logger().tell_dropped(unix_ms);
        self.report_followers();
        let reporter = &mut self.reporter;
        reporter.due_ms = now_ms + REPORT_MS;
        reporter.has_news = false;
        if now_ms >= reporter.window_ms {
            reporter.window_ms = now_ms + WINDOW_MS;
            reporter.longest_ms = [0, reporter.longest_ms[0]];
        }
        let connected_ms = reporter.clients * now_ms.saturating_sub(reporter.clients_ms);
        self.net.counts.add(Counter::ConnectedMs, connected_ms);
        reporter.clients = reporter.active + reporter.held + reporter.sockets;
        reporter.clients_ms = now_ms;
        let traffic = self.channels.local.traffic();
        self.net.counts.0[Counter::RecordsRead as usize] = traffic.records_read;
        self.net.counts.0[Counter::Deliveries as usize] = traffic.deliveries;
        let http =
            self.net.connections.len() as u64 - reporter.held - reporter.sockets - reporter.control;
        let mut gauges = [0; Gauge::WRITTEN];
        for (gauge, value) in [
            (Gauge::HttpActive, reporter.active),
            (Gauge::HttpIdle, http.saturating_sub(reporter.active)),
            (Gauge::Sse, reporter.held),
            (Gauge::WebSocket, reporter.sockets),
            (Gauge::Control, reporter.control),
            (Gauge::BlockedNow, reporter.blocked),
            (Gauge::FibersWaiting, reporter.fibers_waiting),
            (Gauge::TasksQueued, reporter.tasks_queued),
            (Gauge::JobsPending, reporter.jobs_pending),
            (Gauge::EdgeRequests, reporter.edge.requests as u64),
            (Gauge::EdgeConnections, reporter.edge.connections as u64),
            (Gauge::EdgeIdle, reporter.edge.idle as u64),
            (Gauge::EdgeSessions, reporter.edge.sessions as u64),
            (Gauge::EdgeBodies, reporter.edge.bodies as u64),
            (Gauge::Channels, self.channels.local.channels() as u64),
            (
                Gauge::Subscriptions,
                self.channels.local.subscriptions() as u64,
            ),
            (
                Gauge::LongestTurnMs,
                reporter.longest_ms[0].max(reporter.longest_ms[1]),
            ),
        ] {
            gauges[gauge as usize] = value;
        }
        self.report_tls(&mut gauges);
        let reporter = &mut self.reporter;
        reporter
            .shared
            .write(self.slot, &self.net.counts.0, &gauges);
        let watched_until_ms = reporter.shared.watched_until_ms();
        if now_ms < watched_until_ms || reporter.sample_ms != u64::MAX {
            self.sample(now_ms, now_ms < watched_until_ms);
        }
    }

    /// Somebody has asked for lists: all workers make them for a while.
    pub(crate) fn watch(&mut self) {
        let now_ms = self.net.driver.now_ms();
        if self.reporter.shared.watch_until(now_ms, now_ms + WATCH_MS) {
            for waker in self.channels.wakers.iter() {
                waker.wake();
            }
        }
        self.report(now_ms);
    }

    fn sample(&mut self, now_ms: u64, is_watched: bool) {
        if !is_watched {
            self.reporter.sample_ms = u64::MAX;
            self.channels.local.end_tally();
            self.reporter.shared.write_lists(self.slot, &[], &[]);
            return;
        }
        if self.reporter.sample_ms == u64::MAX {
            // What has happened until now belongs to no second.
            self.reporter.sample_ms = now_ms + SAMPLE_MS;
            self.channels.local.begin_tally();
        } else if now_ms < self.reporter.sample_ms {
            return;
        }
        self.reporter.sample_ms = now_ms + SAMPLE_MS;
        let mut channels = Vec::new();
        self.channels
            .local
            .take_tally(&mut |name, subscribers, records, deliveries| {
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
        let clients = self.slowest(now_ms);
        self.reporter
            .shared
            .write_lists(self.slot, &channels, &clients);
    }

    /// The clients that have taken nothing for the longest time.
    fn slowest(&self, now_ms: u64) -> Vec<SlowClient> {
        if self.reporter.blocked == 0 {
            return Vec::new();
        }
        let write_timeout_ms = self.settings.write_timeout_ms;
        let mut blocked: Vec<_> = self
            .net
            .connections
            .iter()
            .filter(|connection| connection.is_blocked)
            .map(|connection| {
                // Its deadline was set when it was blocked.
                let since_ms = connection.deadline_ms.saturating_sub(write_timeout_ms);
                (since_ms, connection)
            })
            .collect();
        blocked.sort_unstable_by_key(|(since_ms, _)| *since_ms);
        blocked.truncate(LIST_MAX);
        blocked
            .into_iter()
            .map(|(since_ms, connection)| {
                let (channel, behind_bytes) = self.channels.local.behind(connection.chain);
                let unsent = connection.unsent() as u64;
                let body = connection.body.as_ref().map_or(0, |body| body.unsent());
                SlowClient {
                    peer: connection.peer.to_string(),
                    channel: String::from_utf8_lossy(channel).into_owned(),
                    blocked_ms: now_ms.saturating_sub(since_ms),
                    waiting_bytes: unsent + body + behind_bytes,
                }
            })
            .collect()
    }

    /// Panics unless the gauges agree with what they count.
    #[cfg(test)]
    pub(crate) fn check_gauges(&self) {
        let count = |is: &dyn Fn(&Connection) -> bool| {
            self.net.connections.iter().filter(|it| is(it)).count() as u64
        };
        assert_eq!(self.reporter.active, count(&|it| it.is_active), "active");
        assert_eq!(self.reporter.blocked, count(&|it| it.is_blocked), "blocked");
        let is_held = |it: &Connection| it.reading == Reading::Held;
        assert_eq!(self.reporter.held, count(&is_held), "held");
        let is_socket = |it: &Connection| it.socket.is_some();
        assert_eq!(self.reporter.sockets, count(&is_socket), "sockets");
        let is_both = |it: &Connection| is_held(it) && it.is_active;
        assert_eq!(count(&is_both), 0, "held and active");
    }
}
