//! The epoll driver over real sockets on the loopback interface.

use std::io::{IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use fermata_io::sys::epoll::Epoll;
use fermata_io::wake::Waker;
use fermata_io::{Driver, Event, Fd, Peer, net};

const LISTENER: u64 = 1;
const STREAM: u64 = 2;
const BACKLOG: i32 = 16;
/// How long a test waits for what has to happen; far more than it takes.
const PATIENCE_MS: u64 = 10_000;

struct Server {
    epoll: Epoll,
    listener: OwnedFd,
    address: SocketAddr,
}

impl Server {
    fn new(address: &str) -> Self {
        let address = address.parse().expect("an address");
        let (listener, address) = net::bind_tcp(address, BACKLOG, true).expect("a free port");
        let mut epoll = Epoll::new().expect("epoll");
        epoll
            .add_listener(listener.as_raw_fd(), LISTENER)
            .expect("add");
        Self {
            epoll,
            listener,
            address,
        }
    }

    fn connect(&mut self) -> (TcpStream, Fd) {
        let client = TcpStream::connect(self.address).expect("connect");
        assert_eq!(self.wait_for(LISTENER).token, LISTENER);
        let accepted = self
            .epoll
            .accept(self.listener.as_raw_fd())
            .expect("accept")
            .expect("one");
        assert_eq!(
            accepted.peer,
            Peer::from(client.local_addr().expect("bound"))
        );
        self.epoll.add_stream(accepted.fd, STREAM).expect("add");
        let first = self.wait_for(STREAM);
        assert!(first.writable && !first.hangup, "{first:?}");
        (client, accepted.fd)
    }

    fn wait(&mut self, timeout_ms: u64) -> Vec<Event> {
        let mut events = Vec::new();
        self.epoll
            .wait(&mut events, Some(timeout_ms))
            .expect("wait");
        events
    }

    fn wait_for(&mut self, token: u64) -> Event {
        let deadline_ms = self.epoll.refresh_now() + PATIENCE_MS;
        loop {
            let events = self.wait(PATIENCE_MS);
            if let Some(event) = events.into_iter().find(|event| event.token == token) {
                return event;
            }
            assert!(
                self.epoll.now_ms() < deadline_ms,
                "no event with token {token}"
            );
        }
    }
}

#[test]
fn bytes_go_both_ways_and_end_with_a_hangup() {
    let mut server = Server::new("127.0.0.1:0");
    let (mut client, fd) = server.connect();
    let mut buf = [0; 64];
    assert_eq!(server.epoll.recv(fd, &mut buf).expect("recv"), None);

    client.write_all(b"question").expect("write");
    assert!(server.wait_for(STREAM).readable);
    assert_eq!(server.epoll.recv(fd, &mut buf).expect("recv"), Some(8));
    assert_eq!(&buf[..8], b"question");
    assert_eq!(server.epoll.recv(fd, &mut buf).expect("recv"), None);

    let parts = [
        IoSlice::new(b"an "),
        IoSlice::new(b""),
        IoSlice::new(b"answer"),
    ];
    assert_eq!(server.epoll.send(fd, &parts).expect("send"), Some(9));
    assert_eq!(server.epoll.send_one(fd, b"!").expect("send"), Some(1));
    server.epoll.shutdown_write(fd);
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("read");
    assert_eq!(answer, "an answer!");

    client.shutdown(Shutdown::Write).expect("shutdown");
    let event = server.wait_for(STREAM);
    assert!(event.readable && event.hangup, "{event:?}");
    assert_eq!(server.epoll.recv(fd, &mut buf).expect("recv"), Some(0));
    server.epoll.close(fd);
}

#[test]
fn a_stream_is_reported_once_and_again_when_room_appears() {
    let mut server = Server::new("127.0.0.1:0");
    let (mut client, fd) = server.connect();
    assert_eq!(server.wait(0), []);
    let block = vec![7_u8; 256 * 1024];
    let mut sent = 0;
    while let Some(bytes) = server.epoll.send_one(fd, &block).expect("send") {
        sent += bytes;
    }
    assert_eq!(server.wait(0), [], "no room is not reported");
    let mut received = vec![0; sent];
    client.read_exact(&mut received).expect("read");
    assert!(received.iter().all(|&byte| byte == 7));
    assert!(server.wait_for(STREAM).writable);
    server.epoll.close(fd);
}

#[test]
fn sending_to_a_reset_connection_is_an_error_and_no_signal() {
    let mut server = Server::new("127.0.0.1:0");
    let (client, fd) = server.connect();
    server.epoll.send_one(fd, b"unread").expect("send");
    drop(client);
    let event = server.wait_for(STREAM);
    assert!(event.hangup, "{event:?}");
    let mut failed = false;
    for _ in 0..3 {
        failed |= server.epoll.send_one(fd, b"more").is_err();
    }
    assert!(failed);
    server.epoll.close(fd);
}

#[test]
fn a_removed_listener_is_silent_until_added_again() {
    let mut server = Server::new("127.0.0.1:0");
    let listener = server.listener.as_raw_fd();
    assert_eq!(server.epoll.accept(listener).expect("accept"), None);
    server.epoll.remove(listener).expect("remove");
    assert!(server.epoll.remove(listener).is_err());
    let _client = TcpStream::connect(server.address).expect("connect");
    assert_eq!(server.wait(0), []);
    server.epoll.add_listener(listener, LISTENER).expect("add");
    assert!(server.wait_for(LISTENER).readable);
    assert!(server.wait_for(LISTENER).readable, "level triggered");
}

#[test]
fn accepted_streams_answer_at_once_and_are_named_over_ipv6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return; // This machine has no IPv6.
    }
    let mut server = Server::new("[::1]:0");
    let (_client, fd) = server.connect();
    // SAFETY: `fd` is open until the end of this test.
    let stream = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
    assert!(rustix::net::sockopt::tcp_nodelay(stream).expect("an option of TCP"));
    let flags = rustix::io::fcntl_getfd(stream).expect("open");
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    server.epoll.close(fd);
}

