//! Failover of the log. With Redis, Sentinel promotes a replica: events that were not replicated
//! are lost, and each client receives one gap. With three NATS servers no event is lost and no gap
//! is sent.

use std::time::Instant;

use fermata_testkit::sse::Stream;
use fermata_testkit::{NatsCluster, Redis, Relay, Sentinel, Server, wait_until};
use fermata_tests::{fixture, json, publish};

use crate::node::{PATIENT_MS, cluster_figure, node_at, wait_ready};

/// Returns a server that uses the log at these addresses.
fn node(log: &[&Redis]) -> Server {
    let servers: Vec<String> = log
        .iter()
        .map(|it| format!("127.0.0.1:{}", it.port()))
        .collect();
    fixture("hub")
        .setting("cluster", format!("redis://{}", servers.join(",")))
        .setting("cluster_prefix", "test")
        .setting("metrics_listen", "http://127.0.0.1:0")
        .setting("publish_wait_ms_max", PATIENT_MS)
        .start()
}

/// Waits until the replica has as many events as its main server.
fn wait_replicated(main: &Redis, replica: &Redis) {
    wait_until("the replica has what the main server has", || {
        let [first, second] = [main, replica].map(|it| it.ask("XLEN {test}:log"));
        (first.starts_with(':') && first == second).then_some(())
    });
}

/// The isolated main server accepts events that will be lost. Clients that received them get one
/// gap.
#[test]
fn what_is_lost_by_a_promotion_is_one_gap_on_every_server() {
    let (Some(mut main), Some(replica)) = (Redis::start(), Redis::start()) else {
        return;
    };
    // The replica and the Sentinel use the network that is cut; the servers do not.
    let relay = Relay::to("redis", main.port());
    replica.ask(&format!("REPLICAOF 127.0.0.1 {}", relay.address().port()));
    let sentinel = Sentinel::watch_at(relay.address().port());
    let nodes = [node(&[&main, &replica]), node(&[&main, &replica])];
    for node in &nodes {
        wait_ready(node, 200);
    }
    let mut streams = nodes
        .each_ref()
        .map(|node| Stream::open(node.connect(), "/events", None));
    let kept = publish(&nodes[0], "news", "kept");
    wait_replicated(&main, &replica);
    relay.cut();
    let lost: Vec<String> = (0..10)
        .map(|number| publish(&nodes[number % 2], "news", &format!("lost {number}")))
        .collect();
    wait_until("the replica is promoted", || {
        (sentinel.main_port() == Some(replica.port())).then_some(())
    });
    for stream in &mut streams {
        let events = stream.next_events(11);
        assert_eq!(events[10].id.as_ref(), lost.last());
    }
    main.kill();
    publish(&nodes[1], "news", "after");
    for stream in &mut streams {
        assert_eq!(stream.next_event().name, "gap");
        // Events that the log still has may be repeated after the gap, under ids of the new epoch.
        let mut event = stream.next_event();
        while event.data == "kept" {
            event = stream.next_event();
        }
        assert_eq!((&event.name[..], &event.data[..]), ("message", "after"));
    }
    for node in &nodes {
        wait_ready(node, 200);
        assert_eq!(cluster_figure(node, "gaps_total"), 1);
        // Clients that resume later, from a lost event or from an earlier one, also receive one gap
        // and then the new events.
        for id in [&kept, &lost[0], &lost[9]] {
            let mut stream = Stream::open(node.connect(), "/events", Some(id));
            assert_eq!(stream.next_event().name, "gap", "since {id}");
            publish(node, "news", "later");
            let mut event = stream.next_event();
            while event.data != "later" {
                assert_eq!(event.name, "message", "since {id}");
                event = stream.next_event();
            }
        }
    }
    // One server may lag behind the other for a moment.
    wait_until("both have the same history", || {
        let histories = nodes
            .each_ref()
            .map(|node| json(&node.connect().get("/history/news")));
        (histories[0] == histories[1]).then_some(())
    });
}

