//! SockJS over several workers, and with the browser library.

use std::process::{Child, Command, Stdio};

use fermata_testkit::install::{install_node, installed, shown, skipped, works};
use fermata_testkit::{command_path, deadline, free_port, wait_until, workspace_root};

use crate::client::Client;

/// Number of workers, large enough that requests of a session reach other workers than its own.
const WORKERS: &str = "4";
/// Number of concurrent sessions, some of which are rejected if a worker may have only one.
const SESSIONS: usize = 12;

struct Edge {
    child: Child,
    port: u16,
}

impl Drop for Edge {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
    }
}

/// Starts an edge that echoes messages of SockJS clients below `/s`.
fn start(arguments: &[&str]) -> Edge {
    start_with(WORKERS, arguments)
}

fn start_with(workers: &str, arguments: &[&str]) -> Edge {
    let port = free_port();
    let mut command = Command::new(command_path());
    command.args(["edge", "--workers", workers, "--control="]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    command.args(["--route", "*,sockjs=/s,sockjs_as_path=/ws test"]);
    let child = command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("our own program");
    let edge = Edge { child, port };
    wait_until("it listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port))
            .is_ok()
            .then_some(())
    });
    edge
}

impl Edge {
    /// Sends a POST on a new connection, which any worker may accept.
    fn post(&self, path: &str, body: &str) -> (u16, String) {
        self.post_with(path, &[], body)
    }

    /// Sends a POST with these headers on a new connection.
    fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut client = Client::open(self.port, "localhost");
        let answer = client.request("POST", path, headers, body.as_bytes());
        (answer.status, answer.text().to_owned())
    }
}

#[test]
fn a_session_is_one_whatever_workers_its_requests_reach() {
    let edge = start(&[]);
    for session in 0..SESSIONS {
        let path = |transport: &str| format!("/s/000/{session}/{transport}");
        assert_eq!(edge.post(&path("xhr"), ""), (200, "o\n".to_owned()));
        for message in ["one", "two"] {
            let sent = edge.post(&path("xhr_send"), &format!("[\"{message}\"]"));
            assert_eq!(sent, (200, "ok".to_owned()));
            let polled = edge.post(&path("xhr"), "");
            assert_eq!(polled, (200, format!("a[\"{message}\"]\n")));
        }
    }
}

#[test]
fn refuses_requests_of_other_origins_in_a_session() {
    let edge = start(&[]);
    let own = [("Origin", "https://page.example")];
    for session in 0..SESSIONS {
        let path = |transport: &str| format!("/s/000/{session}/{transport}");
        let opened = edge.post_with(&path("xhr"), &own, "");
        assert_eq!(opened, (200, "o\n".to_owned()));
        for origin in ["https://other.example", "http://page.example", "null"] {
            let other = [("Origin", origin)];
            for (transport, body) in [("xhr", ""), ("xhr_send", "[\"forged\"]")] {
                let (status, text) = edge.post_with(&path(transport), &other, body);
                assert_eq!(status, 403, "{origin} {transport}: {text}");
            }
        }
        let sent = edge.post_with(&path("xhr_send"), &own, "[\"own\"]");
        assert_eq!(sent, (200, "ok".to_owned()));
        // The message is not lost to another page, and the poll is not delayed by one of its
        // messages.
        let polled = edge.post_with(&path("xhr"), &own, "");
        assert_eq!(polled, (200, "a[\"own\"]\n".to_owned()));
    }
}

#[test]
fn a_client_that_breaks_off_has_left_whatever_worker_it_has_asked() {
    let edge = start(&["--sockjs-linger-ms=60000"]);
    for session in 0..SESSIONS {
        let path = |transport: &str| format!("/s/000/{session}/{transport}");
        assert_eq!(edge.post(&path("xhr"), ""), (200, "o\n".to_owned()));
        let mut polls = vec![Client::open(edge.port, "localhost")];
        polls[0].send("POST", &path("xhr"), &[], b"");
        // One poll waits when a second one is rejected.
        let twice = (
            200,
            "c[2010,\"Another connection still open\"]\n".to_owned(),
        );
        wait_until("it waits", || {
            let mut other = Client::open(edge.port, "localhost");
            other.send("POST", &path("xhr"), &[], b"");
            let is_answered = other.has_data(std::time::Duration::from_millis(200));
            if !is_answered {
                // This poll was the first one, or its response takes longer.
                polls.push(other);
                return None;
            }
            let answer = other.read_answer(false);
            ((answer.status, answer.text().to_owned()) == twice).then_some(())
        });
        drop(polls);
        let left = (
            200,
            "c[3000,\"Client already closed connection\"]\n".to_owned(),
        );
        wait_until("it has left", || {
            (edge.post(&path("xhr"), "") == left).then_some(())
        });
    }
}

