//! Formats one frame of `fermata top` from two snapshots. Independent of the terminal, so that tests can check the text.

use fermata_engine::ClusterFigures;
use fermata_engine::stats::{
    BusyChannel, Counter, Figures, Gauge, SlowClient, Snapshot, WorkerFigures,
};

use crate::format::{bytes, count, duration, harmless};

/// Size of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// Style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Bold,
    Reverse,
}

/// Line of a frame, without line terminator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    pub style: Style,
}

/// Columns of the worker table: title, width, and whether a narrow screen shows it. Total width: 80, or 56 when narrow.
const WORKER_COLUMNS: [(&str, usize, bool); 12] = [
    ("W", 2, true),
    ("PID", 8, true),
    ("CPU", 5, true),
    ("HTTP", 6, true),
    ("EVENTS", 7, true),
    ("WS", 6, true),
    ("REQ/S", 7, true),
    ("DELIV/S", 8, false),
    ("OUT/S", 8, false),
    ("LAG", 8, false),
    ("TURN", 7, true),
    ("MEMORY", 8, true),
];

/// Hint after the title, if it fits.
const HELP: &str = "  q quits";

/// Minimum width for all worker columns.
const WIDE_COLUMNS: usize = 80;

/// Width of the labels in the head, and indentation of continued lines.
const LABEL_COLUMNS: usize = 10;

/// Rows for a section's blank line and title.
const SECTION_ROWS: usize = 2;

/// Section before it is cut to the available rows.
struct Section {
    title: String,
    rows: Vec<String>,
}

/// Draws the snapshot `now` with rates since `before`, within `size`.
pub fn draw(
    before: Option<&Snapshot>,
    now: &Snapshot,
    failure: Option<&str>,
    size: Size,
) -> Vec<Line> {
    let mut lines = head(before, now, size.columns);
    if let Some(failure) = failure {
        let text = format!("no answer: {}", harmless(failure));
        lines.push(line(Style::Reverse, text));
    }
    let sections = [
        workers(before, now, size.columns >= WIDE_COLUMNS),
        Section {
            title: format!(
                "{:>11}{:>9}{:>11}  BUSIEST CHANNELS",
                "SUBSCRIBERS", "MSG/S", "DELIV/S"
            ),
            rows: now.busiest_channels.iter().map(channel_row).collect(),
        },
        Section {
            title: format!("{:>11}{:>9}  SLOWEST CLIENTS", "BLOCKED", "WAITING"),
            rows: now.slowest_clients.iter().map(client_row).collect(),
        },
    ];
    let room = size
        .rows
        .saturating_sub(lines.len() + sections.len() * SECTION_ROWS);
    let shares = share(room, sections.each_ref().map(|section| section.rows.len()));
    for (section, rows_max) in sections.into_iter().zip(shares) {
        lines.push(line(Style::Plain, String::new()));
        lines.push(line(Style::Reverse, section.title));
        lines.extend(fitting(section.rows, rows_max).map(|row| line(Style::Plain, row)));
    }
    lines.truncate(size.rows);
    for line in &mut lines {
        if line.style == Style::Reverse {
            line.text = format!("{:columns$}", line.text, columns = size.columns);
        }
        line.text = line.text.chars().take(size.columns).collect();
    }
    lines
}

