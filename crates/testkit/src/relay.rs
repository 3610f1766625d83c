//! Relay between a server and its log, or between log servers, that simulates network failures. It closes connections, or keeps
//! them open without forwarding bytes (half-open connections, on which neither side notices that the other is unreachable).

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::{Builder, LogServer};

/// Maximum number of connections. Further connections are closed immediately.
const CONNECTIONS_MAX: usize = 32;
/// Buffer size per direction. Further bytes wait in the kernel while the relay holds.
const PIECE_BYTES: usize = 16 << 10;

/// How the relay treats bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Forwards bytes after this delay.
    Open(Duration),
    /// Holds the bytes of the log and forwards those of the server.
    AnswersHeld,
    /// Holds all bytes; connections stay open.
    Held,
    /// Closes all connections, including new ones.
    Cut,
    /// Ends the relay.
    Over,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    way: Way,
    /// Number and both ends of each connection, for closing.
    connections: Vec<(u64, [TcpStream; 2])>,
}

/// A relay; stops when dropped.
pub struct Relay {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Relay {
    /// Starts a relay that forwards everything.
    pub fn start(log: &LogServer) -> Relay {
        let scheme = match log {
            LogServer::Nats(_) => "nats",
            LogServer::Redis(_) => "redis",
        };
        Relay::to(scheme, log.port())
    }

    /// Starts a relay to a port of 127.0.0.1. The port needs no listener yet.
    pub fn to(scheme: &'static str, port: u16) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                way: Way::Open(Duration::ZERO),
                connections: Vec::new(),
            }),
            changed: Condvar::new(),
        });
        let acceptor = {
            let shared = shared.clone();
            thread::spawn(move || accept(&listener, port, &shared))
        };
        Relay {
            address,
            scheme,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// Configures a server to reach its log through the relay.
    pub fn before(&self, server: Builder) -> Builder {
        server.setting("cluster", self.url())
    }

    /// Returns the URL of the log through the relay, for the setting `cluster`.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Returns the address of the relay.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes connections and refuses new ones.
    pub fn cut(&self) {
        self.set(Way::Cut);
    }

    /// Accepts connections and holds the bytes of both sides, without closing.
    pub fn hold(&self) {
        self.set(Way::Held);
    }

    /// Forwards the server's bytes and holds the log's bytes.
    pub fn hold_answers(&self) {
        self.set(Way::AnswersHeld);
    }

    /// Forwards everything with this delay per direction. Held bytes are forwarded first.
    pub fn delay(&self, by: Duration) {
        self.set(Way::Open(by));
    }

    /// Forwards everything. Held bytes are forwarded first.
    pub fn heal(&self) {
        self.delay(Duration::ZERO);
    }

    fn set(&self, way: Way) {
        let mut state = lock(&self.shared);
        state.way = way;
        if matches!(way, Way::Cut | Way::Over) {
            for end in state.connections.drain(..).flat_map(|(_, ends)| ends) {
                // The connection may already be closed.
                let _ = end.shutdown(Shutdown::Both);
            }
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.set(Way::Over);
        // A connection wakes the acceptor, which then checks the state.
        let _ = TcpStream::connect(self.address);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, port: u16, shared: &Arc<Shared>) {
    let copy = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
    for (number, server) in (0..).zip(listener.incoming().map_while(Result::ok)) {
        let mut state = lock(shared);
        match state.way {
            Way::Over => break,
            Way::Cut => continue,
            _ if state.connections.len() >= CONNECTIONS_MAX => continue,
            _ => {}
        }
        // Without a listener, the server's connection is closed.
        let Ok(log) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else {
            continue;
        };
        state
            .connections
            .push((number, [copy(&server), copy(&log)]));
        drop(state);
        let _ = (server.set_nodelay(true), log.set_nodelay(true));
        for (from, to, is_answer) in [(copy(&server), copy(&log), false), (log, server, true)] {
            let shared = shared.clone();
            thread::spawn(move || {
                pass(from, to, is_answer, &shared);
                // The log closes its direction of the connection after the server has closed the other one.
                if !is_answer {
                    lock(&shared).connections.retain(|it| it.0 != number);
                }
            });
        }
    }
}

/// Forwards one direction of a connection until it ends.
fn pass(mut from: TcpStream, mut to: TcpStream, is_answer: bool, shared: &Shared) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let len = match from.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(len) => len,
            Err(_) => 0,
        };
        // While bytes are held, the end of a connection is held too.
        let Some(delay) = wait_open(is_answer, shared) else {
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            return;
        };
        thread::sleep(delay);
        if len == 0 || to.write_all(&piece[..len]).is_err() {
            break;
        }
    }
    // Bytes in flight in the other direction still arrive, as in a network.
    let _ = (from.shutdown(Shutdown::Read), to.shutdown(Shutdown::Write));
}

/// Waits until bytes may be forwarded, and returns their delay. Returns `None` if the connection must be closed.
fn wait_open(is_answer: bool, shared: &Shared) -> Option<Duration> {
    let mut state = lock(shared);
    loop {
        match state.way {
            Way::Open(delay) => return Some(delay),
            Way::AnswersHeld if !is_answer => return Some(Duration::ZERO),
            Way::Cut | Way::Over => return None,
            Way::AnswersHeld | Way::Held => {}
        }
        state = shared
            .changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner);
    }
}
