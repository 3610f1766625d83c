//! Echo servers over each kernel interface. A seed controls the peers: pieces of any size, slow readers, resets at any
//! point. A failure prints its seed; FERMATA_TEST_SEED repeats it.

#[allow(dead_code, reason = "each file of tests uses a part")]
mod support;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use fermata_io::{Driver, Fd, Kernel, net};

use support::{LISTENER, Server};

over_each_kernel! {
    echoes_come_back_whole
    resets_do_not_disturb_other_peers
}

const PEERS: u64 = 24;
const ROUNDS: u64 = 3;
/// Small reads exercise every path of a driver.
const READ_BYTES: [usize; 4] = [1, 700, 5_000, 64 * 1024];
/// Maximum number of unsent bytes of a connection before the server stops reading from it.
const PENDING_BYTES_MAX: usize = 100_000;

/// Random choices of one peer.
struct Plan {
    seed: u64,
}

impl Plan {
    fn next(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }
}

struct Connection {
    fd: Fd,
    readable: bool,
    blocked: bool,
    has_hung_up: bool,
    ended: bool,
    pending: Vec<u8>,
    read_bytes: usize,
}

struct Echo {
    server: Server,
    connections: HashMap<u64, Connection>,
    next: u64,
}

impl Echo {
    fn new(kernel: Kernel) -> Echo {
        Echo {
            server: Server::new(kernel, "127.0.0.1:0"),
            connections: HashMap::new(),
            next: 10,
        }
    }

    fn turn(&mut self) {
        let is_busy = self.connections.values().any(|it| it.can_go_on());
        for event in self.server.wait(if is_busy { 0 } else { 5 }) {
            if event.token == LISTENER {
                self.accept();
            } else if let Some(connection) = self.connections.get_mut(&event.token) {
                connection.readable |= event.readable || event.hangup;
                connection.blocked &= !event.writable;
                connection.has_hung_up |= event.hangup;
            }
        }
        let driver = &mut self.server.driver;
        self.connections
            .retain(|_, connection| connection.run(driver));
    }

    fn accept(&mut self) {
        let listener = self.server.listener.as_raw_fd();
        while let Some(accepted) = match self.server.driver.accept(listener) {
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => return,
            accepted => accepted.expect("accept"),
        } {
            let token = self.next;
            self.next += 1;
            self.server
                .driver
                .add_stream(accepted.fd, token)
                .expect("add");
            self.connections.insert(
                token,
                Connection {
                    fd: accepted.fd,
                    readable: false,
                    blocked: false,
                    has_hung_up: false,
                    ended: false,
                    pending: Vec::new(),
                    read_bytes: READ_BYTES[token as usize % READ_BYTES.len()],
                },
            );
        }
    }
}

impl Connection {
    fn can_go_on(&self) -> bool {
        self.readable && self.pending.len() < PENDING_BYTES_MAX
    }

    /// Handles a ready connection once; returns false when the connection is closed.
    fn run(&mut self, driver: &mut Kernel) -> bool {
        let mut buf = vec![0; self.read_bytes];
        // Read at most twice, so that the rest waits until the next call.
        for _ in 0..2 {
            if !self.can_go_on() {
                break;
            }
            match driver.recv(self.fd, &mut buf) {
                Ok(None) => self.readable = false,
                Ok(Some(0)) => {
                    self.readable = false;
                    self.ended = true;
                }
                // A short read has emptied the socket, unless the end follows.
                Ok(Some(read)) => {
                    self.pending.extend_from_slice(&buf[..read]);
                    self.readable = read == buf.len() || self.has_hung_up;
                }
                Err(_) => {
                    driver.close(self.fd);
                    return false;
                }
            }
        }
        while !self.blocked && !self.pending.is_empty() {
            let piece = self.pending.len().min(1 + self.read_bytes * 3);
            match driver.send_one(self.fd, &self.pending[..piece]) {
                Ok(None) => self.blocked = true,
                Ok(Some(sent)) => {
                    self.pending.drain(..sent);
                    self.blocked = sent < piece;
                }
                Err(_) => {
                    driver.close(self.fd);
                    return false;
                }
            }
        }
        if self.ended && self.pending.is_empty() {
            // Close directly after the last send.
            driver.close(self.fd);
            return false;
        }
        true
    }
}

