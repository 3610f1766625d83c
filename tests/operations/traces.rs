//! Spans: a test collector receives a server's spans, and another implementation decodes them.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fermata_testkit::install::{install_python, installed, shown, skipped, works};
use fermata_testkit::sse::Stream;
use fermata_testkit::websocket::Socket;
use fermata_testkit::{
    Builder, Server, Signal, free_port, send_signal, wait_until, workspace_root,
};
use fermata_tests::{fixture, json, publish, stats};
use serde_json::Value;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// The collector's response to the nth POST.
type Behaviour = Box<dyn Fn(usize) -> Answer + Send + Sync>;

enum Answer {
    Status(&'static str),
    /// Reads the POST and never responds.
    Silence,
}

/// A collector that stores accepted spans.
struct Collector {
    address: SocketAddr,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    posts: usize,
    heads: Vec<String>,
    bodies: Vec<Vec<u8>>,
    /// Connections that get no response.
    silent: Vec<TcpStream>,
}

impl Collector {
    fn start() -> Collector {
        Collector::at(0, Box::new(|_| Answer::Status("200 OK")))
    }

    fn at(port: u16, behaviour: Behaviour) -> Collector {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
        let address = listener.local_addr().expect("it is bound");
        let kept = Arc::new(Mutex::new(Kept::default()));
        let shared = Arc::clone(&kept);
        let behaviour = Arc::new(behaviour);
        // Both threads run until the test process exits.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (kept, behaviour) = (Arc::clone(&shared), Arc::clone(&behaviour));
                thread::spawn(move || serve(client, &kept, &behaviour));
            }
        });
        Collector { address, kept }
    }

    fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    fn posts(&self) -> usize {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .posts
    }

    fn bodies(&self) -> Vec<Vec<u8>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bodies.clone()
    }

    fn spans(&self) -> Vec<Value> {
        let mut spans = Vec::new();
        for body in self.bodies() {
            let body: Value = serde_json::from_slice(&body).expect("JSON");
            let of_body = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
            spans.extend(of_body.as_array().expect("a list").iter().cloned());
        }
        spans
    }

    /// Returns the spans when `count` of them have arrived.
    #[track_caller]
    fn wait(&self, count: usize) -> Vec<Value> {
        wait_until(&format!("{count} spans have come"), || {
            let spans = self.spans();
            (spans.len() >= count).then_some(spans)
        })
    }
}

fn serve(mut client: TcpStream, kept: &Mutex<Kept>, behaviour: &Behaviour) {
    let mut input = Vec::new();
    let mut buffer = [0; 65_536];
    loop {
        let head_end = input.windows(4).position(|four| four == b"\r\n\r\n");
        let head = head_end.map(|end| String::from_utf8_lossy(&input[..end]).into_owned());
        let len = head.as_ref().map(|head| {
            let lower = head.to_ascii_lowercase();
            let (_, rest) = lower.split_once("content-length: ").expect("a length");
            let digits = rest.split("\r\n").next().expect("a value");
            digits.parse::<usize>().expect("a number")
        });
        let whole = head_end.zip(len).map(|(end, len)| (end + 4, end + 4 + len));
        if let Some((from, to)) = whole.filter(|(_, to)| input.len() >= *to) {
            let body = input[from..to].to_vec();
            input.drain(..to);
            let number = {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.posts += 1;
                kept.heads.extend(head);
                kept.posts
            };
            match behaviour(number) {
                Answer::Status(status) => {
                    if status.starts_with("200") {
                        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                        kept.bodies.push(body);
                    }
                    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}");
                    if client.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
                Answer::Silence => {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.silent.push(client);
                    return;
                }
            }
            continue;
        }
        match client.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(len) => input.extend_from_slice(&buffer[..len]),
        }
    }
}

fn traced(name: &str, endpoint: &str) -> Builder {
    traced_as("http/json", name, endpoint)
}

fn traced_as(protocol: &str, name: &str, endpoint: &str) -> Builder {
    fixture(name)
        .control()
        .setting("otlp_endpoint", endpoint)
        .setting("otlp_protocol", protocol)
}

