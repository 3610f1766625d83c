//! Edges that share a log act as one: an item published to any of them reaches the clients of all,
//! once and in one order.

use std::thread;
use std::time::{Duration, Instant};

use fermata_grip::zmtp::Socket as Kind;
use fermata_testkit::{
    Directory, LogServer, Signal, free_port, over_each_log, send_signal, wait_until,
};
use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::figures::{command, sum};
use crate::origin::{Origin, Reply, ok};
use crate::own::Own;
use crate::socket;
use crate::zmq::Zmq;

over_each_log!(
    a_client_goes_on_at_any_edge,
    a_publisher_that_leaves_is_not_waited_for,
    a_recovery_reaches_the_clients_of_all_edges,
    clients_of_all_edges_get_the_same,
    more_than_may_be_on_its_way_waits_in_its_order,
    what_is_killed_loses_doubles_and_turns_nothing,
    without_the_log_publishing_fails_and_clients_stay,
);

/// Publisher's time-out where the publish must succeed even on a busy machine.
const PATIENT_MS: &str = "30000";
const IMPATIENT_MS: &str = "1500";

fn start_with(log: &LogServer, wait_ms: &str, arguments: &[&str]) -> Own {
    let url = log.url();
    let variables = [
        ("FERMATA_CLUSTER", url.as_str()),
        // NATS reserves this size, and rejects the stream on a machine with less space.
        ("FERMATA_CLUSTER_BYTES_MAX", "16m"),
        ("FERMATA_EDGE_PUBLISH_WAIT_MS_MAX", wait_ms),
        ("FERMATA_EDGE_WORKERS", "2"),
    ];
    let edge = Own::start_with(&variables, arguments);
    // Wait: the log does not know the positions of clients that are held earlier.
    wait_ready(&edge, 200);
    edge
}

fn start(log: &LogServer) -> Own {
    start_with(log, PATIENT_MS, &["--route", "* test"])
}

fn readiness(edge: &Own) -> Option<u16> {
    let mut client = Client::open(edge.metrics, "localhost");
    client.send("GET", "/health/ready", &[], b"");
    client.try_status(Duration::from_secs(5))
}

fn wait_ready(edge: &Own, status: u16) {
    wait_until("the edge's readiness", || {
        (readiness(edge) == Some(status)).then_some(())
    });
}

fn item(channel: &str, number: usize) -> Value {
    let content = format!("{number}\n");
    let mut item = json!({
        "channel": channel,
        "id": number.to_string(),
        "http-stream": {"content": content},
        "http-response": {"body": content},
        "ws-message": {"content": content},
    });
    if number > 0 {
        item["prev-id"] = (number - 1).to_string().into();
    }
    item
}

/// Publishes items; returns `None` if there is no response.
fn try_post(control: u16, items: &[Value]) -> Option<Answer> {
    let stream = std::net::TcpStream::connect(("127.0.0.1", control));
    drop(stream.ok()?);
    let mut client = Client::open(control, "localhost");
    let json = [("Content-Type", "application/json")];
    let body = json!({ "items": items }).to_string();
    client.send("POST", "/publish/", &json, body.as_bytes());
    client.try_status(fermata_testkit::deadline())?;
    Some(client.read_answer(false))
}

#[track_caller]
fn post(edge: &Own, items: &[Value]) {
    let answer = try_post(edge.control, items).expect("an answer");
    assert_eq!((answer.status, answer.text()), (200, "Published\n"));
}

fn stream(edge: &Own, channel: &str) -> Client {
    let mut client = edge.client();
    client.send("GET", &format!("/stream?channel={channel}"), &[], b"");
    client.read_head();
    client.read_until("[stream opened]\n");
    client
}

/// Checks that a stream receives the numbers up to `to`.
#[track_caller]
fn check_numbers(client: &mut Client, from: usize, to: usize) {
    let text = client.read_until(&format!("{to}\n"));
    let expected: String = (from..=to).map(|number| format!("{number}\n")).collect();
    assert_eq!(text, expected);
}

/// Returns the process id of the newest worker that connects to the log.
fn bridge_pid(edge: &Own) -> u32 {
    let text = edge.log();
    let (_, rest) = text
        .rsplit_once("bridge started pid=")
        .expect("it was started");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a process id")
}

