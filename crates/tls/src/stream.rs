//! A connection that we open, of a process with a loop of its own and no [`fermata_io::Driver`]: plain, and encrypted from when it
//! is told to.
//!
//! The socket does not block. Reading gives all there is, since the kernel does not know what rustls has and raises no event
//! for it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use fermata_io::Fd;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, Error};

use crate::client::ClientOptions;

/// Why a connection cannot speak TLS to a server.
#[derive(Debug, thiserror::Error)]
pub enum SecureError {
    /// The setting's: the server's name is none.
    #[error("{0} is no name that a certificate could be for")]
    Name(String),
    /// What rustls cannot do.
    #[error(transparent)]
    Session(#[from] Error),
}

/// See the module.
pub struct Stream {
    socket: TcpStream,
    session: Option<Box<ClientConnection>>,
    /// The last read has left something that no event tells of.
    has_more: bool,
}

impl Stream {
    /// A connection in the clear.
    ///
    /// # Errors
    /// The socket is none any more.
    pub fn new(socket: TcpStream) -> io::Result<Stream> {
        socket.set_nonblocking(true)?;
        Ok(Stream {
            socket,
            session: None,
            has_more: false,
        })
    }

    /// Its descriptor, to be watched.
    pub fn fd(&self) -> Fd {
        self.socket.as_raw_fd()
    }

    /// Speaks TLS from here on, to the server called `host`, a name or an address; [`Stream::shake_hands`] does it.
    ///
    /// # Errors
    /// No certificate can be for such a name.
    pub fn secure(&mut self, config: Arc<ClientConfig>, host: &str) -> Result<(), SecureError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| SecureError::Name(host.to_owned()))?;
        let session = ClientConnection::new(config, name)?;
        self.session = Some(Box::new(session));
        Ok(())
    }

    /// Goes on with the handshake, when there is something to read. Whether it is complete.
    ///
    /// # Errors
    /// It has failed: [`explain`] says why.
    pub fn shake_hands(&mut self) -> io::Result<bool> {
        let Some(session) = &mut self.session else {
            return Ok(true);
        };
        match session.complete_io(&mut self.socket) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(!session.is_handshaking()),
        }
    }

    /// Whether to read once more without an event.
    pub fn has_more(&self) -> bool {
        self.has_more
    }

    /// Whether something was written that the socket has not taken: [`Write::flush`] tries again.
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
        // Each read gives a record or so; `buf` bounds them.
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
                // It is told by the next read.
                Err(error) if filled > 0 => self.has_more = error.kind() != ErrorKind::WouldBlock,
                // Without a goodbye. What is spoken here frames its messages.
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

/// Why a connection over TLS has failed, and what helps: as much of it as follows "TLS: ". `servers` is the setting that has the
/// address, `host` the name there.
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
                "the server wants a certificate ({alert:?}); give {} and {}",
                names.certificate, names.key
            ),
            Some((path, _)) => format!(
                "the server does not accept the certificate {} ({alert:?}); give one in {} that is valid and of an authority \
                 that it trusts",
                path.display(),
                names.certificate
            ),
        },
        Error::AlertReceived(alert) => format!("the server has ended it ({alert:?}); see its log"),
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
                    "the certificate of the server is of no authority in {}; give the file of its authority in {}",
                    path.display(),
                    names.authorities
                ),
                None => format!(
                    "the certificate of the server is of no authority that this machine trusts; give the file of its authority \
                     in {}",
                    names.authorities
                ),
            }
        }
        cause => format!("the certificate of the server is not accepted: {cause}"),
    }
}

fn other_name(presented: &str, servers: &str, host: &str) -> String {
    let presented = match presented.is_empty() {
        true => "others",
        false => presented,
    };
    format!(
        "the certificate of the server is not for {host} but for {presented}; write such a name in {servers}, or have the \
         certificate made for {host} (subjectAltName)"
    )
}

/// Of what a server may say of a certificate that a client has shown, or has not.
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
