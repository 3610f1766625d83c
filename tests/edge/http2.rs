//! Backends over HTTP/2: Node's server, over TLS with ALPN and in plain text, and gRPC through the
//! edge.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use fermata_testkit::install::{install_go, install_python, installed, skipped, works};
use fermata_testkit::{Directory, Signal, deadline, send_signal, wait_until, workspace_root};
use serde_json::Value;

use crate::own::Own;

/// A backend written for Node.
struct Backend {
    child: Child,
    port: u16,
    folder: Directory,
}

impl Drop for Backend {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Backend {
    /// Starts the backend without TLS; returns `None` if Node is missing.
    fn start(environment: &[(&str, &str)]) -> Option<Backend> {
        Self::start_with(Directory::new(), &[], environment)
    }

    /// Starts the backend with TLS.
    fn start_tls(environment: &[(&str, &str)]) -> Option<Backend> {
        let folder = Directory::new();
        let mut openssl = Command::new("openssl");
        openssl.current_dir(folder.path());
        openssl.args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out own.pem".split(' '));
        if !openssl.output().is_ok_and(|output| output.status.success()) {
            skipped("openssl is not installed");
            return None;
        }
        Self::start_with(folder, &["key.pem", "own.pem"], environment)
    }

    fn start_with(folder: Directory, files: &[&str], environment: &[(&str, &str)]) -> Option<Self> {
        if !works("node", &["--version"]) {
            skipped("node is not installed");
            return None;
        }
        let mut command = node();
        command.arg("serve").args(files).current_dir(folder.path());
        command
            .envs(environment.iter().copied())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("it was tried before");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("piped");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("its port");
        let port = line.trim().parse().expect("a port");
        Some(Backend {
            child,
            port,
            folder,
        })
    }

    /// Starts an edge in front of the backend, with HTTP/2 on both sides.
    fn edge(&self, arguments: &[&str]) -> Own {
        let route = format!("* 127.0.0.1:{},http2", self.port);
        edge(&route, arguments)
    }

    /// Starts an edge that connects to the backend over TLS.
    fn edge_tls(&self, properties: &str) -> Own {
        let port = self.port;
        let route = format!("* localhost:{port},ssl,trust_connect_host,insecure{properties}");
        edge(&route, &[])
    }
}

fn edge(route: &str, arguments: &[&str]) -> Own {
    Own::start(&[&["--route", route][..], arguments].concat())
}

fn node() -> Command {
    let mut command = Command::new("node");
    command.arg(workspace_root().join("tests/edge/clients/http2.mjs"));
    command
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

fn figure(own: &Own, name: &str) -> u64 {
    let figures = json(own.get("/figures").text());
    figures[name].as_u64().expect("a number")
}

/// Sends concurrent requests, each on a separate connection.
fn ask_many(own: &Own, count: usize, path: &str) -> Vec<(u16, String)> {
    let ask = |_| own.get(path);
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..count).map(|n| scope.spawn(move || ask(n))).collect();
        let answers = asked.into_iter().map(|it| it.join().expect("it answers"));
        answers
            .map(|it| (it.status, it.text().to_owned()))
            .collect()
    })
}

