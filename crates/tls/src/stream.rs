//! An outgoing connection for processes with their own event loop and no [`fermata_io::Driver`]: plain, and encrypted
//! after [`Stream::secure`].
//!
//! The socket is non-blocking. A read returns all available bytes, because the kernel raises no event for plaintext
//! that rustls has buffered.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use fermata_io::Fd;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, Error};

use crate::client::ClientOptions;

/// Reason why TLS cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    /// The configured server name is invalid.
    #[error("{0} is not a valid server name for a certificate")]
    Name(String),
    /// An error of rustls.
    #[error(transparent)]
    Session(#[from] Error),
}

/// A plain or encrypted connection; see the module.
pub struct Stream {
    socket: TcpStream,
    session: Option<Box<ClientConnection>>,
    /// True if the last read left data for which there is no event.
    has_more: bool,
}

impl Stream {
    /// Creates a plain connection.
    ///
    /// # Errors
    /// The socket is closed.
    pub fn new(socket: TcpStream) -> io::Result<Stream> {
        socket.set_nonblocking(true)?;
        Ok(Stream {
            socket,
            session: None,
            has_more: false,
        })
    }

    /// Returns the descriptor to watch.
    pub fn fd(&self) -> Fd {
        self.socket.as_raw_fd()
    }

    /// Starts TLS with the server called `host`, a name or an address. [`Stream::shake_hands`] does the handshake.
    ///
    /// # Errors
    /// The name is not valid in a certificate.
    pub fn secure(&mut self, config: Arc<ClientConfig>, host: &str) -> Result<(), SecureError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| SecureError::Name(host.to_owned()))?;
        let session = ClientConnection::new(config, name)?;
        self.session = Some(Box::new(session));
        Ok(())
    }

    /// Continues the handshake when the socket is readable. Returns true if it is complete.
    ///
    /// # Errors
    /// The handshake failed: [`explain`] returns the reason.
    pub fn shake_hands(&mut self) -> io::Result<bool> {
        let Some(session) = &mut self.session else {
            return Ok(true);
        };
        match session.complete_io(&mut self.socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(!session.is_handshaking()),
        }
    }

    /// Returns true if the caller must read again without an event.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Returns true if the socket has not accepted all written bytes: [`Write::flush`] tries again.
    pub fn has_unsent(&self) -> bool {
        self.session.as_ref().is_some_and(|it| it.wants_write())
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.has_more = false;
        let Some(session) = &mut self.session else {
            return self.socket.read(buf);
        };
        let mut stream = rustls::Stream::new(&mut **session, &mut self.socket);
        let mut filled = 0;
        // Each read returns about one record; `buf` limits their number.
        while let Some(space) = buf.get_mut(filled..).filter(|space| !space.is_empty()) {
            match stream.read(space) {
                Ok(0) if filled > 0 => self.has_more = true,
                Ok(len) => {
                    filled += len;
                    if len > 0 {
                        continue;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // The next read reports the error.
                Err(error) if filled > 0 => self.has_more = error.kind() != ErrorKind::WouldBlock,
                // The server closed without close_notify; the protocols used here frame their messages.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
                Err(error) => return Err(error),
            }
            return Ok(filled);
        }
        self.has_more = true;
        Ok(filled)
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let Some(session) = &mut self.session else {
            return self.socket.write(buf);
        };
        match rustls::Stream::new(&mut **session, &mut self.socket).write(buf) {
            Ok(0) if !buf.is_empty() => Err(ErrorKind::WouldBlock.into()),
            outcome => outcome,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.session {
            Some(session) => rustls::Stream::new(&mut **session, &mut self.socket).flush(),
            None => Ok(()),
        }
    }
}

/// Returns the reason of a failed TLS connection and a fix, to follow "TLS: ". `servers` is the setting that contains
/// the address, `host` the name in it.
#[must_use]
pub fn explain(error: &io::Error, options: &ClientOptions, servers: &str, host: &str) -> String {
    let told = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
    let names = &options.names;
    let Some(told) = told else {
        return match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => format!(
                "the server has closed the connection during the handshake; give the port at which it speaks TLS in {servers}"
            ),
            _ => error.to_string(),
        };
    };
    match told {
        Error::InvalidMessage(_) => format!(
            "the server does not speak TLS at this port; give the port at which it does in {servers}, or an address without TLS"
        ),
        Error::InvalidCertificate(cause) => explain_certificate(cause, options, servers, host),
        Error::AlertReceived(alert) if is_about_certificate(*alert) => match &options.certificate {
            None => format!(
                "the server requires a client certificate ({alert:?}); give {} and {}",
                names.certificate, names.key
            ),
            Some((path, _)) => format!(
                "the server does not accept the certificate {} ({alert:?}); give one in {} that is valid and signed by an \
                 authority that it trusts",
                path.display(),
                names.certificate
            ),
        },
        Error::AlertReceived(alert) => {
            format!("the server ended the handshake ({alert:?}); see its log")
        }
        error => error.to_string(),
    }
}

fn explain_certificate(
    cause: &CertificateError,
    options: &ClientOptions,
    servers: &str,
    host: &str,
) -> String {
    let names = &options.names;
    match cause {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate of the server has expired; renew it there".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate of the server is not valid yet; set the clocks right".to_owned()
        }
        CertificateError::NotValidForName => other_name("", servers, host),
        CertificateError::NotValidForNameContext { presented, .. } => {
            other_name(&presented.join(", "), servers, host)
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            match &options.authorities {
                Some(path) => format!(
                    "the certificate of the server is not signed by an authority in {}; give the file of its authority in {}",
                    path.display(),
                    names.authorities
                ),
                None => format!(
                    "the certificate of the server is not signed by an authority that this machine trusts; give the file of its \
                     authority in {}",
                    names.authorities
                ),
            }
        }
        cause => format!("the certificate of the server is not accepted: {cause}"),
    }
}

fn other_name(presented: &str, servers: &str, host: &str) -> String {
    let presented = if presented.is_empty() {
        "others"
    } else {
        presented
    };
    format!(
        "the certificate of the server is not for {host} but for {presented}; write such a name in {servers}, or have the \
         certificate made for {host} (subjectAltName)"
    )
}

/// Returns true if the server's alert concerns a client certificate or its absence.
fn is_about_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateRequired
            | AlertDescription::HandshakeFailure
    )
}
