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
        let item = format!(r#"J{{"http-stream":{{"content":"{content}"}}}}"#);
        socket.send(&[b"c", item.as_bytes()]);
        client.read_until(content);
    }
}
