//! Fairness: connections and requests spread evenly over the workers.

use std::net::Ipv4Addr;
use std::time::Duration;

use fermata_testkit::{Connection, Server, Signal, Target, send_signal, wait_until};
use fermata_tests::{fixture, stats};
use serde_json::Value;

/// Number of clients of seed 004.
const CLIENTS: usize = 100;

/// Number of requests per client.
const REQUESTS: usize = 20;

/// Number of connections: large enough that the limit is 4.8 standard deviations above the mean
/// random deviation.
const SHORT_CONNECTIONS: usize = 16_000;

/// Returns a metric per worker.
fn per_worker(server: &Server, path: &str) -> Vec<u64> {
    let figures = stats(server);
    let workers = figures["workers"].as_array().expect("a list of workers");
    let figure = |worker: &Value| worker.pointer(path).and_then(Value::as_u64);
    workers
        .iter()
        .map(|worker| figure(worker).unwrap_or_else(|| panic!("no {path} in {worker:#}")))
        .collect()
}

/// Returns the metric per worker when the sum has reached `total`.
fn when_reached(server: &Server, path: &str, total: u64) -> Vec<u64> {
    wait_until(&format!("{path} adds up to {total}"), || {
        let figures = per_worker(server, path);
        println!("{path} {figures:?}");
        (figures.iter().sum::<u64>() >= total).then_some(figures)
    })
}

/// Asserts that the busiest worker has at most 1.1 times the mean.
#[track_caller]
fn assert_fair(what: &str, figures: &[u64]) {
    let sum: u64 = figures.iter().sum();
    let busiest = figures.iter().max().copied().unwrap_or_default();
    assert!(
        busiest as f64 * figures.len() as f64 <= sum as f64 * 1.1,
        "{what} per worker: {figures:?}"
    );
}

fn clients(server: &Server) -> Vec<Connection> {
    (0..CLIENTS)
        .map(|_| {
            let mut connection = server.connect();
            assert_eq!(connection.get("/").status(), 200);
            connection
        })
        .collect()
}

fn keep_alive_clients(workers: usize) {
    let server = fixture("http").workers(workers).control().start();
    let mut connections = clients(&server);
    let open = when_reached(&server, "/connections/http_idle", CLIENTS as u64);
    assert_eq!(open.iter().sum::<u64>(), CLIENTS as u64);
    assert_fair("connections", &open);

    let before = when_reached(&server, "/requests", CLIENTS as u64);
    for _ in 0..REQUESTS {
        for connection in &mut connections {
            assert_eq!(connection.get("/").status(), 200);
        }
    }
    let all = (CLIENTS * (REQUESTS + 1)) as u64;
    let after = when_reached(&server, "/requests", all);
    let requests: Vec<_> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    assert_fair("requests", &requests);
}

#[test]
fn a_hundred_clients_share_two_workers() {
    keep_alive_clients(2);
}

#[test]
fn a_hundred_clients_share_eight_workers() {
    keep_alive_clients(8);
}

#[test]
fn clients_that_come_at_once_are_shared_as_well() {
    let server = fixture("http").workers(8).control().start();
    let mut connections: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for connection in &mut connections {
        connection.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    for connection in &mut connections {
        assert_eq!(connection.read_response().status(), 200);
    }
    // The next request is served wherever the connection is now.
    for connection in &mut connections {
        assert_eq!(connection.get("/").status(), 200);
    }
    let open = when_reached(&server, "/connections/http_idle", CLIENTS as u64);
    assert_fair("connections", &open);
}

#[test]
fn a_connection_per_request_is_shared_and_never_moved() {
    let server = fixture("http").workers(8).control().start();
    for nth in 0..SHORT_CONNECTIONS {
        let [_, _, third, last] = (nth as u32).to_be_bytes();
        // From one address, the kernel reuses the same ten thousand ports, and assigns each port to
        // the same worker as before.
        let target = Target {
            address: server.address(),
            source: Some(Ipv4Addr::new(127, 1, third, last)),
            receive_bytes: None,
        };
        let mut connection = target.connect().expect("the server listens");
        connection.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert_eq!(connection.read_response().status(), 200);
    }
    let requests = when_reached(&server, "/requests", SHORT_CONNECTIONS as u64);
    assert_fair("requests", &requests);
    let moved = per_worker(&server, "/connections_moved");
    assert_eq!(moved.iter().sum::<u64>(), 0);
}

#[test]
fn without_balancing_a_connection_stays_where_it_was_accepted() {
    let builder = fixture("http").workers(8).control();
    let server = builder.setting("balance", "off").start();
    let _connections = clients(&server);
    when_reached(&server, "/connections/http_idle", CLIENTS as u64);
    let moved = per_worker(&server, "/connections_moved");
    assert_eq!(moved.iter().sum::<u64>(), 0);
}

#[test]
fn connections_handed_to_a_worker_that_dies_are_answered_by_others() {
    let server = fixture("faults").workers(2).control().start();
    let stopped = server.worker_pids()[&1];
    // The worker is running and accepts connections.
    drop(server.connect_to(stopped));
    send_signal(stopped, Signal::Stop);
    let mut connections: Vec<_> = (0..CLIENTS).map(|_| server.connect()).collect();
    for connection in &mut connections {
        connection.send("GET /pid HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    // The other worker passes every second connection to the stopped one.
    wait_until("one worker has answered its clients", || {
        let answered = connections
            .iter_mut()
            .filter_map(|connection| connection.has_data(Duration::ZERO).then_some(()));
        (answered.count() > CLIENTS / 4).then_some(())
    });
    send_signal(stopped, Signal::Kill);
    for connection in &mut connections {
        assert_eq!(connection.read_response().status(), 200);
        assert_eq!(connection.get("/pid").status(), 200);
    }
    let moved = per_worker(&server, "/connections_moved");
    assert!(moved[0] > 0, "{moved:?}");
}
