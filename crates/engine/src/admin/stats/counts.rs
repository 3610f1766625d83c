//! Private counters of a worker.

use super::table::{Counter, LATENCY_BOUNDS_US};

/// The counters of this worker.
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

    /// Returns all counters, in the order of `Counter`.
    pub fn all(&self) -> &[u64; Counter::LEN] {
        &self.0
    }

    /// Sets a counter that is maintained elsewhere.
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

    /// Counts the duration of a request.
    pub fn latency(&mut self, duration_us: u64) {
        let bucket = LATENCY_BOUNDS_US.partition_point(|bound| *bound < duration_us);
        self.0[Counter::Latency0 as usize + bucket] += 1;
        self.0[Counter::LatencySumUs as usize] += duration_us;
    }

    /// Counts a request refused by the server.
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
