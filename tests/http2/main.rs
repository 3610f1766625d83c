//! HTTP/2 with real clients: curl and h2load, to PHP applications.

mod attacks;
mod clients;

use std::process::{Command, Output, Stdio};

use fermata_testkit::{Builder, Server, wait_until};
use fermata_tests::{fixture, publish, stats};
use serde_json::Value;

/// Maximum seconds for a transfer: longer than any transfer takes on a busy machine.
const TRANSFER_S: &str = "120";

pub(crate) fn on(name: &str) -> Builder {
    fixture(name).workers(1)
}

fn curl(server: &Server, path: &str, arguments: &[&str]) -> Output {
    Command::new("curl")
        .args(["-sS", "--http2-prior-knowledge", "--max-time", TRANSFER_S])
        .args(arguments)
        .arg(format!("http://{}{path}", server.address()))
        .current_dir(server.directory().path())
        .output()
        .expect("curl is there")
}

/// Returns curl's output.
#[track_caller]
fn get(server: &Server, path: &str, arguments: &[&str]) -> String {
    let output = curl(server, path, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{path}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn it_is_on_unless_it_is_turned_off() {
    let server = fixture("http").workers(1).start();
    assert!(curl(&server, "/", &[]).status.success());
    let server = fixture("http").setting("http2", "off").workers(1).start();
    assert!(!curl(&server, "/", &[]).status.success());
    let mut connection = server.connect();
    connection.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(connection.read_response().status(), 400);
    assert_eq!(server.connect().get("/").status(), 200);
}

/// Bytes after a preface are frames, never an HTTP/1 request.
#[test]
fn nothing_is_smuggled_behind_a_preface() {
    let server = on("http").start();
    let mut connection = server.connect();
    connection.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\n");
    let (bytes, _) = connection.read_to_end();
    let said = String::from_utf8_lossy(&bytes);
    assert!(!said.contains("HTTP/1.1"), "{said:?}");
    let mut connection = server.connect();
    connection.send("GET /rooms/1 HTTP/1.1\r\nHost: a\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert_eq!(connection.read_response().status(), 200);
    assert_eq!(connection.read_response().status(), 400);
}

#[test]
fn requests_and_answers_are_those_of_http_1() {
    let log = |server: &Server| {
        let text = std::fs::read_to_string(server.directory().join("access.log"));
        text.unwrap_or_default()
    };
    let builder = on("http");
    let access_log = builder.directory().join("access.log");
    let server = builder.setting("access_log", access_log.display()).start();
    let format = ["-w", " %{http_version} %{http_code}"];
    assert_eq!(get(&server, "/", &format), r#"{"status":"OK"} 2 200"#);
    assert!(get(&server, "/nothing", &format).ends_with(" 2 404"));
    assert!(get(&server, "/status/204", &format).ends_with(" 2 204"));
    assert!(get(&server, "/", &["-I"]).starts_with("HTTP/2 200"));
    let said = ["-b", "a=1", "-H", "X-Own: value", "--data-binary", "four"];
    let echo = get(&server, "/echo?x=y", &said);
    let echo: Value = serde_json::from_str(&echo).expect("it answers in JSON");
    assert_eq!(echo["method"], "POST");
    assert_eq!(echo["target"], "/echo?x=y");
    assert_eq!(echo["bytes"], 4);
    assert_eq!(echo["cookies"]["a"], "1");
    assert_eq!(echo["headers"]["x-own"][0], "value");
    assert_eq!(
        echo["headers"]["host"][0],
        server.address().to_string().as_str()
    );
    wait_until("the lines are written", || {
        let log = log(&server);
        let lines = ["\"GET / HTTP/2.0\" 200 15 ", "\"POST /echo HTTP/2.0\" 200 "];
        lines.iter().all(|line| log.contains(line)).then_some(())
    });
    // The same address accepts HTTP/1.1.
    assert_eq!(server.connect().get("/").status(), 200);
}

#[test]
fn large_bodies_arrive_whole_in_both_directions() {
    let server = on("http").setting("body_bytes_max", 8 << 20).start();
    let body: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
    let path = server.directory().join("body");
    std::fs::write(path, &body).expect("the directory is ours");
    let arguments = ["--data-binary", "@body"];
    let output = curl(&server, "/body", &arguments);
    assert!(output.status.success() && output.stdout == body);
    // A body of unknown length.
    let arguments = ["-X", "POST", "-T", "-"];
    let mut child = Command::new("curl")
        .args(["-sS", "--http2-prior-knowledge", "--max-time", TRANSFER_S])
        .args(arguments)
        .arg(format!("http://{}/body", server.address()))
        .stdin(std::fs::File::open(server.directory().join("body")).expect("written"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl is there");
    let mut received = Vec::new();
    let mut stdout = child.stdout.take().expect("piped");
    std::io::Read::read_to_end(&mut stdout, &mut received).expect("curl ends");
    assert!(child.wait().expect("it has ended").success() && received == body);
}

#[test]
fn a_body_that_is_too_large_is_told_so() {
    let server = on("http").setting("body_bytes_max", 100_000).start();
    std::fs::write(server.directory().join("body"), vec![b'x'; 3_000_000]).expect("ours");
    let arguments = ["--data-binary", "@body", "-w", " %{http_code}"];
    let said = get(&server, "/body", &arguments);
    assert!(said.ends_with(" 413"), "{said}");
}

#[test]
fn streams_of_a_program_and_events_flow() {
    let server = on("responses").start();
    let expected: String = (0..300)
        .map(|i| char::from(b'a' + (i % 26) as u8).to_string().repeat(1000))
        .collect();
    assert!(get(&server, "/stream/300/1000", &[]) == expected);
    assert_eq!(get(&server, "/list", &[]), "one two three");
    let server = on("events").start();
    let events = get(&server, "/tokens/20/10", &[]);
    assert_eq!(events.matches("data: ").count(), 20, "{events}");
}

#[test]
fn held_clients_get_their_events_and_a_drain_ends_them_in_order() {
    let mut server = on("hub").control().start();
    let held = Command::new("curl")
        .args(["-sSN", "--http2-prior-knowledge", "--max-time", TRANSFER_S])
        .arg("-o")
        .arg(server.directory().join("events"))
        .arg(format!("http://{}/events?channels=news", server.address()))
        .spawn();
    let mut held = held.expect("curl is there");
    let path = server.directory().join("events");
    let events = || std::fs::read_to_string(&path).unwrap_or_default();
    wait_until("the stream begins", || {
        events().contains("id: ").then_some(())
    });
    // A held request counts by its kind. Its connection is counted separately.
    wait_until("it is counted", || {
        let figures = stats(&server);
        let open = &figures["total"]["connections"];
        let counts = ["sse", "http2", "http_idle", "http_active"].map(|kind| open[kind].as_u64());
        (counts == [Some(1), Some(1), Some(0), Some(0)]).then_some(())
    });
    for number in 0..50 {
        publish(&server, "news", &format!("event {number}"));
    }
    wait_until("the last event", || {
        events().contains("data: event 49\n").then_some(())
    });
    let told = events().matches("data: event ").count();
    assert_eq!(told, 50);
    server.signal(fermata_testkit::Signal::Terminate);
    assert!(held.wait().expect("it ends").success(), "its end is whole");
    assert!(server.wait_exit().success());
    assert!(events().contains("retry: "));
}

#[test]
fn many_streams_of_several_connections_are_answered() {
    if Command::new("h2load").arg("--version").output().is_err() {
        eprintln!("SKIPPED: h2load is not here; Debian has it in nghttp2-client");
        return;
    }
    let server = on("http").start();
    let output = Command::new("h2load")
        .args(["-n", "5000", "-c", "5", "-m", "50"])
        .arg(format!("http://{}/bytes/1600", server.address()))
        .output()
        .expect("it is there");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("5000 succeeded, 0 failed"), "{said}");
}