/// Servers know only the addresses of the Sentinels. The failover happens while events are
/// published: once by command, once by a kill.
#[test]
fn sentinels_say_who_leads_and_publishing_goes_on_there() {
    let (Some(mut first), Some(second)) = (Redis::start(), Redis::start()) else {
        return;
    };
    second.ask(&format!("REPLICAOF 127.0.0.1 {}", first.port()));
    let sentinels = Sentinel::watch_by_three(&first);
    let places: Vec<String> = sentinels
        .iter()
        .map(|it| format!("127.0.0.1:{}", it.port()))
        .collect();
    let log = format!("redis+sentinel://{}/main", places.join(","));
    let nodes = [(); 2].map(|()| {
        node_at("hub", &log)
            .setting("cluster_prefix", "test")
            .start()
    });
    for node in &nodes {
        wait_ready(node, 200);
    }
    let mut streams = nodes
        .each_ref()
        .map(|node| Stream::open(node.connect(), "/events", None));
    let mut published = 0..;
    // Publishes until the failover is over, and then some further events.
    let mut check = |streams: &mut [Stream; 2], what: &str, is_over: &dyn Fn() -> bool| {
        let (began, mut sent, mut ids) = (Instant::now(), Vec::new(), Vec::new());
        let mut more = 20;
        while more > 0 {
            let data = published.next().map_or(0, |at: u32| at).to_string();
            ids.push(publish(&nodes[sent.len() % 2], "news", &data));
            sent.push(data);
            more -= usize::from(is_over());
        }
        println!("{what}: {} published in {:?}", sent.len(), began.elapsed());
        for stream in streams {
            let (mut at, mut has_gap) = (0, false);
            while at < sent.len() {
                let event = stream.next_event();
                if event.name == "gap" {
                    // Events that the log still has are repeated under new ids.
                    (at, has_gap) = (0, true);
                    continue;
                }
                let number: u32 = event.data.parse().expect("a number");
                let next: u32 = sent[at].parse().expect("a number");
                if number < next && has_gap {
                    continue;
                }
                assert!(number == next || has_gap, "{number} instead of {next}");
                assert!(number >= next, "{number} instead of {next}");
                assert!(has_gap || event.id.as_ref() == Some(&ids[at]), "{number}");
                at = sent
                    .iter()
                    .position(|it| *it == event.data)
                    .expect("it was sent")
                    + 1;
            }
        }
    };
    check(&mut streams, "at first", &|| true);
    wait_replicated(&first, &second);
    let leads = |port: u16| {
        let is_new = move |it: &Sentinel| it.main_port() == Some(port);
        sentinels.iter().all(is_new)
    };
    assert!(sentinels[0].ask("SENTINEL FAILOVER main").is_some());
    check(&mut streams, "on command", &|| leads(second.port()));
    wait_until("the old one has all", || {
        let text = first.ask("INFO replication");
        text.contains("master_link_status:up").then_some(())
    });
    wait_replicated(&second, &first);
    let mut second = second;
    second.kill();
    check(&mut streams, "after a kill", &|| leads(first.port()));
    first.kill();
}

/// The leader of the stream is killed, or isolated from the other two servers without detecting it.
#[test]
fn another_leader_of_nats_costs_a_wait_and_no_gap() {
    for fail in [NatsCluster::kill, |nats: &mut NatsCluster, at| {
        nats.isolate(at)
    }] {
        let Some(mut nats) = NatsCluster::start() else {
            return;
        };
        let nodes = [0, 1, 2].map(|at| {
            fixture("hub")
                .setting("cluster", nats.url(at))
                .setting("cluster_replicas", 3)
                .setting("cluster_bytes_max", "16m")
                .setting("metrics_listen", "http://127.0.0.1:0")
                .setting("publish_wait_ms_max", PATIENT_MS)
                .start()
        });
        for node in &nodes {
            wait_ready(node, 200);
        }
        let mut streams = nodes
            .each_ref()
            .map(|node| Stream::open(node.connect(), "/events", None));
        let mut ids: Vec<String> = (0..9)
            .map(|at| publish(&nodes[at % 3], "news", &at.to_string()))
            .collect();
        let leader = nats.leader("FERMATA_fermata");
        fail(&mut nats, leader);
        // Publishers wait until a new leader is elected.
        ids.extend((9..18).map(|at| publish(&nodes[at % 3], "news", &at.to_string())));
        for node in &nodes {
            wait_ready(node, 200);
        }
        nats.heal();
        nats.restart(leader);
        ids.extend((18..27).map(|at| publish(&nodes[at % 3], "news", &at.to_string())));
        for (stream, node) in streams.iter_mut().zip(&nodes) {
            for (at, id) in ids.iter().enumerate() {
                let event = stream.next_event();
                assert_eq!((event.data, event.id.as_ref()), (at.to_string(), Some(id)));
            }
            assert_eq!(cluster_figure(node, "gaps_total"), 0);
        }
    }
}
