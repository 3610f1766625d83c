//! A wall clock that jumps by an hour: signed requests are rejected while the clocks differ, and
//! clients stay connected.

use fermata_testkit::wait_until;
use fermata_tests::wall_clock::WallClock;

use crate::hub::{Hub, WORKERS};

const HOUR_S: i64 = 3_600;

#[test]
fn signed_requests_are_accepted_while_the_clocks_agree() {
    let Some(clock) = WallClock::new() else {
        return;
    };
    let variables = clock.variables();
    let variables = variables.each_ref().map(|(name, value)| (*name, &**value));
    let hub = Hub::start_with(&[], &variables);
    let mut client = hub.client();
    // Some workers respond already, but others may still be starting.
    let count: usize = WORKERS.parse().expect("a number");
    wait_until("all workers run", || {
        (hub.workers().len() == count).then_some(())
    });
    let workers = hub.workers();
    for (ahead_s, status) in [(HOUR_S, 401), (0, 200), (-HOUR_S, 401), (0, 200)] {
        clock.set(ahead_s);
        let (found, answer) = hub.ask("GET", "/apps/1/channels", &[], "");
        assert_eq!(found, status, "{ahead_s}: {answer}");
        client.send_event("pusher:ping", &serde_json::json!({}));
        assert_eq!(client.next()["event"], "pusher:pong", "{ahead_s}");
    }
    assert_eq!(hub.workers(), workers);
}
