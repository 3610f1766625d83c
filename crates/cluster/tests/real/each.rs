//! Tests for each kind of log.

use fermata_cluster::{PastEntry, PastRequest, Place};
use fermata_testkit::{LogServer, over_each_log};

use crate::node::{Node, run};

over_each_log!(
    nodes_have_one_order_after_crashes_of_the_log,
    lost_end_starts_an_epoch_on_all_nodes,
    older_copy_starts_an_epoch_that_no_log_had,
    records_sent_before_a_crash_are_not_duplicated,
    delivers_large_records_among_small_ones,
    past_of_a_channel_is_ordered_and_bounded,
);

const CHANNEL: &str = "räume > 1.*";

fn past_of_a_channel_is_ordered_and_bounded(log: LogServer) {
    let mut node = Node::new("a", &log.url());
    for number in 0..3_000 {
        node.publish(&number.to_string());
    }
    run("all are told", &mut [&mut node], |nodes| {
        nodes[0].told.len() == 3_000
    });
    let told = node.told.clone();
    let mut ask = |events_max, channel: &str, epoch: u64| {
        node.past = None;
        let request = PastRequest {
            id: 1,
            epoch,
            after: told[99].0.seq,
            up_to: told[2_899].0.seq,
            oldest_ms: 0,
            events_max,
            bytes_max: 1 << 20,
            events_only: false,
            channels: vec![b"other".to_vec(), channel.as_bytes().to_vec()],
        };
        let now_ms = node.began.elapsed().as_millis() as u64;
        run("it may ask", &mut [&mut node], |nodes| {
            nodes[0].bridge.can_ask_past()
        });
        node.bridge.ask_past(request, now_ms);
        run("the log answers", &mut [&mut node], |nodes| {
            nodes[0].past.is_some()
        });
        node.past.take().unwrap()
    };
    let event = |entry: &PastEntry| match entry {
        PastEntry::Event(received) => {
            assert_eq!(received.name.as_deref(), Some(&b" a name "[..]));
            assert_eq!(received.except, Some((1, u64::MAX)));
            assert!(received.unix_ms > 1_600_000_000_000);
            let data = String::from_utf8(received.data.clone()).unwrap();
            (received.place, data)
        }
        PastEntry::Gap(up_to) => panic!("a gap up to {up_to}"),
    };
    let epoch = told[0].0.epoch;
    let given: Vec<_> = ask(10_000, CHANNEL, epoch).iter().map(event).collect();
    assert_eq!(given, told[100..2_900]);
    // The result has the newest events, and one gap for all other events.
    let given = ask(10, CHANNEL, epoch);
    assert_eq!(given[0], PastEntry::Gap(told[2_889].0.seq));
    let rest: Vec<_> = given[1..].iter().map(event).collect();
    assert_eq!(rest, told[2_890..2_900]);
    assert_eq!(
        ask(10, CHANNEL, epoch ^ 1),
        [PastEntry::Gap(told[2_899].0.seq)],
        "of another log"
    );
    assert_eq!(ask(10, "nobody's", epoch), [], "it has no events");
}

fn nodes_have_one_order_after_crashes_of_the_log(mut log: LogServer) {
    let url = log.url();
    let (mut a, mut b) = (Node::new("a", &url), Node::new("b", &url));
    run("both are ready", &mut [&mut a, &mut b], |nodes| {
        nodes.iter().all(|node| node.is_ready)
    });
    for number in 0..200 {
        a.publish(&format!("a{number}"));
        b.publish(&format!("b{number}"));
    }
    // Kill the log while both publish.
    run("some are told", &mut [&mut a, &mut b], |nodes| {
        nodes[0].told.len() > 20
    });
    log.kill();
    run("it is noticed", &mut [&mut a, &mut b], |nodes| {
        nodes.iter().all(|node| !node.is_ready)
    });
    for number in 200..300 {
        a.publish(&format!("a{number}"));
    }
    log.restart();
    run("all are told", &mut [&mut a, &mut b], |nodes| {
        nodes
            .iter()
            .all(|node| node.told.len() == 500 && node.accepted.len() == node.outbox.len())
    });
    assert_eq!(a.told, b.told);
    assert_eq!((a.gaps.len(), b.gaps.len()), (1, 1));
    for (name, node) in [("a", &a), ("b", &b)] {
        let own: Vec<&str> = node
            .told
            .iter()
            .filter(|it| it.1.starts_with(name))
            .map(|it| &it.1[..])
            .collect();
        let expected: Vec<&str> = node.outbox.iter().map(|it| &it[..]).collect();
        assert_eq!(own, expected, "each once and in its order");
        for (at, place) in &node.accepted {
            let data = &node.outbox[*at as usize - 1];
            assert!(node.told.contains(&(*place, data.clone())));
        }
    }
    // A later node reads all messages. Events have the same positions there.
    let mut late = Node::new("late", &url);
    run("the third has the past", &mut [&mut late], |nodes| {
        nodes[0].is_ready && nodes[0].told.len() == 500
    });
    assert_eq!(late.told, a.told);
}

