//! Equal requests that share one backend request (`share_all`): which requests are shared, and
//! which must not be.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use fermata_testkit::{deadline, wait_until};

use crate::client::Client;
use crate::origin::{Origin, Reply, ok, text};
use crate::own::Own;

const CLIENTS: usize = 5;

/// Delays responses until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn wait(&self) {
        let (is_open, changed) = &*self.0;
        let guard = is_open.lock().expect("a gate");
        let waited = changed.wait_timeout_while(guard, deadline(), |is_open| !*is_open);
        assert!(!waited.expect("a gate").1.timed_out(), "it stays closed");
    }

    fn open(&self) {
        *self.0.0.lock().expect("a gate") = true;
        self.0.1.notify_all();
    }
}

fn start(origin: &Origin) -> Own {
    let route = format!("* 127.0.0.1:{}", origin.port());
    Own::start(&["--share-all", "true", "--workers", "1", "--route", &route])
}

/// Waits until the edge has `count` open requests.
fn wait_for_open(own: &Own, count: u64) {
    wait_until(&format!("{count} open requests"), || {
        let figures = own.figures("fermata_edge_open");
        let mut open = figures.iter().filter(|(name, _)| name.contains("request"));
        open.any(|(_, value)| *value == count).then_some(())
    });
}

/// Sends a request without reading its response.
fn ask(own: &Own, target: &str, headers: &[(&str, &str)]) -> Client {
    let mut client = own.client();
    client.send("GET", target, headers, b"");
    client
}

#[test]
fn equal_requests_share_one() {
    let (origin, gate) = (Origin::start(), Gate::default());
    let (held, count) = (gate.clone(), AtomicUsize::new(0));
    origin.on("same", move |_| {
        held.wait();
        text(&format!("{}", count.fetch_add(1, Ordering::SeqCst)))
    });
    let own = start(&origin);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| ask(&own, "/same?a", &[])).collect();
    wait_for_open(&own, CLIENTS as u64);
    // The client whose request went to the backend disconnects; the others still receive the
    // response.
    drop(clients.remove(0));
    wait_for_open(&own, CLIENTS as u64 - 1);
    gate.open();
    for client in &mut clients {
        let answer = client.read_answer(false);
        assert_eq!((answer.status, answer.text()), (200, "0"));
    }
    assert_eq!(origin.seen("same").len(), 1);
    // Later requests reach the backend again.
    assert_eq!(own.get("/same?a").text(), "1");
    wait_for_open(&own, 0);
}

#[test]
fn users_do_not_share() {
    let (origin, gate) = (Origin::start(), Gate::default());
    let held = gate.clone();
    origin.on("own", move |request| {
        held.wait();
        let said = |name| request.header(name).unwrap_or_default();
        text(&format!("{}{}", said("cookie"), said("authorization")))
    });
    let own = start(&origin);
    let users = [
        [("Cookie", "user=1")],
        [("Cookie", "user=2")],
        [("Authorization", "Bearer 1")],
        [("Authorization", "Bearer 2")],
    ];
    let clients: Vec<Client> = users
        .iter()
        .map(|headers| ask(&own, "/own", headers))
        .collect();
    wait_for_open(&own, users.len() as u64);
    gate.open();
    for (mut client, [(_, expected)]) in clients.into_iter().zip(users) {
        assert_eq!(client.read_answer(false).text(), expected);
    }
    assert_eq!(origin.seen("own").len(), users.len());
}

#[test]
fn an_answer_for_one_is_not_shared() {
    let (origin, gate) = (Origin::start(), Gate::default());
    for (name, header) in [("cookie", "Set-Cookie"), ("private", "Cache-Control")] {
        let (held, count) = (gate.clone(), AtomicUsize::new(0));
        origin.on(name, move |_| {
            held.wait();
            let number = count.fetch_add(1, Ordering::SeqCst).to_string();
            let value = match header {
                "Set-Cookie" => format!("id={number}"),
                _ => "private".to_owned(),
            };
            ok(&[(header, &value)], number)
        });
    }
    let own = start(&origin);
    let targets = ["/cookie", "/private"];
    let clients: Vec<Vec<Client>> = targets
        .iter()
        .map(|target| (0..3).map(|_| ask(&own, target, &[])).collect())
        .collect();
    wait_for_open(&own, 6);
    gate.open();
    for clients in clients {
        let bodies = clients.into_iter().map(|mut client| {
            let answer = client.read_answer(false);
            answer.text().to_owned()
        });
        let mut bodies: Vec<String> = bodies.collect();
        bodies.sort();
        assert_eq!(bodies, ["0", "1", "2"]);
    }
}

