//! CPU time of processes: the cost of serving, independent of waiting.

use std::fs;

/// Returns nanoseconds summed over all current threads of the processes. A missing process counts as 0.
pub(crate) fn time_ns(pids: &[u32]) -> u64 {
    let tasks = pids
        .iter()
        .filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
    let tasks = tasks.flatten().filter_map(Result::ok);
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_worked_and_a_missing_one_has_not() {
        assert!(time_ns(&[std::process::id()]) > 0);
        assert_eq!(time_ns(&[u32::MAX]), 0);
    }
}
