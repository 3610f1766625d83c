//! Memory of processes.

use std::fs;

/// Returns the size of a process's anonymous memory, which it shares with no file and no other
/// process, in kilobytes.
pub fn anonymous_kb(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:"));
    let figure = line.and_then(|it| it.split_whitespace().next());
    figure.and_then(|it| it.parse().ok()).unwrap_or(0)
}
