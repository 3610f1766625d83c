//! Servers are added, removed and upgraded one after the other, as in docs/cluster.md. Clients
//! receive each event once, and no gap.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fermata_testkit::sse::{Item, Stream};
use fermata_testkit::{
    Connection, LogServer, NatsCluster, Server, Signal, over_each_log, wait_until,
};
use fermata_tests::publish;

use crate::node::{PATIENT_MS, node, node_at, wait_ready};

over_each_log!(servers_are_replaced_one_after_the_other_without_a_gap);

/// Reads events up to the last one, from any running server, and returns their data.
fn read_numbers(addresses: &Mutex<Vec<std::net::SocketAddr>>, first: &str) -> Vec<String> {
    let (mut id, mut read) = (first.to_owned(), Vec::new());
    for turn in 0.. {
        let address = {
            let addresses = addresses.lock().expect("no test has failed");
            addresses[turn % addresses.len()]
        };
        let stream = Connection::try_open(address).ok();
        let stream = stream.and_then(|it| Stream::try_open(it, "/events", Some(&id)).ok());
        let Some(mut stream) = stream else {
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        loop {
            match stream.next_item() {
                Item::Event(event) => {
                    assert_eq!(event.name, "message", "{}", event.data);
                    id = event.id.expect("events have ids");
                    if event.data == "end" {
                        return read;
                    }
                    read.push(event.data);
                }
                Item::Position(position) => id = position,
                Item::End(_) => break,
                Item::Comment(_) | Item::Retry(_) => {}
            }
        }
    }
    read
}

fn servers_are_replaced_one_after_the_other_without_a_gap(log: LogServer) {
    let start = || {
        let server = node(&log).setting("drain_timeout_ms", 2_000).start();
        wait_ready(&server, 200);
        server
    };
    let mut servers: Vec<Server> = (0..2).map(|_| start()).collect();
    let first = publish(&servers[0], "news", "first");
    let addresses = servers.iter().map(Server::address).collect();
    let (addresses, is_over) = (Mutex::new(addresses), AtomicBool::new(false));
    let published = thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| read_numbers(&addresses, &first)))
            .collect();
        let publisher = scope.spawn(|| {
            let mut published = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let address = addresses.lock().expect("no test has failed")[0];
                let data = published.len().to_string();
                let mut connection = Connection::open(address);
                let response = connection.post("/publish/news", &data);
                assert_eq!(response.status(), 200, "{}", response.text());
                published.push(data);
                thread::sleep(Duration::from_millis(3));
            }
            published
        });
        for _ in 0..3 {
            // Adds a server; then the proxy drops the oldest one, which stops.
            let new = start();
            {
                let mut addresses = addresses.lock().expect("no test has failed");
                addresses.push(new.address());
                addresses.remove(0);
            }
            servers.push(new);
            thread::sleep(Duration::from_millis(200));
            let mut old = servers.remove(0);
            old.signal(Signal::Terminate);
            assert!(old.wait_exit().success());
        }
        is_over.store(true, Ordering::Relaxed);
        let published = publisher.join().expect("it publishes");
        publish(&servers[0], "news", "end");
        for reader in readers {
            assert_eq!(reader.join().expect("it reads"), published);
        }
        published
    });
    assert!(published.len() > 50, "{}", published.len());
}

fn address(nats: &NatsCluster, at: usize) -> String {
    format!("127.0.0.1:{}", nats.port_of(at))
}

/// The NATS server notifies its clients, transfers its leaderships, and closes the connections one
/// by one over at least half a minute.
#[test]
fn a_server_of_nats_in_lame_duck_mode_is_left_at_once() {
    let Some(nats) = NatsCluster::start() else {
        return;
    };
    let server = node_at("hub", &nats.url(0))
        .setting("cluster_replicas", 3)
        .setting("publish_wait_ms_max", PATIENT_MS)
        .start();
    wait_ready(&server, 200);
    let log = server.log().text();
    let (_, rest) = log
        .rsplit_once("connected to the log of the cluster at ")
        .expect("it is connected");
    let at = (0..3)
        .find(|at| rest.starts_with(&address(&nats, *at)))
        .expect("it is one of these");
    let mut stream = Stream::open(server.connect(), "/events", None);
    publish(&server, "news", "before");
    assert_eq!(stream.next_event().data, "before");
    let begun = server.log().text().len();
    nats.begin_lame_duck(at);
    wait_until("the bridge is connected to another one", || {
        let log = server.log().text();
        let is_other = |other: &usize| {
            let line = format!(
                "connected to the log of the cluster at {}",
                address(&nats, *other)
            );
            *other != at && log[begun..].contains(&line)
        };
        (0..3).find(is_other)
    });
    publish(&server, "news", "after");
    let event = stream.next_event();
    assert_eq!((&event.name[..], &event.data[..]), ("message", "after"));
}