fn head(before: Option<&Snapshot>, now: &Snapshot, columns: usize) -> Vec<Line> {
    let rates = Rates {
        before: before.map(|before| &before.total),
        now: &now.total,
        elapsed_ms: elapsed_ms(before, now),
    };
    let gauge = |gauge| count(now.total.gauge(gauge));
    let http = now.total.gauge(Gauge::HttpActive) + now.total.gauge(Gauge::HttpIdle);
    let up_ms = now.unix_ms.saturating_sub(now.started_unix_ms);
    let title = format!(
        "fermata {}  pid {}  up {}  workers {} ({} starts, {} failed)",
        now.version,
        now.pid,
        duration(up_ms),
        now.workers.len(),
        now.worker_starts,
        now.worker_failures,
    );
    let texts = [
        format!(
            "clients   http {}  active {}  events {}  websockets {}  blocked {}",
            count(http),
            gauge(Gauge::HttpActive),
            gauge(Gauge::Sse),
            gauge(Gauge::WebSocket),
            gauge(Gauge::BlockedNow),
        ),
        format!(
            "channels  {}  subscriptions {}  keep-alives {}  publishes refused {}",
            gauge(Gauge::Channels),
            gauge(Gauge::Subscriptions),
            rates.count(Counter::KeepAlives),
            rates.counts("publish_failures"),
        ),
        format!(
            "requests  {}  4xx {}  5xx {}  refused {}  accepted {}",
            rates.counts("requests"),
            rates.count(Counter::Responses4xx),
            rates.count(Counter::Responses5xx),
            rates.counts("requests_refused"),
            rates.counts("accepted"),
        ),
        format!(
            "messages  {}  deliveries {}  replayed {}  gaps {}  dropped {}",
            rates.counts("published"),
            rates.counts("deliveries"),
            rates.counts("replayed"),
            rates.counts("gaps"),
            rates.counts("connections_dropped"),
        ),
        format!(
            "bytes     in {}  out {}  ring lag {} of {}  memory {}",
            rates.bytes(Counter::BytesReceived),
            rates.bytes(Counter::BytesSent),
            bytes(now.total.gauge(Gauge::RingLagBytes)),
            bytes(now.ring_bytes),
            bytes(now.total.gauge(Gauge::RssBytes)),
        ),
    ];
    let mut titles = wrapped(&title, columns);
    if let Some(last) = titles.last_mut()
        && last.chars().count() + HELP.len() <= columns
    {
        last.push_str(HELP);
    }
    let titles = titles.into_iter().map(|text| line(Style::Bold, text));
    let cluster = now.cluster.map(|it| cluster(before, now, &it));
    let trouble = now.cluster_trouble.as_ref();
    let trouble = trouble.map(|cause| format!("          {cause}"));
    let texts = texts.into_iter().chain(cluster).chain(trouble);
    let texts = texts.flat_map(|text| wrapped(&text, columns));
    titles
        .chain(texts.map(|text| line(Style::Plain, text)))
        .collect()
}

/// Formats the state of the cluster log.
fn cluster(before: Option<&Snapshot>, now: &Snapshot, it: &ClusterFigures) -> String {
    let elapsed_ms = elapsed_ms(before, now);
    let before = before.and_then(|before| before.cluster);
    let rate = |of: fn(&ClusterFigures) -> u64| {
        let rate = per_second(before.as_ref().map(of), of(it), elapsed_ms);
        rate.map_or_else(unknown, count) + "/s"
    };
    format!(
        "cluster   log {}  out {}  in {}  rejected {}  lost {}  gaps {}",
        match (it.is_ready, &now.cluster_trouble) {
            (true, None) => "there",
            (true, Some(_)) => "STANDS",
            (false, _) => "AWAY",
        },
        rate(|it| it.published),
        rate(|it| it.received),
        count(it.rejected),
        count(it.disconnects),
        count(it.gaps),
    )
}

/// Wraps a line of the head between two values.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = text.to_owned();
    while rest.chars().count() > columns {
        let fits = rest
            .match_indices("  ")
            .map(|(at, _)| at)
            .filter(|&at| at >= LABEL_COLUMNS && at <= columns)
            .last();
        let Some(at) = fits else { break };
        let more = format!("{:LABEL_COLUMNS$}{}", "", rest[at..].trim_start());
        // Stop if a break would only separate the label.
        if more.len() >= rest.len() {
            break;
        }
        rest.truncate(at);
        lines.push(std::mem::replace(&mut rest, more));
    }
    lines.push(rest);
    lines
}

fn workers(before: Option<&Snapshot>, now: &Snapshot, is_wide: bool) -> Section {
    let elapsed_ms = elapsed_ms(before, now);
    let rows = now.workers.iter().map(|worker| {
        let before = before.and_then(|before| {
            let same = |other: &&WorkerFigures| other.worker == worker.worker;
            before.workers.iter().find(same)
        });
        worker_row(before, worker, elapsed_ms, is_wide)
    });
    Section {
        title: columns(WORKER_COLUMNS.map(|(title, ..)| title.to_owned()), is_wide),
        rows: rows.collect(),
    }
}

