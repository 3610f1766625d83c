//! Tests for Redis only.

use fermata_testkit::{Redis, Sentinel, wait_until};

use crate::node::{Node, run};

fn url(redis: &Redis) -> String {
    format!("redis://127.0.0.1:{}", redis.port())
}

#[test]
fn deleted_log_starts_again() {
    let Some(redis) = Redis::start() else { return };
    let mut node = Node::new("a", &url(&redis));
    node.publish("1");
    run("it is in the log", &mut [&mut node], |nodes| {
        nodes[0].told.len() == 1
    });
    redis.ask("FLUSHALL");
    node.publish("2");
    run("the next one is told", &mut [&mut node], |nodes| {
        nodes[0].told.len() == 2
    });
    let [(before, _), (after, data)] = &node.told[..] else {
        panic!("{:?}", node.told);
    };
    assert_eq!(data, "2");
    assert_ne!(before.epoch, after.epoch);
    assert_eq!(node.gaps.len(), 2);
}

/// Regression test: the error was `ERR unknown command`, without an explanation.
#[test]
fn skips_a_sentinel_in_a_list_of_logs() {
    let (Some(redis), Some(replica)) = (Redis::start(), Redis::start()) else {
        return;
    };
    replica.ask(&format!("REPLICAOF 127.0.0.1 {}", redis.port()));
    let sentinel = Sentinel::watch(&redis);
    let both = format!("redis://127.0.0.1:{},{}", sentinel.port(), url(&redis));
    let mut node = Node::new("a", &both);
    node.publish("1");
    run("it is in the log", &mut [&mut node], |nodes| {
        nodes[0].told.len() == 1
    });
    let told = node
        .causes
        .iter()
        .any(|cause| cause.contains("redis+sentinel://"));
    assert!(told, "{:?}", node.causes);
}

#[test]
fn messages_removed_before_reading_are_a_gap() {
    let Some(redis) = Redis::start() else { return };
    let mut first = Node::new("a", &url(&redis));
    for number in 0..10 {
        first.publish(&number.to_string());
    }
    run("all are in the log", &mut [&mut first], |nodes| {
        nodes[0].told.len() == 10
    });
    redis.ask("XTRIM {test}:log MAXLEN 3");
    let second = first.told[1].0;
    let mut late = Node::behind("b", &url(&redis), Some(second));
    run("it has the rest", &mut [&mut late], |nodes| {
        nodes[0].is_ready && nodes[0].told.len() == 3
    });
    assert_eq!(late.told, first.told[7..]);
    assert_eq!(late.gaps, [first.told[6].0]);
}

#[test]
fn skips_a_replica() {
    let (Some(main), Some(replica)) = (Redis::start(), Redis::start()) else {
        return;
    };
    replica.ask(&format!("REPLICAOF 127.0.0.1 {}", main.port()));
    wait_until("it is a replica", || {
        let text = replica.ask("INFO replication");
        text.contains("master_link_status:up").then_some(())
    });
    let mut node = Node::new("a", &format!("{},{}", url(&replica), url(&main)));
    node.publish("1");
    run("it is told", &mut [&mut node], |nodes| {
        nodes[0].told.len() == 1
    });
    assert!(main.ask("XLEN {test}:log").starts_with(":1"));
}

/// Publishes ten events from the first node. Returns once all nodes and the replica have them.
fn publish_ten(nodes: &mut [&mut Node], replica: &Redis) {
    for number in 0..10 {
        nodes[0].publish(&number.to_string());
    }
    run("all are told", nodes, |nodes| {
        nodes.iter().all(|node| node.told.len() == 10)
    });
    wait_until("the replica has them", || {
        let text = replica.ask("XLEN {test}:log");
        text.starts_with(":10\r").then_some(())
    });
}

/// Runs until "after" is the last event of each node.
fn run_until_after(nodes: &mut [&mut Node]) {
    run("the next one is told", nodes, |nodes| {
        nodes
            .iter()
            .all(|node| node.told.last().is_some_and(|it| it.1 == "after"))
    });
}

/// The replica takes over and lacks acknowledged events.
#[test]
fn lossy_fail_over_is_a_gap_with_one_order() {
    let (Some(mut main), Some(replica)) = (Redis::start(), Redis::start()) else {
        return;
    };
    replica.ask(&format!("REPLICAOF 127.0.0.1 {}", main.port()));
    let both = format!("{},{}", url(&main), url(&replica));
    let (mut a, mut b) = (Node::new("a", &both), Node::new("b", &both));
    publish_ten(&mut [&mut a, &mut b], &replica);
    // Disconnect the replica from the master.
    replica.ask("REPLICAOF 127.0.0.1 1");
    a.publish("lost");
    let all = &mut [&mut a, &mut b];
    run("it is acknowledged and read", all, |nodes| {
        nodes.iter().all(|node| node.told.len() == 11)
    });
    main.kill();
    replica.ask("REPLICAOF NO ONE");
    b.publish("after");
    run_until_after(&mut [&mut a, &mut b]);
    let (before, after) = (a.told[10].0, a.told.last().map(|it| it.0));
    assert_ne!(after.map(|it| it.epoch), Some(before.epoch));
    assert_eq!(a.told.last(), b.told.last());
    for node in [&a, &b] {
        assert!(node.gaps.len() > 1, "{:?}", node.gaps);
        let lost = node.told.iter().filter(|it| it.1 == "lost");
        assert_eq!(lost.count(), 1);
    }
}

