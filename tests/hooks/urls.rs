//! URLs with PHP's streams and with cURL: a peer that responds only after all requests have
//! arrived.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use fermata_testkit::Server;
use fermata_tests::fixture;

use crate::{MANY, ask, wait_for_state};

struct Peer {
    listener: TcpListener,
}

impl Peer {
    fn new() -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Peer { listener }
    }

    /// Returns the peer's URL, encoded for a request target.
    fn url(&self) -> String {
        let address = self.listener.local_addr().expect("it listens");
        format!("url=http%3A%2F%2F{address}%2F")
    }

    /// Accepts the next connection and reads its request.
    fn next(&self) -> TcpStream {
        let (mut stream, _) = self.listener.accept().expect("a connection");
        let mut request = Vec::new();
        let mut buf = [0; 1024];
        while !request.ends_with(b"\r\n\r\n") {
            let len = stream.read(&mut buf).expect("a request");
            assert_ne!(len, 0, "the request is cut off");
            request.extend_from_slice(&buf[..len]);
        }
        stream
    }

    fn all(&self, len: usize) -> Vec<TcpStream> {
        (0..len).map(|_| self.next()).collect()
    }
}

fn answer(streams: Vec<TcpStream>) {
    for mut stream in streams {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi")
            .expect("written");
    }
}

fn server() -> Server {
    fixture("hooks").workers(1).start()
}

#[test]
fn urls_are_read_at_the_same_time() {
    let peer = Peer::new();
    let server = server();
    for (route, requests, expected) in [
        ("/url", 1, "hi"),
        ("/curl", 1, "hi"),
        ("/curl-multi", 2, "hi hi"),
    ] {
        let clients: Vec<_> = (0..MANY)
            .map(|_| ask(&server, &format!("{route}?{}", peer.url())))
            .collect();
        answer(peer.all(MANY * requests));
        for mut client in clients {
            assert_eq!(client.read_response().text(), expected, "{route}");
        }
    }
    assert!(
        !server.log().text().contains(" error "),
        "{}",
        server.log().text()
    );
}

#[test]
fn time_outs_of_curl_are_its_own() {
    let peer = Peer::new();
    let server = server();
    let mut client = ask(&server, &format!("/curl-timeout?{}", peer.url()));
    let _stream = peer.next();
    // CURLE_OPERATION_TIMEDOUT
    assert_eq!(client.read_response().text(), "28");
}

#[test]
fn clients_that_leave_end_what_their_handlers_wait_for() {
    let peer = Peer::new();
    let server = server();
    for (at, route) in ["/url", "/curl", "/curl-multi"].into_iter().enumerate() {
        let requests = if route == "/curl-multi" { 2 } else { 1 };
        let client = ask(&server, &format!("{route}?{}", peer.url()));
        let streams = peer.all(requests);
        drop(client);
        wait_for_state(&server, "left", at + 1);
        for mut stream in streams {
            // Closed when the handler ended.
            assert_eq!(stream.read(&mut [0; 8]).unwrap_or(0), 0, "{route}");
        }
    }
    wait_for_state(&server, "waiting", 0);
}

#[test]
fn a_peer_that_ends_in_the_middle_fails_the_handler() {
    let peer = Peer::new();
    let server = server();
    for route in ["/url", "/curl"] {
        let mut client = ask(&server, &format!("{route}?{}", peer.url()));
        let mut stream = peer.next();
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nha")
            .expect("written");
        drop(stream);
        let response = client.read_response();
        assert_eq!(response.status(), 200);
        assert_ne!(response.text().len(), 20, "{route}: {}", response.text());
    }
}