/// Sends random pieces, reads the echo concurrently, and compares both.
fn talk(address: SocketAddr, mut plan: Plan) {
    let mut stream = TcpStream::connect(address).expect("connect");
    let length = 1 + plan.next(60_000) as usize;
    let bytes: Vec<u8> = (0..length).map(|_| plan.next(256) as u8).collect();
    let mut reader = stream.try_clone().expect("clone");
    let is_slow = plan.next(3) == 0;
    let reading = std::thread::spawn(move || {
        let mut received = Vec::new();
        let mut buf = [0; 3_000];
        loop {
            if is_slow {
                std::thread::sleep(Duration::from_millis(1));
            }
            match reader.read(&mut buf).expect("an orderly end") {
                0 => return received,
                read => received.extend_from_slice(&buf[..read]),
            }
        }
    });
    let mut at = 0;
    while at < bytes.len() {
        let piece = (1 + plan.next(9_000) as usize).min(bytes.len() - at);
        stream.write_all(&bytes[at..at + piece]).expect("write");
        at += piece;
        if plan.next(4) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    stream.shutdown(Shutdown::Write).expect("shutdown");
    let received = reading.join().expect("no panic");
    assert!(received == bytes, "the echo differs from what was sent");
}

/// Sends some bytes and leaves at any point, usually with a reset.
fn go(address: SocketAddr, mut plan: Plan) {
    let Ok(mut stream) = TcpStream::connect(address) else {
        return;
    };
    let bytes = vec![1; plan.next(50_000) as usize];
    let _ = stream.write_all(&bytes);
    if plan.next(2) == 0 {
        let _ = stream.read(&mut [0; 100]);
    }
    if plan.next(4) > 0 {
        net::abort_on_close(stream.as_raw_fd());
    }
}

/// Runs an echo server until all `peers` have ended, round after round.
fn serve(kernel: Kernel, peer: impl Fn(SocketAddr, Plan, u64) + Send + Sync + 'static) -> Echo {
    let seed = std::env::var("FERMATA_TEST_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(fermata_io::random::u64);
    println!("FERMATA_TEST_SEED={seed}");
    let mut echo = Echo::new(kernel);
    let address = echo.server.address;
    let peers = std::thread::spawn(move || {
        for round in 0..ROUNDS {
            std::thread::scope(|scope| {
                for number in 0..PEERS {
                    let plan = Plan {
                        seed: (seed ^ (round << 32 | number)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                            | 1,
                    };
                    let peer = &peer;
                    scope.spawn(move || peer(address, plan, number));
                }
            });
        }
    });
    let deadline_ms = echo.server.driver.refresh_now() + 3 * support::PATIENCE_MS;
    while !peers.is_finished() && echo.server.driver.now_ms() < deadline_ms {
        echo.turn();
    }
    assert!(
        peers.is_finished(),
        "a peer hangs; {} connections",
        echo.connections.len()
    );
    peers.join().expect("a peer has checked its echo");
    echo
}

fn echoes_come_back_whole(kernel: Kernel) {
    let echo = serve(kernel, |address, plan, _| talk(address, plan));
    assert_eq!(echo.server.driver.leaving(), 0);
}

fn resets_do_not_disturb_other_peers(kernel: Kernel) {
    let mut echo = serve(kernel, |address, plan, number| {
        if number % 3 == 0 {
            talk(address, plan);
        } else {
            go(address, plan);
        }
    });
    for _ in 0..200 {
        if echo.connections.is_empty() {
            break;
        }
        echo.turn();
    }
    assert_eq!(
        echo.connections.len(),
        0,
        "connections of peers that have gone"
    );
}