fn attributes(span: &Value) -> HashMap<String, String> {
    let list = span["attributes"].as_array().expect("a list");
    let each = list.iter().map(|one| {
        let value = one["value"].as_object().expect("a value");
        let value = value.values().next().and_then(Value::as_str);
        let key = one["key"].as_str().expect("a name");
        (key.to_owned(), value.expect("text").to_owned())
    });
    each.collect()
}

fn named<'a>(spans: &'a [Value], name: &str) -> Vec<&'a Value> {
    spans.iter().filter(|span| span["name"] == name).collect()
}

#[track_caller]
fn get_with(server: &Server, target: &str, lines: &str) -> u16 {
    let mut connection = server.connect();
    connection.send(format!(
        "GET {target} HTTP/1.1\r\nHost: shop.example:8080\r\nUser-Agent: a test\r\n{lines}\r\n"
    ));
    connection.read_response().status()
}

fn parent(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{PARENT}-{flags}\r\ntracestate: a=1\r\n")
}

/// Returns the exporter's metrics of a server.
fn told(server: &Server) -> (u64, u64) {
    let figures = stats(server);
    let figure = |name: &str| figures[name].as_u64().expect("a number");
    (figure("spans_exported"), figure("spans_dropped"))
}

#[test]
fn a_request_is_a_span_below_that_of_its_sender() {
    let collector = Collector::start();
    let server = traced("http", &collector.endpoint())
        .setting("otlp_headers", "api-key=a%2Cb")
        .setting("otlp_service_name", "shop")
        .setting("otlp_resource", "deployment.environment.name=test")
        .start();
    assert_eq!(
        get_with(&server, "/rooms/7?token=secret", &parent("01")),
        200
    );
    assert_eq!(get_with(&server, "/missing", ""), 404);
    assert_eq!(get_with(&server, "/status/503", ""), 503);
    let spans = collector.wait(3);
    let [room] = named(&spans, "GET /rooms/{id}")[..] else {
        panic!("{spans:#?}");
    };
    assert_eq!(room["traceId"], TRACE);
    assert_eq!(room["parentSpanId"], PARENT);
    assert_eq!(room["traceState"], "a=1");
    assert_eq!((&room["kind"], &room["flags"]), (&2.into(), &0x301.into()));
    assert!(room.get("status").is_none());
    let found = attributes(room);
    for (key, value) in [
        ("http.request.method", "GET"),
        ("http.route", "/rooms/{id}"),
        ("http.response.status_code", "200"),
        ("http.response.body.size", "1"),
        ("url.path", "/rooms/7"),
        ("url.scheme", "http"),
        ("server.address", "shop.example"),
        ("server.port", "8080"),
        ("client.address", "127.0.0.1"),
        ("network.peer.address", "127.0.0.1"),
        ("network.protocol.version", "1.1"),
        ("user_agent.original", "a test"),
    ] {
        assert_eq!(found.get(key).map(String::as_str), Some(value), "{key}");
    }
    let time = |key: &str| room[key].as_str().expect("text").parse::<u64>();
    let (began, ended) = (time("startTimeUnixNano"), time("endTimeUnixNano"));
    assert!(began.expect("a time") < ended.expect("a time"));
    let [missing] = named(&spans, "GET")[..] else {
        panic!("{spans:#?}");
    };
    assert!(missing.get("parentSpanId").is_none());
    assert_ne!(missing["traceId"], room["traceId"]);
    let failed = named(&spans, "GET /status/{code}")[0];
    assert_eq!(failed["status"]["code"], 2);
    assert_eq!(attributes(failed)["error.type"], "503");

    let body = String::from_utf8(collector.bodies().concat()).expect("text");
    assert!(!body.contains("secret"), "{body}");
    for part in [
        r#"{"key":"service.name","value":{"stringValue":"shop"}}"#,
        r#"{"key":"deployment.environment.name","value":{"stringValue":"test"}}"#,
    ] {
        assert!(body.contains(part), "{body}");
    }
    let heads = collector.kept.lock().expect("nobody panics").heads.clone();
    for head in heads {
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("\r\napi-key: a,b\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Type: application/json\r\n"));
    }
    wait_until("the figures say so", || {
        (told(&server) == (3, 0)).then_some(())
    });
}