/// The replica takes over and lacks acknowledged events that no node has read.
#[test]
fn lossy_fail_over_of_unread_events_is_a_gap() {
    for others in [0, 3] {
        let (Some(mut main), Some(replica)) = (Redis::start(), Redis::start()) else {
            return;
        };
        replica.ask(&format!("REPLICAOF 127.0.0.1 {}", main.port()));
        let both = format!("{},{}", url(&main), url(&replica));
        let mut a = Node::new("a", &both);
        publish_ten(&mut [&mut a], &replica);
        replica.ask("REPLICAOF 127.0.0.1 1");
        a.publish("lost");
        wait_until("it is acknowledged", || {
            a.turn();
            a.accepted.contains_key(&11).then_some(())
        });
        main.kill();
        replica.ask("REPLICAOF NO ONE");
        // Events of other nodes may take the position of the lost event before the node reads.
        let mut b = Node::new("b", &url(&replica));
        for number in 0..others {
            b.publish(&format!("other {number}"));
        }
        run("the others are told", &mut [&mut b], |nodes| {
            nodes[0].accepted.len() == others
        });
        let (gaps, epoch) = (a.gaps.len(), a.accepted[&11].epoch);
        a.publish("after");
        run_until_after(&mut [&mut a, &mut b]);
        assert_eq!(a.gaps.len(), gaps + 1, "{others} others: {:?}", a.gaps);
        assert_ne!(a.told.last().map(|it| it.0.epoch), Some(epoch));
        assert_eq!(a.told.last(), b.told.last());
    }
}

