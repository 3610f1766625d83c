//! WebSockets over HTTP/2 (RFC 8441), from clients and to targets, with Node at either end and `php
//! server.php`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use fermata_testkit::install::{skipped, works};
use fermata_testkit::websocket::Socket;
use fermata_testkit::{Connection, Server, wait_until, workspace_root};
use fermata_tests::{fixture_path, stats};
use serde_json::{Value, json};

use crate::origin::{Origin, text};
use crate::own::Own;

const TEXT: u8 = 0x81;

/// A backend in Node that echoes messages.
struct Backend {
    child: Child,
    port: u16,
}

impl Drop for Backend {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Backend {
    /// Starts the backend; `None` if Node is missing. `offers` accepts extended CONNECT over
    /// HTTP/2, `refuses` does not; both accept HTTP/1.1.
    fn start(kind: &str) -> Option<Self> {
        if !works("node", &["--version"]) {
            skipped("node is not installed");
            return None;
        }
        let mut child = node()
            .args(["serve", kind])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it was tried before");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("its port");
        let port = line.trim().parse().expect("a port");
        Some(Self { child, port })
    }

    fn edge(&self, properties: &str) -> Own {
        let route = format!("* 127.0.0.1:{}{properties}", self.port);
        Own::start(&["--route", &route, "--workers", "1"])
    }
}

fn node() -> Command {
    let mut command = Command::new("node");
    command.arg(workspace_root().join("tests/edge/clients/sockets_http2.mjs"));
    command
}

/// Opens `count` WebSockets on one HTTP/2 connection, sends these texts in order, and closes.
fn ask(own: &Own, path: &str, count: usize, texts: &[&str]) -> Vec<Value> {
    let output = node()
        .args(["ask", &format!("127.0.0.1:{}", own.port), path])
        .arg(count.to_string())
        .args(texts)
        .output()
        .expect("it was tried before");
    let said = String::from_utf8_lossy(&output.stdout);
    let said: Value = serde_json::from_str(said.trim()).unwrap_or_else(|error| {
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("{error}: {said:?} {errors}\n{}", own.log())
    });
    assert_eq!(said["offers"], true, "the edge offers extended CONNECT");
    said["results"].as_array().expect("a list").clone()
}

/// Asserts that the client received these texts and closed normally.
fn assert_exchanged(result: &Value, heard: &[&str], own: &Own) {
    assert_eq!(result["status"], 200, "{result}\n{}", own.log());
    assert_eq!(result["heard"], json!(heard), "{}", own.log());
    assert_eq!(result["close"], 1000, "{}", own.log());
    assert_eq!(result["reset"], 0, "the stream has ended in order");
    assert!(result["accept"].is_null(), "there was no key");
}

#[test]
fn clients_over_http2_reach_backends_of_http1() {
    let Some(backend) = Backend::start("offers") else {
        return;
    };
    let own = backend.edge("");
    for result in ask(&own, "/x", 3, &["hi", "*300000", "figures"]) {
        let figures = r#"{"overHttp2":0,"overHttp1":3,"sessions":0}"#;
        assert_exchanged(&result, &["hi", "*300000", figures], &own);
        assert_eq!(result["protocol"], "echo");
    }
}

#[test]
fn sockets_share_a_connection_to_their_target() {
    let Some(backend) = Backend::start("offers") else {
        return;
    };
    let own = backend.edge(",http2");
    for result in ask(&own, "/x?y", 3, &["hi", "*1000000", "figures"]) {
        let figures = r#"{"overHttp2":3,"overHttp1":0,"sessions":1}"#;
        assert_exchanged(&result, &["hi", "*1000000", figures], &own);
        assert_eq!(result["protocol"], "echo");
    }
    let results = ask(&own, "/x?y", 1, &["head"]);
    let heard = results[0]["heard"][0].as_str().expect("a text");
    let head: Value = serde_json::from_str(heard).expect(heard);
    for (name, value) in [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":path", "/x?y"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-extensions", "grip"),
        ("sec-websocket-protocol", "echo"),
        ("x-own", "value"),
    ] {
        assert_eq!(head[name], value, "{head}");
    }
    for name in ["sec-websocket-key", "upgrade", "connection", "host", "te"] {
        assert!(head[name].is_null(), "{name}: {head}");
    }
    // Ordinary requests use the same connection.
    assert_eq!(
        own.get("/figures").text(),
        r#"{"overHttp2":4,"overHttp1":0,"sessions":1}"#
    );
}

#[test]
fn clients_of_http1_reach_targets_over_http2() {
    let Some(backend) = Backend::start("offers") else {
        return;
    };
    let own = backend.edge(",http2");
    let mut socket = open(&own, "/x");
    socket.text("figures");
    assert_eq!(
        socket.next_text(),
        r#"{"overHttp2":1,"overHttp1":0,"sessions":1}"#
    );
    // The target closes the WebSocket.
    socket.text("leave");
    socket.expect_close(1001);
}

#[test]
fn a_target_without_extended_connect_gets_a_handshake_of_http1() {
    let Some(backend) = Backend::start("refuses") else {
        return;
    };
    let own = backend.edge(",http2");
    for result in ask(&own, "/x", 2, &["hi", "figures"]) {
        let figures = r#"{"overHttp2":0,"overHttp1":2,"sessions":1}"#;
        assert_exchanged(&result, &["hi", figures], &own);
    }
}

#[test]
fn refusals_are_passed_on_and_a_page_is_no_websocket() {
    if let Some(backend) = Backend::start("offers") {
        let own = backend.edge(",http2");
        let results = ask(&own, "/refused", 1, &["hi"]);
        assert_eq!(results[0]["status"], 403, "{}", own.log());
        // The connection stays usable.
        let results = ask(&own, "/x", 1, &["figures"]);
        let figures = r#"{"overHttp2":1,"overHttp1":0,"sessions":1}"#;
        assert_exchanged(&results[0], &[figures], &own);
        // Over HTTP/2, the status 200 of a page would mean that the WebSocket is open.
        let origin = Origin::start();
        origin.on("page", |_| text("a page"));
        let own = Own::start(&["--route", &format!("* 127.0.0.1:{}", origin.port())]);
        let results = ask(&own, "/page", 1, &["hi"]);
        assert_eq!(origin.seen("page").len(), 1, "{}", own.log());
        assert_eq!(results[0]["status"], 502, "{}", own.log());
        assert_eq!(results[0]["heard"], json!([]));
    }
}

#[test]
fn a_client_that_takes_nothing_holds_up_no_other_socket() {
    const PIECES: usize = 200;
    let Some(backend) = Backend::start("offers") else {
        return;
    };
    let own = backend.edge(",http2");
    let mut slow = open(&own, "/x");
    // Every piece is echoed, but the client reads no echo.
    let piece = "p".repeat(100_000);
    let frames = fermata_testkit::websocket::frame(TEXT, piece.as_bytes()).repeat(PIECES);
    let sender = slow.connection().send_in_background(frames);
    for _ in 0..5 {
        let results = ask(&own, "/x", 1, &["hi", "*1000000"]);
        assert_exchanged(&results[0], &["hi", "*1000000"], &own);
    }
    for _ in 0..PIECES {
        assert_eq!(slow.next_text().len(), 100_000);
    }
    let sent = sender.join().expect("it does not panic");
    sent.expect("all is sent");
}

#[test]
fn php_behind_the_edge_gets_them_as_streams() {
    let server = Server::builder(fixture_path("websocket"))
        .setting("http2", "on")
        .control()
        .start();
    let route = format!("* {},http2", server.address());
    let own = Own::start(&["--route", &route, "--workers", "1"]);
    let mut first = open(&own, "/echo");
    let mut second = open(&own, "/large");
    first.text("one");
    second.text(&"x".repeat(500_000));
    assert_eq!(first.next_text(), "one");
    assert_eq!(second.next_text().len(), 500_000);
    // One connection carries both.
    let counted = wait_until("the server counts them", || {
        let total = stats(&server)["total"].clone();
        (total["websocket_upgrades"] == 2).then_some(total)
    });
    assert_eq!(counted["http2_connections"], 1);
    if works("node", &["--version"]) {
        let results = ask(&own, "/echo", 1, &["hi", "*300000"]);
        assert_exchanged(&results[0], &["hi", "*300000"], &own);
    }
    first.send(0x88, fermata_testkit::websocket::close_payload(1000, ""));
    first.expect_close(1000);
}

fn open(own: &Own, path: &str) -> Socket {
    Socket::open(Connection::open(([127, 0, 0, 1], own.port).into()), path)
}
