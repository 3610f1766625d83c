//! The fake driver behaves like Linux, and its faults never lose a byte.

use std::io::{ErrorKind, IoSlice};
use std::net::Ipv6Addr;

use fermata_io::sys::fake::{Action, End, Fake, FakePeer, Faults};
use fermata_io::wake::Waker;
use fermata_io::{Driver, Event, Fd, Peer};
use proptest::prelude::*;

const LISTENER: u64 = 1;
const STREAM: u64 = 2;

/// Returns a fake with one watched stream whose first event was read.
fn connected(seed: u64) -> (Fake, FakePeer, Fd) {
    let mut fake = Fake::new(seed);
    let listener = fake.listen();
    fake.add_listener(listener, LISTENER).expect("add");
    let peer = fake.connect(listener);
    assert_eq!(wait(&mut fake), [event(LISTENER, "r")]);
    let accepted = fake.accept(listener).expect("accept").expect("one");
    assert_eq!((accepted.fd, accepted.peer), (peer.fd(), peer.address()));
    fake.add_stream(accepted.fd, STREAM).expect("add");
    assert_eq!(wait(&mut fake), [event(STREAM, "w")]);
    (fake, peer, accepted.fd)
}

fn wait(fake: &mut Fake) -> Vec<Event> {
    let mut events = Vec::new();
    fake.wait(&mut events, None).expect("wait");
    events
}

fn event(token: u64, ready: &str) -> Event {
    let has = |letter| ready.contains(letter);
    Event {
        token,
        readable: has('r'),
        writable: has('w'),
        hangup: has('h'),
    }
}

fn recv(fake: &mut Fake, fd: Fd) -> Option<Vec<u8>> {
    let mut buf = [0; 64];
    fake.recv(fd, &mut buf)
        .expect("recv")
        .map(|bytes| buf[..bytes].to_vec())
}

#[test]
fn an_edge_is_reported_once_with_all_that_is_ready() {
    let (mut fake, peer, fd) = connected(1);
    assert_eq!(wait(&mut fake), []);
    peer.write(b"a");
    peer.write(b"b");
    assert_eq!(wait(&mut fake), [event(STREAM, "rw")]);
    assert_eq!(
        wait(&mut fake),
        [],
        "not read, and still not reported again"
    );
    assert_eq!(peer.unread_bytes(), 2);
    assert_eq!(recv(&mut fake, fd), Some(b"ab".to_vec()));
    assert_eq!(recv(&mut fake, fd), None);
    peer.shutdown_write();
    assert_eq!(wait(&mut fake), [event(STREAM, "rwh")]);
    assert_eq!(recv(&mut fake, fd), Some(vec![]));
    fake.send_one(fd, b"bye").expect("send");
    fake.close(fd);
    assert_eq!((peer.read(), peer.end()), (b"bye".to_vec(), End::Finished));
    assert_eq!(fake.open_streams(), 0);
}

#[test]
fn a_slow_reader_blocks_and_its_room_is_an_edge() {
    let (mut fake, peer, fd) = connected(1);
    peer.set_window(4);
    let parts = [IoSlice::new(b"ab"), IoSlice::new(b"cdef")];
    assert_eq!(fake.send(fd, &parts).expect("send"), Some(4));
    assert_eq!(fake.send_one(fd, b"ef").expect("send"), None);
    assert_eq!(wait(&mut fake), []);
    assert_eq!(peer.arrived_bytes(), 4);
    assert_eq!(peer.read(), b"abcd");
    assert_eq!(wait(&mut fake), [event(STREAM, "w")]);
    assert_eq!(fake.send_one(fd, b"ef").expect("send"), Some(2));
    assert_eq!(peer.read(), b"ef");
    assert_eq!(wait(&mut fake), [], "there was room all the time");
    assert_eq!(peer.sends(), 2);
}

#[test]
fn broken_connections_are_errors() {
    let (mut fake, peer, fd) = connected(1);
    peer.write(b"last words");
    peer.reset();
    assert_eq!(wait(&mut fake), [event(STREAM, "rwh")]);
    assert_eq!(recv(&mut fake, fd), Some(b"last words".to_vec()));
    let error = fake.recv(fd, &mut [0; 8]).expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let error = fake.send_one(fd, b"x").expect_err("reset");
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    fake.close(fd);
}

#[test]
fn sending_to_a_closed_peer_works_once() {
    let (mut fake, peer, fd) = connected(1);
    peer.close();
    assert_eq!(wait(&mut fake), [event(STREAM, "rwh")]);
    assert_eq!(fake.send_one(fd, b"x").expect("on its way"), Some(1));
    assert_eq!(wait(&mut fake), [event(STREAM, "rwh")]);
    assert!(fake.send_one(fd, b"x").is_err());
}

