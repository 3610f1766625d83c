//! `fermata stats`: prints a server's statistics once, as text or JSON.

use std::thread;
use std::time::Duration;

use fermata_engine::stats::{Counter, Figure, Gauge, Snapshot, Unit};

use crate::control::Control;
use crate::error::Error;
use crate::format;

/// Time between the two queries of `--sample`: slightly longer than the server's sampling period of one second.
const SAMPLE: Duration = Duration::from_millis(1_200);

/// Print the metrics of a running server.
///
/// Counters continue when a worker is replaced, and restart with the server. docs/metrics.md
/// explains the names.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    control: Control,
    /// Print JSON: the same as GET /stats on the control socket
    #[arg(long)]
    json: bool,
    /// Observe for a second first, to find the busiest channels and the slowest clients
    #[arg(long)]
    sample: bool,
}

/// Runs the command.
///
/// # Errors
/// Fails with a message for the user if no server responds or the output fails.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let server = arguments.control.server()?;
    let mut snapshot = server.snapshot()?;
    if arguments.sample {
        thread::sleep(SAMPLE);
        snapshot = server.snapshot()?;
    }
    let text = if arguments.json {
        let json = serde_json::to_string_pretty(&snapshot)?;
        json + "\n"
    } else {
        plain(&snapshot)
    };
    format::print(&text)
}

/// Formats totals and workers as columns; omits rows in which every value is zero.
fn plain(snapshot: &Snapshot) -> String {
    let mut out = format!(
        "fermata {} pid {}: {} workers, {} started, {} ended, {} of them failed\n\n",
        snapshot.version,
        snapshot.pid,
        snapshot.workers.len(),
        snapshot.worker_starts,
        snapshot.worker_ends,
        snapshot.worker_failures
    );
    if let Some(it) = &snapshot.cluster {
        out += &format!(
            "cluster: the log is {}, {} published, {} received, {} rejected, lost {} times, {} gaps\n\n",
            if it.is_ready { "ready" } else { "away" },
            it.published,
            it.received,
            it.rejected,
            it.disconnects,
            it.gaps
        );
        if let Some(trouble) = &snapshot.cluster_trouble {
            out.truncate(out.trim_end().len());
            out += &format!("\n  {trouble}\n\n");
        }
    }
    for (number, it) in snapshot.tables.iter().enumerate() {
        out += &format!(
            "table {number}: {} of {} rows, {}, {} refused because it was full, {} because it was locked\n",
            it.rows,
            it.rows_max,
            format::bytes(it.bytes),
            it.full,
            it.locked
        );
    }
    if !snapshot.tables.is_empty() {
        out.push('\n');
    }
    out += &format!("{:34}{:>15}", "", "total");
    for worker in &snapshot.workers {
        out += &format!("{:>15}", format!("worker {}", worker.worker));
    }
    out.push('\n');
    let all = || {
        let workers = snapshot.workers.iter().map(|worker| &worker.figures);
        std::iter::once(&snapshot.total).chain(workers)
    };
    for (at, figure) in Counter::TABLE.iter().enumerate() {
        let values: Vec<_> = all().map(|figures| figures.counters()[at]).collect();
        write_row(&mut out, figure, &values);
    }
    for (at, figure) in Gauge::TABLE.iter().enumerate() {
        let values: Vec<_> = all().map(|figures| figures.gauges()[at]).collect();
        write_row(&mut out, figure, &values);
    }
    if !snapshot.busiest_channels.is_empty() {
        out += "\nbusiest channels of the last second: subscribers, messages, deliveries\n";
    }
    for busy in &snapshot.busiest_channels {
        out += &format!(
            "{:>12}{:>12}{:>12}  {}\n",
            busy.subscribers,
            busy.records,
            busy.deliveries,
            format::harmless(&busy.channel)
        );
    }
    if !snapshot.slowest_clients.is_empty() {
        out += "\nslowest clients: blocked, waiting for it, client, channel\n";
    }
    for slow in &snapshot.slowest_clients {
        out += &format!(
            "{:>12}{:>12}  {}  {}\n",
            format::duration(slow.blocked_ms),
            format::bytes(slow.waiting_bytes),
            format::harmless(&slow.peer),
            format::harmless(&slow.channel)
        );
    }
    out
}

fn write_row(out: &mut String, figure: &Figure, values: &[u64]) {
    if values.iter().all(|value| *value == 0) {
        return;
    }
    let name = match figure.label {
        Some((_, label)) => format!("{}.{label}", figure.key),
        None => figure.key.to_owned(),
    };
    *out += &format!("{name:34}");
    for value in values {
        let text = match figure.unit {
            Unit::Plain => value.to_string(),
            Unit::Milliseconds => format!("{value} ms"),
        };
        *out += &format!("{text:>15}");
    }
    out.push('\n');
}
