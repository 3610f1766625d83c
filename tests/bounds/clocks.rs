//! The wall clock jumps by an hour, forward and back. Time-outs, waits and presence use
//! `CLOCK_MONOTONIC`, so clients are not affected.

use std::time::{SystemTime, UNIX_EPOCH};

use fermata_testkit::Server;
use fermata_testkit::sse::Stream;
use fermata_tests::wall_clock::WallClock;

use crate::{builder, check_others};

const HOUR_S: i64 = 3_600;

/// Forward, back to normal, further back, and back to normal.
const JUMPS_S: [i64; 4] = [HOUR_S, 0, -HOUR_S, 0];

fn start(clock: &WallClock) -> Server {
    let mut builder = builder().workers(2).setting("leave_delay_ms", 200);
    for (name, value) in clock.variables() {
        builder = builder.env(name, value);
    }
    builder.start()
}

/// Asserts the distance between the server's clock and ours.
#[track_caller]
fn check_ahead(server: &Server, ahead_s: i64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_s = now.expect("after 1970").as_secs() as i64;
    let server_s: i64 = server
        .connect()
        .get("/time")
        .text()
        .parse()
        .expect("a number");
    assert!(
        (server_s - now_s - ahead_s).abs() < HOUR_S / 2,
        "{server_s}"
    );
}

#[test]
fn a_wall_clock_that_jumps_ends_no_client_and_no_wait() {
    let Some(clock) = WallClock::new() else {
        return;
    };
    let server = start(&clock);
    let pids = server.worker_pids();
    let mut held = Stream::open(server.connect(), "/events", None);
    let mut kept = server.connect();
    assert_eq!(kept.get("/").text(), "alive");
    for ahead_s in JUMPS_S {
        let mut waiting = server.connect();
        waiting.send("GET /delay/400 HTTP/1.1\r\nHost: a\r\n\r\n");
        clock.set(ahead_s);
        check_ahead(&server, ahead_s);
        let data = ahead_s.to_string();
        let id = server.connect().post("/publish", &data).text().to_owned();
        let event = held.next_event();
        assert_eq!((event.data, event.id), (data, Some(id)));
        assert_eq!(waiting.read_response().text(), "waited");
        assert_eq!(kept.get("/").text(), "alive", "{ahead_s}");
    }
    assert_eq!(server.worker_pids(), pids);
}

#[test]
fn a_user_who_leaves_while_the_wall_clock_jumps_is_reported_once() {
    let Some(clock) = WallClock::new() else {
        return;
    };
    let server = start(&clock);
    let mut watching = Stream::open(server.connect(), "/events", None);
    for ahead_s in JUMPS_S {
        let user = Stream::open(server.connect(), "/events?user=u", None);
        assert_eq!(watching.next_event().name, "join");
        drop(user);
        clock.set(ahead_s);
        check_ahead(&server, ahead_s);
        assert_eq!(watching.next_event().name, "leave");
    }
    check_others(&server);
}

#[test]
fn a_server_runs_where_the_monotonic_clock_is_another() {
    let other = ["unshare", "--time", "--fork", "--monotonic", "8640000"];
    let mut probe = std::process::Command::new(other[0]);
    if !probe
        .args(&other[1..])
        .arg("true")
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|it| it.success())
    {
        println!("skipped: a time namespace needs root");
        return;
    }
    // A hundred days after the machine's boot.
    let server = builder().behind(&other).start();
    let mut held = Stream::open(server.connect(), "/events", None);
    assert_eq!(server.connect().get("/delay/100").text(), "waited");
    server.connect().post("/publish", "seen");
    assert_eq!(held.next_event().data, "seen");
    check_others(&server);
}
