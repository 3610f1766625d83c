//! Workers killed at the worst moment: while appending, joining or leaving. Shared memory must stay
//! consistent for the other workers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fermata_testkit::sse::{Event, Follower, Stream};
use fermata_testkit::{Connection, Random, Server, Signal, send_signal, wait_until};
use fermata_tests::{fixture, json, publish, sequence};

/// Publishes far more events than the worker can before it is killed.
const ENDLESS: &str = "/burst/news?count=100000000&bytes=100";

/// Starts an endless burst on worker `pid` and kills it in the middle.
fn kill_while_publishing(server: &Server, pid: u32, random: &mut Random) {
    let mut connection = server.connect_to(pid);
    let mut watcher = Stream::open(server.connect(), "/events", None);
    connection.send(format!("POST {ENDLESS} HTTP/1.1\r\nHost: a\r\n\r\n"));
    // The result does not matter: if the stream's worker was killed, the stream is cut off.
    let _ = watcher.try_next(Duration::from_millis(50));
    thread::sleep(Duration::from_micros(random.within(0..3_000) as u64));
    assert!(send_signal(pid, Signal::Kill));
}

/// Checks that the whole history has ascending ids and undamaged data.
#[track_caller]
fn check_history(server: &Server) {
    let history = json(&server.connect().get("/history/news"));
    let rows = history.as_array().expect("a history is a list");
    assert!(!rows.is_empty());
    let mut last = 0;
    for row in rows {
        let number = sequence(row[0].as_str().expect("events have ids"));
        assert!(number > last, "{number} after {last}");
        last = number;
        let data = row[2].as_str().expect("events have data");
        let sound = data.len() == 100 && data.trim_end_matches('.').parse::<u32>().is_ok();
        assert!(sound || data.starts_with("after kill"), "{data:?}");
    }
}

#[test]
fn a_worker_killed_while_publishing_leaves_a_sound_ring() {
    let server = fixture("hub")
        .setting("history_bytes_max", 1_048_576)
        .start();
    let mut random = Random::from_environment();
    for round in 0..6 {
        let pids = server.worker_pids();
        kill_while_publishing(&server, pids[&0], &mut random);
        // Immediately, while the killed worker may still own the lock.
        let mut other = server.connect_to(pids[&1]);
        let response = other.post("/publish/news", format!("after kill {round}"));
        assert_eq!(response.status(), 200, "{}", response.text());
        check_history(&server);
        let mut stream = Stream::open(server.connect_to(pids[&1]), "/events", None);
        let new_pid = server.wait_replaced(0, pids[&0]);
        let id = server
            .connect_to(new_pid)
            .post("/publish/news", "after kill, new worker");
        let mut event = stream.next_event();
        while event.id.as_deref() != Some(id.text()) {
            event = stream.next_event();
        }
    }
}

#[test]
fn a_ring_file_is_sound_after_everything_was_killed() {
    let builder = fixture("hub").setting("history_bytes_max", 1_048_576);
    let path = builder.directory().join("history.ring");
    let builder = builder.setting("history_path", path.display());
    let mut random = Random::from_environment();
    let mut last = 0;
    for round in 0..5 {
        let server = builder.clone().start();
        if round > 0 {
            check_history(&server);
        }
        let id = publish(&server, "news", &format!("after kill {round}"));
        assert!(sequence(&id) > last, "numbers go on where they were");
        last = sequence(&id);
        let pids = server.worker_pids();
        kill_while_publishing(&server, pids[&(round % 2)], &mut random);
        // Dropping the server kills the master and the other worker.
        drop(server);
    }
}

#[test]
fn presence_is_empty_after_kills_in_a_crowd() {
    let builder = fixture("hub").setting("leave_delay_ms", 200);
    let server = builder.setting("restart_delay_ms_max", 100).start();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for crowd in 0..2 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                for number in (0..).take_while(|_| !stop.load(Ordering::Acquire)) {
                    let path = format!("/events?channels=news,room&user=u{crowd}.{}", number % 7);
                    let Ok(connection) = Connection::try_open(server.address()) else {
                        continue;
                    };
                    drop(Stream::try_open(connection, &path, None));
                }
            });
        }
        for round in 0..6 {
            thread::sleep(Duration::from_millis(100));
            let pids = server.worker_pids();
            send_signal(pids[&(round % 2)], Signal::Kill);
        }
        stop.store(true, Ordering::Release);
    });
    wait_until("nobody is left in either channel", || {
        let list = |channel: &str| {
            let mut connection = Connection::try_open(server.address()).ok()?;
            let response = connection.try_request("GET", &format!("/members/{channel}"), &[], b"");
            response.ok().map(|response| response.text().to_string())
        };
        (list("news")? == "[]" && list("room")? == "[]").then_some(())
    });
}

#[test]
fn followers_that_reconnect_all_the_time_miss_nothing() {
    const FOLLOWERS: usize = 4;
    const MESSAGES: usize = 2_000;
    let server = fixture("hub")
        .setting("history_count_max", 2 * MESSAGES)
        .start();
    let mut random = Random::from_environment();
    let mut followers: Vec<Follower> = (0..FOLLOWERS)
        .map(|_| Follower::new(server.address(), "/events"))
        .collect();
    let seeds: Vec<u64> = followers.iter().map(|_| random.bits()).collect();
    publish(&server, "news", "begin");
    let begin = json(&server.connect().get("/history/news"))[0][0]
        .as_str()
        .map(String::from);
    thread::scope(|scope| {
        for (follower, seed) in followers.iter_mut().zip(seeds) {
            follower.last_event_id.clone_from(&begin);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let ended = |events: &[Event]| events.last().is_some_and(|e| e.data == "end");
                while !ended(&follower.events) {
                    let enough = follower.events.len() + random.within(1..60);
                    follower.read_until("some messages", |events| {
                        events.len() >= enough || ended(events)
                    });
                    follower.disconnect();
                }
            });
        }
        for pid in server.worker_pids().values() {
            let mut connection = server.connect_to(*pid);
            scope.spawn(move || {
                for number in 0..MESSAGES / 2 {
                    let response = connection.post("/publish/news", number.to_string());
                    assert_eq!(response.status(), 200);
                }
            });
        }
        wait_until("all is published", || {
            let history = json(&server.connect().get("/history/news"));
            (history.as_array().map(Vec::len) == Some(MESSAGES + 1)).then_some(())
        });
        publish(&server, "news", "end");
    });
    let history = json(&server.connect().get("/history/news"));
    let due: Vec<&str> = history
        .as_array()
        .into_iter()
        .flatten()
        .skip(1)
        .filter_map(|row| row[0].as_str())
        .collect();
    for follower in &followers {
        let received: Vec<&str> = follower
            .events
            .iter()
            .map(|event| event.id.as_deref().unwrap_or("no id"))
            .collect();
        assert!(
            received == due,
            "{} of {} after {} connects",
            received.len(),
            due.len(),
            follower.connects
        );
    }
}
