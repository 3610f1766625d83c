//! A snapshot of all statistics of all workers, as values and as JSON.

use std::collections::HashMap;
use std::path::Path;

use serde::de::Deserializer;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use fermata_hub::Ring;

use super::shared::{BusyChannel, LIST_MAX, Shared, SlowClient};
use super::table::{Counter, EDGE, Figure, Gauge, Merge};
use crate::admin::publisher::{self, PublisherError};
use crate::channels::cluster::ClusterFigures;

/// Maximum number of response bytes read: 256 workers need less than half.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// One value per counter and gauge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    pub(super) counters: [u64; Counter::LEN],
    pub(super) gauges: [u64; Gauge::LEN],
}

/// Statistics of one worker: counters since its first start, gauges of the running process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerFigures {
    /// Worker number, from 0.
    pub worker: u16,
    /// Process id. 0 while it is being replaced.
    pub pid: u32,
    /// Number of its processes: two while one drains and its replacement serves.
    pub processes: u32,
    /// Start of the newest process, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// Counters and gauges.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A table shared by all processes of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFigures {
    /// Number of rows.
    pub rows: u64,
    /// Declared maximum number of rows.
    pub rows_max: u64,
    /// Memory in bytes when all rows are used.
    pub bytes: u64,
    /// Rows refused because of `rows_max`.
    pub full: u64,
    /// Changes abandoned because another process held a lock too long.
    pub locked: u64,
}

/// All statistics of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Fermata's version.
    pub version: String,
    /// Process id of the master.
    pub pid: u32,
    /// Start of the server, in milliseconds since 1970.
    pub started_unix_ms: u64,
    /// Time of this snapshot, in milliseconds since 1970.
    pub unix_ms: u64,
    /// The same time by the monotonic clock: subtract two for rates.
    pub monotonic_ms: u64,
    /// Worker processes started since the server began.
    pub worker_starts: u64,
    /// Exited worker processes.
    pub worker_ends: u64,
    /// Worker processes that ended by a signal or an unexpected exit code.
    pub worker_failures: u64,
    /// Worker processes killed because they did not respond.
    #[serde(default)]
    pub worker_stalls: u64,
    /// Lines of the server's log that were dropped because standard error did not accept them.
    #[serde(default)]
    pub log_dropped: u64,
    /// Jobs that have not started.
    #[serde(default)]
    pub jobs_queued: u64,
    /// Running jobs.
    #[serde(default)]
    pub jobs_running: u64,
    /// Job processes that exited and were replaced.
    #[serde(default)]
    pub job_process_restarts: u64,
    /// Times that the supervisor of job processes exited and was replaced.
    #[serde(default)]
    pub job_supervisor_restarts: u64,
    /// Spans accepted by the collector.
    #[serde(default)]
    pub spans_exported: u64,
    /// Dropped spans.
    #[serde(default)]
    pub spans_dropped: u64,
    /// Shared tables, in the order of their creation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<TableFigures>,
    /// State of the cluster log; `None` without a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterFigures>,
    /// Why this server's clients do not receive events of that log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_trouble: Option<String>,
    /// Size of the ring of records in bytes.
    pub ring_bytes: u64,
    /// Sums of all workers.
    pub total: Figures,
    /// Each worker.
    pub workers: Vec<WorkerFigures>,
    /// Channels with most deliveries in the last sampled second. Sampling starts with a request for
    /// a snapshot and continues for five seconds.
    pub busiest_channels: Vec<BusyChannel>,
    /// Clients that have read nothing for the longest time, sampled likewise.
    pub slowest_clients: Vec<SlowClient>,
}

impl Figures {
    fn zero() -> Figures {
        Figures {
            counters: [0; Counter::LEN],
            gauges: [0; Gauge::LEN],
        }
    }

    /// Returns the value of a counter.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// Returns the value of a gauge.
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        self.gauges[gauge as usize]
    }

    /// Returns the sum of all counters with this JSON key.
    pub fn sum(&self, key: &str) -> u64 {
        let counters = Counter::TABLE.iter().zip(&self.counters);
        let of_key = counters.filter(|(figure, _)| figure.key == key);
        of_key.map(|(_, value)| value).sum()
    }

    /// Returns all counters, in the order of `Counter::TABLE`.
    pub fn counters(&self) -> &[u64; Counter::LEN] {
        &self.counters
    }

    /// Returns all gauges, in the order of `Gauge::TABLE`.
    pub fn gauges(&self) -> &[u64; Gauge::LEN] {
        &self.gauges
    }

    fn merge(&mut self, other: &Figures) {
        for (value, more) in self.counters.iter_mut().zip(&other.counters) {
            *value += more;
        }
        for (figure, (value, more)) in Gauge::TABLE
            .iter()
            .zip(self.gauges.iter_mut().zip(&other.gauges))
        {
            *value = match figure.merge {
                Merge::Sum => *value + more,
                Merge::Max => (*value).max(*more),
            };
        }
    }

    fn all(&self) -> impl Iterator<Item = (&'static Figure, u64)> {
        let counters = Counter::TABLE.iter().zip(self.counters);
        counters.chain(Gauge::TABLE.iter().zip(self.gauges))
    }
}

