//! Publishers that the edge connects to.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fermata_grip::zmtp::{Event, Limits, Peer, Socket};
use fermata_testkit::{command_path, free_port, wait_until};

use crate::client::Client;
use crate::zmq::Zmq;

/// Pause between two bytes of a greeting. Sending all 64 bytes takes longer than the handshake
/// time-out of the edge.
const PAUSE: Duration = Duration::from_millis(300);

struct Edge(Child);

impl Drop for Edge {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Returns true if TCP keep-alive is on for a connection, according to its timer in /proc/net/tcp.
/// `column` is 1 if the port is the edge's local port, 2 if it is the remote one.
fn is_looked_after(column: usize, port: u16) -> bool {
    const ESTABLISHED: &str = "01";
    const KEEP_ALIVE: &str = "02:";
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a table of connections");
    let ending = format!(":{port:04X}");
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.len() > 5
            && fields[column].ends_with(&ending)
            && fields[3] == ESTABLISHED
            && fields[5].starts_with(KEEP_ALIVE)
    })
}

#[test]
fn publishers_that_connect_are_looked_after_while_they_are_silent() {
    let (port, pull) = (free_port(), free_port());
    let mut command = Command::new(command_path());
    command.args(["edge", "--workers", "1", "--control="]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    command.args(["--zmq-pull", &format!("tcp://127.0.0.1:{pull}")]);
    command.args(["--route", "* test"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _edge = Edge(child.expect("our own program"));
    wait_until("it listens", || {
        std::net::TcpStream::connect(("127.0.0.1", pull))
            .is_ok()
            .then_some(())
    });
    let _silent = Zmq::tcp(pull, Socket::Push);
    wait_until("the kernel looks after it", || {
        is_looked_after(1, pull).then_some(())
    });
}

#[test]
fn a_publisher_whose_greeting_drips_in_loses_its_connection() {
    let (port, pull) = (free_port(), free_port());
    let mut command = Command::new(command_path());
    command.args(["edge", "--workers", "1", "--control="]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    command.args(["--zmq-pull", &format!("tcp://127.0.0.1:{pull}")]);
    command.args(["--route", "* test"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _edge = Edge(child.expect("our own program"));
    let mut stream = wait_until("it listens", || {
        TcpStream::connect(("127.0.0.1", pull)).ok()
    });
    stream.set_read_timeout(Some(PAUSE)).expect("not zero");
    let mut greeting = Vec::new();
    Peer::new(Socket::Push, Limits::default(), &mut greeting);
    let mut sent = 0;
    // If the time-out restarted at every byte, the connection would stay open.
    let is_closed = greeting.iter().any(|byte| {
        sent += usize::from(stream.write_all(&[*byte]).is_ok());
        let mut answer = [0; 256];
        match stream.read(&mut answer) {
            Ok(read) => read == 0,
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    });
    assert!(is_closed, "after {sent} bytes of {}", greeting.len());
}

#[test]
fn a_publisher_is_connected_to_whenever_it_is_there() {
    let (port, publisher) = (free_port(), free_port());
    let mut command = Command::new(command_path());
    command.args(["edge", "--workers", "2", "--control="]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    command.args(["--zmq-sub", &format!("tcp://127.0.0.1:{publisher}")]);
    command.args(["--zmq-sub-connect", "true", "--route", "* test"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _edge = Edge(child.expect("our own program"));
    wait_until("it listens", || {
        std::net::TcpStream::connect(("127.0.0.1", port))
            .is_ok()
            .then_some(())
    });
    let mut client = Client::open(port, "localhost");
    client.send("GET", "/stream?channel=c", &[], b"");
    client.read_head();
    client.read_until("[stream opened]\n");
    // The publisher starts after the edge, and again after it was closed.
    for content in ["one", "two"] {
        let listener = TcpListener::bind(("127.0.0.1", publisher)).expect("a free port");
        let mut socket = Zmq::accept(&listener, Socket::Xpub);
        drop(listener);
        let subscription = socket.next_subscription();
        assert_eq!(subscription, Event::Subscribed(Vec::new()));
        wait_until("the kernel looks after it", || {
            is_looked_after(2, publisher).then_some(())
        });
        let item = format!(r#"J{{"http-stream":{{"content":"{content}"}}}}"#);
        socket.send(&[b"c", item.as_bytes()]);
        client.read_until(content);
    }
}
