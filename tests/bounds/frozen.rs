//! Processes that are stopped for some seconds, as on a suspended machine: clients and workers
//! stay.

use std::thread::sleep;
use std::time::Duration;

use fermata_testkit::sse::Stream;
use fermata_testkit::{Signal, send_signal};

use crate::{builder, check_others};

/// Three times the time-out after which an unresponsive worker is replaced.
const STANDS_STILL: Duration = Duration::from_secs(3);
const STALL_TIMEOUT_MS: u64 = 1_000;

#[test]
fn a_server_that_stood_still_as_a_whole_keeps_workers_and_clients() {
    let server = builder()
        .workers(2)
        .setting("stall_timeout_ms", STALL_TIMEOUT_MS)
        .start();
    let pids = server.worker_pids();
    let mut held: Vec<Stream> = pids
        .values()
        .map(|&pid| Stream::open(server.connect_to(pid), "/events", None))
        .collect();
    let mut waiting = server.connect();
    waiting.send("GET /delay/500 HTTP/1.1\r\nHost: a\r\n\r\n");
    let all: Vec<u32> = pids.values().copied().chain([server.pid()]).collect();
    // The master is stopped last, so that it detects no stopped worker.
    for &pid in all.iter().rev() {
        assert!(send_signal(pid, Signal::Stop));
    }
    sleep(STANDS_STILL);
    for &pid in all.iter().rev() {
        assert!(send_signal(pid, Signal::Continue));
    }
    assert_eq!(waiting.read_response().text(), "waited");
    server.connect().post("/publish", "after");
    for stream in &mut held {
        assert_eq!(stream.next_event().data, "after");
    }
    // The next checks of the master find no unresponsive worker.
    sleep(Duration::from_millis(2 * STALL_TIMEOUT_MS));
    assert_eq!(server.worker_pids(), pids);
    check_others(&server);
}

#[test]
fn a_master_that_stands_still_is_missed_by_no_client() {
    let server = builder()
        .workers(2)
        .setting("stall_timeout_ms", STALL_TIMEOUT_MS)
        .start();
    let pids = server.worker_pids();
    let mut held = Stream::open(server.connect(), "/events", None);
    assert!(send_signal(server.pid(), Signal::Stop));
    for number in 0..30 {
        check_others(&server);
        server.connect().post("/publish", number.to_string());
        assert_eq!(held.next_event().data, number.to_string());
        sleep(STANDS_STILL / 30);
    }
    assert!(send_signal(server.pid(), Signal::Continue));
    sleep(Duration::from_millis(2 * STALL_TIMEOUT_MS));
    assert_eq!(server.worker_pids(), pids);
    check_others(&server);
}

#[test]
fn a_worker_that_stands_still_for_less_than_its_time_out_keeps_its_clients() {
    let server = builder().workers(2).start();
    let pids = server.worker_pids();
    let mut held = Stream::open(server.connect_to(pids[&0]), "/events", None);
    let mut other = server.connect_to(pids[&1]);
    assert!(send_signal(pids[&0], Signal::Stop));
    for number in 0..30 {
        assert_eq!(other.get("/").text(), "alive");
        other.post("/publish", number.to_string());
        sleep(STANDS_STILL / 30);
    }
    assert!(send_signal(pids[&0], Signal::Continue));
    let events: Vec<String> = held.next_events(30).into_iter().map(|it| it.data).collect();
    assert!(
        events
            .iter()
            .map(String::as_str)
            .eq((0..30).map(|it| it.to_string()).collect::<Vec<_>>().iter())
    );
    assert_eq!(server.worker_pids(), pids);
}
