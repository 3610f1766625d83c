//! Sentinels name the master, also after a fail-over.

use std::time::{Duration, Instant};

use fermata_testkit::{Redis, Sentinel, wait_until};

use crate::node::{Node, run};

/// Maximum time after a loss of the master until publishing continues. The Sentinels need one second to detect the loss and some
/// seconds to agree. A bridge asks them again at most two seconds later.
const FAIL_OVER_MAX: Duration = Duration::from_secs(20);

fn url<'a>(sentinels: impl IntoIterator<Item = &'a Sentinel>) -> String {
    let places = sentinels.into_iter();
    let places: Vec<String> = places
        .map(|it| format!("127.0.0.1:{}", it.port()))
        .collect();
    format!("redis+sentinel://{}/main", places.join(","))
}

/// Starts a master and its replica.
fn pair() -> Option<[Redis; 2]> {
    let pair = [Redis::start()?, Redis::start()?];
    let [main, replica] = &pair;
    replica.ask(&format!("REPLICAOF 127.0.0.1 {}", main.port()));
    wait_until("it is a replica", || {
        let text = replica.ask("INFO replication");
        text.contains("master_link_status:up").then_some(())
    });
    Some(pair)
}

/// Publishes numbered events from both nodes until all have arrived.
fn publish(nodes: &mut [&mut Node], count: usize) {
    for _ in 0..count {
        for (at, node) in nodes.iter_mut().enumerate() {
            let number = node.outbox.len();
            node.publish(&format!("{at} {number}"));
        }
    }
}

fn run_until_told(nodes: &mut [&mut Node]) {
    run("all are told", nodes, |nodes| {
        let count: usize = nodes.iter().map(|node| node.outbox.len()).sum();
        nodes.iter().all(|node| {
            node.is_ready && node.accepted.len() == node.outbox.len() && node.told.len() >= count
        })
    });
}

/// Checks that each event arrived once and in the order of its node, except before a gap, and that all acknowledged events arrived.
fn check_order(nodes: &[&Node]) {
    for node in nodes {
        let whole = node.whole();
        for (at, publisher) in nodes.iter().enumerate() {
            let prefix = format!("{at} ");
            let told = node.told.iter().map(|(_, data)| data);
            let told: Vec<&String> = told.filter(|data| data.starts_with(&prefix)).collect();
            let is_whole = told == publisher.outbox.iter().collect::<Vec<_>>();
            assert!(is_whole || node.gaps.len() > 1, "{}", node.state(at));
            let gap = node.gaps.last().expect("the log has begun");
            for (outbox, place) in &publisher.accepted {
                let data = &publisher.outbox[*outbox as usize - 1];
                let is_told = whole.contains(&(*place, data.clone()));
                assert!(is_told || place.epoch != gap.epoch || place.seq <= gap.seq);
            }
        }
        assert_eq!(whole, nodes[0].whole(), "{}", node.difference(nodes[0]));
    }
}

#[test]
fn follows_the_master_of_sentinels() {
    let Some([mut first, second]) = pair() else {
        return;
    };
    let sentinels = Sentinel::watch_by_three(&first);
    let all = url(&sentinels);
    let (mut a, mut b) = (Node::new("a", &all), Node::new("b", &all));
    publish(&mut [&mut a, &mut b], 100);
    run_until_told(&mut [&mut a, &mut b]);
    assert!(a.causes.is_empty(), "{:?}", a.causes);
    // A manual fail-over, while nodes publish.
    let answer = sentinels[1].ask("SENTINEL FAILOVER main");
    assert_eq!(answer.as_deref(), Some("+OK\r\n"));
    let began = Instant::now();
    let is_second = |it: &Sentinel| it.main_port() == Some(second.port());
    while !sentinels.iter().all(is_second) {
        assert!(began.elapsed() < FAIL_OVER_MAX, "no other one leads");
        publish(&mut [&mut a, &mut b], 1);
        for _ in 0..20 {
            a.turn();
            b.turn();
        }
    }
    publish(&mut [&mut a, &mut b], 10);
    run_until_told(&mut [&mut a, &mut b]);
    let on_command = began.elapsed();
    assert!(on_command < FAIL_OVER_MAX, "{on_command:?}");
    check_order(&[&a, &b]);
    let is_synced = |_: &[&mut Node]| {
        let text = first.ask("INFO replication");
        let is_up = text.contains("role:slave") && text.contains("master_link_status:up");
        let [old, new] = [&first, &second].map(|it| it.ask("XLEN {test}:log"));
        is_up && old == new
    };
    let what = "the old one is a replica that has all";
    run(what, &mut [&mut a, &mut b], is_synced);
    // The new master is killed, and the old one takes over again.
    let mut second = second;
    second.kill();
    let began = Instant::now();
    publish(&mut [&mut a, &mut b], 50);
    run_until_told(&mut [&mut a, &mut b]);
    let killed = began.elapsed();
    assert!(killed < FAIL_OVER_MAX, "{killed:?}");
    println!("published again after {on_command:?} on command, {killed:?} after a kill");
    assert_eq!(sentinels[2].main_port(), Some(first.port()));
    check_order(&[&a, &b]);
    first.kill();
}

