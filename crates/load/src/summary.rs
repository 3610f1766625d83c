//! Result of a run: text on standard output, or JSON.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::counters::{Counter, Counters};
use crate::output::text::{bytes, count, micros};
use crate::totals::{Outcome, Point, StepTotals, Totals};

/// Version of the JSON layout. Increment it when a field changes its meaning.
const JSON_VERSION: u32 = 1;

/// Counters that must be zero for a run to pass.
const FAULTS: [Counter; 11] = [
    Counter::NotHeld,
    Counter::ConnectFailures,
    Counter::BadResponses,
    Counter::Failures,
    Counter::PublishSkipped,
    Counter::Lost,
    Counter::Missing,
    Counter::Repeated,
    Counter::Corrupt,
    Counter::Misdirected,
    Counter::GapEvents,
];

/// Counters that appear in the result but do not fail a run.
const TOLD: [Counter; 8] = [
    Counter::Disconnects,
    Counter::Refusals,
    Counter::Churned,
    Counter::Timeouts,
    Counter::Unsent,
    Counter::PublishFailures,
    Counter::Unconfirmed,
    Counter::Foreign,
];

const QUANTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("max", 1.0),
];

/// Returns the number of faults.
pub(crate) fn faults(counters: &Counters) -> u64 {
    FAULTS.iter().map(|&counter| counters.get(counter)).sum()
}

/// Titles of a result and its parts.
pub(crate) struct Labels {
    pub scenario: &'static str,
    /// One-line description of the run.
    pub what: String,
    /// Quantity that `latency` measures.
    pub latency: &'static str,
    /// Counter that must not be zero for a run to pass.
    pub needed: Counter,
}

/// Returns true if no process failed, no fault was counted and the counter `needed` is not zero.
pub(crate) fn passed(outcome: &Outcome, labels: &Labels) -> bool {
    outcome.broken.is_empty()
        && faults(&outcome.totals.counters) == 0
        && outcome.totals.counters.get(labels.needed) != 0
}

/// Formats the result as text.
pub(crate) fn text(outcome: &Outcome, labels: &Labels) -> String {
    let mut out = format!("\n{}: {}\n", labels.scenario, labels.what);
    let parts = work_lines(outcome)
        .chain(time_lines(&outcome.totals, labels))
        .chain(fault_lines(outcome))
        .chain([("verification".to_owned(), verdict(outcome, labels))]);
    for (name, value) in parts {
        let _ = writeln!(out, "  {name:<18} {value}");
    }
    out
}

/// A line of the result: label and value.
type Line = (String, String);

fn line(name: &str, value: String) -> Line {
    (name.to_owned(), value)
}

/// Returns lines about the amount and rate of work.
fn work_lines(outcome: &Outcome) -> impl Iterator<Item = Line> {
    let totals = &outcome.totals;
    let counters = &totals.counters;
    let measured_s = totals.measured_us as f64 / 1e6;
    let per_s = |total: f64| total / measured_s.max(1e-6);
    let connects = counters.get(Counter::Connects);
    let mut lines = vec![
        line("measured", format!("{measured_s:.2} s")),
        line(
            "connections",
            format!("{connects} opened, {} at most at once", totals.open_max),
        ),
    ];
    if outcome.connected_s > 0.0 {
        let rate = count(connects as f64 / outcome.connected_s);
        let value = format!("{:.2} s, {rate}/s", outcome.connected_s);
        lines.push(line("connected in", value));
    }
    for counter in [
        Counter::Responses,
        Counter::Published,
        Counter::Deliveries,
        Counter::Reconnects,
    ] {
        let total = counters.get(counter);
        if total != 0 {
            let value = format!("{total}, {}/s", count(per_s(total as f64)));
            lines.push(line(counter.name(), value));
        }
    }
    let received = counters.get(Counter::BytesReceived) as f64;
    let value = format!("{}, {}/s", bytes(received), bytes(per_s(received)));
    lines.push(line("received", value));
    lines.into_iter()
}

/// Returns lines about durations and latencies.
fn time_lines(totals: &Totals, labels: &Labels) -> impl Iterator<Item = Line> {
    // A single step covers the whole run.
    let steps = totals.steps.iter().filter(|_| totals.steps.len() > 1);
    let mut lines: Vec<Line> = steps.map(|step| line("step", step_text(step))).collect();
    for (name, histogram) in [
        (labels.latency, &totals.latency),
        ("last byte", &totals.last_byte),
        ("publish answer", &totals.publish),
        ("first answer", &totals.connect),
    ] {
        if !histogram.is_empty() {
            lines.push(line(name, quantiles_text(histogram)));
        }
    }
    lines.into_iter()
}