#[test]
fn another_implementation_reads_what_is_sent() {
    if !works("python3", &["-m", "pip", "--version"]) {
        return skipped("python3 or pip is not installed");
    }
    let folder = installed("opentelemetry-python");
    let packages = ["opentelemetry-proto==1.30.0"];
    if !install_python(&folder, &folder.join("opentelemetry"), &packages) {
        return;
    }
    let read = |protocol: &str, content_type: &str| {
        let collector = Collector::start();
        let server = traced_as(protocol, "hub", &collector.endpoint())
            .setting("otlp_resource", "deployment.environment.name=t%C3%A9st")
            .start();
        let mut stream = Stream::open(server.connect(), "/events", None);
        publish(&server, "news", "hello \"you\"");
        stream.next_events(1);
        drop(stream);
        assert_eq!(get_with(&server, "/pid", &parent("01")), 200);
        let odd = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=\"\u{e9}\\\r\n");
        assert_eq!(get_with(&server, "/missing", &odd), 404);
        // One span for each of: three requests, the hold, a publish, and the publish's request.
        wait_until("they were sent", || (told(&server) == (6, 0)).then_some(()));
        let heads = collector.kept.lock().expect("nobody panics").heads.clone();
        for head in heads {
            let line = format!("\r\nContent-Type: {content_type}\r\n");
            assert!(head.contains(&line), "{head}");
        }
        let mut spans = Vec::new();
        for body in collector.bodies() {
            let path = server.directory().join("post");
            std::fs::write(&path, body).expect("a file of ours");
            let output = Command::new("python3")
                .arg(workspace_root().join("tests/operations/traces/read.py"))
                .args([&folder, &path])
                .arg(protocol)
                .output()
                .expect("it was tried before");
            assert!(output.status.success(), "{}", shown(&output));
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            spans.extend(text.lines().map(str::to_owned));
        }
        spans.sort();
        spans
    };
    let json = read("http/json", "application/json");
    assert_eq!(json.len(), 6, "{json:#?}");
    assert_eq!(read("http/protobuf", "application/x-protobuf"), json);
}

#[test]
fn a_hold_and_a_publish_are_spans_below_their_requests() {
    let collector = Collector::start();
    let server = traced("hub", &collector.endpoint()).start();
    let mut stream = Stream::open(server.connect(), "/events", None);
    let ids: Vec<_> = (0..3)
        .map(|n| publish(&server, "news", &format!("event {n}")))
        .collect();
    stream.next_events(3);
    drop(stream);
    let spans = wait_until("the hold has ended", || {
        let spans = collector.spans();
        (named(&spans, "hold /events").len() == 1 && spans.len() >= 8).then_some(spans)
    });
    let [request] = named(&spans, "GET /events")[..] else {
        panic!("{spans:#?}");
    };
    let hold = named(&spans, "hold /events")[0];
    assert_eq!(hold["traceId"], request["traceId"]);
    assert_eq!(hold["parentSpanId"], request["spanId"]);
    assert_eq!(attributes(hold)["fermata.hold.events"], "3");
    let publishes = named(&spans, "publish");
    assert_eq!(publishes.len(), 3);
    // Spans of several workers arrive in any order.
    for id in &ids {
        let is_it = |span: &&Value| attributes(span)["messaging.message.id"] == *id;
        let span = publishes.iter().copied().find(is_it).expect("its publish");
        assert_eq!(span["kind"], 4);
        assert_eq!(attributes(span)["messaging.destination.name"], "news");
        let above = spans.iter().find(|it| it["spanId"] == span["parentSpanId"]);
        let above = above.expect("its request");
        assert_eq!(above["name"], "POST /publish/{channel}");
        assert_eq!(above["traceId"], span["traceId"]);
    }
}

#[test]
fn what_a_handler_publishes_after_a_wait_is_not_below_the_request_of_another() {
    let collector = Collector::start();
    let server = traced("traces", &collector.endpoint()).workers(1).start();
    let mut socket = Socket::open(server.connect(), "/ws");
    socket.text("go");
    assert_eq!(server.connect().get("/long").status(), 200);
    socket.next_text();
    drop(socket);
    let spans = wait_until("both have published", || {
        let spans = collector.spans();
        (named(&spans, "publish").len() == 2 && spans.len() >= 4).then_some(spans)
    });
    let long = named(&spans, "GET /long")[0];
    let publishes = named(&spans, "publish");
    let (below, alone): (Vec<&Value>, Vec<&Value>) = publishes
        .into_iter()
        .partition(|span| span["parentSpanId"] == long["spanId"]);
    assert_eq!((below.len(), alone.len()), (1, 1), "{spans:#?}");
    assert!(alone[0].get("parentSpanId").is_none(), "{spans:#?}");
    assert_ne!(alone[0]["traceId"], long["traceId"]);
}