#[test]
fn skips_sentinels_without_the_master() {
    let Some([first, second]) = pair() else {
        return;
    };
    let (mut gone, stale) = (Sentinel::watch(&first), Sentinel::watch(&first));
    gone.kill();
    let knows = Sentinel::watch(&first);
    let mut node = Node::new("a", &url([&gone, &knows]));
    node.publish("1");
    run("it is told", &mut [&mut node], |nodes| {
        nodes[0].told.len() == 1
    });
    assert_eq!(node.causes.len(), 1, "{:?}", node.causes);
    // One of the servers is not a Sentinel, and the Sentinel has no master of this name.
    let text = format!(
        "redis+sentinel://127.0.0.1:{},127.0.0.1:{}/other",
        first.port(),
        knows.port()
    );
    let mut node = Node::new("b", &text);
    run("both are named", &mut [&mut node], |nodes| {
        nodes[0].causes.len() == 2
    });
    assert!(node.causes[0].contains("no Sentinel"), "{:?}", node.causes);
    assert!(
        node.causes[1].contains("no master other"),
        "{:?}",
        node.causes
    );
    // A Sentinel that names a former master.
    assert_eq!(
        stale.ask("SENTINEL REMOVE main").as_deref(),
        Some("+OK\r\n")
    );
    let command = format!("SENTINEL MONITOR main 127.0.0.1 {} 1", second.port());
    assert_eq!(stale.ask(&command).as_deref(), Some("+OK\r\n"));
    let mut node = Node::new("c", &url([&stale, &knows]));
    node.publish("2");
    run("it is told", &mut [&mut node], |nodes| {
        nodes[0].told.len() == 2
    });
    let [cause] = &node.causes[..] else {
        panic!("{:?}", node.causes);
    };
    let by = format!("named by 127.0.0.1:{}", stale.port());
    assert!(
        cause.contains("a replica") && cause.contains(&by),
        "{cause}"
    );
}

#[test]
fn sentinel_and_redis_have_separate_passwords() {
    let Some([first, second]) = pair() else {
        return;
    };
    let sentinel = Sentinel::watch_behind(&first, "watching");
    for redis in [&first, &second] {
        redis.ask("CONFIG SET requirepass storing");
    }
    let place = format!("127.0.0.1:{}/main", sentinel.port());
    for (text, cause) in [
        (
            format!("redis+sentinel://storing@{place}"),
            "sentinel_password",
        ),
        (
            format!("redis+sentinel://storing@{place}?sentinel_password=storing"),
            "sentinel_password",
        ),
        (
            format!("redis+sentinel://{place}?sentinel_password=watching"),
            "cluster_password_file",
        ),
    ] {
        let mut node = Node::new("a", &text);
        run("it is refused", &mut [&mut node], |nodes| {
            !nodes[0].causes.is_empty()
        });
        assert!(node.causes[0].contains(cause), "{:?}", node.causes);
    }
    let text = format!("redis+sentinel://storing@{place}?sentinel_password=watching");
    let mut node = Node::new("a", &text);
    node.publish("1");
    run("it is told", &mut [&mut node], |nodes| {
        nodes[0].told.len() == 1
    });
    assert!(node.causes.is_empty(), "{:?}", node.causes);
}