fn clients_of_all_edges_get_the_same(log: LogServer) {
    let pull = free_port();
    let address = format!("tcp://127.0.0.1:{pull}");
    let folder = Directory::new();
    let commands = folder.join("commands");
    let rep = format!("ipc://{}", commands.display());
    let ports = ["--zmq-pull", &address, "--zmq-rep", &rep];
    let edges = [
        start_with(
            &log,
            PATIENT_MS,
            &[&["--route", "* test"], &ports[..]].concat(),
        ),
        start(&log),
    ];
    let mut streams = edges.each_ref().map(|edge| stream(edge, "c"));
    let mut sockets = edges
        .each_ref()
        .map(|edge| socket::open(edge.client(), "/ws?channel=c"));
    let mut poll = edges[1].client();
    poll.send("GET", "/response?channel=polled", &[], b"");
    // Each item follows an item that was published to the other edge.
    for number in 0..20 {
        post(&edges[number % 2], &[item("c", number)]);
    }
    for client in &mut streams {
        check_numbers(client, 0, 19);
    }
    for socket in &mut sockets {
        for number in 0..20 {
            assert_eq!(socket.next_text(), format!("{number}\n"));
        }
    }
    // The items are published through both edges, out of order and twice.
    for (edge, number) in [(0, 22), (1, 21), (1, 22), (0, 20), (1, 20), (0, 21)] {
        post(&edges[edge], &[item("c", number)]);
    }
    for client in &mut streams {
        check_numbers(client, 20, 22);
    }
    wait_until("the long poll is answered", || {
        post(
            &edges[0],
            &[json!({"channel": "polled", "http-response": {"body": "news\n"}})],
        );
        poll.has_data(Duration::from_millis(200)).then_some(())
    });
    assert_eq!(poll.read_answer(false).text(), "news\n");
    let mut push = Zmq::tcp(pull, Kind::Push);
    push.send(&[format!("J{}", item("c", 23)).as_bytes()]);
    for client in &mut streams {
        check_numbers(client, 23, 23);
    }
    let reply = command(&commands, "publish", json!({"items": [item("c", 24)]}));
    assert_eq!(reply["success"], true, "{reply}");
    for client in &mut streams {
        check_numbers(client, 24, 24);
    }
}

fn a_publisher_that_leaves_is_not_waited_for(log: LogServer) {
    let edge = start(&log);
    let mut client = stream(&edge, "c");
    log.pause();
    let body = json!({"items": [item("c", 0)]}).to_string();
    let mut left = Client::open(edge.control, "localhost");
    left.send("POST", "/publish/", &[], body.as_bytes());
    assert!(!left.has_data(Duration::from_millis(200)));
    drop(left);
    // A retry of the same item receives the result of the first publish.
    let control = edge.control;
    let again = thread::spawn(move || try_post(control, &[item("c", 0)]));
    thread::sleep(Duration::from_millis(200));
    log.resume();
    let again = again.join().expect("no panic").expect("an answer");
    assert_eq!((again.status, again.text()), (200, "Published\n"));
    post(&edge, &[item("c", 1)]);
    check_numbers(&mut client, 0, 1);
}

fn more_than_may_be_on_its_way_waits_in_its_order(log: LogServer) {
    const COUNT: usize = 4_000;
    let pull = free_port();
    let address = format!("tcp://127.0.0.1:{pull}");
    let arguments = ["--route", "* test", "--zmq-pull", &address];
    let edges = [start_with(&log, PATIENT_MS, &arguments), start(&log)];
    let mut streams = edges.each_ref().map(|edge| stream(edge, "pulled"));
    let mut push = Zmq::tcp(pull, Kind::Push);
    for number in 0..COUNT {
        push.send(&[format!("J{}", item("pulled", number)).as_bytes()]);
    }
    for client in &mut streams {
        check_numbers(client, 0, COUNT - 1);
    }
    let mut streams = edges.each_ref().map(|edge| stream(edge, "posted"));
    let items: Vec<Value> = (0..COUNT).map(|number| item("posted", number)).collect();
    post(&edges[1], &items);
    for client in &mut streams {
        check_numbers(client, 0, COUNT - 1);
    }
}

