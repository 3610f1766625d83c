//! Sessions stored by a service that several workers reach over ZeroMQ.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use fermata_testkit::install::{install_python, installed, skipped, works};
use fermata_testkit::{command_path, deadline, free_port, wait_until, workspace_root};
use serde_json::{Value, json};

use crate::client::Client;
use crate::origin::{Origin, ok, text};

/// Number of requests, each on a separate connection, so that each worker gets some.
const REQUESTS: usize = 12;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

struct Edge {
    _process: Running,
    port: u16,
    control: u16,
    state: u16,
}

fn start(origin: &Origin, arguments: &[&str]) -> Edge {
    let (port, control, state) = (free_port(), free_port(), free_port());
    let mut command = Command::new(command_path());
    command.args(["edge", "--workers", "3"]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    command.args(["--control", &format!("127.0.0.1:{control}")]);
    command.args(["--zmq-state", &format!("tcp://127.0.0.1:{state}")]);
    let over = format!("over.test,session 127.0.0.1:{},over_http", origin.port());
    command.args(["--route", &over]);
    command.args(["--route", &format!("*,session 127.0.0.1:{}", origin.port())]);
    let child = command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let edge = Edge {
        _process: Running(child.expect("our own program")),
        port,
        control,
        state,
    };
    wait_until("it listens", || {
        let is_listening = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        [port, control].into_iter().all(is_listening).then_some(())
    });
    edge
}

/// Starts the service. Returns it with the requests that it receives; `None` if its dependencies
/// cannot be installed.
fn service(port: u16) -> Option<(Running, Receiver<Value>)> {
    let folder = installed("state-python");
    if !install_python(&folder, &folder.join("zmq"), &["pyzmq==27.3.0"]) {
        return None;
    }
    let mut child = Command::new("python3")
        .env("PYTHONPATH", &folder)
        .arg(workspace_root().join("tests/edge/clients/state.py"))
        .arg(format!("tcp://127.0.0.1:{port}"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was tried before");
    let output = child.stdout.take().expect("it is piped");
    let (sender, questions) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let question = serde_json::from_str(&line).expect("JSON");
            if sender.send(question).is_err() {
                return;
            }
        }
    });
    Some((Running(child), questions))
}

/// Returns the next request with this method.
#[track_caller]
fn question(questions: &Receiver<Value>, method: &str) -> Value {
    loop {
        let question = questions.recv_timeout(deadline()).expect("a question");
        if question["method"] == method {
            return question["args"].clone();
        }
    }
}

fn post(edge: &Edge, body: &str) -> String {
    let mut client = Client::open(edge.port, "site.test");
    let answer = client.request("POST", "/sessions/x", &[], body.as_bytes());
    assert_eq!(answer.status, 200);
    answer.text().to_owned()
}

/// Starts an origin that returns the session of a request and holds streams in a session.
fn origin() -> Origin {
    let origin = Origin::start();
    origin.on("sessions", |request| {
        if request.method == "GET" {
            let detect = r#"path-prefix=/sessions; sid-ptr="/user/sid""#;
            return ok(
                &[
                    ("Grip-Hold", "stream"),
                    ("Grip-Channel", "c"),
                    ("Grip-Session-Id", "s1"),
                    ("Grip-Session-Detect", detect),
                    ("Grip-Last", "c; last-id=a"),
                ],
                "opened\n",
            );
        }
        let value = |name| request.header(name).unwrap_or_default();
        text(&format!(
            "{}|{}",
            value("grip-session-id"),
            value("grip-last")
        ))
    });
    origin
}

#[test]
fn sessions_are_found_by_every_worker() {
    if !works("python3", &["--version"]) {
        return skipped("python3 is not installed");
    }
    let origin = origin();
    let edge = start(&origin, &[]);
    let Some((_service, questions)) = service(edge.state) else {
        return;
    };
    // Wait until the service is reachable.
    wait_until("the service is asked", || {
        post(&edge, "{}");
        questions.try_recv().ok()
    });
    let mut client = Client::open(edge.port, "site.test");
    client.send("GET", "/sessions/hold", &[], b"");
    client.read_head();
    client.read_until("opened\n");
    let rules = question(&questions, "session-detect-rules-set");
    assert_eq!(
        rules,
        json!({"rules": [{"domain": "site.test", "path-prefix": "/sessions", "sid-ptr": "/user/sid"}]})
    );
    let created = question(&questions, "session-create-or-update");
    assert_eq!(created, json!({"sid": "s1", "last-ids": {"c": "a"}}));

    let item = r#"{"items":[{"channel":"c","id":"b","http-stream":{"content":"one"}}]}"#;
    let json = [("Content-Type", "application/json")];
    let mut publisher = Client::open(edge.control, "localhost");
    publisher.request("POST", "/publish/", &json, item.as_bytes());
    client.read_until("one");
    let updated = question(&questions, "session-update-many");
    assert_eq!(updated, json!({"sid-last-ids": {"s1": {"c": "b"}}}));

    for _ in 0..REQUESTS {
        assert_eq!(post(&edge, r#"{"user":{"sid":"s1"}}"#), "s1|c; last-id=b");
        // An unknown session, and no session.
        assert_eq!(post(&edge, r#"{"user":{"sid":"s2"}}"#), "s2|");
        assert_eq!(post(&edge, "no JSON"), "|");
    }
}

#[test]
fn nobody_waits_for_a_service_that_is_not_there() {
    let origin = origin();
    let edge = start(&origin, &["--zmq-state-timeout-ms=100"]);
    for _ in 0..REQUESTS {
        assert_eq!(post(&edge, r#"{"user":{"sid":"s1"}}"#), "|");
    }
}

#[test]
fn a_session_named_for_a_socket_adds_no_lines_to_requests() {
    const EVENTS: (&str, &str) = ("Content-Type", "application/websocket-events");
    let origin = Origin::start();
    origin.on("socket", |request| {
        let name = |id: &str| {
            let control = format!("c:{}", json!({"type": "session", "id": id}));
            format!("TEXT {:x}\r\n{control}\r\n", control.len())
        };
        let grip = ("Sec-WebSocket-Extensions", "grip");
        match request.text().lines().nth(1) {
            None => {
                let evil = name("s\r\nMeta-User: admin\r\nX: ");
                ok(&[EVENTS, grip], format!("OPEN\r\n{}{evil}", name("good")))
            }
            Some(_) => ok(&[EVENTS], "TEXT 4\r\nm:ok\r\n"),
        }
    });
    let edge = start(&origin, &["--zmq-state-timeout-ms=100"]);
    let mut socket = crate::socket::open(Client::open(edge.port, "over.test"), "/socket");
    socket.text("hello");
    assert_eq!(socket.next_text(), "ok");
    let requests = origin.seen("socket");
    let last = requests.last().expect("a request");
    assert_eq!(last.header("meta-user"), None);
    assert_eq!(last.header("grip-session-id").as_deref(), Some("good"));
}
