//! What holds whichever log it is.

use fermata_cluster::Place;
use fermata_testkit::{LogServer, over_each_log};

use crate::node::{Node, run};

over_each_log!(
    all_nodes_have_one_order_though_the_log_is_killed,
    a_log_that_has_lost_its_end_gets_another_epoch_on_all_nodes,
    what_was_sent_before_the_log_was_killed_is_not_doubled,
    large_records_pass_among_small_ones,
);

fn all_nodes_have_one_order_though_the_log_is_killed(mut log: LogServer) {
    let url = log.url();
    let (mut a, mut b) = (Node::new("a", &url), Node::new("b", &url));
    run("both are ready", &mut [&mut a, &mut b], |nodes| {
        nodes.iter().all(|node| node.is_ready)
    });
    for number in 0..200 {
        a.publish(&format!("a{number}"));
        b.publish(&format!("b{number}"));
    }
    // In the middle of it.
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
    // One that comes later has the past, under the same places.
    let mut late = Node::new("late", &url);
    run("the third has the past", &mut [&mut late], |nodes| {
        nodes[0].is_ready && nodes[0].told.len() == 500
    });
    assert_eq!(late.told, a.told);
}

fn a_log_that_has_lost_its_end_gets_another_epoch_on_all_nodes(log: LogServer) {
    let url = log.url();
    let mut first = Node::new("a", &url);
    first.publish("1");
    run("it is in the log", &mut [&mut first], |nodes| {
        nodes[0].told.len() == 1
    });
    let epoch = first.told[0].0.epoch;
    // As if 2 to 9 had been read before they were lost.
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

/// The records of an outbox that are handed over once more, as a bridge does that has been killed.
fn what_was_sent_before_the_log_was_killed_is_not_doubled(mut log: LogServer) {
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

fn large_records_pass_among_small_ones(log: LogServer) {
    let url = log.url();
    let mut node = Node::new("a", &url);
    for number in 0..300 {
        // 18 MB, of which a reader is given parts.
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
