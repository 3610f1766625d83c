//! Workers that are killed while updates are published: who comes back with its last id misses nothing.

use fermata_testkit::sse::Follower;
use fermata_testkit::{Signal, send_signal, wait_until};

use crate::hub::{Hub, publisher, reader};

const UPDATES: usize = 240;

#[test]
fn who_comes_back_misses_nothing() {
    let hub = Hub::start("");
    let token = reader(&["private/{n}"]);
    let topics: [&[&str]; 3] = [&["private/1"], &["private/{n}"], &["*"]];
    let mut followers: Vec<Follower> = (0..12)
        .map(|at| {
            let path = Hub::path(topics[at % topics.len()], Some(&token));
            let mut follower = Follower::new(hub.address(), &path);
            follower.connect();
            follower
        })
        .collect();
    let publisher = publisher(&["*"]);
    let mut expected = Vec::new();
    for at in 0..UPDATES {
        if at % 80 == 40 {
            let killed = hub.workers()[0];
            assert!(send_signal(killed, Signal::Kill));
            wait_until("another one comes in its place", || {
                let workers = hub.workers();
                (workers.len() == 3 && !workers.contains(&killed)).then_some(())
            });
        }
        let text = at.to_string();
        let fields = [
            ("topic", "private/1"),
            ("data", text.as_str()),
            ("private", "on"),
        ];
        assert_eq!(hub.try_publish(&publisher, &fields).status(), 200);
        expected.push(text);
    }
    for follower in &mut followers {
        follower.read_until("all updates", |events| events.len() >= UPDATES);
        let got: Vec<&str> = follower.events.iter().map(|it| it.data.as_str()).collect();
        assert_eq!(got, expected);
    }
    assert!(
        followers.iter().any(|it| it.connects > 1),
        "somebody was cut off"
    );
}
