//! The result: for people on standard output, for programs as JSON.

use std::fmt::Write as _;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::counters::{Counter, Counters};
use crate::output::text::{bytes, count, micros};
use crate::parent::Outcome;
use crate::totals::{Point, StepTotals};

/// The layout of the JSON result; raised when a field changes its meaning.
const JSON_VERSION: u32 = 1;

/// What must be zero for a run to have passed.
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

const QUANTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("max", 1.0),
];

/// How many things went wrong.
pub(crate) fn faults(counters: &Counters) -> u64 {
    FAULTS.iter().map(|&counter| counters.get(counter)).sum()
}

/// What a result is called and how its parts are named.
pub(crate) struct Labels {
    pub scenario: &'static str,
    /// One line: what was done to whom.
    pub what: String,
    /// What `latency` is the time of.
    pub latency: &'static str,
    /// The least that has to have happened: a run without any is no success.
    pub needed: Counter,
}

/// Whether everything that was to be verified was found right.
pub(crate) fn passed(outcome: &Outcome, labels: &Labels) -> bool {
    outcome.broken.is_empty()
        && faults(&outcome.totals.counters) == 0
        && outcome.totals.counters.get(labels.needed) != 0
}

/// The result for people.
pub(crate) fn text(outcome: &Outcome, labels: &Labels) -> String {
    let totals = &outcome.totals;
    let counters = &totals.counters;
    let measured_s = totals.measured_us as f64 / 1e6;
    let mut out = format!("\n{}: {}\n", labels.scenario, labels.what);
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "  {name:<18} {value}");
    };
    line("measured", format!("{measured_s:.2} s"));
    line(
        "connections",
        format!(
            "{} opened, {} at most at once",
            counters.get(Counter::Connects),
            totals.open_max
        ),
    );
    if outcome.connected_s > 0.0 {
        let rate = counters.get(Counter::Connects) as f64 / outcome.connected_s;
        line(
            "connected in",
            format!("{:.2} s, {}/s", outcome.connected_s, count(rate)),
        );
    }
    for counter in [
        Counter::Responses,
        Counter::Published,
        Counter::Deliveries,
        Counter::Reconnects,
    ] {
        let total = counters.get(counter);
        if total != 0 {
            let rate = total as f64 / measured_s.max(1e-6);
            line(counter.name(), format!("{total}, {}/s", count(rate)));
        }
    }
    line(
        "received",
        format!(
            "{}, {}/s",
            bytes(counters.get(Counter::BytesReceived) as f64),
            bytes(counters.get(Counter::BytesReceived) as f64 / measured_s.max(1e-6))
        ),
    );
    // One step is the whole run.
    for step in totals.steps.iter().filter(|_| totals.steps.len() > 1) {
        line("step", step_text(step));
    }
    for (name, histogram) in [
        (labels.latency, &totals.latency),
        ("last byte", &totals.last_byte),
        ("publish answer", &totals.publish),
        ("first answer", &totals.connect),
    ] {
        if !histogram.is_empty() {
            line(name, quantiles_text(histogram));
        }
    }
    if totals.incomplete() != 0 {
        line("not for all", format!("{} publishes", totals.incomplete()));
    }
    for &counter in Counter::ALL {
        let shown = FAULTS.contains(&counter)
            || matches!(
                counter,
                Counter::Disconnects
                    | Counter::Refusals
                    | Counter::Churned
                    | Counter::Timeouts
                    | Counter::Unsent
                    | Counter::PublishFailures
                    | Counter::Unconfirmed
                    | Counter::Foreign
            );
        if shown && counters.get(counter) != 0 {
            let name = counter.name().replace('_', " ");
            line(
                &name,
                format!("{}  ({})", counters.get(counter), counter.help()),
            );
        }
    }
    for (text, times) in totals.errors.list() {
        line("error", format!("{times}x {text}"));
    }
    for text in &outcome.broken {
        line("error", text.clone());
    }
    if outcome.interrupted {
        line(
            "interrupted",
            "the numbers are of the time until then".into(),
        );
    }
    let verdict = if passed(outcome, labels) {
        "passed".to_string()
    } else if counters.get(labels.needed) == 0 {
        format!("FAILED: no {}", labels.needed.name().replace('_', " "))
    } else {
        "FAILED".to_string()
    };
    line("verification", verdict);
    out
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

/// The result for programs.
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

/// One interval of the run.
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
