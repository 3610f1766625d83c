//! Messages between the processes of a run, one JSON line each.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::counters::Counters;

/// Maximum recorded latency, which is one hour. A longer latency counts as one hour.
const LATENCY_US_MAX: u64 = 3_600_000_000;
/// Significant digits of latencies: a relative error of at most 0.1 %.
const LATENCY_DIGITS: u8 = 3;
/// Maximum number of distinct error texts per process. Errors with further texts are counted together.
const ERRORS_MAX: usize = 16;

/// Serialized histogram of microseconds: value and count of each non-empty bucket.
pub(crate) type Recorded = Vec<(u64, u64)>;

/// Progress of a child.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// The child connects clients, or performs all of its work.
    #[default]
    Working,
    /// Every client is connected or was given up. The publisher is idle.
    Ready,
    /// Every client has received all messages; the publisher has received all responses.
    Settled,
    /// The child sends no further report.
    Ended,
}

/// Report of a child about the time since its previous report.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Report {
    pub stage: Stage,
    /// Number of open connections.
    pub open: u64,
    /// Measured time in microseconds, without warm-up and drain.
    pub measured_us: u64,
    pub counters: Counters,
    /// Latency of requests, echoes or deliveries.
    pub latency: Recorded,
    /// Time from opening a connection to the server's first response on it.
    pub connect: Recorded,
    /// Time from the scheduled send time of a publish to its response.
    pub publish: Recorded,
    /// Per publish: its number, the number of clients that received it, and the last delivery time in microseconds.
    pub arrivals: Vec<(u32, u32, u32)>,
    /// Per publish, from the publisher: its number and its group.
    pub publishes: Vec<(u32, u32)>,
    /// Per group, at the publisher's end: sequence number of the last confirmed message.
    pub confirmed: Vec<(u32, u32)>,
    pub errors: Vec<(String, u64)>,
}

/// Publishing rates in messages per second. Zero means none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rates {
    /// Rate to groups, in turn.
    pub groups: f64,
    /// Rate to all clients.
    pub all: f64,
}

/// Command of the parent to a child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Command {
    /// Publish at these rates. If both are zero, pause.
    Publish(Rates),
    /// Stop publishing and report the confirmed messages.
    StopPublishing,
    /// Wait until every client has received the given messages. Each entry is a group, and the sequence number of the group's last
    /// confirmed message.
    Settle(Vec<(u32, u32)>),
    /// Close all connections, report once more, and exit.
    Close,
}

/// Creates a histogram for latencies in microseconds.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, LATENCY_DIGITS)
        .expect("the bounds are constants that fit each other")
}

/// Returns the content of a histogram and clears it.
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

/// Adds the histogram of another process.
pub(crate) fn add_recorded(histogram: &mut Histogram<u64>, recorded: &Recorded) {
    for &(value, count) in recorded {
        histogram.saturating_record_n(value, count);
    }
}

/// Error counts by text; the number of texts is bounded.
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