fn worker_row(
    before: Option<&WorkerFigures>,
    now: &WorkerFigures,
    elapsed_ms: u64,
    is_wide: bool,
) -> String {
    if now.pid == 0 {
        return format!("{:>2}  is being replaced", now.worker);
    }
    let rates = Rates {
        before: before.map(|before| &before.figures),
        now: &now.figures,
        elapsed_ms,
    };
    let gauge = |gauge| now.figures.gauge(gauge);
    // A replaced worker's CPU time starts at zero, so no rate is known for its first second.
    let cpu_before = before
        .filter(|before| before.pid == now.pid && before.processes == now.processes)
        .map(|before| before.figures.gauge(Gauge::CpuMs));
    let cpu = per_second(cpu_before, gauge(Gauge::CpuMs), elapsed_ms);
    let turn_ms = gauge(Gauge::LongestTurnMs);
    let cells = [
        now.worker.to_string(),
        now.pid.to_string(),
        cpu.map_or_else(unknown, |ms| format!("{}%", ms / 10)),
        count(gauge(Gauge::HttpActive) + gauge(Gauge::HttpIdle)),
        count(gauge(Gauge::Sse)),
        count(gauge(Gauge::WebSocket)),
        rates.plain(Counter::Requests),
        rates.plain(Counter::Deliveries),
        rates.plain_bytes(Counter::BytesSent),
        bytes(gauge(Gauge::RingLagBytes)),
        if turn_ms < 1_000 {
            format!("{turn_ms} ms")
        } else {
            format!("{}.{} s", turn_ms / 1000, turn_ms / 100 % 10)
        },
        bytes(gauge(Gauge::RssBytes)),
    ];
    columns(cells, is_wide)
}

fn channel_row(busy: &BusyChannel) -> String {
    format!(
        "{:>11}{:>9}{:>11}  {}",
        count(busy.subscribers),
        count(busy.records),
        count(busy.deliveries),
        harmless(&busy.channel)
    )
}

fn client_row(slow: &SlowClient) -> String {
    format!(
        "{:>11}{:>9}  {}  {}",
        duration(slow.blocked_ms),
        bytes(slow.waiting_bytes),
        harmless(&slow.peer),
        harmless(&slow.channel)
    )
}

fn columns(cells: [String; WORKER_COLUMNS.len()], is_wide: bool) -> String {
    let mut text = String::new();
    for (cell, (_, width, is_always)) in cells.iter().zip(WORKER_COLUMNS) {
        if is_wide || is_always {
            text += &format!("{cell:>width$}");
        }
    }
    text
}

fn line(style: Style, text: String) -> Line {
    Line { text, style }
}

/// Returns the rows that fit; if some do not, the last row counts them.
fn fitting(mut rows: Vec<String>, rows_max: usize) -> impl Iterator<Item = String> {
    let left_out = rows.len().saturating_sub(rows_max);
    if left_out > 0 && rows_max > 1 {
        rows.truncate(rows_max - 1);
        rows.push(format!("    and {} more", left_out + 1));
    } else if rows.is_empty() {
        rows.push("    none".to_owned());
    }
    rows.truncate(rows_max.max(1));
    rows.into_iter()
}

/// Distributes rows over the sections. Rows that one section does not need are given to the others.
fn share(room: usize, wanted: [usize; 3]) -> [usize; 3] {
    // An empty section shows one row that states that it is empty.
    let wanted = wanted.map(|rows| rows.max(1));
    let mut given = [0; 3];
    let mut left = room;
    while left > 0 && given != wanted {
        for (given, wanted) in given.iter_mut().zip(wanted) {
            if left > 0 && *given < wanted {
                *given += 1;
                left -= 1;
            }
        }
    }
    given
}

/// Rates of counters per second.
struct Rates<'a> {
    before: Option<&'a Figures>,
    now: &'a Figures,
    elapsed_ms: u64,
}

