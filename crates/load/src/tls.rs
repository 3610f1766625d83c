//! TLS client for `wss`.
//!
//! Every connection performs a full handshake, because a resumed session would hide what a new client costs the server.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use fermata_tls::{ClientOptions, client_config};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::error::{Error, Fault};

/// Trusted authorities.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TlsArguments {
    /// Trust certificates of this authority (PEM) instead of the system's authorities
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,

    /// Trust any certificate
    #[arg(long)]
    insecure: bool,
}

impl TlsArguments {
    /// Creates options that trust any certificate.
    #[cfg(test)]
    pub fn insecure() -> Self {
        Self {
            ca: None,
            insecure: true,
        }
    }

    /// Creates the TLS connector for `host` (with or without a port).
    pub fn connector(&self, host: &str) -> Result<Connector, Error> {
        let options = ClientOptions {
            authorities: self.ca.clone(),
            is_insecure: self.insecure,
            never_resumes: true,
            ..ClientOptions::default()
        };
        let config = client_config(&options).map_err(|error| {
            let cause = error.to_string();
            let cause = cause.strip_prefix("--ca: ").unwrap_or(&cause);
            let fix =
                "give a PEM file with the authority of the server's certificate, or --insecure";
            Error::option("--ca", cause, fix)
        })?;
        let name = host_name(host).to_string();
        let name = ServerName::try_from(name).map_err(|error| {
            Error::option("URL", error.to_string(), "give a host name or an address")
        })?;
        Ok(Connector { config, name })
    }
}

/// Returns the host without its port and without the brackets of an IPv6 address.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    host.split(':').next().unwrap_or_default()
}

/// Starts TLS connections to one server.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Connector {
    /// Creates a connection, which has a ClientHello to send.
    pub fn connect(&self) -> Result<Tls, Fault> {
        let mut connection = ClientConnection::new(self.config.clone(), self.name.clone())?;
        // The writer waits for the socket, which already bounds the buffer.
        connection.set_buffer_limit(None);
        Ok(Tls {
            connection: Box::new(connection),
        })
    }
}

/// One TLS connection without I/O.
#[derive(Debug)]
pub(crate) struct Tls {
    connection: Box<ClientConnection>,
}

impl Tls {
    /// Encrypts bytes to send. Buffers them until the handshake is complete.
    pub fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        self.connection.writer().write_all(plain)?;
        self.take_output(out);
        Ok(())
    }

    /// Decrypts received bytes, appends them to `plain`, and appends the bytes to send in return to `out`.
    pub fn read(
        &mut self,
        mut input: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        while !input.is_empty() {
            let taken = self.connection.read_tls(&mut input)?;
            self.connection.process_new_packets()?;
            match self.connection.reader().read_to_end(plain) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            if taken == 0 {
                break;
            }
        }
        self.take_output(out);
        Ok(())
    }

    fn take_output(&mut self, out: &mut Vec<u8>) {
        while self.connection.wants_write() {
            // Writing to a vector cannot fail.
            if self.connection.write_tls(out).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        assert_eq!(host_name("a.b:81"), "a.b");
        assert_eq!(host_name("a.b"), "a.b");
        assert_eq!(host_name("[::1]:81"), "::1");
    }

    #[test]
    fn a_missing_authority_is_named() {
        let missing = TlsArguments {
            ca: Some("/nowhere.pem".into()),
            insecure: false,
        };
        let error = missing.connector("h:1").expect_err("refused").to_string();
        assert!(error.starts_with("--ca: /nowhere.pem"), "{error}");
    }

    #[test]
    fn a_connection_begins_with_a_handshake_record() {
        let connector = TlsArguments::insecure()
            .connector("127.0.0.1:1")
            .expect("a connector");
        let mut out = Vec::new();
        let mut tls = connector.connect().expect("a connection");
        tls.write(b"GET", &mut out).expect("kept for later");
        assert_eq!(out[..2], [22, 3]);
        let mut plain = Vec::new();
        assert!(tls.read(b"HTTP/1.1 400", &mut plain, &mut out).is_err());
        assert!(plain.is_empty());
    }
}