#[test]
fn a_shared_hold_holds_everybody() {
    let (origin, gate) = (Origin::start(), Gate::default());
    let held = gate.clone();
    origin.on("hold", move |_| {
        held.wait();
        ok(
            &[("Grip-Hold", "stream"), ("Grip-Channel", "c")],
            "opened\n",
        )
    });
    let own = start(&origin);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| ask(&own, "/hold", &[])).collect();
    wait_for_open(&own, CLIENTS as u64);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read_head().status, 200);
        client.read_until("opened\n");
    }
    own.publish("c", "news");
    for client in &mut clients {
        assert_eq!(client.read_until("news"), "news");
    }
    assert_eq!(origin.seen("hold").len(), 1);
}

#[test]
fn a_failure_is_everybodys() {
    let (origin, gate) = (Origin::start(), Gate::default());
    let held = gate.clone();
    origin.on("dead", move |_| {
        held.wait();
        Reply::Close(Vec::new())
    });
    let own = start(&origin);
    let clients: Vec<Client> = (0..CLIENTS).map(|_| ask(&own, "/dead", &[])).collect();
    wait_for_open(&own, CLIENTS as u64);
    gate.open();
    for mut client in clients {
        assert_eq!(client.read_answer(false).status, 502);
    }
    wait_for_open(&own, 0);
}

#[test]
fn what_an_instruction_says_of_one_client_is_not_shared() {
    let (origin, gate) = (Origin::start(), Gate::default());
    let (held, count) = (gate.clone(), AtomicUsize::new(0));
    origin.on("meta", move |_| {
        held.wait();
        let number = count.fetch_add(1, Ordering::SeqCst).to_string();
        let hold = serde_json::json!({"mode": "stream", "channels": [{"name": "c"}], "meta": {"user": number}});
        let body = serde_json::json!({"hold": hold, "response": {"body": format!("{number}\n")}});
        ok(
            &[("Content-Type", "application/grip-instruct")],
            body.to_string(),
        )
    });
    let own = start(&origin);
    let mut clients: Vec<Client> = (0..3).map(|_| ask(&own, "/meta", &[])).collect();
    wait_for_open(&own, 3);
    gate.open();
    let users = clients.iter_mut().map(|client| {
        assert_eq!(client.read_head().status, 200);
        client.read_until("\n")
    });
    let mut users: Vec<String> = users.collect();
    users.sort();
    assert_eq!(users, ["0\n", "1\n", "2\n"]);
}

#[test]
fn a_late_client_has_time_of_its_own() {
    let (origin, count) = (Origin::start(), AtomicUsize::new(0));
    origin.on("late", move |_| {
        match count.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::Hang(Vec::new()),
            _ => text("answered"),
        }
    });
    let route = format!("* 127.0.0.1:{}", origin.port());
    let limits = ["--origin-response-timeout-ms", "10000"];
    let shared = ["--share-all", "true", "--workers", "1", "--route", &route];
    let own = Own::start(&[&shared[..], &limits].concat());
    let mut first = ask(&own, "/late", &[]);
    wait_for_open(&own, 1);
    // Well before the first request times out: the later requests then have most of their time
    // left.
    std::thread::sleep(std::time::Duration::from_secs(3));
    let mut late: Vec<Client> = (0..CLIENTS).map(|_| ask(&own, "/late", &[])).collect();
    wait_for_open(&own, 1 + CLIENTS as u64);
    assert_eq!(first.read_answer(false).status, 504);
    for client in &mut late {
        assert_eq!(client.read_answer(false).text(), "answered");
    }
    assert_eq!(origin.seen("late").len(), 2);
}
