//! Sums of the reports of all processes of a run.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use hdrhistogram::Histogram;

use crate::counters::Counters;
use crate::course::Step;
use crate::groups::GroupSizes;
use crate::report::{Errors, Report, add_recorded, histogram};

/// Maximum number of points of the series. When it is reached, every second point is dropped and the interval is doubled.
const POINTS_MAX: usize = 4096;
/// Maximum number of publishes whose last delivery is tracked. Further publishes count as incomplete.
const PUBLISHES_MAX: usize = 1 << 20;

/// One interval of the run.
#[derive(Debug, Clone)]
pub(crate) struct Point {
    /// End of the interval, in seconds since the start.
    pub at_s: f64,
    /// Length in seconds.
    pub length_s: f64,
    /// Number of open connections at the end.
    pub open: u64,
    pub counters: Counters,
    /// Latencies of the interval, in microseconds.
    pub p50_us: u64,
    pub p99_us: u64,
    pub max_us: u64,
}

/// Measurements of one step.
#[derive(Debug, Clone)]
pub(crate) struct StepTotals {
    /// Start of the step, and time at which its messages had arrived, in seconds since the start of the run.
    pub from_s: f64,
    pub to_s: f64,
    /// Step as given by the options.
    pub step: Option<Step>,
    pub counters: Counters,
    pub latency: Histogram<u64>,
    pub publish: Histogram<u64>,
    pub last_byte: Histogram<u64>,
}

impl StepTotals {
    fn new(from_us: u64) -> Self {
        Self {
            from_s: from_us as f64 / 1e6,
            to_s: 0.0,
            step: None,
            counters: Counters::default(),
            latency: histogram(),
            publish: histogram(),
            last_byte: histogram(),
        }
    }
}

#[derive(Debug, Default)]
struct Publish {
    group: Option<u32>,
    arrived: u32,
    last_us: u32,
}

/// Sums, histograms and the series.
#[derive(Debug)]
pub(crate) struct Totals {
    pub counters: Counters,
    pub latency: Histogram<u64>,
    pub connect: Histogram<u64>,
    /// Response times of publishes.
    pub publish: Histogram<u64>,
    /// Last delivery time of every publish that its whole group received.
    pub last_byte: Histogram<u64>,
    pub errors: Errors,
    pub series: Vec<Point>,
    /// Completed steps.
    pub steps: Vec<StepTotals>,
    /// Current step, from the first step on.
    step: Option<StepTotals>,
    pub measured_us: u64,
    /// Per group, the sequence number of the last confirmed message. It is known after publishing has stopped.
    pub confirmed: Vec<(u32, u32)>,
    /// Number of open connections per child.
    open: Vec<u64>,
    pub open_max: u64,
    publishes: HashMap<u32, Publish>,
    group_sizes: GroupSizes,
    interval: Histogram<u64>,
    interval_counters: Counters,
    interval_start_us: u64,
    /// Number of intervals per point of the series.
    stride: usize,
    skipped: usize,
}

/// Outcome of a run.
pub(crate) struct Outcome {
    pub totals: Totals,
    /// True if the run was stopped early.
    pub interrupted: bool,
    /// Processes that failed.
    pub broken: Vec<String>,
    /// Times when the last client was connected and when the run ended, in seconds.
    pub connected_s: f64,
    pub total_s: f64,
}

impl Totals {
    pub fn new(children: usize, group_sizes: GroupSizes) -> Self {
        Self {
            counters: Counters::default(),
            latency: histogram(),
            connect: histogram(),
            publish: histogram(),
            last_byte: histogram(),
            errors: Errors::default(),
            series: Vec::new(),
            steps: Vec::new(),
            step: None,
            measured_us: 0,
            confirmed: Vec::new(),
            open: vec![0; children],
            open_max: 0,
            publishes: HashMap::new(),
            group_sizes,
            interval: histogram(),
            interval_counters: Counters::default(),
            interval_start_us: 0,
            stride: 1,
            skipped: 0,
        }
    }

    pub fn add(&mut self, child: usize, report: &Report) {
        self.counters.merge(&report.counters);
        add_recorded(&mut self.latency, &report.latency);
        add_recorded(&mut self.interval, &report.latency);
        add_recorded(&mut self.connect, &report.connect);
        add_recorded(&mut self.publish, &report.publish);
        if let Some(step) = &mut self.step {
            step.counters.merge(&report.counters);
            add_recorded(&mut step.latency, &report.latency);
            add_recorded(&mut step.publish, &report.publish);
        }
        self.measured_us = self.measured_us.max(report.measured_us);
        self.open[child] = report.open;
        self.open_max = self.open_max.max(self.open());
        for (text, count) in &report.errors {
            self.errors.add(text, *count);
        }
        if !report.confirmed.is_empty() {
            self.confirmed.clone_from(&report.confirmed);
        }
        for &(number, group) in &report.publishes {
            self.track(number, |publish| publish.group = Some(group));
        }
        for &(number, count, last_us) in &report.arrivals {
            self.track(number, |publish| {
                publish.arrived += count;
                publish.last_us = publish.last_us.max(last_us);
            });
        }
    }

    /// Starts the first step, after all clients are connected.
    pub fn begin_steps(&mut self, now_us: u64) {
        self.step = Some(StepTotals::new(now_us));
    }

    /// Ends the current step and starts the next.
    pub fn end_step(&mut self, step: &Step, now_us: u64) {
        if let Some(mut ended) = self.step.replace(StepTotals::new(now_us)) {
            ended.to_s = now_us as f64 / 1e6;
            ended.step = Some(step.clone());
            self.steps.push(ended);
        }
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> u64 {
        self.open.iter().sum()
    }

    /// Returns the number of publishes that some client of their group did not receive, or received more than once.
    pub fn incomplete(&self) -> usize {
        self.publishes.len()
    }

    /// Ends the current interval and returns it.
    pub fn end_interval(&mut self, now_us: u64) -> Point {
        let point = Point {
            at_s: now_us as f64 / 1e6,
            length_s: (now_us - self.interval_start_us).max(1) as f64 / 1e6,
            open: self.open(),
            counters: self.counters.since(&self.interval_counters),
            p50_us: self.interval.value_at_quantile(0.5),
            p99_us: self.interval.value_at_quantile(0.99),
            max_us: self.interval.max(),
        };
        self.skipped += 1;
        if self.skipped >= self.stride {
            self.skipped = 0;
            self.series.push(point.clone());
        }
        if self.series.len() == POINTS_MAX {
            let mut keep = false;
            self.series.retain(|_| {
                keep = !keep;
                keep
            });
            self.stride *= 2;
        }
        self.interval.reset();
        self.interval_counters = self.counters;
        self.interval_start_us = now_us;
        point
    }

    /// Records a report about a publish and checks if the whole group received it. Receivers may report before the
    /// publisher.
    fn track(&mut self, number: u32, note: impl FnOnce(&mut Publish)) {
        let is_full = self.publishes.len() >= PUBLISHES_MAX;
        let publish = match self.publishes.entry(number) {
            Entry::Vacant(_) if is_full => return,
            entry => entry.or_default(),
        };
        note(publish);
        let Some(group) = publish.group else {
            return;
        };
        if u64::from(publish.arrived) == self.group_sizes.size(group) {
            let last_us = u64::from(publish.last_us);
            self.last_byte.saturating_record(last_us);
            if let Some(step) = &mut self.step {
                step.last_byte.saturating_record(last_us);
            }
            self.publishes.remove(&number);
        }
    }
}