#[test]
fn what_the_log_refuses_for_good_is_sent_once() {
    // Redis accepts items of any size that an edge accepts.
    let Some(log) = LogServer::nats() else {
        return;
    };
    let pull = free_port();
    let address = format!("tcp://127.0.0.1:{pull}");
    let arguments = [
        "--route",
        "* test",
        "--zmq-pull",
        &address,
        "--control-body-bytes-max",
        "2m",
    ];
    let edge = start_with(&log, PATIENT_MS, &arguments);
    let mut client = stream(&edge, "c");
    let mut large = item("c", 0);
    large["id"] = "i".repeat(200).into();
    // An item of the maximum size of a ZeroMQ message. NATS includes headers in its limit, and one header contains the id.
    let rest = 1 + large.to_string().len();
    large["http-stream"]["content"] = "x".repeat((1 << 20) - rest).into();
    let mut push = Zmq::tcp(pull, Kind::Push);
    push.send(&[format!("J{large}").as_bytes()]);
    wait_until("it is counted", || {
        let dropped = "fermata_edge_items_dropped_total";
        (sum(edge.metrics, dropped, "reason=\"log\"") == 1).then_some(())
    });
    let answer = try_post(edge.control, &[large]).expect("an answer");
    assert_eq!(answer.status, 400, "{}", answer.text());
    post(&edge, &[item("c", 0)]);
    check_numbers(&mut client, 0, 0);
    wait_until("each is refused once", || {
        let failures = "fermata_publish_failures_total";
        (sum(edge.metrics, failures, "reason=\"misuse\"") == 2).then_some(())
    });
}

/// Starts an origin whose streams start after an item.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.on("after", |request| {
        let (_, had) = request.target.rsplit_once('/').expect("an id");
        let channel = format!("c; prev-id={had}");
        ok(
            &[
                ("Content-Type", "text/plain"),
                ("Grip-Hold", "stream"),
                ("Grip-Channel", &channel),
                ("Grip-Link", &format!("</link/{had}>; rel=next")),
            ],
            "opened\n",
        )
    });
    origin.on("plain", |_| {
        let headers = [
            ("Content-Type", "text/plain"),
            ("Grip-Hold", "stream"),
            ("Grip-Channel", "c"),
        ];
        ok(&headers, "opened\n")
    });
    origin.on("link", |_| Reply::Answer(404, Vec::new(), Vec::new()));
    origin
}

fn after(edge: &Own, path: &str) -> Client {
    let mut client = edge.client();
    client.send("GET", &format!("/{path}"), &[], b"");
    client.read_head();
    client.read_until("opened\n");
    client
}

fn a_client_goes_on_at_any_edge(log: LogServer) {
    let origin = origin();
    let route = format!("* 127.0.0.1:{}", origin.port());
    // With one worker, which reads each item for all of its clients.
    let begin = || start_with(&log, PATIENT_MS, &["--workers", "1", "--route", &route]);
    let edges = [begin(), begin()];
    let mut readers = edges.each_ref().map(|edge| after(edge, "plain"));
    for number in 0..10 {
        post(&edges[0], &[item("c", number)]);
    }
    // Afterwards each edge has the items in its ring, also the one that published them.
    for reader in &mut readers {
        check_numbers(reader, 0, 9);
    }
    let mut first = after(&edges[0], "after/9");
    let mut second = after(&edges[1], "after/4");
    check_numbers(&mut second, 5, 9);
    // An edge that starts later replays the earlier items.
    let late = begin();
    let mut reader = after(&late, "plain");
    post(&late, &[item("c", 10)]);
    check_numbers(&mut reader, 10, 10);
    let mut third = after(&late, "after/2");
    check_numbers(&mut third, 3, 10);
    for client in [&mut first, &mut second] {
        check_numbers(client, 10, 10);
    }
    assert!(origin.seen("link").is_empty(), "the ring had everything");
}

fn a_recovery_reaches_the_clients_of_all_edges(log: LogServer) {
    let origin = origin();
    let route = format!("* 127.0.0.1:{}", origin.port());
    let edges = [(); 2].map(|()| start_with(&log, PATIENT_MS, &["--route", &route]));
    post(&edges[0], &[item("c", 0)]);
    let _client = after(&edges[1], "after/0");
    let mut control = Client::open(edges[0].control, "localhost");
    assert_eq!(control.request("POST", "/recover", &[], b"").status, 200);
    wait_until("the client's origin is asked", || {
        (!origin.seen("link").is_empty()).then_some(())
    });
}