impl Rates<'_> {
    fn of(&self, value: impl Fn(&Figures) -> u64) -> Option<u64> {
        per_second(self.before.map(&value), value(self.now), self.elapsed_ms)
    }

    fn plain(&self, counter: Counter) -> String {
        self.of(|figures| figures.counter(counter))
            .map_or_else(unknown, count)
    }

    fn plain_bytes(&self, counter: Counter) -> String {
        self.of(|figures| figures.counter(counter))
            .map_or_else(unknown, bytes)
    }

    fn count(&self, counter: Counter) -> String {
        self.plain(counter) + "/s"
    }

    /// Formats the rate of the sum of all counters with this name.
    fn counts(&self, key: &str) -> String {
        let rate = self.of(|figures| figures.sum(key));
        rate.map_or_else(unknown, count) + "/s"
    }

    fn bytes(&self, counter: Counter) -> String {
        self.plain_bytes(counter) + "/s"
    }
}

fn elapsed_ms(before: Option<&Snapshot>, now: &Snapshot) -> u64 {
    before.map_or(0, |before| {
        now.monotonic_ms.saturating_sub(before.monotonic_ms)
    })
}

fn per_second(before: Option<u64>, now: u64, elapsed_ms: u64) -> Option<u64> {
    let gained = now.checked_sub(before?)?;
    let rate = u128::from(gained) * 1000 + u128::from(elapsed_ms) / 2;
    let rate = rate.checked_div(u128::from(elapsed_ms))?;
    Some(u64::try_from(rate).unwrap_or(u64::MAX))
}