/// Returns lines about faults.
fn fault_lines(outcome: &Outcome) -> impl Iterator<Item = Line> {
    let totals = &outcome.totals;
    let counters = &totals.counters;
    let mut lines = Vec::new();
    if totals.incomplete() != 0 {
        let value = format!("{} publishes", totals.incomplete());
        lines.push(line("not for all", value));
    }
    for &counter in Counter::ALL {
        let is_shown = FAULTS.contains(&counter) || TOLD.contains(&counter);
        if is_shown && counters.get(counter) != 0 {
            let name = counter.name().replace('_', " ");
            let value = format!("{}  ({})", counters.get(counter), counter.help());
            lines.push(line(&name, value));
        }
    }
    for (text, times) in totals.errors.list() {
        lines.push(line("error", format!("{times}x {text}")));
    }
    for text in &outcome.broken {
        lines.push(line("error", text.clone()));
    }
    if outcome.interrupted {
        let value = "the numbers are of the time until then".to_owned();
        lines.push(line("interrupted", value));
    }
    lines.into_iter()
}

fn verdict(outcome: &Outcome, labels: &Labels) -> String {
    if passed(outcome, labels) {
        "passed".to_owned()
    } else if outcome.totals.counters.get(labels.needed) == 0 {
        format!("FAILED: no {}", labels.needed.name().replace('_', " "))
    } else {
        "FAILED".to_owned()
    }
}

fn step_text(step: &StepTotals) -> String {
    let name = step.step.as_ref().map_or("", |step| step.name.as_str());
    let mut text = format!(
        "{name}: {} published, {} deliveries",
        step.counters.get(Counter::Published),
        step.counters.get(Counter::Deliveries)
    );
    if !step.last_byte.is_empty() {
        let _ = write!(text, ", last byte {}", quantiles_text(&step.last_byte));
    }
    text
}

fn quantiles_text(histogram: &Histogram<u64>) -> String {
    let parts = QUANTILES.map(|(name, quantile)| {
        format!("{name} {}", micros(histogram.value_at_quantile(quantile)))
    });
    parts.join("  ")
}

/// Formats the result as JSON.
pub(crate) fn json(outcome: &Outcome, labels: &Labels, options: Value) -> Value {
    let totals = &outcome.totals;
    json!({
        "version": JSON_VERSION,
        "fermata": env!("CARGO_PKG_VERSION"),
        "scenario": labels.scenario,
        "what": labels.what,
        "options": options,
        "passed": passed(outcome, labels),
        "interrupted": outcome.interrupted,
        "measured_s": totals.measured_us as f64 / 1e6,
        "connected_s": outcome.connected_s,
        "total_s": outcome.total_s,
        "open_max": totals.open_max,
        "counters": counters_json(&totals.counters),
        "latency_us": histogram_json(&totals.latency),
        "last_byte_us": histogram_json(&totals.last_byte),
        "publish_answer_us": histogram_json(&totals.publish),
        "first_answer_us": histogram_json(&totals.connect),
        "incomplete_publishes": totals.incomplete(),
        "errors": totals.errors.list().iter().map(|(text, count)| json!({"text": text, "count": count})).collect::<Vec<_>>(),
        "broken": outcome.broken,
        "steps": totals.steps.iter().map(step_json).collect::<Vec<_>>(),
        "series": totals.series.iter().map(point_json).collect::<Vec<_>>(),
    })
}

fn counters_json(counters: &Counters) -> Value {
    let pairs = Counter::ALL.iter();
    let pairs = pairs.map(|&counter| (counter.name().to_string(), counters.get(counter).into()));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn histogram_json(histogram: &Histogram<u64>) -> Value {
    let mut object = Map::new();
    object.insert("count".into(), histogram.len().into());
    object.insert("mean".into(), histogram.mean().into());
    for (name, quantile) in QUANTILES {
        object.insert(name.into(), histogram.value_at_quantile(quantile).into());
    }
    Value::Object(object)
}

fn step_json(step: &StepTotals) -> Value {
    let asked = step.step.as_ref();
    json!({
        "name": asked.map(|step| step.name.as_str()),
        "hold_s": asked.map(|step| step.hold_us as f64 / 1e6),
        "groups_per_s": asked.map(|step| step.rates.groups),
        "all_per_s": asked.map(|step| step.rates.all),
        "from_s": step.from_s,
        "to_s": step.to_s,
        "counters": counters_json(&step.counters),
        "latency_us": histogram_json(&step.latency),
        "last_byte_us": histogram_json(&step.last_byte),
        "publish_answer_us": histogram_json(&step.publish),
    })
}

/// Formats one interval of the run.
pub(crate) fn point_json(point: &Point) -> Value {
    let rate = |counter| point.counters.get(counter) as f64 / point.length_s;
    json!({
        "at_s": point.at_s,
        "open": point.open,
        "connects_per_s": rate(Counter::Connects),
        "responses_per_s": rate(Counter::Responses),
        "published_per_s": rate(Counter::Published),
        "deliveries_per_s": rate(Counter::Deliveries),
        "p50_us": point.p50_us,
        "p99_us": point.p99_us,
        "max_us": point.max_us,
        "faults": faults(&point.counters),
    })
}
