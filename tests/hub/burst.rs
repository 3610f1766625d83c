//! The hub's guarantee under failures: a thousand messages while workers are killed, and every
//! subscriber that resumes receives each message once, in order.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fermata_testkit::sse::{Event, Follower};
use fermata_testkit::{Connection, Server, Signal, send_signal, wait_until};
use fermata_tests::{fixture, json, publish};

const SUBSCRIBERS: usize = 20;
const MESSAGES: usize = 1_000;

/// Pause between two kills.
const KILL_EVERY: Duration = Duration::from_millis(200);

/// Pause between two messages, so that the burst outlasts several kills.
const PUBLISH_EVERY: Duration = Duration::from_millis(2);

/// Publishes all messages, and retries each one until it is accepted. Returns their ids.
fn publish_burst(server: &Server) -> Vec<String> {
    let mut connection: Option<Connection> = None;
    let mut ids = Vec::new();
    for number in 0..MESSAGES {
        let body = format!("message {number}");
        let id = wait_until("the message is accepted", || {
            let mut open = connection
                .take()
                .or_else(|| Connection::try_open(server.address()).ok())?;
            // The worker may be killed before, during or after the publish. Without a response the
            // message is published again; the history below decides which copies exist.
            let response = open
                .try_request("POST", "/publish/news", &[], body.as_bytes())
                .ok()?;
            assert_eq!(response.status(), 200, "{}", response.text());
            connection = Some(open);
            Some(response.text().to_string())
        });
        ids.push(id);
        thread::sleep(PUBLISH_EVERY);
    }
    ids
}

/// Kills the workers in turn until stopped; returns the number of kills.
fn kill_workers(server: &Server, stop: &AtomicBool) -> usize {
    let mut kills = 0;
    while !stop.load(Ordering::Acquire) {
        thread::sleep(KILL_EVERY);
        let pids = server.worker_pids();
        let victim = pids.values().nth(kills % pids.len());
        kills += usize::from(victim.is_some_and(|pid| send_signal(*pid, Signal::Kill)));
    }
    kills
}

#[test]
fn a_burst_survives_kills_without_loss_or_repetition() {
    let builder = fixture("hub").setting("history_count_max", 5_000);
    let server = builder.setting("restart_delay_ms_max", 50).start();
    let mut followers: Vec<Follower> = (0..SUBSCRIBERS)
        .map(|_| Follower::new(server.address(), "/events"))
        .collect();
    for follower in &mut followers {
        follower.connect();
    }
    // Publish once, so that a subscriber has a first id with which it can resume.
    publish(&server, "news", "begin");
    for follower in &mut followers {
        follower.read_until("the first message", |events| !events.is_empty());
    }

    let stop = AtomicBool::new(false);
    let (accepted, kills) = thread::scope(|scope| {
        let killer = scope.spawn(|| kill_workers(&server, &stop));
        let readers: Vec<_> = followers
            .iter_mut()
            .map(|follower| {
                let ended = |events: &[Event]| events.last().is_some_and(|e| e.data == "end");
                scope.spawn(move || follower.read_until("the last message", ended))
            })
            .collect();
        let accepted = publish_burst(&server);
        stop.store(true, Ordering::Release);
        let kills = killer.join().expect("the killer does not fail");
        wait_until("the end is published", || {
            let mut connection = Connection::try_open(server.address()).ok()?;
            connection
                .try_request("POST", "/publish/news", &[], b"end")
                .ok()
        });
        for reader in readers {
            reader.join().expect("every subscriber sees the end");
        }
        (accepted, kills)
    });
    assert!(kills >= 5, "only {kills} workers were killed");

    let history = json(&server.connect().get("/history/news"));
    let history: Vec<(&str, &str)> = history
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|row| Some((row[0].as_str()?, row[2].as_str()?)))
        .collect();
    let end = history
        .iter()
        .position(|(_, data)| *data == "end")
        .expect("the end was published");
    let history = &history[..=end];
    let kept: HashSet<&str> = history.iter().map(|(id, _)| *id).collect();
    assert!(
        accepted.iter().all(|id| kept.contains(id.as_str())),
        "an accepted message is lost"
    );
    for (number, follower) in followers.iter().enumerate() {
        let received: Vec<(&str, &str)> = follower
            .events
            .iter()
            .map(|event| (event.id.as_deref().unwrap_or("no id"), event.data.as_str()))
            .collect();
        let differs = received
            .iter()
            .zip(history)
            .position(|(got, due)| got != due);
        assert!(
            differs.is_none() && received.len() == history.len(),
            "subscriber {number}: {} events, {} due, first difference at {differs:?}: {:?}",
            received.len(),
            history.len(),
            differs.map(|at| (received[at], history[at])),
        );
    }
    let connects: usize = followers.iter().map(|follower| follower.connects).sum();
    println!(
        "{kills} kills, {connects} connects, {} messages",
        history.len()
    );
}
