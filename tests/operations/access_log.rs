//! The access log: one line per finished request, whatever its outcome.

use std::fs;
use std::path::{Path, PathBuf};

use fermata_testkit::sse::Stream;
use fermata_testkit::websocket::Socket;
use fermata_testkit::{Builder, End, Server, Signal, wait_until};
use fermata_tests::{fixture, publish};
use serde_json::Value;

fn logged(name: &str, format: &str) -> (Builder, PathBuf) {
    let builder = fixture(name);
    let path = builder.directory().join("access.log");
    let builder = builder
        .setting("access_log", path.display())
        .setting("access_log_format", format);
    (builder, path)
}

/// Returns the log when it has `count` lines. Lines may be written 100 ms late.
#[track_caller]
fn lines(path: &Path, count: usize) -> Vec<String> {
    wait_until(&format!("{} has {count} lines", path.display()), || {
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(String::from).collect();
        println!("{} lines", lines.len());
        (lines.len() >= count).then_some(lines)
    })
}

fn json_lines(path: &Path, count: usize) -> Vec<Value> {
    let parse = |line: &String| serde_json::from_str(line).expect("an object per line");
    lines(path, count).iter().map(parse).collect()
}

#[test]
fn every_request_has_a_line_refused_ones_and_files_too() {
    let (builder, path) = logged("http", "combined");
    let assets = builder.directory().join("assets");
    fs::create_dir(&assets).expect("the folder is new");
    fs::write(assets.join("file.txt"), "0123456789").expect("a file");
    let server = builder.workers(1).start();
    let mut connection = server.connect();
    connection.send(
        "GET /bytes/4096?token=secret HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n\
         Cookie: id=secret\r\nReferer: http://r/x?key=secret\r\nUser-Agent: test \"1\"\r\n\r\n",
    );
    assert_eq!(connection.read_response().status(), 200);
    assert_eq!(connection.get("/missing").status(), 404);
    connection.send("HEAD /bytes/10 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(
        connection.try_read_response(true).expect("a head").status(),
        200
    );
    assert_eq!(connection.get("/assets/file.txt").status(), 200);
    connection.send("GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n");
    assert_eq!(connection.read_response().status(), 400);
    connection.expect_end();

    let found = lines(&path, 5);
    let shapes = [
        "\"GET /bytes/4096 HTTP/1.1\" 200 4096 \"http://r/x\" \"test \\x221\\x22\"",
        "\"GET /missing HTTP/1.1\" 404 17 \"-\" \"-\"",
        "\"HEAD /bytes/10 HTTP/1.1\" 200 0 \"-\" \"-\"",
        "\"GET /assets/file.txt HTTP/1.1\" 200 10 \"-\" \"-\"",
        "\"-\" 400 ",
    ];
    for (line, shape) in found.iter().zip(shapes) {
        assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
        assert!(line.contains(shape), "{line} is not {shape}");
        assert!(!line.contains("secret"), "{line}");
    }
    assert_eq!(found.len(), shapes.len());
}

#[test]
fn pipelined_requests_and_those_of_a_client_that_left_have_lines_of_their_own() {
    let (builder, path) = logged("http", "json");
    let server = builder.setting("access_log_query", "on").workers(1).start();
    let mut connection = server.connect();
    let one = |n: usize| format!("GET /bytes/{}?n={n} HTTP/1.1\r\nHost: x\r\n\r\n", n * 16);
    connection.send((1..=20).map(one).collect::<String>());
    for n in 1..=20 {
        let response = connection.read_response();
        assert_eq!((response.status(), response.body.len()), (200, n * 16));
    }
    connection.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf");
    connection.reset();
    let found = json_lines(&path, 21);
    for (line, n) in found.iter().zip(1..=20) {
        assert_eq!(line["target"], format!("/bytes/{}?n={n}", n * 16));
        assert_eq!(
            (&line["status"], &line["bytes"]),
            (&200.into(), &(n * 16).into())
        );
        assert!(
            line["duration_ms"].as_f64().is_some_and(|ms| ms >= 0.0),
            "{line}"
        );
    }
    assert_eq!(
        (&found[20]["method"], &found[20]["status"]),
        (&"POST".into(), &499.into())
    );
}

#[test]
fn a_held_client_has_its_line_when_it_leaves_with_all_it_was_sent() {
    let (builder, path) = logged("hub", "json");
    let server = builder.workers(1).start();
    let mut stream = Stream::open(server.connect(), "/events", None);
    publish(&server, "news", &"x".repeat(1000));
    stream.next_event();
    assert_eq!(json_lines(&path, 1)[0]["target"], "/publish/news");
    drop(stream);
    let held = &json_lines(&path, 2)[1];
    assert_eq!(
        (&held["target"], &held["status"]),
        (&"/events".into(), &200.into())
    );
    assert!(
        held["bytes"].as_u64().is_some_and(|bytes| bytes > 1000),
        "{held}"
    );
}

