//! A log on three NATS servers, one of which fails while nodes publish. An election takes up to nine seconds.

use std::thread;
use std::time::{Duration, Instant};

use fermata_testkit::{NatsCluster, deadline};

use crate::node::Node;

/// Interval between two records of a node.
const PACE: Duration = Duration::from_millis(10);
/// Factor on timeouts: on a busy machine, votes must be repeated.
const PATIENCE: u32 = 4;
/// Timeout for the copies to become equal after the servers have reconnected, without publishers.
const COPIES_PATIENCE: Duration = Duration::from_secs(60);
/// Number of nodes that publish. One further node only reads.
const PUBLISHERS: usize = 3;
const STREAM: &str = "FERMATA_test";
/// Number of records of each node before a failure, and after it.
const SOME: usize = 50;

/// Three nodes, each connected to another server at first, that publish continuously.
struct Run {
    nats: NatsCluster,
    nodes: Vec<Node>,
    next: Instant,
}

impl Run {
    /// Starts the run. Returns `None` if nats-server is not installed.
    fn start() -> Option<Run> {
        let nats = NatsCluster::start()?;
        let node = |at: usize| Node::on_three(&format!("n{at}"), &nats.url(at));
        let mut run = Run {
            nodes: (0..PUBLISHERS).map(node).collect(),
            nats,
            next: Instant::now(),
        };
        run.until("all are ready", |nodes| {
            nodes.iter().all(|node| node.is_ready)
        });
        run.go_on();
        Some(run)
    }

    /// Publishes until `condition` is true.
    fn until(&mut self, what: &str, condition: impl Fn(&[Node]) -> bool) {
        let end = patience_end();
        while !condition(&self.nodes) {
            assert!(Instant::now() < end, "gave up: {what}");
            let publishes = Instant::now() >= self.next;
            if publishes {
                self.next = Instant::now() + PACE;
            }
            for (at, node) in self.nodes.iter_mut().enumerate() {
                if publishes {
                    let number = node.outbox.len();
                    node.publish(&format!("{at} {number}"));
                }
                node.turn();
            }
        }
    }

    /// Publishes until every node has received [`SOME`] more records of each node.
    fn go_on(&mut self) {
        let told = |nodes: &[Node]| nodes.iter().map(|node| node.told.len()).max();
        let enough = told(&self.nodes).unwrap_or(0) + SOME * self.nodes.len();
        self.until("records are told", |nodes| {
            nodes
                .iter()
                .all(|node| node.is_ready && node.told.len() >= enough)
        });
    }

    /// Checks that every node has received each record once, in the order of its publisher and in one order for all, without gaps.
    ///
    /// Gaps are allowed if NATS has a wrong copy. After a server was cut off, NATS 2.9.10 had a copy that lacks messages and
    /// renumbers the later ones. A node that has read this copy reports a gap, and then all messages after it.
    fn check(&mut self) {
        for at in 0..PUBLISHERS {
            let published = self.nodes[at].outbox.len();
            let end = patience_end();
            while self.nodes.iter().any(|node| {
                let prefix = format!("{at} ");
                let told = node.whole().iter().filter(|it| it.1.starts_with(&prefix));
                told.count() < published || self.nodes[at].accepted.len() < published
            }) {
                let state = || {
                    self.nodes
                        .iter()
                        .map(|it| it.state(at) + &it.difference(&self.nodes[at]))
                        .collect::<String>()
                };
                assert!(
                    Instant::now() < end,
                    "gave up: all {published} records of node {at} are told\n{}",
                    state()
                );
                self.nodes.iter_mut().for_each(Node::turn);
            }
        }
        let has_gaps = self.nodes.iter().any(|node| node.gaps.len() != 1);
        assert!(
            !has_gaps || self.has_bad_copy(),
            "{:?}",
            self.nodes.iter().map(|it| &it.gaps).collect::<Vec<_>>()
        );
        for node in &self.nodes {
            assert!(node.is_ready && node.rejected.is_empty());
            assert!(node.whole() == self.nodes[0].whole(), "one order for all");
            for (at, publisher) in self.nodes[..PUBLISHERS].iter().enumerate() {
                let prefix = format!("{at} ");
                let told = node.whole().iter().filter(|it| it.1.starts_with(&prefix));
                assert!(
                    told.map(|it| &it.1).eq(&publisher.outbox),
                    "each once and in its order"
                );
            }
        }
        for node in &self.nodes {
            for (outbox, place) in &node.accepted {
                let data = &node.outbox[*outbox as usize - 1];
                // The epoch of the record may be the earlier one.
                let at = node.whole().binary_search_by_key(&place.seq, |it| it.0.seq);
                assert!(at.is_ok_and(|at| node.whole()[at].1 == *data));
            }
        }
    }

    /// Returns true if the copies of the servers stay different.
    fn has_bad_copy(&mut self) -> bool {
        self.nats.mend();
        let end = Instant::now() + COPIES_PATIENCE;
        while !self.nats.has_equal_copies(STREAM) {
            if Instant::now() >= end {
                eprintln!("the files of the three nats-servers differ, see docs/cluster.md");
                return true;
            }
            thread::sleep(Duration::from_millis(100));
        }
        false
    }
}

fn patience_end() -> Instant {
    Instant::now() + PATIENCE * deadline()
}

fn a_leader_fails(
    run: &mut Run,
    fail: impl Fn(&mut NatsCluster, usize),
    mend: impl Fn(&mut NatsCluster, usize),
) {
    let leader = run.nats.leader(STREAM);
    fail(&mut run.nats, leader);
    run.until("all notice it", |nodes| {
        nodes.iter().all(|node| !node.is_ready)
    });
    run.go_on();
    mend(&mut run.nats, leader);
    run.go_on();
    // Records for the old leader arrive late there.
    let settled = Instant::now() + Duration::from_secs(2);
    run.until("it has settled", |_| Instant::now() > settled);
    run.check();
}

#[test]
fn survives_a_killed_leader() {
    let Some(mut run) = Run::start() else { return };
    a_leader_fails(&mut run, NatsCluster::kill, NatsCluster::restart);
}

#[test]
fn survives_a_stopped_leader() {
    let Some(mut run) = Run::start() else { return };
    a_leader_fails(
        &mut run,
        |nats, leader| nats.pause(leader),
        |nats, leader| nats.resume(leader),
    );
}

#[test]
fn survives_a_leader_that_is_cut_off() {
    let Some(mut run) = Run::start() else { return };
    a_leader_fails(
        &mut run,
        |nats, leader| nats.isolate(leader),
        |nats, _| nats.heal(),
    );
}

/// The server that is cut off has a copy of the stream and responds. The other servers continue without it.
#[test]
fn node_of_a_server_that_is_cut_off_catches_up() {
    let Some(mut run) = Run::start() else { return };
    let away = (run.nats.leader(STREAM) + 1) % 3;
    let mut quiet = Node::on_three("quiet", &run.nats.url_of(away));
    while !quiet.is_ready {
        quiet.turn();
        run.nodes.iter_mut().for_each(Node::turn);
    }
    run.nats.isolate(away);
    let end = patience_end();
    while quiet.is_ready {
        assert!(Instant::now() < end, "gave up: it is not ready");
        quiet.turn();
    }
    run.go_on();
    let told = quiet.told.len();
    run.nats.heal();
    run.go_on();
    assert!(
        told < run.nodes[0].told.len(),
        "it was told of nothing meanwhile"
    );
    run.nodes.push(quiet);
    run.check();
}
