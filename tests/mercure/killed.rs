//! Workers are killed while updates are published: a client that resumes with its last id misses
//! nothing.

use fermata_testkit::sse::{Follower, Stream};
use fermata_testkit::{Directory, Signal, send_signal, wait_until};

use crate::hub::{Hub, publisher, reader};

const UPDATES: usize = 240;

#[test]
fn a_subscriber_that_comes_back_misses_nothing() {
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

#[test]
fn a_hub_that_keeps_a_file_has_its_updates_after_it_was_killed() {
    let folder = Directory::new();
    let path = folder.join("history");
    let config = folder.write("hub.toml", format!("history_path = '{}'", path.display()));
    let config = config.display().to_string();
    let start = || Hub::start_with("anonymous\nsubscriptions", &["--config", &config]);
    let hub = start();
    let subscriber = hub.subscribe(&["{+all}"], None);
    let ids: Vec<String> = (0..4)
        .map(|at| {
            let (text, given) = (at.to_string(), format!("urn:given:{at}"));
            let mut fields = vec![("topic", "a"), ("data", text.as_str())];
            if at % 2 == 1 {
                fields.push(("id", given.as_str()));
            }
            hub.publish(&fields)
        })
        .collect();
    hub.kill();
    drop(subscriber);
    let hub = start();
    let list = format!("Bearer {}", reader(&["*"]));
    let path = "/.well-known/mercure/subscriptions";
    wait_until("who subscribed is gone", || {
        let mut connection = hub.connect();
        let found = connection.request("GET", path, &[("Authorization", &list)], b"");
        found.text().contains("\"subscriptions\":[]").then_some(())
    });
    for (at, id) in ids.iter().enumerate() {
        let mut back = Stream::open(hub.connect(), &Hub::path(&["a"], None), Some(id));
        assert_eq!(back.head().header("last-event-id"), Some(id.as_str()));
        let events = back.next_events(3 - at);
        let data: Vec<&str> = events.iter().map(|event| event.data.as_str()).collect();
        assert_eq!(data, ["1", "2", "3"][at..]);
    }
}
