//! A snapshot as Prometheus text (text format 0.0.4). Each worker has its own series, whose
//! counters continue after a restart of the worker.
//!
//! `sum` over the series is the server's total.

use std::fmt::{self, Write};

use super::snapshot::{Snapshot, TableFigures};
use super::table::{Counter, EDGE, Figure, Gauge, HISTOGRAM, Unit};

/// Media type of the text.
pub(crate) const CONTENT_TYPE: &[u8] = b"text/plain; version=0.0.4; charset=utf-8";

/// A metric of each table: name, type, help text and value.
type TableSeries = (
    &'static str,
    &'static str,
    &'static str,
    fn(&TableFigures) -> u64,
);

const TABLE_SERIES: [TableSeries; 3] = [
    (
        "table_rows",
        "gauge",
        "Rows of a table in shared memory.",
        |it| it.rows,
    ),
    (
        "table_rows_max",
        "gauge",
        "Rows that the table was declared with.",
        |it| it.rows_max,
    ),
    (
        "table_bytes",
        "gauge",
        "Memory of the table when all of its rows have been used.",
        |it| it.bytes,
    ),
];

impl Snapshot {
    /// Returns this snapshot as Prometheus text; `is_edge` includes metrics that only a GRIP edge
    /// has.
    pub fn to_prometheus(&self, is_edge: bool) -> String {
        let mut out = String::with_capacity(16 * 1024);
        // Writing to a `String` cannot fail.
        let _ = self.write_prometheus(&mut out, is_edge);
        out
    }

    fn write_prometheus(&self, out: &mut String, is_edge: bool) -> fmt::Result {
        writeln!(out, "# HELP fermata_info The server; its value is 1.")?;
        writeln!(out, "# TYPE fermata_info gauge")?;
        writeln!(out, "fermata_info{{version=\"{}\"}} 1", self.version)?;
        writeln!(
            out,
            "# HELP fermata_start_time_seconds When the server began, in seconds since 1970."
        )?;
        writeln!(out, "# TYPE fermata_start_time_seconds gauge")?;
        let started = Seconds(self.started_unix_ms);
        writeln!(out, "fermata_start_time_seconds {started}")?;
        self.write_server(out)?;
        self.write_cluster(out)?;
        self.write_tables(out)?;
        let counter = |worker: usize, at: usize| self.workers[worker].figures.counters[at];
        self.write_table(out, Counter::TABLE, "counter", is_edge, &counter)?;
        self.write_histogram(out, &counter)?;
        let gauge = |worker: usize, at: usize| self.workers[worker].figures.gauges[at];
        self.write_table(out, Gauge::TABLE, "gauge", is_edge, &gauge)
    }

    /// Writes the metrics of the master and processes other than workers.
    fn write_server(&self, out: &mut String) -> fmt::Result {
        write_series(
            out,
            &[
                (
                    "workers",
                    "Workers the server is to have.",
                    self.workers.len() as u64,
                ),
                (
                    "worker_starts_total",
                    "Worker processes started.",
                    self.worker_starts,
                ),
                (
                    "worker_ends_total",
                    "Worker processes that have ended.",
                    self.worker_ends,
                ),
                (
                    "worker_failures_total",
                    "Worker processes that ended by a signal or an unexpected exit code.",
                    self.worker_failures,
                ),
                (
                    "worker_stalls_total",
                    "Worker processes killed because they did not answer for stall_timeout_ms.",
                    self.worker_stalls,
                ),
                (
                    "log_dropped_total",
                    "Lines of the server's log dropped because standard error was blocked.",
                    self.log_dropped,
                ),
                (
                    "jobs_queued",
                    "Jobs that no process has begun with.",
                    self.jobs_queued,
                ),
                (
                    "jobs_running",
                    "Jobs that processes are at.",
                    self.jobs_running,
                ),
                (
                    "job_process_restarts_total",
                    "Processes for jobs that have ended and were replaced.",
                    self.job_process_restarts,
                ),
                (
                    "job_supervisor_restarts_total",
                    "Times that the process which supervises those for jobs has ended and was replaced.",
                    self.job_supervisor_restarts,
                ),
                (
                    "spans_exported_total",
                    "Spans that their collector has taken.",
                    self.spans_exported,
                ),
                (
                    "spans_dropped_total",
                    "Spans dropped because the collector was unreachable, refused them or was too slow.",
                    self.spans_dropped,
                ),
                (
                    "ring_bytes",
                    "Size of the ring of records.",
                    self.ring_bytes,
                ),
            ],
        )
    }

    fn write_cluster(&self, out: &mut String) -> fmt::Result {
        match &self.cluster {
            None => Ok(()),
            Some(cluster) => write_series(
                out,
                &[
                    (
                        "cluster_ready",
                        "Whether the log of the cluster is there: 1 or 0.",
                        u64::from(cluster.is_ready),
                    ),
                    (
                        "cluster_published_total",
                        "Events of this server that the log of the cluster has taken.",
                        cluster.published,
                    ),
                    (
                        "cluster_rejected_total",
                        "Events of this server that the log of the cluster never takes.",
                        cluster.rejected,
                    ),
                    (
                        "cluster_received_total",
                        "Events that were read from the log of the cluster.",
                        cluster.received,
                    ),
                    (
                        "cluster_gaps_total",
                        "Times that clients were told that messages of the cluster may be missing.",
                        cluster.gaps,
                    ),
                    (
                        "cluster_disconnects_total",
                        "Times that the log of the cluster was there, and then was not.",
                        cluster.disconnects,
                    ),
                ],
            ),
        }
    }