fn unknown() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size {
        columns: 80,
        rows: 24,
    };

    /// Builds a snapshot of a server whose `workers` have each handled `requests`.
    fn snapshot(monotonic_ms: u64, workers: u16, requests: u64) -> Snapshot {
        let workers: Vec<_> = (0..workers)
            .map(|worker| {
                serde_json::json!({
                    "worker": worker, "pid": 4_000_000 + u32::from(worker), "processes": 1,
                    "since_unix_ms": 0, "requests": requests, "cpu_ms": monotonic_ms / 2,
                    "bytes_sent": requests * 150, "rss_bytes": 999_000_000, "longest_turn_ms": 9999,
                    "ring_lag_bytes": 16_777_216, "deliveries": requests * 1000,
                    "connections": {"http_idle": 19_000, "http_active": 999, "sse": 19_999, "websocket": 19_999}
                })
            })
            .collect();
        serde_json::from_value(serde_json::json!({
            "version": "0.1.0", "pid": 4_194_304, "started_unix_ms": 0, "unix_ms": 7_200_000,
            "monotonic_ms": monotonic_ms, "worker_starts": 99, "worker_ends": 9,
            "worker_failures": 9, "ring_bytes": 16_777_216, "workers": workers,
            "total": {"requests": requests, "responses": {"4xx": requests / 2}},
            "busiest_channels": (0..10).map(|n| serde_json::json!({
                "channel": format!("room.{n}"), "subscribers": 1_000_000, "records": 10,
                "deliveries": 10_000_000
            })).collect::<Vec<_>>(),
            "slowest_clients": [{
                "peer": "127.0.0.1:40000", "channel": "\u{1b}[2J", "blocked_ms": 61_000,
                "waiting_bytes": 5_000_000
            }]
        }))
        .expect("the fields of a snapshot")
    }

    fn text(lines: &[Line]) -> String {
        let texts: Vec<_> = lines.iter().map(|line| line.text.trim_end()).collect();
        texts.join("\n")
    }

    #[test]
    fn rates_are_per_second() {
        let (before, now) = (snapshot(1_000, 1, 100), snapshot(3_000, 1, 20_100));
        let frame = text(&draw(Some(&before), &now, None, SIZE));
        assert!(frame.contains("requests  10.0k/s  4xx 5000/s"), "{frame}");
        let row =
            " 0 4000000  50% 20.0k  20.0k 20.0k  10.0k   10.0M 1.50 MB 16.8 MB  9.9 s  999 MB";
        assert!(frame.contains(row), "{frame}");
    }

    #[test]
    fn a_server_in_a_cluster_says_how_its_log_is() {
        let (before, mut now) = (snapshot(1_000, 1, 100), snapshot(3_000, 1, 100));
        assert!(!text(&draw(Some(&before), &now, None, SIZE)).contains("cluster"));
        let mut before = before;
        before.cluster = Some(ClusterFigures::default());
        now.cluster = Some(ClusterFigures {
            is_ready: true,
            published: 200,
            received: 4_000,
            ..ClusterFigures::default()
        });
        let frame = text(&draw(Some(&before), &now, None, SIZE));
        let line = "\ncluster   log there  out 100/s  in 2000/s  rejected 0  lost 0  gaps 0\n";
        assert!(frame.contains(line), "{frame}");
        now.cluster = Some(ClusterFigures::default());
        let frame = text(&draw(Some(&before), &now, None, SIZE));
        assert!(frame.contains("cluster   log AWAY"), "{frame}");
        now.cluster_trouble = Some("nats://a:4222: Connection refused".to_owned());
        let frame = text(&draw(Some(&before), &now, None, SIZE));
        let line = "\n          nats://a:4222: Connection refused\n";
        assert!(frame.contains(line), "{frame}");
    }

    #[test]
    fn without_an_earlier_snapshot_rates_are_not_known() {
        let frame = text(&draw(None, &snapshot(1_000, 1, 100), None, SIZE));
        assert!(frame.contains("requests  -/s"), "{frame}");
    }

    #[test]
    fn a_counter_that_went_back_has_no_rate() {
        assert_eq!(per_second(Some(10), 9, 1000), None);
        assert_eq!(per_second(Some(10), 11, 0), None);
        assert_eq!(per_second(Some(0), u64::MAX, 1), Some(u64::MAX));
    }

    #[test]
    fn a_frame_fits_whatever_the_size() {
        let (before, now) = (snapshot(1_000, 64, 100), snapshot(2_000, 64, 200));
        for columns in [1, 20, 80, 200] {
            for rows in [1, 2, 6, 7, 12, 24, 50, 200] {
                let size = Size { columns, rows };
                let lines = draw(Some(&before), &now, Some("refused"), size);
                assert!(lines.len() <= rows, "{size:?}");
                let is_narrow = |line: &Line| line.text.chars().count() <= columns;
                assert!(lines.iter().all(is_narrow), "{size:?}");
            }
        }
    }

    #[test]
    fn sixty_columns_lose_nothing_in_the_middle_of_a_figure() {
        let (before, now) = (snapshot(1_000, 2, 100), snapshot(3_000, 2, 20_100));
        let size = Size {
            columns: 60,
            rows: 40,
        };
        let frame = text(&draw(Some(&before), &now, None, size));
        for part in [
            "WS  REQ/S   TURN  MEMORY\n",
            "20.0k  10.0k  9.9 s  999 MB\n",
            "\n          publishes refused 0/s\n",
            "out 0 B/s",
            "memory 0 B\n",
            "q quits\n",
        ] {
            assert!(frame.contains(part), "no {part:?} in:\n{frame}");
        }
        assert!(wrapped("a line that cannot be broken", 3).len() == 1);
    }

    #[test]
    fn every_section_has_its_share_of_a_small_screen() {
        let frame = text(&draw(None, &snapshot(1_000, 64, 100), None, SIZE));
        for part in [
            "W     PID",
            "channels  0  subscriptions 0",
            "and 59 more",
            "BUSIEST",
            "room.3",
            "SLOWEST",
            "127.0.0.1",
        ] {
            assert!(frame.contains(part), "no {part} in:\n{frame}");
        }
        assert_eq!(frame.lines().count(), 24);
        assert!(!frame.contains('\u{1b}'));
        assert_eq!(share(12, [2, 0, 0]), [2, 1, 1]);
        assert_eq!(share(12, [64, 10, 1]), [6, 5, 1]);
        assert_eq!(share(1, [5, 5, 5]), [1, 0, 0]);
    }
}