#[test]
fn a_stream_has_its_line_with_every_byte_of_its_body() {
    let (builder, path) = logged("responses", "json");
    let server = builder.setting("access_log_query", "on").workers(1).start();
    // A response that is sent with one write, and one that the kernel accepts in many parts.
    let targets = [
        "/stream/3/4",
        "/stream/3/4?length=12",
        "/stream/0/0",
        "/stream/400/20000",
        "/stream/40/100000?length=4000000",
    ];
    let mut sent = Vec::new();
    for target in targets {
        let mut connection = server.connect();
        let head = format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        connection.send(head);
        let (bytes, end) = connection.read_to_end();
        assert_eq!(end, Some(End::Closed));
        let head = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        // Chunk framing counts as well, because it is sent over the network.
        sent.push(bytes.len() - head.expect("a head") - 4);
    }
    let mut connection = server.connect();
    let pipelined = "GET /stream/2/5?length=10 HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2);
    connection.send(pipelined);
    for _ in 0..2 {
        assert_eq!(connection.read_response().body.len(), 10);
    }
    sent.extend([10, 10]);
    let found = json_lines(&path, sent.len());
    for (line, bytes) in found.iter().zip(&sent) {
        assert_eq!(line["bytes"], *bytes, "{line}");
    }
    assert_eq!((sent[1], sent[4]), (12, 4_000_000));
    assert!(sent[3] > 8_000_000);
}

#[test]
fn a_websocket_has_its_line_when_it_ends() {
    let (builder, path) = logged("websocket", "json");
    let server = builder.workers(1).start();
    let mut socket = Socket::open(server.connect(), "/echo");
    socket.text("hello");
    assert_eq!(socket.next_text(), "hello");
    assert_eq!(server.connect().get("/").status(), 200);
    assert_eq!(json_lines(&path, 1).len(), 1);
    drop(socket);
    let ended = &json_lines(&path, 2)[1];
    assert_eq!(
        (&ended["target"], &ended["status"]),
        (&"/echo".into(), &101.into())
    );
    // A frame of five bytes has a header of two.
    assert_eq!(ended["bytes"], 7);
}

#[test]
fn the_file_is_opened_anew_on_sigusr1_and_sighup() {
    let (builder, path) = logged("http", "common");
    let server = builder.start();
    for (signal, moved) in [(Signal::User1, "access.1"), (Signal::HangUp, "access.2")] {
        assert_eq!(server.connect().get("/").status(), 200);
        lines(&path, 1);
        let moved = server.directory().join(moved);
        fs::rename(&path, &moved).expect("the same folder");
        server.signal(signal);
        wait_until("the log is there again", || path.exists().then_some(()));
        // Wait until every worker has opened the new file; otherwise its lines would go to the old
        // file.
        wait_until("new lines are in the new file", || {
            assert_eq!(server.connect().get("/").status(), 200);
            let text = fs::read_to_string(&path).unwrap_or_default();
            (text.lines().count() >= 20).then_some(())
        });
        assert!(
            fs::read_to_string(&moved)
                .expect("it is there")
                .ends_with('\n')
        );
    }
    server.connect().get("/pid");
}

#[test]
fn a_disk_that_takes_nothing_costs_lines_and_no_answer() {
    let builder = fixture("http").workers(1).control();
    let server = builder
        .setting("access_log", "/dev/full")
        .setting("access_log_buffer_bytes_max", "64k")
        .start();
    let mut connection = server.connect();
    for _ in 0..100 {
        let burst = "GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20);
        connection.send(burst);
        for _ in 0..20 {
            assert_eq!(connection.read_response().status(), 200);
        }
    }
    server.log().wait_for(0, "access_log: ");
    let dropped = wait_until("the lines left out are counted", || {
        let figures = fermata_tests::stats(&server);
        let dropped = figures
            .pointer("/total/access_log_dropped")
            .and_then(Value::as_u64);
        dropped.filter(|dropped| *dropped > 0)
    });
    assert!(dropped < 2_000, "{dropped}");
}

#[test]
fn a_log_that_cannot_be_opened_stops_the_start() {
    let builder = fixture("http").setting("access_log", "/nowhere/access.log");
    let exited = builder.start_refused();
    assert!(!exited.status.success());
    exited
        .log
        .wait_for(0, "access_log: cannot open /nowhere/access.log");
}

#[test]
fn lines_on_standard_error_are_among_those_of_the_server() {
    let builder = fixture("http").setting("access_log", "stderr");
    let server: Server = builder.start();
    assert_eq!(server.connect().get("/missing").status(), 404);
    server.log().wait_for(0, "\"GET /missing HTTP/1.1\" 404");
}
