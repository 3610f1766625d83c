//! What the processes of a run tell each other, one JSON line at a time.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::counters::Counters;

/// The longest latency that is told apart, one hour; longer ones count as this.
const LATENCY_US_MAX: u64 = 3_600_000_000;
/// Significant digits of latencies: an error of at most 0.1 %.
const LATENCY_DIGITS: u8 = 3;
/// Different error texts that a process keeps; the others are counted together.
const ERRORS_MAX: usize = 16;

/// A histogram of microseconds, as it travels: value and count of what is not zero.
pub(crate) type Recorded = Vec<(u64, u64)>;

/// How far a child is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// Connecting, or doing all of its work.
    #[default]
    Working,
    /// Every client is connected or given up; the publisher has nothing to do.
    Ready,
    /// Every client has what was published; the publisher has all its answers.
    Settled,
    /// Nothing more will come.
    Ended,
}

/// From a child, about what happened since its last one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub stage: Stage,
    /// Connections that are open now.
    pub open: u64,
    /// Microseconds of work that the numbers cover so far, without warm-up and drain.
    pub measured_us: u64,
    pub counters: Counters,
    /// Request, echo or delivery times.
    pub latency: Recorded,
    /// Time from opening a connection to the server's first answer on it.
    pub connect: Recorded,
    /// Time from when a publish was due to its answer.
    pub publish: Recorded,
    /// Per publish: its number, how many clients got it and the time of the last, in microseconds.
    pub arrivals: Vec<(u32, u32, u32)>,
    /// Per publish, from the publisher: its number and its group.
    pub publishes: Vec<(u32, u32)>,
    /// Per group, at the publisher's end: the sequence number of its last confirmed message.
    pub confirmed: Vec<(u32, u32)>,
    pub errors: Vec<(String, u64)>,
}

/// Messages per second; zero for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rates {
    /// To one group after the other.
    pub groups: f64,
    /// To all.
    pub all: f64,
}

/// From the parent to a child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Publish at these rates from now on, both zero for a pause.
    Publish(Rates),
    /// Publish nothing more, and say what was confirmed.
    StopPublishing,
    /// Everybody has to have got these: sequence number of the last confirmed message per group.
    Settle(Vec<(u32, u32)>),
    /// Close everything, report once more, and end.
    Close,
}

/// A histogram for latencies in microseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, LATENCY_DIGITS)
        .expect("the bounds are constants that fit each other")
}

/// Takes what a histogram has recorded and empties it.
pub(crate) fn take_recorded(histogram: &mut Histogram<u64>) -> Recorded {
    if histogram.is_empty() {
        return Vec::new();
    }
    let recorded = histogram
        .iter_recorded()
        .map(|step| (step.value_iterated_to(), step.count_at_value()))
        .collect();
    histogram.reset();
    recorded
}

/// Adds what another process has recorded.
pub(crate) fn add_recorded(histogram: &mut Histogram<u64>, recorded: &Recorded) {
    for &(value, count) in recorded {
        histogram.saturating_record_n(value, count);
    }
}

/// Errors by their text, bounded.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    list: Vec<(String, u64)>,
}

impl Errors {
    pub fn add(&mut self, text: &str, count: u64) {
        let known = self.list.iter_mut().find(|(known, _)| known == text);
        if let Some((_, sum)) = known {
            *sum += count;
        } else if self.list.len() < ERRORS_MAX {
            self.list.push((text.to_string(), count));
        } else {
            self.list[ERRORS_MAX - 1].0 = "other errors".to_string();
            self.list[ERRORS_MAX - 1].1 += count;
        }
    }

    pub fn take(&mut self) -> Vec<(String, u64)> {
        std::mem::take(&mut self.list)
    }

    pub fn list(&self) -> &[(String, u64)] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_the_journey() {
        let mut sent = histogram();
        for value in [0, 1, 77, 12_345, 12_345, u64::MAX] {
            sent.saturating_record(value);
        }
        let mut received = histogram();
        add_recorded(&mut received, &take_recorded(&mut sent));
        assert!(sent.is_empty());
        assert_eq!(received.len(), 6);
        assert!(received.max() >= LATENCY_US_MAX);
        assert_eq!(received.value_at_quantile(0.5), 77);
    }

    #[test]
    fn errors_are_bounded() {
        let mut errors = Errors::default();
        for number in 0..100 {
            errors.add(&number.to_string(), 1);
            errors.add("0", 1);
        }
        assert_eq!(errors.list().len(), ERRORS_MAX);
        assert_eq!(
            errors.list().iter().map(|(_, count)| count).sum::<u64>(),
            200
        );
        assert_eq!(errors.list()[0], ("0".to_string(), 101));
    }
}