#[test]
fn a_poll_of_another_worker_waits_as_long_as_there_is_nothing_to_say() {
    let edge = start(&[
        "--origin-response-timeout-ms=100",
        "--sockjs-heartbeat-ms=2500",
    ]);
    let polls: Vec<Client> = (0..SESSIONS)
        .map(|session| {
            let path = format!("/s/000/{session}/xhr");
            assert_eq!(edge.post(&path, ""), (200, "o\n".to_owned()));
            let mut client = Client::open(edge.port, "localhost");
            client.send("POST", &path, &[], b"");
            client
        })
        .collect();
    for mut poll in polls {
        let answer = poll.read_answer(false);
        assert_eq!((answer.status, answer.text()), (200, "h\n"));
    }
}

#[test]
fn a_handshake_whose_body_comes_later_is_refused_at_once_and_touches_nobody_else() {
    // With one worker, which receives the requests in order.
    let edge = start_with("1", &[]);
    let mut late = Client::open(edge.port, "localhost");
    let headers = [
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Transfer-Encoding", "chunked"),
    ];
    late.send("GET", "/s/000/late/websocket", &headers, b"");
    assert_eq!(late.try_status(deadline()), Some(400));

    assert_eq!(edge.post("/s/000/a/xhr", ""), (200, "o\n".to_owned()));
    let mut waiting = Client::open(edge.port, "localhost");
    waiting.send("POST", "/s/000/a/xhr", &[], b"");
    late.raw(b"0\r\n\r\n");
    let sent = edge.post("/s/000/a/xhr_send", "[\"hello\"]");
    assert_eq!(sent, (200, "ok".to_owned()));
    let answer = waiting.read_answer(false);
    assert_eq!((answer.status, answer.text()), (200, "a[\"hello\"]\n"));
}

#[test]
fn silence_is_told_and_absence_ends_a_session() {
    let edge = start(&["--sockjs-heartbeat-ms=100", "--sockjs-linger-ms=300"]);
    assert_eq!(edge.post("/s/000/a/xhr", ""), (200, "o\n".to_owned()));
    assert_eq!(edge.post("/s/000/a/xhr", ""), (200, "h\n".to_owned()));
    wait_until("it has ended", || {
        (edge.post("/s/000/a/xhr_send", "[]").0 == 404).then_some(())
    });
    assert_eq!(edge.post("/s/000/a/xhr", ""), (200, "o\n".to_owned()));

    let mut socket =
        crate::socket::open(Client::open(edge.port, "localhost"), "/s/000/b/websocket");
    assert_eq!(socket.next_text(), "o");
    for _ in 0..3 {
        assert_eq!(socket.next_text(), "h");
    }
}

#[test]
fn a_worker_has_so_many_sessions() {
    let edge = start(&["--sockjs-sessions-max=1"]);
    let opened: Vec<(u16, String)> = (0..SESSIONS)
        .map(|session| edge.post(&format!("/s/000/{session}/xhr"), ""))
        .collect();
    let workers: usize = WORKERS.parse().expect("a number");
    let count = opened.iter().filter(|it| it.0 == 200).count();
    assert!((1..=workers).contains(&count), "{opened:?}");
    let refused = (503, "Too many sessions.\n".to_owned());
    let is_known = |it: &(u16, String)| it.0 == 200 || *it == refused;
    assert!(opened.iter().all(is_known), "{opened:?}");
}

#[test]
fn the_library_of_pages_talks_in_each_transport() {
    if !works("node", &["--version"]) || !works("npm", &["--version"]) {
        return skipped("node or npm is not installed");
    }
    let scripts = workspace_root().join("tests/edge/clients");
    let folder = installed("sockjs-node");
    std::fs::create_dir_all(&folder).expect("a folder in target/");
    for (name, own) in [
        ("package.json", "sockjs-package.json"),
        ("package-lock.json", "sockjs-package-lock.json"),
    ] {
        std::fs::copy(scripts.join(own), folder.join(name)).expect("a file of ours");
    }
    if !install_node(&folder) {
        return;
    }
    let edge = start(&[]);
    for transport in ["xhr-polling", "websocket"] {
        let output = Command::new("node")
            .arg(scripts.join("sockjs.cjs"))
            .arg(folder.join("node_modules/sockjs-client"))
            .args([&format!("http://127.0.0.1:{}/s", edge.port), transport])
            .output()
            .expect("it was tried before");
        assert!(output.status.success(), "{transport}: {}", shown(&output));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said, format!("{transport} ok\n"));
    }
}
