//! Live progress on standard error: one updated line on a terminal, separate lines elsewhere.

use std::io::{IsTerminal, Write};

use super::text::{count, micros};
use crate::counters::Counter;
use crate::totals::{Point, Totals};

/// Returns to the start of the line and clears it.
const REFRESH: &str = "\r\x1b[K";

pub(crate) struct Progress {
    is_terminal: bool,
}

impl Progress {
    pub fn new() -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    pub fn show(&mut self, totals: &Totals, point: &Point, phase: &str) {
        let line = line(totals, point, phase);
        let mut out = std::io::stderr().lock();
        // The run continues if standard error has no reader.
        let _ = if self.is_terminal {
            write!(out, "{REFRESH}{line}").and_then(|()| out.flush())
        } else {
            writeln!(out, "{line}")
        };
    }

    pub fn end(&mut self) {
        if self.is_terminal {
            let _ = writeln!(std::io::stderr());
        }
    }
}

fn line(totals: &Totals, point: &Point, phase: &str) -> String {
    let rate = |counter| point.counters.get(counter) as f64 / point.length_s;
    let mut line = format!(
        "{:6.1}s {phase:10} open {}",
        point.at_s,
        count(point.open as f64)
    );
    let rates = [
        (Counter::Connects, "connects"),
        (Counter::Responses, "responses"),
        (Counter::Published, "published"),
        (Counter::Deliveries, "deliveries"),
    ];
    for (counter, name) in rates {
        if point.counters.get(counter) != 0 {
            line.push_str(&format!("  {name} {}/s", count(rate(counter))));
        }
    }
    if point.max_us != 0 {
        line.push_str(&format!(
            "  p50 {}  p99 {}  max {}",
            micros(point.p50_us),
            micros(point.p99_us),
            micros(point.max_us)
        ));
    }
    let faults = crate::summary::faults(&totals.counters);
    if faults != 0 {
        line.push_str(&format!("  faults {}", count(faults as f64)));
    }
    line
}