#[test]
fn closing_with_unread_bytes_resets() {
    let (mut fake, peer, fd) = connected(1);
    peer.write(b"a body that is too large");
    fake.send_one(fd, b"413").expect("send");
    fake.close(fd);
    assert_eq!(peer.end(), End::Reset);

    let (mut fake, peer, fd) = connected(1);
    fake.shutdown_write(fd);
    assert_eq!(peer.end(), End::Finished);
    peer.write(b"still sent");
    assert_eq!(recv(&mut fake, fd), Some(b"still sent".to_vec()));
    fake.close(fd);
    assert_eq!(peer.end(), End::Finished);
    peer.write(b"too late");
    assert_eq!(peer.end(), End::Reset);
}

#[test]
fn listeners_are_level_triggered_and_can_be_paused() {
    let mut fake = Fake::new(1);
    let listener = fake.listen();
    let first = fake.connect(listener);
    let address = Peer::V6(Ipv6Addr::LOCALHOST, 9);
    let second = fake.connect_from(listener, address);
    assert_ne!(first.address(), second.address());
    assert_eq!(wait(&mut fake), []);
    fake.add_listener(listener, LISTENER).expect("add");
    assert!(fake.add_listener(listener, LISTENER).is_err());
    assert_eq!(wait(&mut fake), [event(LISTENER, "r")]);
    assert_eq!(wait(&mut fake), [event(LISTENER, "r")]);
    fake.remove(listener).expect("remove");
    assert!(fake.remove(listener).is_err());
    assert_eq!(wait(&mut fake), []);
    fake.set_streams_max(1);
    assert_eq!(
        fake.accept(listener).expect("accept").map(|a| a.fd),
        Some(first.fd())
    );
    let error = fake.accept(listener).expect_err("too many");
    assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
    fake.close(first.fd());
    assert_eq!(
        fake.accept(listener).expect("accept").map(|a| a.peer),
        Some(address)
    );
    let third = fake.connect(listener);
    fake.close(listener);
    assert_eq!(third.end(), End::Reset);
}

#[test]
fn the_clock_moves_only_when_told() {
    let (mut fake, peer, fd) = connected(1);
    let start_ms = fake.now_ms();
    let unix_ms = fake.unix_ms();
    peer.act_after(50, Action::Write(b"later".to_vec()));
    peer.act_after(50, Action::ShutdownWrite);
    let mut events = Vec::new();
    fake.wait(&mut events, Some(1000)).expect("wait");
    assert_eq!((events.len(), fake.now_ms()), (0, start_ms));
    fake.advance(49);
    assert_eq!(fake.now_ms(), start_ms, "cached until the next wait");
    assert_eq!(fake.refresh_now(), start_ms + 49);
    assert_eq!(fake.unix_ms(), unix_ms + 49);
    fake.advance(1);
    assert_eq!(wait(&mut fake), [event(STREAM, "rwh")]);
    assert_eq!(recv(&mut fake, fd), Some(b"later".to_vec()));
}

#[test]
fn time_can_follow_the_time_outs() {
    let (mut fake, peer, _fd) = connected(1);
    fake.set_auto_advance(true);
    let start_ms = fake.now_ms();
    peer.act_after(50, Action::Write(b"x".to_vec()));
    let mut events = Vec::new();
    fake.wait(&mut events, Some(20)).expect("wait");
    assert_eq!((events.len(), fake.now_ms()), (0, start_ms + 20));
    fake.wait(&mut events, None).expect("wait");
    assert_eq!((events.len(), fake.now_ms()), (1, start_ms + 50));
    // Nothing is scheduled. A real driver would sleep forever.
    assert_eq!(wait(&mut fake), []);
    assert_eq!((fake.now_ms(), fake.calls().idle_waits), (start_ms + 50, 2));
}

#[test]
fn real_wakers_are_seen() {
    let mut fake = Fake::new(1);
    let waker = Waker::new().expect("eventfd");
    fake.add_wake(waker.fd(), 3).expect("add");
    assert_eq!(wait(&mut fake), []);
    waker.wake();
    assert_eq!(wait(&mut fake), [event(3, "r")]);
    waker.drain();
    assert_eq!(wait(&mut fake), []);
    fake.remove(waker.fd()).expect("remove");
}

#[test]
#[should_panic(expected = "used after it was closed")]
fn use_after_close_is_found() {
    let (mut fake, _peer, fd) = connected(1);
    fake.close(fd);
    let _ = fake.send_one(fd, b"x");
}

#[test]
fn aborted_connections_leave_the_queue() {
    let mut fake = Fake::new(1);
    fake.set_faults(Faults {
        abort: 1000,
        ..Faults::NONE
    });
    let listener = fake.listen();
    let peer = fake.connect(listener);
    let error = fake.accept(listener).expect_err("aborted");
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
    assert_eq!((peer.end(), fake.open_streams()), (End::Reset, 0));
    assert_eq!(fake.accept(listener).expect("accept"), None);
}

