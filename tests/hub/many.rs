//! More workers than one word of the shared memory has bits: one order, complete replays, exact
//! presence.

use std::thread;

use fermata_testkit::sse::{Item, Stream};
use fermata_testkit::{Signal, is_running, send_signal, wait_until};
use fermata_tests::{fixture, json, publish, publish_from_cli};

const WORKERS: usize = 130;
const SUBSCRIBERS: usize = 260;
const PUBLISHERS: usize = 8;
const MESSAGES: usize = 25;

#[test]
fn one_hundred_and_thirty_workers_serve_one_order() {
    let server = fixture("hub").workers(WORKERS).control().start();
    let before = publish(&server, "news", "before");
    let mut streams: Vec<Stream> = (0..SUBSCRIBERS)
        .map(|number| {
            let path = format!("/events?silent=1&user=user{}", number / 2);
            Stream::open(server.connect(), &path, None)
        })
        .collect();
    let present = || json(&server.connect().get("/members/news"));
    let users = present();
    let users = users.as_array().expect("members are a list");
    assert_eq!(users.len(), SUBSCRIBERS / 2);
    assert!(users.iter().all(|user| user[2] == 2), "two tabs each");

    // Concurrent publishers of all kinds: separate processes, and clients of any worker.
    thread::scope(|scope| {
        for publisher in 0..PUBLISHERS {
            let server = &server;
            scope.spawn(move || {
                let prefix = format!("{publisher}-");
                if publisher < 2 {
                    publish_from_cli(&server.control(), "news", MESSAGES, &prefix);
                    return;
                }
                for number in 0..MESSAGES {
                    publish(server, "news", &format!("{prefix}{number}"));
                }
            });
        }
    });
    let read = |stream: &mut Stream| -> Vec<(Option<String>, String)> {
        let events = stream.next_events(PUBLISHERS * MESSAGES).into_iter();
        events.map(|event| (event.id, event.data)).collect()
    };
    let order = read(&mut streams[0]);
    for stream in &mut streams[1..] {
        assert_eq!(read(stream), order, "one order for all");
    }
    for publisher in 0..PUBLISHERS {
        let prefix = format!("{publisher}-");
        let of_one = order
            .iter()
            .filter_map(|(_, data)| data.strip_prefix(&prefix));
        let numbers: Vec<usize> = of_one.map(|it| it.parse().expect("a number")).collect();
        assert_eq!(numbers, (0..MESSAGES).collect::<Vec<_>>());
    }
    for _ in 0..10 {
        let mut late = Stream::open(server.connect(), "/events", Some(&before));
        assert_eq!(read(&mut late), order, "replay is the same anywhere");
    }

    // Some workers are killed: only their clients' presence ends.
    let victims: Vec<u32> = server.worker_pids().into_values().take(5).collect();
    for victim in &victims {
        assert!(send_signal(*victim, Signal::Kill));
    }
    wait_until("they are gone", || {
        (!victims.iter().any(|victim| is_running(*victim))).then_some(())
    });
    let mut living: Vec<Stream> = Vec::new();
    publish(&server, "news", "after");
    for mut stream in streams {
        loop {
            match stream.next_item() {
                Item::Event(event) => {
                    assert_eq!(event.data, "after");
                    living.push(stream);
                    break;
                }
                Item::End(_) => break,
                _ => {}
            }
        }
    }
    wait_until("the dead are not counted", || {
        let list = present();
        let tabs = list.as_array()?.iter().filter_map(|user| user[2].as_u64());
        (tabs.sum::<u64>() == living.len() as u64).then_some(())
    });
}
