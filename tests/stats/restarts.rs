//! Counters are not lost when the workers that counted exit.

use fermata_testkit::sse::Stream;
use fermata_testkit::{Signal, send_signal, wait_until};
use fermata_tests::fixture;

use crate::{figure, settled, stats, wait_for};

#[test]
fn counters_survive_a_killed_worker_and_gauges_do_not() {
    let server = fixture("hub").control().start();
    let old = server.worker_pids()[&0];
    let mut connection = server.connect_to(old);
    let stream = Stream::open(server.connect_to(old), "/events", None);
    let before = settled(&server);
    for _ in 0..25 {
        assert_eq!(connection.get("/pid").status(), 200);
    }
    let requests = figure(&before, "total/requests") + 25;
    let of_worker = figure(&before, "workers/0/requests") + 25;
    let counted = [
        ("total/requests", requests),
        ("workers/0/requests", of_worker),
        ("total/holds", 1),
    ];
    let accepted = figure(&wait_for(&server, &counted), "total/accepted");

    assert!(send_signal(old, Signal::Kill));
    let new = server.wait_replaced(0, old);
    drop((connection, stream));
    let after = wait_for(
        &server,
        &[
            counted[0],
            counted[1],
            counted[2],
            ("total/accepted", accepted),
            ("worker_starts", 3),
            ("worker_ends", 1),
            ("worker_failures", 1),
            ("total/connections/sse", 0),
            ("total/subscriptions", 0),
            ("workers/0/pid", u64::from(new)),
        ],
    );
    assert!(figure(&after, "workers/0/rss_bytes") > 0);

    let _connection = server.connect_to(new);
    wait_until("the replacement goes on counting", || {
        (figure(&stats(&server), "workers/0/requests") > of_worker).then_some(())
    });
}

#[test]
fn a_worker_that_ends_in_order_loses_no_count() {
    let server = fixture("hub").workers(1).control().start();
    let old = server.worker_pids()[&0];
    let mut connection = server.connect();
    for _ in 0..10 {
        assert_eq!(connection.get("/pid").status(), 200);
    }
    // Send the signal immediately: the last requests were counted less than a turn ago.
    assert!(send_signal(old, Signal::Terminate));
    server.wait_replaced(0, old);
    wait_for(
        &server,
        &[
            ("total/requests", 10),
            ("worker_ends", 1),
            ("worker_failures", 0),
            ("workers/0/processes", 1),
        ],
    );
}