    /// Writes the metrics of tables in shared memory, by number.
    fn write_tables(&self, out: &mut String) -> fmt::Result {
        if self.tables.is_empty() {
            return Ok(());
        }
        for (name, kind, help, value) in TABLE_SERIES {
            writeln!(out, "# HELP fermata_{name} {help}")?;
            writeln!(out, "# TYPE fermata_{name} {kind}")?;
            for (table, figures) in self.tables.iter().enumerate() {
                writeln!(
                    out,
                    "fermata_{name}{{table=\"{table}\"}} {}",
                    value(figures)
                )?;
            }
        }
        writeln!(
            out,
            "# HELP fermata_table_refused_total Changes that a table did not take: all its rows were used, another process had held a lock for too long."
        )?;
        writeln!(out, "# TYPE fermata_table_refused_total counter")?;
        for (table, figures) in self.tables.iter().enumerate() {
            for (reason, value) in [("full", figures.full), ("locked", figures.locked)] {
                writeln!(
                    out,
                    "fermata_table_refused_total{{table=\"{table}\",reason=\"{reason}\"}} {value}"
                )?;
            }
        }
        Ok(())
    }

    fn write_table(
        &self,
        out: &mut String,
        table: &[Figure],
        kind: &str,
        is_edge: bool,
        value: &dyn Fn(usize, usize) -> u64,
    ) -> fmt::Result {
        let mut last_key = "";
        for (at, figure) in table.iter().enumerate() {
            let metric = figure.metric;
            if metric.starts_with(HISTOGRAM) || (!is_edge && figure.key.starts_with(EDGE)) {
                continue;
            }
            if figure.key != last_key {
                last_key = figure.key;
                writeln!(out, "# HELP fermata_{metric} {}", figure.help)?;
                // A gauge can be monotonic if the worker reads its value from elsewhere, such as
                // processor time.
                let kind = if metric.ends_with("_total") {
                    "counter"
                } else {
                    kind
                };
                writeln!(out, "# TYPE fermata_{metric} {kind}")?;
            }
            for (place, worker) in self.workers.iter().enumerate() {
                write!(out, "fermata_{metric}{{worker=\"{}\"", worker.worker)?;
                if let Some((name, label)) = figure.label {
                    write!(out, ",{name}=\"{label}\"")?;
                }
                let value = value(place, at);
                match figure.unit {
                    Unit::Plain => writeln!(out, "}} {value}")?,
                    Unit::Milliseconds => writeln!(out, "}} {}", Seconds(value))?,
                }
            }
        }
        Ok(())
    }

    /// Writes counters with bounds as a histogram: every bucket includes the counts of the lower
    /// buckets.
    fn write_histogram(
        &self,
        out: &mut String,
        value: &dyn Fn(usize, usize) -> u64,
    ) -> fmt::Result {
        let buckets = Counter::Latency0 as usize..=Counter::LatencyInf as usize;
        let help = Counter::TABLE[*buckets.start()].help;
        writeln!(out, "# HELP fermata_{HISTOGRAM} {help}")?;
        writeln!(out, "# TYPE fermata_{HISTOGRAM} histogram")?;
        for (place, worker) in self.workers.iter().enumerate() {
            let worker = worker.worker;
            let mut count = 0;
            for at in buckets.clone() {
                count += value(place, at);
                let bound = Counter::TABLE[at].label.map_or("+Inf", |(_, bound)| bound);
                writeln!(
                    out,
                    "fermata_{HISTOGRAM}_bucket{{worker=\"{worker}\",le=\"{bound}\"}} {count}"
                )?;
            }
            let sum_us = value(place, Counter::LatencySumUs as usize);
            let (seconds, rest) = (sum_us / 1_000_000, sum_us % 1_000_000);
            writeln!(
                out,
                "fermata_{HISTOGRAM}_sum{{worker=\"{worker}\"}} {seconds}.{rest:06}"
            )?;
            writeln!(
                out,
                "fermata_{HISTOGRAM}_count{{worker=\"{worker}\"}} {count}"
            )?;
        }
        Ok(())
    }
}

/// Writes metrics of the server: name, help and value. A counter's name ends in `_total`.
fn write_series(out: &mut String, series: &[(&str, &str, u64)]) -> fmt::Result {
    for (name, help, value) in series {
        let kind = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
        };
        writeln!(out, "# HELP fermata_{name} {help}")?;
        writeln!(out, "# TYPE fermata_{name} {kind}")?;
        writeln!(out, "fermata_{name} {value}")?;
    }
    Ok(())
}

/// Milliseconds, formatted as seconds.
struct Seconds(u64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}
