//! The scenarios `sse` and `hold`.

use fermata_testkit::{Directory, Server, Signal, send_signal, wait_until};
use fermata_tests::{fixture, json};
use serde_json::Value;

use crate::support::{Load, load};

/// Returns URLs for clients and for the two ways to publish.
fn urls(server: &Server) -> [String; 3] {
    let at = |path: &str| format!("http://{}{path}", server.address());
    [
        at("/events?channels=room.{n},all&user={client}&silent=1"),
        at("/publish/room.{n}"),
        at("/publish/all"),
    ]
}

#[test]
fn every_client_gets_every_message() {
    let server = fixture("hub").start();
    let [url, publish, publish_all] = urls(&server);
    let result = load(&[
        "sse",
        &url,
        "-c",
        "60",
        "-g",
        "6",
        "-t",
        "1s",
        "--publish",
        &publish,
        "--publish-rate",
        "60",
        "--publish-all",
        &publish_all,
        "--publish-all-rate",
        "10",
    ]);
    result.assert_passed();
    let (published, deliveries) = (result.count("published"), result.count("deliveries"));
    assert!(published >= 60, "{}", result.all());
    // A message to a group reaches 10 clients; a message to all groups reaches 60.
    assert!(deliveries > published * 10, "{}", result.all());
    assert_eq!(
        result.json["last_byte_us"]["count"],
        result.count("published")
    );
    assert_eq!(result.json["incomplete_publishes"], 0);
}

#[test]
fn steps_follow_one_another_with_their_own_numbers() {
    let server = fixture("hub").start();
    let [url, publish, publish_all] = urls(&server);
    let directory = Directory::new();
    let events = directory.join("events");
    let result = load(&[
        "sse",
        &url,
        "-c",
        "40",
        "-g",
        "4",
        "--publish",
        &publish,
        "--publish-all",
        &publish_all,
        "--step",
        "quiet=100ms",
        "--step",
        "groups=400ms,groups=50",
        "--step",
        "all=400ms,all=10",
        "--events",
        &events.display().to_string(),
    ]);
    result.assert_passed();
    let steps = result.json["steps"].as_array().expect("there are steps");
    let count = |step: &Value, name: &str| step["counters"][name].as_u64().expect("a counter");
    let [quiet, groups, all] = &steps[..] else {
        panic!("three steps: {steps:?}");
    };
    assert_eq!(count(quiet, "deliveries"), 0);
    // Each step counts its own messages: 10 clients per group, 40 in total.
    assert!(count(groups, "published") >= 20, "{}", result.all());
    assert_eq!(count(groups, "deliveries"), 10 * count(groups, "published"));
    assert!(count(all, "published") >= 4, "{}", result.all());
    assert_eq!(count(all, "deliveries"), 40 * count(all, "published"));
    assert_eq!(all["last_byte_us"]["count"], count(all, "published"));

    let text = std::fs::read_to_string(events).expect("the events are there");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line is JSON"))
        .collect();
    let told: Vec<String> = lines
        .iter()
        .filter_map(|line| {
            Some(format!(
                "{} {}",
                line["step"].as_str()?,
                line["event"].as_str()?
            ))
        })
        .collect();
    let expected = ["quiet", "groups", "all"];
    let expected: Vec<String> = expected
        .iter()
        .flat_map(|name| [format!("{name} begins"), format!("{name} ends")])
        .collect();
    assert_eq!(told, expected);
    assert!(lines.iter().any(|line| line["open"] == 40), "{text}");
}

#[test]
fn a_step_that_cannot_publish_is_refused() {
    let result = load(&["sse", "http://127.0.0.1:1/", "--step", "a=1s,all=2"]);
    assert_eq!(result.code, Some(2));
    assert!(result.stderr.contains("--publish-all"), "{}", result.stderr);
}

#[test]
fn clients_of_a_killed_worker_resume_without_loss() {
    let server = fixture("hub").start();
    let [url, publish, _] = urls(&server);
    let run = Load::start(&[
        "sse",
        &url,
        "-c",
        "100",
        "-g",
        "10",
        "-t",
        "3s",
        "--publish",
        &publish,
        "--publish-rate",
        "100",
        "--reconnect-delay",
        "100ms",
    ]);
    // Publishing has started, so every client is connected.
    wait_until("messages are published", || {
        let history = server.connect().get("/history/room.3");
        (json(&history).as_array().map_or(0, Vec::len) > 2).then_some(())
    });
    let pid = server.worker_pids()[&0];
    assert!(send_signal(pid, Signal::Kill));
    let result = run.end();
    result.assert_passed();
    assert!(result.count("disconnects") > 0, "{}", result.all());
    assert_eq!(result.count("disconnects"), result.count("reconnects"));
    assert_eq!(result.count("lost") + result.count("missing"), 0);
}

#[test]
fn clients_that_leave_and_come_back_miss_nothing() {
    let server = fixture("hub").start();
    let [url, publish, _] = urls(&server);
    let result = load(&[
        "sse",
        &url,
        "-c",
        "50",
        "-g",
        "5",
        "-t",
        "1s",
        "--publish",
        &publish,
        "--publish-rate",
        "200",
        "--churn",
        "200",
    ]);
    result.assert_passed();
    assert!(result.count("churned") > 50, "{}", result.all());
}

/// Messages queue up between two reads of the clients; each read must return all of them.
#[test]
fn clients_that_look_only_now_and_then_miss_nothing() {
    let server = fixture("hub").start();
    let [url, publish, publish_all] = urls(&server);
    let result = load(&[
        "hold",
        &url,
        "-c",
        "200",
        "-g",
        "2",
        "-t",
        "1s",
        "--coalesce",
        "30ms",
        "--publish",
        &publish,
        "--publish-rate",
        "200",
        "--publish-all",
        &publish_all,
        "--publish-all-rate",
        "50",
    ]);
    result.assert_passed();
    assert_eq!(result.json["open_max"], 200);
    assert_eq!(result.json["incomplete_publishes"], 0);
}

#[test]
fn holding_takes_several_processes_and_source_addresses() {
    let server = fixture("hub").start();
    let [url, _, publish_all] = urls(&server);
    let result = load(&[
        "hold",
        &url,
        "-c",
        "300",
        "-g",
        "30",
        "-t",
        "300ms",
        "--clients-per-process-max",
        "100",
        "--clients-per-source-max",
        "40",
        "--connect-rate",
        "3000",
        "--publish-all",
        &publish_all,
        "--publish-all-rate",
        "10",
    ]);
    result.assert_passed();
    assert_eq!(result.json["open_max"], 300);
    let connected_s = result.json["connected_s"].as_f64();
    assert!(connected_s >= Some(0.09), "{}", result.all());
}

#[test]
fn an_interrupted_run_still_has_a_result() {
    let server = fixture("hub").start();
    let [url, ..] = urls(&server);
    let run = Load::start(&["hold", &url, "-c", "20", "-t", "1h"]);
    wait_until("clients are there", || {
        let members = server.connect().get("/members/all");
        (json(&members).as_array().map_or(0, Vec::len) == 20).then_some(())
    });
    assert!(send_signal(run.pid(), Signal::Terminate));
    let result = run.end();
    result.assert_passed();
    assert_eq!(result.json["interrupted"], true);
}
