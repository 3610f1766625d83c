//! The driver over the fake network and over real sockets.

mod certificates;
mod damage;
mod fake;
mod hybrid;
mod sockets;
mod splits;

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use fermata_io::{Driver, Event, Fd};
use rustls::ServerConfig;

use crate::development;
use crate::driver::Tls;
use crate::handle::Handle;
use crate::server::{Certificates, Options, PairNames};

const LISTENER: u64 = u64::MAX;

/// Far less than a session may return, so that it must store the rest.
const RECV_BYTES: usize = 10_000;

/// Returns the directory of this test run with a certificate for localhost, created once.
fn folder() -> PathBuf {
    use std::sync::OnceLock;
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = std::env::temp_dir().join(format!("fermata-tls-{}", std::process::id()));
            development::provide(&folder, unix_s()).expect("the temporary folder is writable");
            folder
        })
        .clone()
}

fn unix_s() -> u64 {
    let now = std::time::SystemTime::now();
    now.duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970")
        .as_secs()
}

fn options() -> Options {
    Options {
        pairs: vec![(
            folder().join("localhost.pem"),
            folder().join("localhost-key.pem"),
        )],
        clients: None,
        is_tls13_only: false,
        ticket_period_s: 3600,
        has_http2: false,
        names: PairNames::default(),
    }
}

fn server_config() -> Arc<ServerConfig> {
    let certificates = Certificates::new(options()).expect("random numbers");
    certificates
        .load(unix_s())
        .expect("the files are good")
        .config
}

/// An owner that relies only on the contract of `Driver`. It reads again only after a full read or an event, and sends
/// again only after a complete send or an event.
struct Owner<D: Driver> {
    driver: Tls<D>,
    handle: Rc<Handle>,
    listener: Fd,
    connections: HashMap<u64, Connection>,
    next_token: u64,
    echoes: bool,
    recv_bytes: usize,
}

#[derive(Default)]
struct Connection {
    fd: Fd,
    received: Vec<u8>,
    to_send: Vec<u8>,
    is_blocked: bool,
    has_hung_up: bool,
    has_ended: bool,
    error: Option<String>,
    is_about_name: bool,
}

impl<D: Driver> Owner<D> {
    fn new(inner: D, listener: Fd, is_secure: bool) -> Owner<D> {
        let handle = Handle::new(Some(server_config()));
        let mut driver = Tls::new(inner, Rc::clone(&handle));
        driver
            .add_listener(listener, LISTENER)
            .expect("it can be watched");
        if is_secure {
            driver.secure(listener);
        }
        Owner {
            driver,
            handle,
            listener,
            connections: HashMap::new(),
            next_token: 0,
            echoes: false,
            recv_bytes: RECV_BYTES,
        }
    }

    fn add(&mut self, fd: Fd) -> u64 {
        self.next_token += 1;
        let connection = Connection {
            fd,
            ..Connection::default()
        };
        self.connections.insert(self.next_token, connection);
        self.driver
            .add_stream(fd, self.next_token)
            .expect("it can be watched");
        self.next_token
    }

    /// Waits once and processes the events. Returns their number.
    fn turn(&mut self) -> usize {
        let mut events = Vec::new();
        self.driver.wait(&mut events, Some(0)).expect("it waits");
        for &event in &events {
            self.handle(event);
        }
        events.len()
    }

    fn turn_until_quiet(&mut self) {
        while self.turn() > 0 {}
    }

    fn handle(&mut self, event: Event) {
        if event.token == LISTENER {
            while let Ok(Some(accepted)) = self.driver.accept(self.listener) {
                // Like the engine: read before watching.
                self.next_token += 1;
                let token = self.next_token;
                let fd = accepted.fd;
                let connection = Connection {
                    fd,
                    ..Connection::default()
                };
                self.connections.insert(token, connection);
                self.read(token);
                if self.connections[&token].fd >= 0 {
                    self.driver
                        .add_stream(fd, token)
                        .expect("it can be watched");
                }
            }
            return;
        }
        let Some(connection) = self.connections.get_mut(&event.token) else {
            return;
        };
        connection.has_hung_up |= event.hangup;
        if event.writable {
            connection.is_blocked = false;
            self.write(event.token);
        }
        if event.readable || event.hangup {
            self.read(event.token);
        }
    }

    fn read(&mut self, token: u64) {
        let mut buf = vec![0; self.recv_bytes];
        loop {
            let Some(connection) = self.connections.get_mut(&token) else {
                return;
            };
            match self.driver.recv(connection.fd, &mut buf) {
                Ok(Some(0)) => {
                    connection.has_ended = true;
                    break;
                }
                Ok(Some(read)) => {
                    connection.received.extend_from_slice(&buf[..read]);
                    if self.echoes {
                        connection.to_send.extend_from_slice(&buf[..read]);
                    }
                    if read < buf.len() && !connection.has_hung_up {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    connection.error = Some(error.to_string());
                    connection.is_about_name = crate::is_about_name(&error);
                    let fd = connection.fd;
                    connection.fd = -1;
                    self.driver.close(fd);
                    return;
                }
            }
        }
        self.write(token);
    }

    fn write(&mut self, token: u64) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        if connection.is_blocked || connection.to_send.is_empty() || connection.fd < 0 {
            return;
        }
        let length = connection.to_send.len();
        match self.driver.send_one(connection.fd, &connection.to_send) {
            Ok(Some(sent)) => {
                connection.to_send.drain(..sent);
                connection.is_blocked = sent < length;
            }
            Ok(None) => connection.is_blocked = true,
            Err(error) => connection.error = Some(error.to_string()),
        }
    }

    fn close(&mut self, token: u64) -> Connection {
        let connection = self.connections.remove(&token).expect("it is open");
        self.driver.close(connection.fd);
        connection
    }

    fn the_only(&mut self) -> (u64, &mut Connection) {
        assert_eq!(self.connections.len(), 1);
        let (token, connection) = self.connections.iter_mut().next().expect("there is one");
        (*token, connection)
    }
}