/// An echo server built like the engine: it stores reported readiness, reads until a read would block, and sends until a send would
/// block.
struct Echo {
    driver: Fake,
    listener: Fd,
    connections: Vec<Connection>,
}

struct Connection {
    fd: Fd,
    readable: bool,
    writable: bool,
    ended: bool,
    closed: bool,
    pending: Vec<u8>,
}

impl Echo {
    fn tick(&mut self) {
        let mut events = Vec::new();
        self.driver.wait(&mut events, None).expect("wait");
        for event in events {
            if event.token == LISTENER {
                self.accept();
            } else if let Some(connection) = self.connections.get_mut(event.token as usize - 10) {
                connection.readable |= event.readable;
                connection.writable |= event.writable;
            }
        }
        for connection in &mut self.connections {
            connection.run(&mut self.driver);
        }
    }

    fn accept(&mut self) {
        while let Ok(Some(accepted)) = self.driver.accept(self.listener) {
            let token = 10 + self.connections.len() as u64;
            self.driver.add_stream(accepted.fd, token).expect("add");
            self.connections.push(Connection {
                fd: accepted.fd,
                readable: false,
                writable: false,
                ended: false,
                closed: false,
                pending: Vec::new(),
            });
        }
    }
}

impl Connection {
    fn run(&mut self, driver: &mut Fake) {
        let mut buf = [0; 16];
        while self.readable && !self.ended && !self.closed {
            match driver.recv(self.fd, &mut buf) {
                Ok(None) => self.readable = false,
                Ok(Some(0)) => self.ended = true,
                Ok(Some(bytes)) => self.pending.extend_from_slice(&buf[..bytes]),
                Err(_) => self.close(driver),
            }
        }
        while self.writable && !self.pending.is_empty() && !self.closed {
            match driver.send_one(self.fd, &self.pending) {
                Ok(None) => self.writable = false,
                Ok(Some(bytes)) => {
                    self.writable = bytes == self.pending.len();
                    self.pending.drain(..bytes);
                }
                Err(_) => self.close(driver),
            }
        }
        if self.ended && self.pending.is_empty() && !self.closed {
            self.close(driver);
        }
    }

    fn close(&mut self, driver: &mut Fake) {
        driver.close(self.fd);
        self.closed = true;
    }
}

fn run_echo(seed: u64, faults: Faults, messages: &[Vec<u8>], window_bytes: usize) -> Vec<FakePeer> {
    let fake = Fake::new(seed);
    fake.set_faults(faults);
    let listener = fake.listen();
    let mut echo = Echo {
        driver: fake.clone(),
        listener,
        connections: Vec::new(),
    };
    echo.driver.add_listener(listener, LISTENER).expect("add");
    let peers: Vec<FakePeer> = messages
        .iter()
        .map(|message| {
            let peer = fake.connect(listener);
            peer.set_window(window_bytes);
            for (delay_ms, part) in message.chunks(7).enumerate() {
                peer.act_after(delay_ms as u64, Action::Write(part.to_vec()));
            }
            peer.act_after(message.len() as u64, Action::ShutdownWrite);
            peer
        })
        .collect();
    let mut answers = vec![Vec::new(); messages.len()];
    for _ in 0..20_000 {
        echo.tick();
        fake.advance(1);
        for (peer, answer) in peers.iter().zip(&mut answers) {
            answer.extend(peer.read());
        }
        if peers.iter().all(|peer| peer.end() != End::Open) && fake.open_streams() == 0 {
            break;
        }
    }
    for ((peer, answer), message) in peers.iter().zip(&answers).zip(messages) {
        assert_ne!(peer.end(), End::Open, "the echo hangs");
        match peer.end() {
            End::Finished => assert_eq!(answer, message),
            _ => assert!(message.starts_with(answer)),
        }
    }
    assert_eq!(fake.open_streams(), 0);
    peers
}

proptest! {
    #[test]
    fn harmless_faults_lose_nothing_and_hang_nothing(
        seed in any::<u64>(),
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5),
        window_bytes in 1..100_usize,
    ) {
        for peer in run_echo(seed, Faults::HARMLESS, &messages, window_bytes) {
            prop_assert_eq!(peer.end(), End::Finished);
        }
    }

    #[test]
    fn broken_connections_end(
        seed in any::<u64>(),
        messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5),
    ) {
        run_echo(seed, Faults::HOSTILE, &messages, 50);
    }

    /// Two runs with the same seed are equal.
    #[test]
    fn runs_are_repeatable(seed in any::<u64>()) {
        let messages = vec![vec![5; 200]; 3];
        let sends = || -> Vec<u64> {
            run_echo(seed, Faults::HOSTILE, &messages, 50).iter().map(FakePeer::sends).collect()
        };
        prop_assert_eq!(sends(), sends());
    }
}