#[test]
fn requests_are_translated_and_answers_back() {
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    let own = backend.edge(&[]);
    let headers = [
        ("X-Own", "Value"),
        ("Connection", "close, X-Hop"),
        ("X-Hop", "gone"),
        ("Keep-Alive", "5"),
        ("Cookie", "a=1; b=2"),
        ("TE", "trailers"),
    ];
    let answer = own.client().request("POST", "/head?x=y", &headers, b"four");
    assert_eq!(answer.status, 200);
    let head = json(answer.text());
    assert_eq!(head["version"], "2.0");
    assert_eq!(head["method"], "POST");
    assert_eq!(head["url"], "/head?x=y");
    assert_eq!(head["authority"], "localhost");
    assert_eq!(head["scheme"], "http");
    assert_eq!(head["bytes"], 4);
    let got = &head["headers"];
    assert_eq!(got["x-own"], "Value");
    assert_eq!(got["cookie"], "a=1; b=2");
    assert_eq!(got["content-length"], "4");
    assert_eq!(got["te"], "trailers");
    for name in [
        "connection",
        "keep-alive",
        "x-hop",
        "host",
        "transfer-encoding",
    ] {
        assert!(got.get(name).is_none(), "{name}: {got}");
    }
    // Without the property, the route uses HTTP/1, which this backend does not support.
    let own = Own::start(&["--route", &format!("* 127.0.0.1:{}", backend.port)]);
    assert_ne!(own.get("/head").status, 200);
}

#[test]
fn one_connection_carries_many_requests() {
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    let own = backend.edge(&[]);
    let answers = ask_many(&own, 30, "/slow");
    assert!(
        answers.iter().all(|it| *it == (200, "slow".to_owned())),
        "{answers:?}"
    );
    assert_eq!(figure(&own, "sessions"), 1);
}

#[test]
fn there_are_as_many_at_a_time_as_the_target_and_the_setting_allow() {
    for (target, setting) in [("4", "100"), ("100", "4")] {
        let Some(backend) = Backend::start(&[("MAX_STREAMS", target)]) else {
            return;
        };
        let own = backend.edge(&["--origin-streams-max", setting]);
        // From now on the edge knows the target's own limit of streams.
        assert_eq!(own.get("/slow").status, 200);
        let answers = ask_many(&own, 12, "/slow");
        assert!(answers.iter().all(|it| it.0 == 200), "{answers:?}");
        let sessions = figure(&own, "sessions");
        assert!((3..=12).contains(&sessions), "{sessions}");
    }
}

/// A stopped process simulates a machine that disappears without closing its connections.
#[test]
fn a_silent_connection_is_given_up() {
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    let own = backend.edge(&[
        "--origin-ping-interval-ms",
        "1000",
        "--origin-ping-timeout-ms",
        "5000",
        "--origin-response-timeout-ms",
        "3600000",
    ]);
    assert_eq!(figure(&own, "sessions"), 1);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| own.get("/hang").status);
        wait_until("the backend has the request", || {
            (figure(&own, "seen") == 1).then_some(())
        });
        send_signal(backend.child.id(), Signal::Stop);
        // Only the missing acknowledgement of the PING can close the connection.
        assert_eq!(asked.join().expect("it answers"), 502);
        send_signal(backend.child.id(), Signal::Continue);
    });
    assert_eq!(json(own.get("/head").text())["version"], "2.0");
}

#[test]
fn tls_backends_choose_by_alpn() {
    let Some(backend) = Backend::start_tls(&[]) else {
        return;
    };
    let own = backend.edge_tls(",http2");
    let head = json(own.get("/head").text());
    assert_eq!(
        (&head["version"], &head["scheme"]),
        (&"2.0".into(), &"https".into())
    );
    assert_eq!(ask_many(&own, 10, "/slow").len(), 10);
    assert_eq!(figure(&own, "sessions"), 1);
    // The route does not request HTTP/2.
    let own = backend.edge_tls("");
    assert_eq!(json(own.get("/head").text())["version"], "1.1");
}

#[test]
fn a_tls_backend_without_http2_is_spoken_to_as_ever() {
    let Some(backend) = Backend::start_tls(&[]) else {
        return;
    };
    // A backend that supports only HTTP/1.1.
    let program = "require('https').createServer({ key: require('fs').readFileSync('key.pem'), cert: require('fs').readFileSync('own.pem') }, (q, s) => setTimeout(() => s.end(q.httpVersion), 50)).listen(0, '127.0.0.1', function () { console.log(this.address().port); })";
    let mut command = Command::new("node");
    command
        .args(["-e", program])
        .current_dir(backend.folder.path());
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("tried before");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    stdout.read_line(&mut line).expect("its port");
    let old = Backend {
        child,
        port: line.trim().parse().expect("a port"),
        folder: Directory::new(),
    };
    let route = format!(
        "* localhost:{},ssl,trust_connect_host,insecure,http2",
        old.port
    );
    let own = edge(&route, &[]);
    for answer in ask_many(&own, 8, "/")
        .into_iter()
        .chain(ask_many(&own, 8, "/"))
    {
        assert_eq!(answer, (200, "1.1".to_owned()));
    }
}

