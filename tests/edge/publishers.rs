//! Publishers that the edge connects to.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use fermata_grip::zmtp::{Event, Socket};
use fermata_testkit::{command_path, free_port, wait_until};

use crate::client::Client;
use crate::zmq::Zmq;

struct Edge(Child);

impl Drop for Edge {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Whether the kernel asks the other end of a connection now and then whether it is there: its timer in /proc/net/tcp.
/// `column` is 1 where the port is the edge's own, 2 where it is the other end's.
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
    // Not there before, and there again after it has gone.
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
