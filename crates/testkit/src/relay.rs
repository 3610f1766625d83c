//! Stands between a server and its log, or between servers of the log, and lets their connection fail as networks do: cut off,
//! or open with nothing coming through (half-open: neither side is told that the other one is gone).

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::{Builder, LogServer};

/// Most connections at a time; more are closed at once.
const CONNECTIONS_MAX: usize = 32;
/// What one direction of a connection takes before it has passed it on. What comes while it holds waits in the kernel.
const PIECE_BYTES: usize = 16 << 10;

/// What becomes of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// They come through, after this time.
    Open(Duration),
    /// Those of the log are kept; the server's come through.
    AnswersHeld,
    /// All are kept, and connections stay open.
    Held,
    /// Connections are closed, and new ones at once.
    Cut,
    /// The relay ends.
    Over,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    way: Way,
    /// The number of each connection and its two ends, for them to be closed.
    connections: Vec<(u64, [TcpStream; 2])>,
}

/// See the module; ends when dropped.
pub struct Relay {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

impl Relay {
    /// One through which everything comes.
    pub fn start(log: &LogServer) -> Relay {
        let scheme = match log {
            LogServer::Nats(_) => "nats",
            LogServer::Redis(_) => "redis",
        };
        Relay::to(scheme, log.port())
    }

    /// The same before any port of 127.0.0.1; nobody needs to listen there yet.
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

    /// This server finds its log behind the relay.
    pub fn before(&self, server: Builder) -> Builder {
        server.setting("cluster", self.url())
    }

    /// Where the log is behind it, as the setting `cluster` has it.
    pub fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Drops connections, and refuses new ones.
    pub fn cut(&self) {
        self.set(Way::Cut);
    }

    /// Accepts and keeps what both sides send, and closes nothing.
    pub fn hold(&self) {
        self.set(Way::Held);
    }

    /// The log hears the server, and the server does not hear the log.
    pub fn hold_answers(&self) {
        self.set(Way::AnswersHeld);
    }

    /// Everything comes through, this much later in each direction. What was kept comes first.
    pub fn delay(&self, by: Duration) {
        self.set(Way::Open(by));
    }

    /// Everything comes through. What was kept comes first.
    pub fn heal(&self) {
        self.delay(Duration::ZERO);
    }

    fn set(&self, way: Way) {
        let mut state = lock(&self.shared);
        state.way = way;
        if matches!(way, Way::Cut | Way::Over) {
            for end in state.connections.drain(..).flat_map(|(_, ends)| ends) {
                // It may be closed already.
                let _ = end.shutdown(Shutdown::Both);
            }
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.set(Way::Over);
        // It looks at what it is to do when somebody comes.
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
        // Where nobody listens the server's connection is closed.
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
                // The log ends its direction when the server has ended.
                if !is_answer {
                    lock(&shared).connections.retain(|it| it.0 != number);
                }
            });
        }
    }
}

/// One direction of a connection, until it ends.
fn pass(mut from: TcpStream, mut to: TcpStream, is_answer: bool, shared: &Shared) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let len = match from.read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Ok(len) => len,
            Err(_) => 0,
        };
        // The end of a connection is kept as well.
        let Some(delay) = wait_open(is_answer, shared) else {
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            return;
        };
        thread::sleep(delay);
        if len == 0 || to.write_all(&piece[..len]).is_err() {
            break;
        }
    }
    // What is on its way in the other direction still arrives, as it does in a network.
    let _ = (from.shutdown(Shutdown::Read), to.shutdown(Shutdown::Write));
}

/// Waits until bytes may come through, and says how much later; `None` when they never do.
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
