//! Held clients without events: the server sleeps.

use std::fs;
use std::thread;
use std::time::Duration;

use fermata_testkit::sse::Stream;
use fermata_testkit::wait_until;
use fermata_tests::fixture;

/// Time for which the server is observed: long enough to detect periodic work.
const WATCHED: Duration = Duration::from_secs(3);

/// Returns the number of times that the kernel has scheduled each process.
///
/// A process that sleeps in one system call is never scheduled, so an unchanged count means that it
/// made no system call.
fn runs(pids: &[u32]) -> Vec<u64> {
    let count = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("it is alive");
        let count = text.split_whitespace().nth(2).expect("three numbers");
        count.parse().expect("a number")
    };
    pids.iter().map(count).collect()
}

#[test]
fn a_server_that_only_holds_clients_makes_no_system_call() {
    let server = fixture("hub")
        .workers(2)
        .control()
        // Set a short time-out, so that time-outs from before the hold expire soon.
        .setting("header_timeout_ms", 100)
        .start();
    let mut pids: Vec<_> = server.worker_pids().into_values().collect();
    pids.push(server.pid());
    let streams: Vec<_> = (0..200)
        .map(|_| Stream::open(server.connect(), "/events?keepalive=0", None))
        .collect();
    wait_until("the server rests", || {
        let before = runs(&pids);
        thread::sleep(Duration::from_millis(500));
        (runs(&pids) == before).then_some(())
    });
    let before = runs(&pids);
    thread::sleep(WATCHED);
    assert_eq!(runs(&pids), before, "of the workers and the master");
    drop(streams);
}