#[test]
fn events_that_are_compressed_for_each_client_are_counted() {
    let collector = Collector::start();
    let server = traced("traces", &collector.endpoint()).workers(1).start();
    let lines = ["Sec-WebSocket-Extensions: permessage-deflate"];
    let mut socket = Socket::open_with(server.connect(), "/takeover", &lines);
    for _ in 0..3 {
        assert_eq!(server.connect().get("/long").status(), 200);
        socket.next_frame();
    }
    drop(socket);
    let spans = wait_until("the socket has ended", || {
        let spans = collector.spans();
        (!named(&spans, "hold /takeover").is_empty()).then_some(spans)
    });
    let hold = named(&spans, "hold /takeover")[0];
    assert_eq!(attributes(hold)["fermata.hold.events"], "3");
    let request = named(&spans, "GET /takeover")[0];
    assert_eq!(attributes(request)["http.route"], "/takeover");
}

#[test]
fn a_client_that_is_not_asked_does_not_make_a_handler_record() {
    let collector = Collector::start();
    let server = traced("http", &collector.endpoint())
        .setting("otlp_sampler", "always_off")
        .start();
    let mut connection = server.connect();
    let lines = parent("01");
    connection.send(format!("GET /trace HTTP/1.1\r\nHost: x\r\n{lines}\r\n"));
    let trace = json(&connection.read_response());
    assert_eq!(
        (&trace["traceId"], &trace["isSampled"]),
        (&TRACE.into(), &false.into())
    );
}

#[test]
fn a_handler_knows_the_span_that_it_works_below() {
    let collector = Collector::start();
    let server = traced("http", &collector.endpoint()).start();
    let trace = |lines: &str| {
        let mut connection = server.connect();
        connection.send(format!("GET /trace HTTP/1.1\r\nHost: x\r\n{lines}\r\n"));
        json(&connection.read_response())
    };
    let (below, begun) = (trace(&parent("01")), trace("tracestate: b=2\r\n"));
    let unrecorded = trace(&parent("00"));
    let spans = collector.wait(2);
    let span_of = |trace: &Value| {
        let span = spans
            .iter()
            .find(|span| span["spanId"] == trace["parentId"]);
        span.expect("it is recorded")
    };
    assert_eq!(below["traceId"], TRACE);
    assert_eq!(below["state"], "a=1");
    assert_eq!(span_of(&below)["parentSpanId"], PARENT);
    assert_eq!(span_of(&begun)["traceId"], begun["traceId"]);
    assert_eq!(
        (&begun["isSampled"], &begun["state"]),
        (&true.into(), &"".into())
    );
    assert_eq!(unrecorded["parentId"], PARENT);
    assert_eq!(unrecorded["isSampled"], false);
}

#[test]
fn a_parents_decision_and_the_ratio_are_heeded() {
    let collector = Collector::start();
    let none = traced("http", &collector.endpoint())
        .setting("otlp_sampling_ratio", "0")
        .start();
    let all = traced("http", &collector.endpoint())
        .setting("otlp_sampling_ratio", "1")
        .start();
    for _ in 0..20 {
        assert_eq!(get_with(&none, "/pid", ""), 200);
        assert_eq!(get_with(&all, "/pid", &parent("00")), 200);
    }
    assert_eq!(get_with(&none, "/", &parent("01")), 200);
    assert_eq!(get_with(&all, "/", ""), 200);
    for (mut server, exported) in [(none, 1), (all, 1)] {
        wait_until("its span is exported", || {
            (told(&server).0 == exported).then_some(())
        });
        server.signal(Signal::Terminate);
        assert!(server.wait_exit().success());
    }
    let spans = collector.spans();
    assert_eq!(spans.len(), 2, "{spans:#?}");
    assert!(spans.iter().all(|span| span["name"] == "GET /"));
}