/// A server that becomes a replica keeps its connections, and loads the data of another server.
#[test]
fn demotion_to_a_replica_with_fewer_events_is_a_gap() {
    let (Some(main), Some(other)) = (Redis::start(), Redis::start()) else {
        return;
    };
    other.ask(&format!("REPLICAOF 127.0.0.1 {}", main.port()));
    let mut a = Node::new("a", &format!("{},{}", url(&main), url(&other)));
    publish_ten(&mut [&mut a], &other);
    other.ask("REPLICAOF NO ONE");
    a.publish("lost");
    let mut b = Node::new("b", &url(&other));
    for number in 0..5 {
        b.publish(&format!("other {number}"));
    }
    run("both are told", &mut [&mut a, &mut b], |nodes| {
        nodes[0].told.len() == 11 && nodes[1].told.len() == 15
    });
    main.ask(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
    run("it is told of the others", &mut [&mut a, &mut b], |nodes| {
        let others = |node: &Node| {
            let is_other = |it: &&(fermata_cluster::Place, String)| it.1.starts_with("other");
            node.told.iter().rev().take(5).filter(is_other).count()
        };
        nodes
            .iter()
            .all(|node| node.is_ready && node.gaps.len() == 2 && others(node) == 5)
    });
    assert_eq!(a.told[a.told.len() - 5..], b.told[b.told.len() - 5..]);
    assert_ne!(a.told[10].0.epoch, a.told[a.told.len() - 1].0.epoch);
    assert_eq!((a.gaps.len(), b.gaps.len()), (2, 2));
}

#[test]
fn refusing_server_is_read_and_away_until_it_writes() {
    let cases = [
        ("maxmemory 1", "maxmemory 0", "OOM"),
        (
            "min-replicas-to-write 1",
            "min-replicas-to-write 0",
            "NOREPLICAS",
        ),
    ];
    for (refuse, take, code) in cases {
        let Some(redis) = Redis::start() else { return };
        let mut node = Node::new("a", &url(&redis));
        node.publish("0");
        run("it is told", &mut [&mut node], |nodes| {
            nodes[0].told.len() == 1
        });
        redis.ask(&format!("CONFIG SET {refuse}"));
        let first = node.causes.len();
        for number in 1..200 {
            node.publish(&number.to_string());
        }
        let began = std::time::Instant::now();
        run("some time passes", &mut [&mut node], |nodes| {
            let has_passed = began.elapsed() > std::time::Duration::from_secs(3);
            assert!(nodes[0].is_ready == (nodes[0].causes.len() == first));
            has_passed
        });
        assert_eq!(node.causes.len(), first + 1, "{:?}", node.causes);
        let cause = &node.causes[first];
        assert!(
            cause.contains(code) && !cause.contains("script"),
            "{cause:?}"
        );
        // A new node can read, but is not ready.
        let mut late = Node::new("b", &url(&redis));
        run("it has the past", &mut [&mut late], |nodes| {
            nodes[0].told.len() == 1 && !nodes[0].causes.is_empty()
        });
        assert!(!late.is_ready);
        redis.ask(&format!("CONFIG SET {take}"));
        run("all are told", &mut [&mut node, &mut late], |nodes| {
            nodes
                .iter()
                .all(|node| node.is_ready && node.told.len() == 200)
        });
        let told: Vec<&String> = node.told.iter().map(|it| &it.1).collect();
        assert_eq!(told, node.outbox.iter().collect::<Vec<_>>());
        assert_eq!((node.accepted.len(), node.gaps.len()), (200, 1));
    }
}

#[test]
fn fail_over_by_sentinel_has_no_gap() {
    let (Some(mut main), Some(replica)) = (Redis::start(), Redis::start()) else {
        return;
    };
    replica.ask(&format!("REPLICAOF 127.0.0.1 {}", main.port()));
    let sentinel = Sentinel::watch(&main);
    let both = format!("{},{}", url(&main), url(&replica));
    let (mut a, mut b) = (Node::new("a", &both), Node::new("b", &both));
    for number in 0..100 {
        a.publish(&format!("a{number}"));
        b.publish(&format!("b{number}"));
    }
    let all = &mut [&mut a, &mut b];
    run("all are told", all, |nodes| {
        nodes.iter().all(|node| node.told.len() == 200)
    });
    // Wait for the replica, because the fail-over would otherwise lose events.
    wait_until("the replica has them", || {
        let text = replica.ask("XLEN {test}:log");
        text.starts_with(":200\r").then_some(())
    });
    main.kill();
    for number in 100..150 {
        a.publish(&format!("a{number}"));
    }
    let all = &mut [&mut a, &mut b];
    run("all are told", all, |nodes| {
        nodes.iter().all(|node| node.told.len() == 250)
    });
    assert_eq!(sentinel.main_port(), Some(replica.port()));
    assert_eq!(a.told, b.told);
    assert_eq!((a.gaps.len(), b.gaps.len()), (1, 1));
    let own = a.told.iter().filter(|it| it.1.starts_with('a'));
    assert_eq!(
        own.map(|it| &it.1).collect::<Vec<_>>(),
        a.outbox.iter().collect::<Vec<_>>()
    );
    // The former master restarts as a replica.
    main.restart();
    wait_until("it is a replica", || {
        main.ask("INFO replication")
            .contains("role:slave")
            .then_some(())
    });
    b.publish("end");
    let all = &mut [&mut a, &mut b];
    run("the end is told", all, |nodes| {
        nodes.iter().all(|node| node.told.len() == 251)
    });
    assert_eq!((a.gaps.len(), b.gaps.len()), (1, 1));
}

#[test]
fn requires_a_password_and_does_not_log_it() {
    let Some(redis) = Redis::start() else { return };
    redis.ask("CONFIG SET requirepass right");
    let port = redis.port();
    let mut wrong = Node::new("a", &format!("redis://wrong@127.0.0.1:{port}"));
    run("it is refused", &mut [&mut wrong], |nodes| {
        !nodes[0].causes.is_empty()
    });
    let cause = &wrong.causes[0];
    assert!(cause.contains("WRONGPASS"), "{cause}");
    assert!(!cause.contains("wrong@"), "{cause}");
    let mut right = Node::new("b", &format!("redis://right@127.0.0.1:{port}/3"));
    right.publish("1");
    run("it is told", &mut [&mut right], |nodes| {
        nodes[0].told.len() == 1
    });
}

#[test]
fn documented_permissions_suffice() {
    let Some(redis) = Redis::start() else { return };
    let commands = "+hello +select +script|load +evalsha +subscribe +hget +hset +hincrby +xadd +xrange +xrevrange +zadd \
                    +zrangebyscore +zremrangebyrank +expire +time +publish";
    let answer = redis.ask(&format!(
        "ACL SETUSER app on >right ~{{test}}:* &{{test}}:new {commands}"
    ));
    assert_eq!(answer, "+OK\r\n");
    let port = redis.port();
    let mut node = Node::new("a", &format!("redis://app:right@127.0.0.1:{port}"));
    for number in 0..10 {
        node.publish(&number.to_string());
    }
    run("all are told", &mut [&mut node], |nodes| {
        nodes[0].told.len() == 10
    });
}
