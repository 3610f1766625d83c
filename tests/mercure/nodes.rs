//! Several Mercure hubs that share a log act as one.

use fermata_testkit::sse::Stream;
use fermata_testkit::{LogServer, over_each_log, wait_until};

use crate::hub::{Hub, publisher, reader};
use crate::subscriptions::{ask, count};

over_each_log!(
    subscribers_of_all_hubs_get_what_any_publishes,
    without_the_log_publishing_fails_and_subscribers_stay,
);

fn start(log: &LogServer) -> Hub {
    let url = log.url();
    let variables = [
        ("FERMATA_CLUSTER", url.as_str()),
        // NATS reserves this size, and rejects the stream on a machine with less space.
        ("FERMATA_CLUSTER_BYTES_MAX", "16m"),
        ("FERMATA_CLUSTER_LEASE_MS", "4000"),
        ("FERMATA_PUBLISH_WAIT_MS_MAX", "3000"),
    ];
    let hub = Hub::start_as("subscriptions\nanonymous", &[], &variables);
    wait_until("the log is there", || {
        let answer = hub.try_publish(&publisher(&["*"]), &[("topic", "ready"), ("data", "x")]);
        (answer.status() == 200).then_some(())
    });
    // Subscriptions on other servers are known a moment later.
    wait_until("subscriptions are known", || {
        (ask(&hub, "").status() == 200).then_some(())
    });
    hub
}

fn subscribers_of_all_hubs_get_what_any_publishes(log: LogServer) {
    let mut hubs = vec![start(&log), start(&log)];
    let secret = "https://example.com/private";
    let topics = ["https://example.com/{id}"];
    let mut streams: Vec<Stream> = hubs
        .iter()
        .map(|hub| hub.subscribe(&topics, Some(&reader(&[secret]))))
        .collect();
    // This client receives no private update, and public updates of every topic.
    let mut stranger = hubs[1].subscribe(&["https://example.com/other"], None);
    let mut ids = Vec::new();
    for at in 0..10 {
        let data = at.to_string();
        ids.push(hubs[at % 2].publish(&[("topic", "https://example.com/1"), ("data", &data)]));
    }
    for stream in &mut streams {
        for (at, id) in ids.iter().enumerate() {
            let event = stream.next_event();
            assert_eq!(
                (event.data, event.id.as_deref()),
                (at.to_string(), Some(id.as_str()))
            );
        }
    }
    hubs[0].publish(&[("topic", secret), ("private", "on"), ("data", "private")]);
    hubs[0].publish(&[
        ("topic", "https://example.com/2"),
        ("topic", "https://example.com/other"),
        ("data", "both"),
    ]);
    for stream in &mut streams {
        assert_eq!(stream.next_event().data, "private");
        assert_eq!(stream.next_event().data, "both");
    }
    assert_eq!(stranger.next_event().data, "both");
    // A client with the id of an update at one hub resumes at the other hub.
    let path = Hub::path(&topics, None);
    let mut back = Stream::open(hubs[1].connect(), &path, Some(&ids[4]));
    for at in 5..10 {
        assert_eq!(back.next_event().data, at.to_string());
    }
    assert_eq!(back.next_event().data, "both");
    let mut all = Stream::open(hubs[1].connect(), &path, Some("earliest"));
    assert_eq!(all.next_event().data, "0");
    drop((back, all));
    // Each hub lists the subscriptions of both hubs, and drops those of a killed hub.
    for hub in &hubs {
        wait_until("all subscriptions", || (count(hub, "") == 3).then_some(()));
    }
    hubs.remove(1).kill();
    wait_until("those of the other", || {
        (count(&hubs[0], "") == 1).then_some(())
    });
}

fn without_the_log_publishing_fails_and_subscribers_stay(mut log: LogServer) {
    let hubs = [(); 2].map(|()| start(&log));
    let mut stream = hubs[0].subscribe(&["a"], None);
    log.kill();
    wait_until("publishing fails", || {
        let answer = hubs[1].try_publish(&publisher(&["*"]), &[("topic", "a"), ("data", "lost")]);
        (answer.status() == 503 && answer.text().contains("log of the cluster")).then_some(())
    });
    log.restart();
    wait_until("publishing works", || {
        let answer = hubs[1].try_publish(&publisher(&["*"]), &[("topic", "a"), ("data", "again")]);
        (answer.status() == 200).then_some(())
    });
    while stream.next_event().data != "again" {}
}