impl Serialize for Figures {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let mut group = serde_json::Map::new();
        let mut all = self.all().peekable();
        while let Some((figure, value)) = all.next() {
            let Some((_, label)) = figure.label else {
                map.serialize_entry(figure.key, &value)?;
                continue;
            };
            group.insert(label.to_owned(), value.into());
            if all.peek().is_none_or(|(next, _)| next.key != figure.key) {
                // Groups of the edge are omitted if all are zero.
                if !figure.key.starts_with(EDGE) || group.values().any(|it| *it != 0) {
                    map.serialize_entry(figure.key, &group)?;
                }
                group.clear();
            }
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Figures {
    /// Missing values (from a server of another version) are zero.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Figures, D::Error> {
        let values = HashMap::<String, Value>::deserialize(deserializer)?;
        let find = |figure: &Figure| {
            let value = values.get(figure.key)?;
            match figure.label {
                Some((_, label)) => value.get(label)?.as_u64(),
                None => value.as_u64(),
            }
        };
        let mut figures = Figures::zero();
        for (value, figure) in figures.counters.iter_mut().zip(Counter::TABLE) {
            *value = find(figure).unwrap_or(0);
        }
        for (value, figure) in figures.gauges.iter_mut().zip(Gauge::TABLE) {
            *value = find(figure).unwrap_or(0);
        }
        Ok(figures)
    }
}

impl Snapshot {
    /// Reads a snapshot.
    pub(crate) fn take(shared: &Shared, ring: &Ring, monotonic_ms: u64, unix_ms: u64) -> Snapshot {
        let server = shared.read();
        let mut workers: Vec<_> = server
            .totals
            .iter()
            .zip(0..)
            .map(|(counters, worker)| WorkerFigures {
                worker,
                pid: 0,
                processes: 0,
                since_unix_ms: 0,
                figures: Figures {
                    counters: *counters,
                    ..Figures::zero()
                },
            })
            .collect();
        let mut channels: HashMap<String, BusyChannel> = HashMap::new();
        let mut slowest_clients = Vec::new();
        for slot in server.slots {
            // The slot names no worker of this server.
            let Some(worker) = workers.get_mut(usize::from(slot.index)) else {
                continue;
            };
            worker.processes += 1;
            if slot.since_unix_ms >= worker.since_unix_ms {
                worker.since_unix_ms = slot.since_unix_ms;
                worker.pid = slot.pid;
            }
            let mut figures = Figures::zero();
            figures.counters = slot.counters;
            figures.gauges[..Gauge::WRITTEN].copy_from_slice(&slot.gauges);
            figures.gauges[Gauge::RingLagBytes as usize] = ring.lag_bytes(slot.slot);
            let (rss_bytes, cpu_ms) = usage(slot.pid);
            let running_ms = slot
                .handler_since_unix_ms
                .map(|since| unix_ms.saturating_sub(since));
            figures.gauges[Gauge::HandlerMs as usize] = running_ms.unwrap_or(0);
            figures.gauges[Gauge::RssBytes as usize] = rss_bytes;
            figures.gauges[Gauge::CpuMs as usize] = cpu_ms;
            worker.figures.merge(&figures);
            for busy in slot.channels {
                let all = channels.entry(busy.channel.clone()).or_default();
                all.channel = busy.channel;
                all.subscribers += busy.subscribers;
                all.deliveries += busy.deliveries;
                // Every worker reads the same records, so the maximum is the server's count.
                all.records = all.records.max(busy.records);
            }
            slowest_clients.extend(slot.clients);
        }
        let mut total = Figures::zero();
        for worker in &workers {
            total.merge(&worker.figures);
        }
        let mut busiest_channels: Vec<_> = channels.into_values().collect();
        busiest_channels.sort_unstable_by(|one, other| {
            let by_work = (other.deliveries, other.records).cmp(&(one.deliveries, one.records));
            by_work.then_with(|| one.channel.cmp(&other.channel))
        });
        busiest_channels.truncate(LIST_MAX);
        slowest_clients.sort_by_key(|client: &SlowClient| std::cmp::Reverse(client.blocked_ms));
        slowest_clients.truncate(LIST_MAX);
        Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: server.master_pid,
            started_unix_ms: server.started_unix_ms,
            unix_ms,
            monotonic_ms,
            worker_starts: server.worker_starts,
            worker_ends: server.worker_ends,
            worker_failures: server.worker_failures,
            worker_stalls: server.worker_stalls,
            log_dropped: server.log_dropped,
            jobs_queued: total
                .gauge(Gauge::JobsPending)
                .saturating_sub(server.jobs_running),
            jobs_running: server.jobs_running,
            job_process_restarts: server.job_process_restarts,
            job_supervisor_restarts: server.job_supervisor_restarts,
            spans_exported: server.spans_exported,
            spans_dropped: server.spans_dropped,
            tables: Vec::new(),
            cluster: None,
            cluster_trouble: None,
            ring_bytes: ring.bytes(),
            total,
            workers,
            busiest_channels,
            slowest_clients,
        }
    }
}

/// Returns resident bytes and processor time of a process; zero if it has exited or is hidden.
fn usage(pid: u32) -> (u64, u64) {
    let read = |name| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let status = read("status");
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let rss_kib = rss.and_then(|rss| rss.split_whitespace().next()?.parse().ok());
    let schedstat = read("schedstat");
    let cpu_ns = schedstat
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse::<u64>().ok());
    (
        rss_kib.unwrap_or(0_u64) * 1024,
        cpu_ns.unwrap_or(0) / 1_000_000,
    )
}

/// Requests a snapshot from the server behind the control socket at `path`.
///
/// # Errors
/// [`PublisherError::Connection`] and [`PublisherError::Timeout`].
pub fn fetch(path: &Path, timeout_ms: u64) -> Result<Snapshot, PublisherError> {
    let request = "GET /stats HTTP/1.1\r\nHost: fermata\r\nConnection: close\r\n\r\n";
    let (status, body) = publisher::exchange(path, timeout_ms, request, ANSWER_BYTES_MAX)?;
    let broken = |cause: String| publisher::broken(path, &cause);
    if status != 200 {
        return Err(broken(format!("GET /stats was answered with {status}")));
    }
    serde_json::from_str(&body).map_err(|error| broken(error.to_string()))
}