fn lost_end_starts_an_epoch_on_all_nodes(log: LogServer) {
    let url = log.url();
    let mut first = Node::new("a", &url);
    first.publish("1");
    run("it is in the log", &mut [&mut first], |nodes| {
        nodes[0].told.len() == 1
    });
    let epoch = first.told[0].0.epoch;
    // The second node starts as if messages 2 to 9 had been read and then lost.
    let lost = Place { epoch, seq: 9 };
    let mut second = Node::behind("b", &url, Some(lost));
    run("both are ready", &mut [&mut first, &mut second], |nodes| {
        nodes.iter().all(|node| {
            let gap = node.gaps.last();
            node.is_ready && gap.is_some_and(|gap| gap.epoch != epoch)
        })
    });
    assert_eq!(first.gaps.last(), second.gaps.last());
    second.publish("2");
    let mut late = Node::new("c", &url);
    let all = &mut [&mut first, &mut second, &mut late];
    run("the new one is told", all, |nodes| {
        nodes
            .iter()
            .all(|node| node.told.last().is_some_and(|it| it.1 == "2"))
    });
    assert_eq!(first.told.last(), second.told.last());
    assert_eq!(first.told.last(), late.told.last());
    assert_ne!(first.told.last().map(|it| it.0.epoch), Some(epoch));
}

fn older_copy_starts_an_epoch_that_no_log_had(log: LogServer) {
    let url = log.url();
    let mut first = Node::new("a", &url);
    first.publish("1");
    run("it is in the log", &mut [&mut first], |nodes| {
        nodes[0].told.len() == 1
    });
    // The node starts as if the log had begun a later epoch, and an older copy had been restored.
    let before = first.told[0].0;
    let later = Place {
        epoch: before.epoch + (1 << 40),
        seq: 1,
    };
    let mut second = Node::behind("b", &url, Some(later));
    run("both are ready", &mut [&mut first, &mut second], |nodes| {
        nodes.iter().all(|node| {
            let gap = node.gaps.last();
            node.is_ready && gap.is_some_and(|gap| gap.epoch > later.epoch)
        })
    });
    assert_eq!(first.gaps.last(), second.gaps.last());
    first.publish("2");
    run("both are told", &mut [&mut first, &mut second], |nodes| {
        nodes
            .iter()
            .all(|node| node.told.last().is_some_and(|it| it.1 == "2"))
    });
    assert_eq!(first.told.last(), second.told.last());
}

/// The records of an outbox are sent again, as after a crash of the bridge.
fn records_sent_before_a_crash_are_not_duplicated(mut log: LogServer) {
    let url = log.url();
    let mut first = Node::new("a", &url);
    for number in 0..100 {
        first.publish(&number.to_string());
    }
    run("all are in the log", &mut [&mut first], |nodes| {
        nodes[0].told.len() == 100
    });
    let mut second = Node::new("a", &url);
    second.outbox.clone_from(&first.outbox);
    log.restart();
    second.publish("new");
    let all = &mut [&mut first, &mut second];
    run("the new one is told", all, |nodes| {
        nodes
            .iter()
            .all(|node| node.told.last().is_some_and(|it| it.1 == "new"))
    });
    assert_eq!(first.told.len(), 101);
    assert_eq!(first.told, second.told);
    for (at, place) in &first.accepted {
        assert_eq!(second.accepted.get(at), Some(place));
    }
}

fn delivers_large_records_among_small_ones(log: LogServer) {
    let url = log.url();
    let mut node = Node::new("a", &url);
    for number in 0..300 {
        // 18 MB, which a reader receives in parts.
        let len = if number % 5 == 0 { 300_000 } else { 10 };
        node.publish(&format!("{number}:{}", "x".repeat(len)));
    }
    run("all are told", &mut [&mut node], |nodes| {
        nodes[0].told.len() == 300
    });
    let mut late = Node::new("b", &url);
    run("another reads all of them", &mut [&mut late], |nodes| {
        nodes[0].told.len() == 300
    });
    let told: Vec<&String> = late.told.iter().map(|it| &it.1).collect();
    assert_eq!(told, node.outbox.iter().collect::<Vec<_>>());
}