fn without_the_log_publishing_fails_and_clients_stay(mut log: LogServer) {
    let pull = free_port();
    let address = format!("tcp://127.0.0.1:{pull}");
    let folder = Directory::new();
    let commands = folder.join("commands");
    let rep = format!("ipc://{}", commands.display());
    let with_ports = [
        "--route",
        "* test",
        "--zmq-pull",
        &address,
        "--zmq-rep",
        &rep,
    ];
    let edges = [
        start_with(&log, IMPATIENT_MS, &with_ports),
        start_with(&log, IMPATIENT_MS, &["--route", "* test"]),
    ];
    let mut streams = edges.each_ref().map(|edge| stream(edge, "c"));
    post(&edges[0], &[item("c", 0)]);
    for client in &mut streams {
        check_numbers(client, 0, 0);
    }
    log.kill();
    // Two concurrent publishes, which do not wait for each other.
    let control = edges[0].control;
    let other = thread::spawn(move || try_post(control, &[item("d", 0)]));
    let began = Instant::now();
    let answer = try_post(edges[0].control, &[item("c", 1)]).expect("an answer");
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("log"), "{}", answer.text());
    assert!(began.elapsed() < Duration::from_secs(10));
    let other = other.join().expect("no panic").expect("an answer");
    assert_eq!(other.status, 503, "{}", other.text());
    for edge in &edges {
        wait_ready(edge, 503);
    }
    // Publishes again while the edge knows that the log is down: over ZeroMQ, and to a port without replies.
    let reply = command(&commands, "publish", json!({"items": [item("c", 1)]}));
    assert_eq!(reply["success"], false, "{reply}");
    let answer = try_post(edges[0].control, &[item("c", 1)]).expect("an answer");
    assert_eq!(answer.status, 503, "{}", answer.text());
    let mut push = Zmq::tcp(pull, Kind::Push);
    push.send(&[format!("J{}", item("pulled", 0)).as_bytes()]);
    let mut pulled = stream(&edges[1], "pulled");
    log.restart();
    check_numbers(&mut pulled, 0, 0);
    // A rejected item does not count as a duplicate, and is delivered once when it is repeated.
    wait_until("publishing works", || {
        let answer = try_post(edges[0].control, &[item("c", 1)])?;
        (answer.status == 200).then_some(())
    });
    post(&edges[1], &[item("c", 1), item("c", 2)]);
    for client in &mut streams {
        check_numbers(client, 1, 2);
    }
}

fn what_is_killed_loses_doubles_and_turns_nothing(mut log: LogServer) {
    let route = ["--route", "* test"];
    let mut edges = vec![
        start(&log),
        start(&log),
        start_with(&log, PATIENT_MS, &route),
    ];
    let mut streams: Vec<Client> = edges[1..].iter().map(|edge| stream(edge, "c")).collect();
    let controls: Vec<u16> = edges.iter().map(|edge| edge.control).collect();
    const COUNT: usize = 400;
    thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            for number in 0..COUNT {
                let mut at = 0;
                // Without a response, the publisher immediately retries at the other edge with the
                // same id.
                while try_post(controls[at % 2], &[item("c", number)])
                    .is_none_or(|answer| answer.status != 200)
                {
                    at += 1;
                }
                thread::sleep(Duration::from_millis(5));
            }
        });
        let pause = || thread::sleep(Duration::from_millis(300));
        pause();
        for edge in &edges[..2] {
            assert!(send_signal(bridge_pid(edge), Signal::Kill));
            pause();
        }
        log.kill();
        pause();
        log.restart();
        pause();
        // Kill workers, including the worker with the publishers' ports, and then a complete edge.
        let bridge = bridge_pid(&edges[0]);
        for pid in edges[0].workers().into_iter().filter(|pid| *pid != bridge) {
            assert!(send_signal(pid, Signal::Kill));
        }
        pause();
        edges.remove(0).kill_all();
        publisher.join().expect("no panic");
    });
    for client in &mut streams {
        check_numbers(client, 0, COUNT - 1);
    }
}