#[test]
fn a_waker_wakes_until_it_is_drained() {
    let mut server = Server::new("127.0.0.1:0");
    let waker = Waker::new().expect("eventfd");
    server.epoll.add_wake(waker.fd(), 9).expect("add");
    assert_eq!(server.wait(0), []);
    waker.wake();
    waker.wake();
    assert!(server.wait_for(9).readable);
    assert!(server.wait_for(9).readable);
    waker.drain();
    assert_eq!(server.wait(0), []);
    waker.drain();
}

#[test]
fn a_timeout_ends_the_wait_and_moves_the_clock() {
    let mut server = Server::new("127.0.0.1:0");
    let before_ms = server.epoll.refresh_now();
    assert_eq!(server.wait(20), []);
    assert!(server.epoll.now_ms() >= before_ms + 20);
}

#[test]
fn more_events_than_a_batch_come_in_the_next_one() {
    let mut server = Server::new("127.0.0.1:0");
    let wakers: Vec<Waker> = (0..600).map(|_| Waker::new().expect("eventfd")).collect();
    for (token, waker) in wakers.iter().enumerate() {
        server
            .epoll
            .add_wake(waker.fd(), token as u64)
            .expect("add");
        waker.wake();
    }
    let first = server.wait(0);
    assert_eq!(first.len(), fermata_io::EVENTS_MAX);
    let second = server.wait(0);
    let mut tokens: Vec<u64> = first
        .iter()
        .chain(&second)
        .map(|event| event.token)
        .collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 600);
}

#[test]
fn unix_peers_have_no_address() {
    let folder = std::env::temp_dir().join(format!("fermata-io-unix-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("control.sock");
    let listener = net::bind_unix(&path, BACKLOG).expect("bind");
    let mut epoll = Epoll::new().expect("epoll");
    epoll
        .add_listener(listener.as_raw_fd(), LISTENER)
        .expect("add");
    let _client = UnixStream::connect(&path).expect("connect");
    let accepted = epoll
        .accept(listener.as_raw_fd())
        .expect("accept")
        .expect("one");
    assert_eq!(accepted.peer, Peer::Unix);
    epoll.close(accepted.fd);
    std::fs::remove_dir_all(&folder).expect("clean up");
}

#[test]
fn a_file_is_sent_from_an_offset_to_its_end() {
    let mut server = Server::new("127.0.0.1:0");
    let (mut client, fd) = server.connect();
    let path = std::env::temp_dir().join(format!("fermata-send-file-{}", std::process::id()));
    std::fs::write(&path, "0123456789").expect("can write");
    let file = std::fs::File::open(&path).expect("it was written");
    std::fs::remove_file(&path).expect("it is there");
    assert!(server.epoll.can_send_file(fd));
    for (offset, len, sent) in [(2, 3, 3), (8, 100, 2), (10, 5, 0)] {
        let outcome = server.epoll.send_file(fd, &file, offset, len);
        assert_eq!(outcome.expect("connected"), Some(sent));
    }
    server.epoll.close(fd);
    let mut got = String::new();
    client.read_to_string(&mut got).expect("text");
    assert_eq!(got, "23489");
}
