//! A Redis Cluster: one server has the log, and the others name that server.

use std::time::{Duration, Instant};

use fermata_testkit::{Redis, RedisCluster, wait_until};

use crate::node::{Node, run};

const FAIL_OVER_MAX: Duration = Duration::from_secs(20);
const LOG: &str = "{test}:log";

fn url<'a>(servers: impl IntoIterator<Item = &'a Redis>) -> String {
    let places = servers.into_iter();
    let places: Vec<String> = places
        .map(|it| format!("127.0.0.1:{}", it.port()))
        .collect();
    format!("redis://{}", places.join(","))
}

fn publish(nodes: &mut [&mut Node], count: usize) {
    for node in nodes.iter_mut() {
        for _ in 0..count {
            let number = node.outbox.len();
            node.publish(&number.to_string());
        }
    }
    run("all are told", nodes, |nodes| {
        let count: usize = nodes.iter().map(|node| node.outbox.len()).sum();
        nodes.iter().all(|node| {
            node.is_ready && node.accepted.len() == node.outbox.len() && node.told.len() == count
        })
    });
}

#[test]
fn any_server_of_a_redis_cluster_names_the_log() {
    let Some(cluster) = RedisCluster::start() else {
        return;
    };
    for (at, server) in cluster.servers().iter().enumerate() {
        let mut node = Node::new(&at.to_string(), &url([server]));
        node.publish("1");
        run("it is told", &mut [&mut node], |nodes| {
            nodes[0].told.len() == at + 1
        });
        assert!(node.causes.is_empty(), "{:?}", node.causes);
    }
    let mut node = Node::new("a", &format!("{}/2", url(&cluster.servers()[..1])));
    run("it is refused", &mut [&mut node], |nodes| {
        !nodes[0].causes.is_empty()
    });
    assert!(
        node.causes[0].contains("leave out the number"),
        "{:?}",
        node.causes
    );
}

#[test]
fn follows_a_new_owner_in_a_redis_cluster() {
    let Some(mut cluster) = RedisCluster::start() else {
        return;
    };
    let all = url(cluster.servers());
    let (mut a, mut b) = (Node::new("a", &all), Node::new("b", &all));
    publish(&mut [&mut a, &mut b], 100);
    // A manual fail-over loses nothing, because the master waits for its replica.
    let owner = cluster.owner(LOG).expect("it is there");
    let replica = cluster.replica(owner);
    assert_eq!(
        cluster.servers()[replica].ask("CLUSTER FAILOVER"),
        "+OK\r\n"
    );
    let began = Instant::now();
    let what = "the replica leads";
    run(what, &mut [&mut a, &mut b], |_| {
        cluster.owner(LOG) == Some(replica)
    });
    publish(&mut [&mut a, &mut b], 50);
    println!("published again {:?} after the command", began.elapsed());
    assert!(began.elapsed() < FAIL_OVER_MAX);
    assert_eq!((a.gaps.len(), b.gaps.len()), (1, 1));
    assert_eq!(a.told, b.told);
    cluster.wait_whole();
    // A crash loses what the replica lacks, so wait until the replica has everything.
    wait_until("the replica has all", || {
        let [old, new] = [owner, replica].map(|at| {
            let text = cluster.servers()[at].ask("INFO replication");
            let offset = text.split("_repl_offset:").nth(1).map(str::to_owned);
            offset.and_then(|it| it.split('\r').next().map(str::to_owned))
        });
        (old.is_some() && old == new).then_some(())
    });
    cluster.kill(replica);
    let began = Instant::now();
    publish(&mut [&mut a, &mut b], 50);
    println!("published again {:?} after the kill", began.elapsed());
    assert!(began.elapsed() < FAIL_OVER_MAX);
    assert_eq!(cluster.owner(LOG), Some(owner));
    assert_eq!((a.gaps.len(), b.gaps.len()), (1, 1));
    assert_eq!(a.told, b.told);
    cluster.restart(replica);
}

/// During a migration, writes to the remaining keys are refused.
#[test]
fn follows_a_migrated_log_in_a_redis_cluster() {
    let Some(cluster) = RedisCluster::start() else {
        return;
    };
    let all = url(cluster.servers());
    let (mut a, mut b) = (Node::new("a", &all), Node::new("b", &all));
    publish(&mut [&mut a, &mut b], 100);
    let from = cluster.owner(LOG).expect("it is there");
    let is_other =
        |at: &usize| *at != from && cluster.servers()[*at].ask("ROLE").contains("master");
    let to = (0..6).find(is_other).expect("there are three");
    let [from, to] = [from, to].map(|at| &cluster.servers()[at]);
    let id = |it: &Redis| it.ask("CLUSTER MYID").lines().nth(1).map(str::to_owned);
    let (from_id, to_id) = (id(from).unwrap(), id(to).unwrap());
    let slot = from.ask(&format!("CLUSTER KEYSLOT {LOG}"));
    let slot = slot.trim().trim_start_matches(':');
    let ok = |it: &Redis, command: &str| assert_eq!(it.ask(command), "+OK\r\n", "{command}");
    ok(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}"));
    ok(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}"));
    let migrate = |keys: &str| {
        let command = format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS {keys}", to.port());
        ok(from, &command);
    };
    // Migrate the first key, then the others.
    migrate("{test}:meta");
    a.publish("100");
    b.publish("100");
    run("it is noticed", &mut [&mut a, &mut b], |nodes| {
        nodes.iter().all(|node| !node.is_ready)
    });
    assert!(a.causes[0].contains("is migrating"), "{:?}", a.causes);
    migrate("{test}:log {test}:sent:a {test}:sent:b");
    ok(to, &format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
    ok(from, &format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
    publish(&mut [&mut a, &mut b], 50);
    assert_eq!((a.gaps.len(), b.gaps.len()), (1, 1));
    assert_eq!(a.told, b.told);
}
