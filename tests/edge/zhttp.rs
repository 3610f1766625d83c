//! ZeroMQ backends behind several workers.

use std::process::{Child, Command, Stdio};

use fermata_grip::value::{Value, map};
use fermata_grip::zmtp::Socket;
use fermata_testkit::{Signal, command_path, deadline, free_port, send_signal, wait_until};

use crate::client::Client;
use crate::origin::{Origin, text};
use crate::own::children;
use crate::zhttp_backend::{Backend, NAME, bytes, is_on};
use crate::zmq::Zmq;

/// Number of requests, each on a separate connection, so that each worker gets some.
const REQUESTS: usize = 12;
/// Backend time-out: long enough for a running backend on a busy machine.
const TIMEOUT_MS: &str = "3000";

/// Number of sent bytes of a body with a larger Content-Length: more than the edge reads before it
/// contacts the backend.
const UPLOADED_BYTES: usize = 60_000;
/// At most as many bytes as the kernel buffers; otherwise the close of the connection would not
/// reach the edge.
const UNREAD_BYTES: usize = 10_000;

struct Edge(Child);

impl Drop for Edge {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

#[test]
fn a_backend_that_nobody_serves_is_passed_over() {
    let (port, backend) = (free_port(), free_port());
    let origin = Origin::start();
    origin.on("other", |_| text("it is there"));
    let mut command = Command::new(command_path());
    command.args(["edge", "--workers", "3", "--control="]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    command.args(["--origin-connect-timeout-ms", "200"]);
    let other = origin.port();
    let route = format!("* zhttpreq/tcp://127.0.0.1:{backend} 127.0.0.1:{other}");
    command.args(["--route", &route]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _edge = Edge(child.expect("our own program"));
    wait_until("it listens", || {
        let is_listening = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        [port, backend].into_iter().all(is_listening).then_some(())
    });
    for _ in 0..REQUESTS {
        let answer = Client::open(port, "localhost").get("/other");
        assert_eq!((answer.status, answer.text()), (200, "it is there"));
    }
}

#[test]
fn every_worker_reaches_a_backend_and_nobody_waits_for_none() {
    let (port, backend) = (free_port(), free_port());
    let mut command = Command::new(command_path());
    command.args(["edge", "--workers", "3", "--control="]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    command.args(["--origin-response-timeout-ms", TIMEOUT_MS]);
    command.args(["--route", &format!("* zhttpreq/tcp://127.0.0.1:{backend}")]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _edge = Edge(child.expect("our own program"));
    wait_until("it listens", || {
        let is_listening = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        [port, backend].into_iter().all(is_listening).then_some(())
    });
    // Send requests through every worker. None of these requests reaches the backend that connects
    // later.
    let late: Vec<_> = (0..REQUESTS)
        .map(|_| std::thread::spawn(move || Client::open(port, "localhost").get("/late").status))
        .collect();
    for status in late {
        assert_eq!(status.join().expect("an answer"), 504);
    }

    let mut socket = Zmq::tcp(backend, Socket::Rep);
    let serving = std::thread::spawn(move || {
        socket.answer(REQUESTS, |request| {
            let uri = request.get("uri").cloned().unwrap_or(Value::Null);
            map([("code", Value::Integer(200)), ("body", uri)])
        });
    });
    for number in 0..REQUESTS {
        let answer = Client::open(port, "localhost").get(&format!("/{number}"));
        assert_eq!(answer.status, 200);
        assert_eq!(answer.text(), format!("http://localhost/{number}"));
    }
    serving.join().expect("it has answered");
}

/// Returns the first of three consecutive free ports.
fn free_ports() -> u16 {
    wait_until("three free ports in a row", || {
        let first = free_port();
        let is_free = |port: Option<u16>| {
            port.is_some_and(|port| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok())
        };
        (0..3)
            .all(|at| is_free(first.checked_add(at)))
            .then_some(first)
    })
}

/// Starts an edge with three workers in front of a backend with sessions. Returns the edge, its
/// port and the backend with its port.
fn start_with_ports() -> (Edge, u16, Backend, u16) {
    // Another process may use the ports by now. The edge does not start then, and the test tries
    // other ports.
    wait_until("it listens", || {
        let (port, backend) = (free_port(), free_ports());
        let mut command = Command::new(command_path());
        command.args(["edge", "--workers", "3", "--control="]);
        command.args(["--listen", &format!("127.0.0.1:{port}")]);
        command.args(["--route", &format!("* zhttp/tcp://127.0.0.1:{backend}")]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut edge = Edge(child.expect("our own program"));
        let is_there = wait_until("it listens, or has ended", || {
            let is_listening = |port| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
            let mut ports = [port, backend, backend + 1, backend + 2].into_iter();
            match edge.0.try_wait() {
                Ok(Some(_)) => Some(false),
                _ => ports.all(is_listening).then_some(true),
            }
        });
        is_there.then(|| (edge, port, Backend::tcp(backend), backend + 1))
    })
}

fn start_with_sessions() -> (Edge, u16, Backend) {
    let (edge, port, backend, _) = start_with_ports();
    (edge, port, backend)
}

#[test]
fn every_worker_has_sessions_with_a_backend() {
    let (_edge, port, mut backend) = start_with_sessions();
    let body = vec![b'b'; 300_000];
    let clients: Vec<_> = (0..REQUESTS)
        .map(|at| {
            let body = body.clone();
            std::thread::spawn(move || {
                let target = format!("/{at}");
                Client::open(port, "localhost").request("POST", &target, &[], &body)
            })
        })
        .collect();
    // The response to each upload is its received size.
    let mut sessions: Vec<_> = (0..REQUESTS)
        .map(|_| {
            let mut session = backend.next();
            let credit = ("credits", Value::Integer(300_000));
            backend.send_packet(&mut session, [("type", "credit".into()), credit]);
            let bytes = bytes(&session.request, "body").len();
            (session, bytes)
        })
        .collect();
    while !sessions.is_empty() {
        let packet = backend.packet();
        let id = packet.get("id");
        let at = sessions
            .iter()
            .position(|(session, _)| session.request.get("id") == id);
        let at = at.expect("a session of before");
        sessions[at].1 += bytes(&packet, "body").len();
        if !is_on(&packet, "more") {
            let (mut session, bytes) = sessions.swap_remove(at);
            let code = ("code", Value::Integer(200));
            let body = Value::Bytes(bytes.to_string().into_bytes());
            backend.send_packet(&mut session, [code, ("body", body)]);
        }
    }
    for client in clients {
        let answer = client.join().expect("an answer");
        assert_eq!((answer.status, answer.text()), (200, "300000"));
    }
}

#[test]
fn a_name_belongs_to_the_backend_that_has_it() {
    let (_edge, port, mut backend, sessions) = start_with_ports();
    // Otherwise packets of the first backend's sessions would reach either backend at random.
    assert!(Zmq::is_refused(sessions, Socket::Router, NAME));
    let body = vec![b'b'; 300_000];
    let sent = body.len();
    let client = std::thread::spawn(move || {
        Client::open(port, "localhost").request("POST", "/", &[], &body)
    });
    let mut session = backend.next();
    let credit = ("credits", Value::Integer(400_000));
    backend.send_packet(&mut session, [("type", "credit".into()), credit]);
    let mut got = bytes(&session.request, "body").len();
    while got < sent {
        got += bytes(&backend.packet(), "body").len();
    }
    let code = ("code", Value::Integer(200));
    backend.send_packet(&mut session, [code, ("body", "all".into())]);
    let answer = client.join().expect("an answer");
    assert_eq!((answer.status, answer.text()), (200, "all"));
}

#[test]
fn sessions_end_with_the_worker_that_has_the_ports() {
    let (edge, port, mut backend) = start_with_sessions();
    let mut clients: Vec<Client> = (0..REQUESTS)
        .map(|_| {
            let mut client = Client::open(port, "localhost");
            client.send("GET", "/stream", &[], b"");
            let mut session = backend.next();
            let begun = [
                ("code", Value::Integer(200)),
                ("body", "begun".into()),
                ("more", Value::Bool(true)),
            ];
            backend.send_packet(&mut session, begun);
            assert_eq!(client.read_head().status, 200);
            client.read_until("begun");
            client
        })
        .collect();
    let first = children(edge.0.id())[0];
    assert!(send_signal(first, Signal::Kill));
    // The sessions end earlier than after the one-minute time-out of a silent backend.
    for client in &mut clients {
        assert!(client.has_ended(deadline()), "a session is waited for");
    }
}

/// How a client disconnects while bytes from it are unread.
#[derive(Clone, Copy, Debug)]
enum Leaving {
    /// The client waits for a response and has pipelined another request.
    Asking,
    /// In the middle of a body that the backend cannot accept.
    Uploading,
    /// In the middle of a response.
    Answered,
}

#[test]
fn a_session_ends_with_its_client_behind_bytes_that_are_not_read() {
    let (_edge, port, mut backend) = start_with_sessions();
    for leaving in [Leaving::Asking, Leaving::Uploading, Leaving::Answered] {
        println!("{leaving:?}");
        // Repeat, so that more than one worker is used.
        for _ in 0..4 {
            let mut client = Client::open(port, "localhost");
            if let Leaving::Uploading = leaving {
                let length = 10 * UPLOADED_BYTES;
                client.raw(
                    format!("POST /u HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n")
                        .as_bytes(),
                );
                client.raw(&vec![b'x'; UPLOADED_BYTES]);
            } else {
                client.raw(b"GET /g HTTP/1.1\r\nHost: a\r\n\r\n");
            }
            let mut session = backend.next();
            // From this packet, the edge learns the backend's address.
            backend.send_packet(&mut session, [("type", "keep-alive".into())]);
            if let Leaving::Answered = leaving {
                let begun = [
                    ("code", Value::Integer(200)),
                    ("body", "begun".into()),
                    ("more", Value::Bool(true)),
                ];
                backend.send_packet(&mut session, begun);
                assert_eq!(client.read_head().status, 200);
                client.read_until("begun");
            }
            client.raw(&[b'x'; UNREAD_BYTES]);
            drop(client);
            loop {
                let packet = backend.packet();
                assert_eq!(packet.get("id"), session.request.get("id"), "{leaving:?}");
                if bytes(&packet, "type") == b"cancel" {
                    break;
                }
            }
        }
    }
}
