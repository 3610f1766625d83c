//! What a publish costs does not depend on what else there is: counted in instructions, which a busy machine does not change.

#![cfg(not(loom))]

use std::path::PathBuf;
use std::process::Command;

/// The program beside this test: Cargo builds examples together with tests.
fn program() -> PathBuf {
    let own = std::env::current_exe().expect("the path of this test");
    let profile = own
        .parent()
        .and_then(|deps| deps.parent())
        .expect("target/<profile>/deps");
    let program = profile.join("examples/publish_cost");
    assert!(
        program.exists(),
        "`cargo test -p fermata-hub` builds it, `--test cost` alone does not"
    );
    program
}

/// Instructions of one run.
fn instructions(channels: u32, clients: u32, publishes: u32) -> u64 {
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program())
        .args([channels, clients, publishes].map(|number| number.to_string()))
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

/// Instructions of one publish with its delivery: start and end cancel out.
fn per_publish(channels: u32, clients: u32) -> f64 {
    const MORE: u32 = 2_000;
    let few = instructions(channels, clients, 1_000);
    let many = instructions(channels, clients, 1_000 + MORE);
    (many - few) as f64 / f64::from(MORE)
}

#[test]
fn a_publish_costs_the_same_whatever_is_idle() {
    let alone = per_publish(1, 1);
    for (channels, clients) in [(20_000, 20_000), (1, 20_000), (100, 20_000)] {
        let among_many = per_publish(channels, clients);
        let share = among_many / alone;
        // A longer probe of the table of channels is a few instructions.
        assert!(
            (0.98..1.02).contains(&share),
            "{among_many:.0} instructions per publish with {clients} clients in {channels} channels, {alone:.0} alone"
        );
    }
}