#[test]
fn a_collector_that_is_down_costs_no_request_time_and_no_span_until_it_is_back() {
    let port = free_port();
    let server = traced("http", &format!("http://127.0.0.1:{port}")).start();
    for _ in 0..50 {
        assert_eq!(get_with(&server, "/", ""), 200);
    }
    server.log().wait_for(0, "the collector accepts no spans");
    let collector = Collector::at(
        port,
        Box::new(|number| match number {
            1 => Answer::Status("503 Busy"),
            2 => Answer::Status("429 Slower"),
            _ => Answer::Status("200 OK"),
        }),
    );
    assert_eq!(collector.wait(50).len(), 50);
    assert!(collector.posts() >= 3);
    server
        .log()
        .wait_for(0, "the collector accepts spans again");
    assert_eq!(told(&server).1, 0);
}

#[test]
fn a_collector_that_does_not_answer_holds_neither_requests_nor_the_end() {
    let collector = Collector::at(0, Box::new(|_| Answer::Silence));
    let mut server = traced("http", &collector.endpoint())
        .setting("otlp_timeout_ms", "60000")
        .start();
    assert_eq!(get_with(&server, "/", ""), 200);
    wait_until("a post is under way", || {
        (collector.posts() == 1).then_some(())
    });
    for _ in 0..20 {
        assert_eq!(get_with(&server, "/", ""), 200);
    }
    server.signal(Signal::Terminate);
    assert!(server.wait_exit().success());
    server
        .log()
        .wait_for(0, "the exporter of spans did not exit");
}

#[test]
fn what_is_recorded_last_is_sent_before_the_server_ends() {
    let collector = Collector::start();
    let mut server = traced("http", &collector.endpoint()).start();
    for _ in 0..5 {
        assert_eq!(get_with(&server, "/", ""), 200);
    }
    server.signal(Signal::Terminate);
    assert!(server.wait_exit().success());
    assert_eq!(collector.spans().len(), 5);
}

#[test]
fn a_killed_worker_loses_no_span_that_it_has_handed_over_and_a_killed_exporter_is_replaced() {
    let port = free_port();
    let server = traced("http", &format!("http://127.0.0.1:{port}"))
        .workers(1)
        .start();
    for _ in 0..10 {
        assert_eq!(get_with(&server, "/", ""), 200);
    }
    // Spans leave the worker within 100 ms.
    thread::sleep(Duration::from_millis(500));
    let (number, pid) = server.worker_pids().into_iter().next().expect("a worker");
    send_signal(pid, Signal::Kill);
    server.wait_replaced(number, pid);
    let collector = Collector::at(port, Box::new(|_| Answer::Status("200 OK")));
    assert_eq!(collector.wait(10).len(), 10);

    let started = "exporter of spans started pid=";
    let exporter = |from: usize| {
        server.log().wait_map(from, started, |line| {
            line.text.split_once(started)?.1.parse::<u32>().ok()
        })
    };
    let first = exporter(0);
    let seen = server.log().len();
    send_signal(first, Signal::Kill);
    assert_ne!(exporter(seen), first);
    assert_eq!(get_with(&server, "/", ""), 200);
    assert_eq!(collector.wait(11).len(), 11);
}

#[test]
fn the_variables_of_all_languages_are_enough_and_nothing_runs_without_them() {
    let collector = Collector::start();
    let server = fixture("http")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        .env("OTEL_SERVICE_NAME", "by variable")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
        .start();
    assert_eq!(get_with(&server, "/", ""), 200);
    collector.wait(1);
    let body = String::from_utf8(collector.bodies().concat()).expect("text");
    assert!(body.contains(r#"{"stringValue":"by variable"}"#), "{body}");
    let server = fixture("http").start();
    assert_eq!(get_with(&server, "/", ""), 200);
    assert!(!server.log().contains("exporter of spans"));
}

#[test]
fn an_endpoint_that_is_none_is_refused_at_the_start() {
    for endpoint in ["http://", "http://user:password@127.0.0.1:1"] {
        let refused = traced("http", endpoint).start_refused();
        let text = refused.log.text();
        assert!(text.contains("otlp_endpoint: "), "{text}");
        assert!(!text.contains("password"), "{text}");
    }
}