#[test]
fn bodies_are_whole_in_both_directions() {
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    let own = backend.edge(&[]);
    let body: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let answer = own.client().request("POST", "/echo", &[], &body);
    assert!(
        answer.status == 200 && answer.body == body,
        "{}",
        answer.body.len()
    );
    assert_eq!(own.get("/large").body.len(), 5_000_000);
    // An HTTP/2 client that sends no Content-Length.
    own.folder.write("body", &body);
    let output = Command::new("curl")
        .args(["-sS", "--http2-prior-knowledge", "-X", "POST", "-T", "-"])
        .arg(format!("http://127.0.0.1:{}/echo", own.port))
        .stdin(std::fs::File::open(own.folder.join("body")).expect("written"))
        .output()
        .expect("curl is there");
    assert!(
        output.stdout == body,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_slow_client_holds_up_nobody_else() {
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    let own = backend.edge(&[]);
    let mut slow = own.client();
    slow.send("GET", "/large", &[], b"");
    wait_until("it is under way", || {
        (figure(&own, "openMost") > 1).then_some(())
    });
    assert_eq!(own.get("/large").body.len(), 5_000_000);
    assert_eq!(figure(&own, "sessions"), 1);
}

#[test]
fn twenty_slow_clients_hold_up_nobody_else() {
    const SLOW: usize = 20;
    const PIECE: &[u8] = &[b'p'; 100_000];
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    // One connection carries all requests.
    let own = backend.edge(&[
        "--workers",
        "1",
        "--write-timeout-ms",
        "600000",
        "--origin-idle-timeout-ms",
        "600000",
    ]);
    let mut readers: Vec<_> = (0..SLOW)
        .map(|_| {
            let mut reader = own.client();
            reader.send("GET", "/large", &[], b"");
            reader
        })
        .collect();
    let mut senders: Vec<_> = (0..SLOW)
        .map(|_| {
            let mut sender = own.client();
            let length = 3 * PIECE.len();
            let head = format!(
                "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
            );
            sender.raw(&[head.as_bytes(), PIECE].concat());
            sender
        })
        .collect();
    wait_until("all that read slowly are under way", || {
        (figure(&own, "open") > SLOW as u64).then_some(())
    });
    for _ in 0..3 {
        assert_eq!(own.get("/large").body.len(), 5_000_000);
        let body = vec![b'b'; 1_000_000];
        let answer = own.client().request("POST", "/echo", &[], &body);
        assert!(answer.status == 200 && answer.body == body);
        for sender in &mut senders {
            sender.raw(&PIECE[..PIECE.len() / 2]);
        }
    }
    for sender in &mut senders {
        sender.raw(&PIECE[..PIECE.len() / 2]);
        assert_eq!(sender.read_answer(false).body.len(), 3 * PIECE.len());
    }
    // No client was disconnected for being slow.
    for reader in &mut readers {
        assert_eq!(reader.read_answer(false).body.len(), 5_000_000);
    }
    assert_eq!(figure(&own, "sessions"), 1);
}

#[test]
fn what_was_not_looked_at_is_asked_again_and_nothing_else() {
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    let own = backend.edge(&[]);
    let post = |path: &str| own.client().request("POST", path, &[], b"x");
    let answer = post("/refuse-once");
    assert_eq!((answer.status, answer.text()), (200, "taken"));
    assert_eq!(figure(&own, "seen"), 2);
    // The edge stops retrying a target that refuses every request.
    assert_eq!(post("/refuse").status, 502);
    let seen = figure(&own, "seen");
    assert!(seen <= 2 + 4, "{seen}");
    // The target may have processed these requests, so the edge does not retry them.
    assert_eq!(post("/reset").status, 502);
    assert_eq!(figure(&own, "seen"), seen + 1);
    assert_eq!(post("/die").status, 502);
    assert_eq!(figure(&own, "seen"), seen + 2);
}

#[test]
fn a_target_that_leaves_finishes_what_is_under_way() {
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    let own = backend.edge(&[]);
    assert_eq!(own.get("/slow").text(), "slow");
    assert_eq!(own.get("/leave").text(), "left");
    assert_eq!(own.get("/slow").text(), "slow");
    assert_eq!(figure(&own, "sessions"), 2);
}

#[test]
fn an_answer_that_is_cut_looks_cut() {
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    let own = backend.edge(&[]);
    for path in ["/cut", "/short"] {
        let mut stream = TcpStream::connect(("127.0.0.1", own.port)).expect("it listens");
        stream.set_read_timeout(Some(deadline())).expect("a socket");
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        // The connection closes or is reset.
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        let is_whole = text.starts_with("HTTP/1.1 200") && text.ends_with("\r\n0\r\n\r\n");
        assert!(!is_whole, "{text}");
    }
}

#[test]
fn holds_are_those_of_any_backend() {
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    let own = backend.edge(&[]);
    let mut client = own.client();
    client.send("GET", "/hold", &[], b"");
    client.read_until("held\n");
    own.publish("news", "hello\n");
    client.read_until("hello\n");
}

#[test]
fn a_client_that_leaves_ends_its_stream_alone() {
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    let own = backend.edge(&[]);
    let mut leaving = own.client();
    leaving.send("GET", "/hang", &[], b"");
    wait_until("it is asked", || (figure(&own, "seen") == 1).then_some(()));
    drop(leaving);
    assert_eq!(own.get("/slow").text(), "slow");
    assert_eq!(figure(&own, "sessions"), 1);
    wait_until("nothing is under way", || {
        // The metrics request itself is the only open one.
        (figure(&own, "open") == 1).then_some(())
    });
}

#[test]
fn both_directions_flow_and_trailers_arrive() {
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    let own = backend.edge(&[]);
    let talk = |path: &str| {
        let mut command = node();
        command.args(["talk", &format!("http://127.0.0.1:{}", own.port), path]);
        let output = command.output().expect("it was tried before");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}\n{}", own.log());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // The client has sent each piece after the previous one was echoed.
    let said = talk("/talk");
    assert_eq!(said.trim(), "200;piece 0;piece 1;piece 2;piece 3;0 done");
    assert_eq!(talk("/only-trailers").trim(), "200;");
}

/// Returns the command that runs `grpc_calls.py`; `None` if its library is missing.
fn grpc_calls(arguments: &[&str]) -> Option<Command> {
    const PACKAGE: &str = "grpcio==1.85.1";
    let python = "python3";
    if !works(python, &["-m", "pip", "--version"]) {
        skipped("python3 or pip is not installed");
        return None;
    }
    let folder = installed("grpcio");
    if !install_python(&folder, &folder.join("grpc/__init__.py"), &[PACKAGE]) {
        return None;
    }
    let mut command = Command::new(python);
    command
        .arg(workspace_root().join("tests/edge/clients/grpc_calls.py"))
        .args(arguments)
        .env("PYTHONPATH", &folder);
    Some(command)
}

/// Starts a server written with the gRPC library.
fn grpc_backend() -> Option<Backend> {
    let mut command = grpc_calls(&["serve"])?;
    let mut server = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut line = String::new();
    let mut stdout = BufReader::new(server.stdout.take().expect("piped"));
    stdout.read_line(&mut line).expect("its port");
    Some(Backend {
        child: server,
        port: line.trim().parse().expect("a port"),
        folder: Directory::new(),
    })
}

/// Returns the output of a client that must exit successfully.
#[track_caller]
fn printed(mut client: Command, own: &Own) -> String {
    let output = client.output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\n{}", own.log());
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Server and client use the gRPC library.
#[test]
fn grpc_goes_through() {
    let Some(backend) = grpc_backend() else {
        return;
    };
    let own = backend.edge(&[]);
    let address = format!("127.0.0.1:{}", own.port);
    for (way, end) in [
        ("call", "all calls are as they should be"),
        ("loop", "no call was lost"),
    ] {
        let client = grpc_calls(&[way, &address]).expect("it was there before");
        assert_eq!(printed(client, &own), end);
    }
}

/// Go's gRPC sends a PING per round trip that delivered DATA.
#[test]
fn grpc_of_go_is_not_cut_for_measuring_its_bandwidth() {
    if !works("go", &["version"]) {
        return skipped("Go is not installed");
    }
    let program = installed("grpc-go-loop");
    if !install_go(
        &program,
        &workspace_root().join("tests/edge/clients/grpc_loop"),
    ) {
        return;
    }
    let Some(backend) = grpc_backend() else {
        return;
    };
    let own = backend.edge(&[]);
    let mut client = Command::new(&program);
    client.arg(format!("127.0.0.1:{}", own.port));
    assert_eq!(printed(client, &own), "no call was lost");
}

/// Node's client sends PINGs, cancellations and refused uploads in a loop.
#[test]
fn node_is_not_cut_in_a_closed_loop() {
    let Some(backend) = Backend::start(&[]) else {
        return;
    };
    let own = backend.edge(&[]);
    let mut client = Command::new("node");
    client
        .arg(workspace_root().join("tests/conformance/http2_loop.mjs"))
        .arg(format!("http://127.0.0.1:{}", own.port));
    assert_eq!(printed(client, &own), "no request was lost");
}

/// Encodes a literal field without index or Huffman coding (RFC 7541, section 6.2.2).
fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    let length = |text: &[u8]| u8::try_from(text.len()).expect("short");
    let mut field = vec![0, length(name)];
    field.extend_from_slice(name);
    field.push(length(value));
    field.extend_from_slice(value);
    field
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len()).expect("short").to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Sends an HTTP/2 request and returns the status, or the code of RST_STREAM or GOAWAY.
fn ask_raw(own: &Own, fields: &[(&[u8], &[u8])], body: &[&[u8]]) -> String {
    const HEADERS: u8 = 1;
    const END_STREAM: u8 = 1;
    const END_HEADERS: u8 = 4;
    let mut block = Vec::new();
    for (name, value) in fields {
        block.extend(field(name, value));
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    let end = if body.is_empty() { END_STREAM } else { 0 };
    bytes.extend(frame(HEADERS, END_HEADERS | end, 1, &block));
    for (at, piece) in body.iter().enumerate() {
        let end = if at + 1 == body.len() { END_STREAM } else { 0 };
        bytes.extend(frame(0, end, 1, piece));
    }
    let mut stream = TcpStream::connect(("127.0.0.1", own.port)).expect("it listens");
    stream.set_read_timeout(Some(deadline())).expect("a socket");
    stream.write_all(&bytes).expect("it reads");
    loop {
        let mut header = [0; 9];
        if stream.read_exact(&mut header).is_err() {
            return "the end".to_owned();
        }
        let len = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        let mut payload = vec![0; len];
        stream.read_exact(&mut payload).expect("a whole frame");
        match header[3] {
            // An indexed status, or a literal with an indexed name.
            HEADERS => {
                return match payload[0] {
                    0x88 => "200".to_owned(),
                    0x8c => "400".to_owned(),
                    _ => payload[1..]
                        .iter()
                        .skip(1)
                        .take(3)
                        .map(|&it| char::from(it))
                        .collect(),
                };
            }
            3 => return format!("reset {}", payload[3]),
            7 => return format!("gone {}", payload[7]),
            _ => {}
        }
    }
}

/// HTTP/2 requests that an HTTP/1 backend could parse as different or as two requests.
#[test]
fn nothing_is_smuggled_from_http2_to_http1() {
    let origin = crate::origin::Origin::start();
    origin.on("x", |_| crate::origin::text("seen"));
    let own = Own::start(&["--route", &format!("* 127.0.0.1:{}", origin.port())]);
    let head: [(&[u8], &[u8]); 4] = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/x"),
        (b":authority", b"localhost"),
    ];
    let with = |fields: &[(&'static [u8], &'static [u8])], body: &[&[u8]]| {
        ask_raw(&own, &[&head[..], fields].concat(), body)
    };
    assert_eq!(with(&[(b"x-own", b"value")], &[b"four"]), "200");
    let seen = origin.seen("x").len();
    assert_eq!(seen, 1);
    type Fields = &'static [(&'static [u8], &'static [u8])];
    let refused: [(&str, Fields, &[&[u8]]); 14] = [
        ("a line end in a value", &[(b"x-a", b"1\r\nx-b: 2")], &[]),
        ("a bare line feed", &[(b"x-a", b"1\nx-b: 2")], &[]),
        ("a NUL", &[(b"x-a", b"1\0")], &[]),
        ("a line end in a name", &[(b"x-a: 1\r\nx-b", b"2")], &[]),
        ("a colon in a name", &[(b"x-a: 1", b"2")], &[]),
        ("a name in upper case", &[(b"X-A", b"1")], &[]),
        ("another host", &[(b"host", b"other")], &[]),
        ("a connection header", &[(b"connection", b"x-a")], &[]),
        (
            "a transfer coding",
            &[(b"transfer-encoding", b"chunked")],
            &[b"0\r\n\r\n"],
        ),
        ("an upgrade", &[(b"upgrade", b"websocket")], &[]),
        (
            "two lengths",
            &[(b"content-length", b"4"), (b"content-length", b"5")],
            &[b"four"],
        ),
        (
            "a list of lengths",
            &[(b"content-length", b"4, 4")],
            &[b"four"],
        ),
        ("a length without a body", &[(b"content-length", b"4")], &[]),
        (
            "a pseudo-header behind others",
            &[(b"x-a", b"1"), (b":path", b"/y")],
            &[],
        ),
    ];
    for (what, fields, body) in refused {
        let answer = with(fields, body);
        assert!(answer != "200", "{what}: {answer}");
    }
    // A path and a method that would continue the request line.
    for (at, value) in [
        (2, &b"/x HTTP/1.1\r\nx-a: 1"[..]),
        (2, b"/x y"),
        (0, b"GET /y HTTP/1.1"),
        (3, b"localhost\r\nx-a: 1"),
        (3, b"user@localhost"),
    ] {
        let mut fields = head;
        fields[at].1 = value;
        let answer = ask_raw(&own, &fields, &[]);
        assert!(answer != "200", "{}: {answer}", value.escape_ascii());
    }
    assert_eq!(
        origin.seen("x").len(),
        seen,
        "none of them has come through"
    );
    // Bodies shorter or longer than their Content-Length. The backend never receives a complete
    // request.
    for (length, body) in [(&b"10"[..], &b"four"[..]), (b"2", b"four")] {
        let answer = ask_raw(
            &own,
            &[&head[..], &[(b"content-length", length)]].concat(),
            &[body],
        );
        assert!(answer != "200", "{}: {answer}", length.escape_ascii());
    }
    assert_eq!(own.get("/x").text(), "seen");
    assert_eq!(origin.seen("x").len(), seen + 1);
}
