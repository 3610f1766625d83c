//! The connection to a server of the cluster log: connect, TLS, read and write.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use fermata_cluster::{Address, Kind as LogKind};
use fermata_io::{Deadline, Driver};
use fermata_tls::{Stream, explain};

use super::{Process, TOKEN_SOCKET};
use crate::channels::cluster::access::{AccessError, SERVERS};

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(2_000);
/// Time limit for the TLS handshake in milliseconds. It is shorter than the time limit for replies
/// of the log, whose error message would not name TLS as the cause.
const HANDSHAKE_MS_MAX: u64 = 4_000;
/// Maximum number of bytes read after a failed write: the error that a server sends before it
/// closes.
const LAST_WORDS_BYTES_MAX: usize = 16 * 1024;

/// Why there is no connection to a server of the cluster log.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    #[error("there is no connection")]
    NoConnection,
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A failed TLS handshake, with the setting to change.
    #[error("{0}")]
    Tls(String),
}

impl Process {
    pub(super) fn connect(&mut self, server: Address) {
        let opened = self.open(&server);
        self.server = Some(server);
        let opened = opened.and_then(|is_secured| if is_secured { self.secure() } else { Ok(()) });
        let now_ms = self.driver.refresh_now();
        match opened {
            Ok(()) if self.handshake_until.is_none() => self.bridge.handle_connected(now_ms),
            Ok(()) => {}
            Err(cause) => self.give_up(&cause),
        }
    }

    /// Starts TLS on an open connection.
    pub(super) fn begin_tls(&mut self) {
        if let Err(cause) = self.secure() {
            self.give_up(&cause);
        }
    }

    fn give_up(&mut self, cause: &ConnectError) {
        let now_ms = self.driver.refresh_now();
        self.disconnect();
        self.bridge.handle_closed(&cause.to_string(), now_ms);
    }

    /// Opens a connection. Returns true if it starts with TLS.
    fn open(&mut self, server: &Address) -> Result<bool, ConnectError> {
        self.bridge.set_login(self.access.login()?);
        let stream = open(server).and_then(|socket| {
            let stream = Stream::new(socket)?;
            self.driver.add_wake(stream.fd(), TOKEN_SOCKET)?;
            Ok(stream)
        });
        self.stream = Some(stream?);
        Ok(server.is_tls && server.kind == LogKind::Redis)
    }

    /// Starts the TLS handshake.
    fn secure(&mut self) -> Result<(), ConnectError> {
        let (Some(stream), Some(server)) = (&mut self.stream, &self.server) else {
            return Err(ConnectError::NoConnection);
        };
        let config = self.access.tls()?;
        stream
            .secure(config, &server.host)
            .map_err(|error| ConnectError::Tls(error.to_string()))?;
        let now_ms = self.driver.refresh_now();
        self.handshake_until = Some(Deadline::after(now_ms, HANDSHAKE_MS_MAX));
        // The client sends the first TLS message, so the handshake starts without an event.
        let shaken = stream.shake_hands().map(|_| ());
        shaken.map_err(|error| ConnectError::Tls(self.trouble(&error)))
    }

    /// Continues the handshake.
    fn shake_hands(&mut self) -> std::io::Result<()> {
        let Some(stream) = &mut self.stream else {
            return Ok(());
        };
        let outcome = stream.shake_hands();
        let now_ms = self.driver.refresh_now();
        match outcome {
            Ok(false) => Ok(()),
            Ok(true) => {
                self.handshake_until = None;
                // NATS starts TLS after its first message, on a connection that the bridge already
                // uses. With Redis, the protocol starts after the handshake.
                match self.server.as_ref().map(|it| it.kind) {
                    Some(LogKind::Nats) => self.bridge.handle_secured(now_ms),
                    _ => self.bridge.handle_connected(now_ms),
                }
                self.take_events()
            }
            Err(error) => {
                let cause = self.trouble(&error);
                self.lose(&cause, now_ms)
            }
        }
    }

    /// Describes an error of the connection, with the TLS error that caused it, if any.
    fn trouble(&self, error: &std::io::Error) -> String {
        match &self.server {
            Some(server) if server.is_tls => {
                let cause = explain(error, &self.access.options, SERVERS, &server.host);
                format!("TLS: {cause}")
            }
            _ => error.to_string(),
        }
    }

    pub(super) fn disconnect(&mut self) {
        if let Some(stream) = self.stream.take() {
            let _ = self.driver.remove(stream.fd());
        }
        self.handshake_until = None;
        self.has_unsent = false;
    }

    pub(super) fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        if self.handshake_until.is_some() {
            self.shake_hands()?;
        }
        // Data may have arrived together with the end of the handshake.
        let Some(stream) = self
            .stream
            .as_mut()
            .filter(|_| self.handshake_until.is_none())
        else {
            return Ok(());
        };
        let outcome = stream.read(buffer);
        let now_ms = self.driver.refresh_now();
        match outcome {
            Ok(0) => self.lose("the server has closed the connection", now_ms),
            Ok(len) => {
                if let Some(bytes) = buffer.get(..len) {
                    self.bridge.handle_input(bytes, now_ms);
                }
                self.take_events()
            }
            Err(error) if is_transient(&error) => Ok(()),
            Err(error) => {
                let cause = self.trouble(&error);
                self.lose(&cause, now_ms)
            }
        }
    }

    pub(super) fn write(&mut self) -> std::io::Result<()> {
        self.has_unsent = false;
        loop {
            let (Some(stream), out) = (&mut self.stream, self.bridge.transmit()) else {
                return Ok(());
            };
            let outcome = match out.is_empty() {
                true if stream.has_unsent() => stream.flush().map(|()| 0),
                true => return Ok(()),
                false => stream.write(out),
            };
            match outcome {
                Ok(len) => {
                    out.drain(..len);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_transient(&error) => {
                    self.has_unsent = true;
                    return Ok(());
                }
                Err(error) => {
                    // The server may have sent the reason before it closed: a TLS alert or an
                    // error.
                    let mut last = vec![0; LAST_WORDS_BYTES_MAX];
                    let told = stream.read(&mut last);
                    let now_ms = self.driver.refresh_now();
                    if let Ok(len) = told {
                        self.bridge.handle_input(&last[..len], now_ms);
                        self.take_events()?;
                    }
                    let cause = match told {
                        Err(told) if !is_transient(&told) => self.trouble(&told),
                        _ => self.trouble(&error),
                    };
                    return self.lose(&cause, now_ms);
                }
            }
        }
    }

    pub(super) fn lose(&mut self, cause: &str, now_ms: u64) -> std::io::Result<()> {
        self.disconnect();
        self.bridge.handle_closed(cause, now_ms);
        self.take_events()
    }
}

fn is_transient(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn open(server: &Address) -> std::io::Result<TcpStream> {
    let mut last = ErrorKind::NotFound.into();
    for address in (server.host.as_str(), server.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
