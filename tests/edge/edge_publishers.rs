//! Delivery from `php server.php` to edges after its first worker, or every worker, was replaced.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use fermata_testkit::{Server, Signal, free_port, send_signal, wait_until};
use fermata_tests::{fixture_path, publish};
use serde_json::Value;

/// A control port that accepts every publish until it is dropped.
struct Port {
    number: u16,
    ids: Arc<Mutex<Vec<String>>>,
    serving: Option<thread::JoinHandle<()>>,
}

impl Port {
    fn open(number: u16) -> Self {
        let listener = wait_until("the port is free again", || {
            TcpListener::bind(("127.0.0.1", number)).ok()
        });
        let ids = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&ids);
        let serving = thread::spawn(move || {
            while let Some(items) = take(&listener.accept().expect("a client").0) {
                let items = items.as_array().expect("a list").iter();
                let found = items.filter_map(|item| item["id"].as_str().map(str::to_owned));
                seen.lock().expect("no panic").extend(found);
            }
        });
        Self {
            number,
            ids,
            serving: Some(serving),
        }
    }

    fn ids(&self) -> Vec<String> {
        self.ids.lock().expect("no panic").clone()
    }

    fn wait_for(&self, ids: &[&str]) {
        wait_until("the edge is told", || {
            (self.ids().len() >= ids.len()).then_some(())
        });
        assert_eq!(self.ids(), ids);
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // A connection without a request stops the thread.
        drop(TcpStream::connect(("127.0.0.1", self.number)));
        let _ = self.serving.take().map(thread::JoinHandle::join);
    }
}

/// Reads one request, responds to it and returns its items; returns `None` if there is no request.
fn take(mut socket: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(socket);
    let (mut length, mut line) = (None, String::new());
    while reader.read_line(&mut line).expect("a head") > 2 {
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = Some(value.trim().parse().expect("a number"));
        }
        line.clear();
    }
    let mut body = vec![0; length?];
    reader.read_exact(&mut body).expect("a body");
    let answer = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    socket.write_all(answer).expect("a client");
    let mut body: Value = serde_json::from_slice(&body).expect("JSON");
    Some(body["items"].take())
}

fn server(port: u16) -> Server {
    Server::builder(fixture_path("hub"))
        .workers(2)
        .setting("grip_url", format!("http://127.0.0.1:{port}"))
        .start()
}

#[test]
fn a_worker_in_place_of_the_first_goes_on_where_it_was() {
    let number = free_port();
    let server = server(number);
    let mut worker = server.worker_pids()[&0];
    let mut replace = || {
        assert!(send_signal(worker, Signal::Kill), "it runs");
        worker = server.wait_replaced(0, worker);
    };
    // No edge has received an event yet.
    let first = publish(&server, "c", "1");
    replace();
    let port = Port::open(number);
    port.wait_for(&[&first]);
    let second = publish(&server, "d", "2");
    port.wait_for(&[&first, &second]);
    let seen = server.log().lines_from(0).len();
    drop(port);
    let third = publish(&server, "c", "3");
    // When this line is logged, the worker has stored its position.
    server.log().wait_for(seen, "events wait for an edge");
    replace();
    // Events that were delivered before are not sent again.
    Port::open(number).wait_for(&[&third]);
}

#[test]
fn what_is_published_when_the_first_worker_has_ended_is_told() {
    let port = Port::open(free_port());
    let mut server = server(port.number);
    let second = server.worker_pids()[&1];
    let mut late = server.connect_to(second);
    let sent = late.try_send_request("POST", "/publish-later/1000/c", &[], b"late");
    sent.expect("a request");
    // The handler is waiting by then.
    assert_eq!(server.connect_to(second).get("/pid").status(), 200);
    server.signal(Signal::Terminate);
    let id = late.read_response().text().to_string();
    assert!(server.wait_exit().success());
    assert_eq!(port.ids(), [id]);
}

#[test]
fn what_clients_of_pusher_and_mercure_alone_get_is_told_no_edge() {
    let port = Port::open(free_port());
    let server = Server::builder(fixture_path("doors"))
        .workers(2)
        .setting("grip_url", format!("http://127.0.0.1:{}", port.number))
        .start();
    // Each publish is also a Mercure update, which is a separate record.
    let ids = [1, 2, 3].map(|number| {
        let response = server.connect().post("/publish", format!("{number}"));
        assert_eq!(response.status(), 200, "{}", response.text());
        response.text().to_owned()
    });
    port.wait_for(&ids.each_ref().map(String::as_str));
}
