//! Instruction counts of tests, independent of the machine's load.

use std::process::Command;

/// Runs one test of this program under callgrind with an environment variable, and returns the instructions of the
/// whole run. The difference of two runs excludes start-up and exit.
///
/// # Panics
/// Panics if valgrind is not installed or the test fails.
pub fn instructions(test: &str, variable: &str, value: &str) -> u64 {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().expect("the path of this test"))
        .args(["--exact", test])
        .env(variable, value)
        .output()
        .expect("valgrind starts; `make setup` installs it");
    let text = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{text}");
    let line = text
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let count = line.and_then(|(_, count)| count.trim().parse().ok());
    count.unwrap_or_else(|| panic!("callgrind tells how many instructions: {text}"))
}
