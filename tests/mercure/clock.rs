//! A wall clock that jumps by an hour: tokens expire by it, and subscribers without expiry stay
//! connected.

use fermata_testkit::wait_until;
use fermata_tests::wall_clock::WallClock;
use serde_json::json;

use crate::hub::{Hub, WORKERS, now_s, publisher, sign};

const HOUR_S: i64 = 3_600;

#[test]
fn tokens_expire_by_the_wall_clock_and_subscribers_stay() {
    let Some(clock) = WallClock::new() else {
        return;
    };
    let variables = clock.variables();
    let variables = variables.each_ref().map(|(name, value)| (*name, &**value));
    let hub = Hub::start_as("anonymous", &[], &variables);
    let grants = json!({"publish": ["*"]});
    let until = sign(&json!({"mercure": grants, "exp": now_s() + 600}));
    let from = sign(&json!({"mercure": grants, "nbf": now_s() - 600}));
    let mut held = hub.subscribe(&["a"], None);
    // Some workers respond already, but others may still be starting.
    let count: usize = WORKERS.parse().expect("a number");
    wait_until("all workers run", || {
        (hub.workers().len() == count).then_some(())
    });
    let workers = hub.workers();
    for (ahead_s, by_exp, by_nbf) in [
        (HOUR_S, 401, 200),
        (0, 200, 200),
        (-HOUR_S, 200, 401),
        (0, 200, 200),
    ] {
        clock.set(ahead_s);
        let status = |token: &str| hub.try_publish(token, &[("topic", "b")]).status();
        assert_eq!(
            (status(&until), status(&from)),
            (by_exp, by_nbf),
            "{ahead_s}"
        );
        let data = ahead_s.to_string();
        let published = hub.try_publish(&publisher(&["*"]), &[("topic", "a"), ("data", &data)]);
        assert_eq!(published.status(), 200);
        assert_eq!(held.next_event().data, data);
    }
    assert_eq!(hub.workers(), workers);
}
