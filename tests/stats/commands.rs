//! The interfaces for users and monitoring: `fermata stats`, `fermata top --once`, `GET /metrics`.

use std::collections::HashMap;
use std::process::Command;

use fermata_testkit::sse::Stream;
use fermata_testkit::{command_path, wait_until};
use fermata_tests::{fixture, publish};

use crate::{ask, fermata, figure, stats};

#[test]
fn the_text_for_prometheus_is_well_formed_and_agrees_with_the_json() {
    let server = fixture("http").control().start();
    for _ in 0..3 {
        assert_eq!(server.connect().get("/").status(), 200);
    }
    crate::wait_for(&server, &[("total/requests", 3)]);
    let (head, text) = ask(&server, "GET", "/metrics");
    assert!(
        head.contains("Content-Type: text/plain; version=0.0.4"),
        "{head}"
    );

    let mut types = HashMap::new();
    let mut sums: HashMap<&str, f64> = HashMap::new();
    let mut current = "";
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let (kind, rest) = comment.split_once(' ').expect("HELP or TYPE and more");
            let (name, rest) = rest.split_once(' ').expect("a name and more");
            assert!(!rest.is_empty(), "{line}");
            if kind == "TYPE" {
                assert!(types.insert(name, rest).is_none(), "{name} comes twice");
                assert_eq!(rest == "counter", name.ends_with("_total"), "{line}");
                current = name;
            }
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a series and its value");
        let name = series.split('{').next().expect("there is a first part");
        let parts = ["_bucket", "_sum", "_count"];
        let part = parts.iter().find_map(|part| name.strip_suffix(part));
        let is_part = types.get(current) == Some(&"histogram") && part == Some(current);
        assert!(name == current || is_part, "{name} stands below {current}");
        let value: f64 = value.parse().expect("a number");
        *sums.entry(name).or_default() += value;
    }
    assert_eq!(sums["fermata_requests_total"], 3.0);
    assert_eq!(sums["fermata_responses_total"], 3.0);
    assert_eq!(sums["fermata_workers"], 2.0);
    assert_eq!(sums["fermata_worker_starts_total"], 2.0);
    assert!(sums["fermata_resident_memory_bytes"] > 1e6);
}

#[test]
fn busy_channels_of_all_workers_are_named() {
    let server = fixture("hub").control().start();
    let pids = server.worker_pids();
    let open = |worker| Stream::open(server.connect_to(pids[&worker]), "/events", None);
    let _streams = [open(0), open(0), open(1)];
    // Workers count per channel after the first request for stats.
    stats(&server);
    crate::wait_for(&server, &[("total/subscriptions", 3)]);
    let busiest = fermata_testkit::wait_until("the channel is named with all subscribers", || {
        publish(&server, "news", "x");
        let stats = stats(&server);
        let busiest = stats["busiest_channels"][0].clone();
        (busiest["subscribers"] == 3).then_some(busiest)
    });
    assert_eq!(busiest["channel"], "news");
    assert!(busiest["deliveries"].as_u64() >= busiest["records"].as_u64());
}

#[test]
fn people_get_a_table_and_a_frame() {
    let server = fixture("hub").control().start();
    let _stream = Stream::open(server.connect(), "/events", None);
    crate::wait_for(&server, &[("total/connections/sse", 1)]);
    let output = fermata(&server, &["stats"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for part in [
        "total",
        "worker 0",
        "worker 1",
        "connections.sse",
        "requests",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    let output = fermata(&server, &["top", "--once"]);
    let text = String::from_utf8_lossy(&output.stdout);
    for part in [
        "workers 2 (2 starts, 0 failed)",
        "EVENTS",
        "BUSIEST",
        "none",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    assert!(!text.contains('\x1b'), "--once prints plain text");
    for pid in server.worker_pids().values() {
        assert!(text.contains(&pid.to_string()), "{text}");
    }
}

#[test]
fn without_a_server_the_commands_say_what_to_do() {
    let server = fixture("hub").start();
    for command in ["stats", "top"] {
        let output = fermata(&server, &[command]);
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("is the server running"), "{text}");
    }
}

#[test]
fn watching_does_not_move_the_figures_watched() {
    let server = fixture("http").control().start();
    let first = stats(&server);
    for _ in 0..5 {
        stats(&server);
    }
    let last = stats(&server);
    for path in ["total/requests", "total/accepted", "total/bytes_sent"] {
        assert_eq!(figure(&first, path), figure(&last, path), "{path}");
    }
}

/// Other tests run servers concurrently, so the list may contain several servers. On a busy
/// machine, a server may not respond in time.
#[test]
fn a_command_without_an_address_finds_the_servers_that_run_here() {
    let server = fixture("http").control().start();
    let pid = u64::from(server.pid());
    wait_until("the server is found", || {
        let output = Command::new(command_path())
            .args(["stats", "--json"])
            .env_remove("FERMATA_CONTROL")
            .output()
            .expect("the command is built");
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            let json: serde_json::Value =
                serde_json::from_slice(&output.stdout).expect("it prints JSON");
            return (json["pid"] == pid).then_some(());
        }
        assert!(said.contains("server"), "{said}");
        let is_named = said.contains(&server.control());
        (is_named && said.contains("several servers")).then_some(())
    });
}
