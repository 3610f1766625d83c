//! A client's connection, in plain text or over TLS, with every way to close it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fermata_testkit::{deadline, reset_on_close};
use fermata_tls::{ClientConfig, ClientOptions, ServerName, client_config};
use rustls::{ClientConnection, StreamOwned};

/// A connection.
pub enum Link {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Link {
    /// Connects. Over TLS it accepts any certificate and starts the handshake with the first bytes.
    pub fn open(port: u16, is_tls: bool) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(deadline()))?;
        stream.set_write_timeout(Some(deadline()))?;
        if !is_tls {
            return Ok(Self::Plain(stream));
        }
        let name = ServerName::try_from("localhost").expect("a name");
        let connection = ClientConnection::new(configuration(), name).map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(StreamOwned::new(connection, stream))))
    }

    /// Sets the time-out of reads.
    pub fn set_patience(&self, patience: Duration) {
        let _ = self.socket().set_read_timeout(Some(patience));
    }

    /// Closes its sending side, over TLS after close_notify.
    pub fn half_close(&mut self) {
        self.send_goodbye();
        let _ = self.socket().shutdown(Shutdown::Write);
    }

    /// Sends close_notify over TLS, as a client should before it closes.
    pub fn send_goodbye(&mut self) {
        if let Self::Tls(tls) = self {
            tls.conn.send_close_notify();
            let _ = tls.flush();
        }
    }

    /// Makes the close of this connection a reset.
    pub fn reset_on_close(&self) {
        reset_on_close(self.socket());
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(tls) => &tls.sock,
        }
    }
}

impl Read for Link {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(tls) => tls.read(buffer),
        }
    }
}

impl Write for Link {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}

fn configuration() -> Arc<ClientConfig> {
    static CONFIGURATION: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let make = || {
        let options = ClientOptions {
            is_insecure: true,
            ..ClientOptions::default()
        };
        client_config(&options).expect("a configuration that reads no file")
    };
    Arc::clone(CONFIGURATION.get_or_init(make))
}
