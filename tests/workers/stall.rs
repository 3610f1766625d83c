//! Unresponsive workers are detected, logged and replaced, and no client waits for them for long.

use fermata_testkit::sse::Stream;
use fermata_testkit::{Signal, is_running, send_signal};
use fermata_tests::{fixture, publish};

#[test]
fn a_stopped_worker_is_replaced_although_it_was_idle() {
    let server = fixture("hub").setting("stall_timeout_ms", 400).start();
    let pids = server.worker_pids();
    let mut other = server.connect_to(pids[&1]);
    assert!(send_signal(pids[&0], Signal::Stop));
    let new_pid = server.wait_replaced(0, pids[&0]);
    assert!(!is_running(pids[&0]));
    let line = server.log().wait_for(0, "has not answered").text;
    assert!(line.contains("worker 0"), "{line}");
    assert!(line.contains("while it runs no handler"), "{line}");
    assert!(line.contains("stopped by a signal or a debugger"), "{line}");
    assert!(line.contains("stall_timeout_ms"), "{line}");
    assert_eq!(server.connect_to(new_pid).get("/pid").status(), 200);
    assert_eq!(other.get("/pid").text(), pids[&1].to_string());
}

#[test]
fn a_handler_that_does_not_return_is_named() {
    let server = fixture("hub").setting("stall_timeout_ms", 400).start();
    let pids = server.worker_pids();
    let mut held = Stream::open(server.connect_to(pids[&0]), "/events", None);
    let mut victim = server.connect_to(pids[&0]);
    victim.send("GET /slow/3600000 HTTP/1.1\r\nHost: x\r\n\r\n");
    let new_pid = server.wait_replaced(0, pids[&0]);
    let line = server.log().wait_for(0, "has not answered").text;
    assert!(line.contains("in the handler of GET /slow/{ms}"), "{line}");
    victim.expect_end();
    // The worker's other clients reconnect to any worker and continue.
    held.read_to_end();
    let mut back = Stream::open(server.connect_to(new_pid), "/events", None);
    publish(&server, "news", "on");
    assert_eq!(back.next_event().data, "on");
}

/// Hooks are off, because with hooks a call that would block here has a time-out.
#[test]
fn a_destructor_that_does_not_return_is_named() {
    let server = fixture("faults").setting("stall_timeout_ms", 2_000).start();
    for when in ["end", "exception", "garbage"] {
        let pids = server.worker_pids();
        let from = server.log().len();
        let mut victim = server.connect_to(pids[&0]);
        victim.send(format!("GET /lingering/{when} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let new_pid = server.wait_replaced(0, pids[&0]);
        let line = server.log().wait_for(from, "has not answered").text;
        assert!(line.contains("faults.php"), "{when}: {line}");
        victim.read_to_end();
        assert_eq!(server.connect_to(new_pid).get("/pid").status(), 200);
    }
}

#[test]
fn publishers_wait_for_a_stalled_worker_until_it_is_replaced_and_say_for_whom() {
    let server = fixture("hub")
        .setting("history_bytes_max", 1_048_576)
        .setting("publish_wait_ms_max", 60_000)
        .setting("stall_timeout_ms", 1_000)
        .start();
    let pids = server.worker_pids();
    let mut subscriber = Stream::open(server.connect_to(pids[&1]), "/events", None);
    let mut publisher = server.connect_to(pids[&1]);
    assert!(send_signal(pids[&0], Signal::Stop));
    // Three times the ring's size: no message is rejected or lost.
    for number in 0..400 {
        let data = format!("{number:08192}");
        assert_eq!(publisher.post("/publish/news", &data).status(), 200);
        assert_eq!(subscriber.next_event().data, data);
    }
    let line = server.log().wait_for(0, "publishing waits").text;
    let name = format!("worker 0 (pid {})", pids[&0]);
    assert!(line.contains(&name), "{line}");
    server.wait_replaced(0, pids[&0]);
    assert_eq!(
        server.worker_pids()[&1],
        pids[&1],
        "who waits is not stalled"
    );
}

#[test]
fn busy_and_idle_workers_stay() {
    let server = fixture("hub").setting("stall_timeout_ms", 2_000).start();
    let pids = server.worker_pids();
    let mut busy = server.connect_to(pids[&0]);
    // Much longer in total than the time-out, but the loop runs in between.
    for _ in 0..30 {
        assert_eq!(busy.get("/slow/100").status(), 200);
    }
    assert_eq!(server.worker_pids(), pids);
}
