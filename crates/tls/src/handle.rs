//! Statistics, client certificates and configuration of a driver's sessions.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use fermata_io::Fd;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;

use crate::certificate;
use crate::fd_map::{FdMap, FdSet};

/// Reason why a handshake failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Failure {
    /// The client sent plain HTTP and received a 400 response.
    PlainHttp,
    /// No common protocol version, cipher suite or application protocol.
    Incompatible,
    /// The client certificate is missing or not acceptable.
    Certificate,
    /// The client sent an alert: usually it does not trust the server's certificate.
    Alert,
    /// The client violated the protocol.
    Protocol,
    /// The client disconnected or exceeded the time-out.
    Abandoned,
}

impl Failure {
    /// All failures, in the order of the variants.
    pub const ALL: [Failure; 6] = [
        Failure::PlainHttp,
        Failure::Incompatible,
        Failure::Certificate,
        Failure::Alert,
        Failure::Protocol,
        Failure::Abandoned,
    ];

    pub(crate) fn of(error: &rustls::Error) -> Failure {
        use rustls::Error;
        match error {
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Failure::Incompatible,
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => Failure::Certificate,
            Error::AlertReceived(_) => Failure::Alert,
            _ => Failure::Protocol,
        }
    }
}

/// A client certificate whose ownership the client has proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Subject in the format of RFC 4514, such as `CN=alice,O=Example`.
    pub subject: String,
    /// The certificate as PEM.
    pub pem: String,
}

/// Statistics of a driver's sessions, and the configuration of new sessions. The driver's owner shares this object.
#[derive(Debug, Default)]
pub struct Handle {
    config: RefCell<Option<Arc<ServerConfig>>>,
    full: Cell<u64>,
    resumed: Cell<u64>,
    failed: [Cell<u64>; Failure::ALL.len()],
    open: RefCell<FdSet>,
    leaving: Cell<u64>,
    clients: RefCell<FdMap<Fd, Rc<ClientCertificate>>>,
}

impl Handle {
    /// Creates the handle of a driver that serves TLS with `config`; `None` if no listener uses TLS.
    pub fn new(config: Option<Arc<ServerConfig>>) -> Rc<Handle> {
        Rc::new(Handle {
            config: RefCell::new(config),
            ..Handle::default()
        })
    }

    /// Creates a handle for a forked process, with the same configuration and new statistics.
    pub fn fork(&self) -> Rc<Handle> {
        Handle::new(self.config())
    }

    /// Sets the configuration of connections that are accepted from now on. Open connections keep theirs.
    pub fn set_config(&self, config: Arc<ServerConfig>) {
        *self.config.borrow_mut() = Some(config);
    }

    /// Returns true if there is a configuration.
    pub fn is_configured(&self) -> bool {
        self.config.borrow().is_some()
    }

    /// Returns the number of full handshakes.
    pub fn full(&self) -> u64 {
        self.full.get()
    }

    /// Returns the number of handshakes that a session ticket shortened.
    pub fn resumed(&self) -> u64 {
        self.resumed.get()
    }

    /// Returns the number of handshakes that failed for this reason.
    pub fn failed(&self, failure: Failure) -> u64 {
        self.failed[failure as usize].get()
    }

    /// Returns the number of open TLS connections.
    pub fn open(&self) -> u64 {
        self.open.borrow().len() as u64
    }

    /// Returns true if the connection at `fd` uses TLS.
    pub fn is_secure(&self, fd: Fd) -> bool {
        self.open.borrow().contains(&fd)
    }

    /// Returns the number of closed connections whose last bytes the kernel has not accepted.
    pub fn leaving(&self) -> u64 {
        self.leaving.get()
    }

    /// Returns the verified certificate of the client at `fd`.
    pub fn client_certificate(&self, fd: Fd) -> Option<Rc<ClientCertificate>> {
        self.clients.borrow().get(&fd).cloned()
    }

    pub(crate) fn config(&self) -> Option<Arc<ServerConfig>> {
        self.config.borrow().clone()
    }

    pub(crate) fn count_handshake(&self, is_resumed: bool) {
        let count = if is_resumed {
            &self.resumed
        } else {
            &self.full
        };
        count.set(count.get() + 1);
    }

    pub(crate) fn count_failure(&self, failure: Failure) {
        let count = &self.failed[failure as usize];
        count.set(count.get() + 1);
    }

    pub(crate) fn opened(&self, fd: Fd) {
        self.open.borrow_mut().insert(fd);
    }

    pub(crate) fn closed(&self, fd: Fd) {
        self.open.borrow_mut().remove(&fd);
        self.clients.borrow_mut().remove(&fd);
    }

    pub(crate) fn set_leaving(&self, count: usize) {
        self.leaving.set(count as u64);
    }

    pub(crate) fn set_client(&self, fd: Fd, certificate: &CertificateDer<'_>) {
        let client = ClientCertificate {
            subject: certificate::subject(certificate),
            pem: certificate::pem(certificate),
        };
        self.clients.borrow_mut().insert(fd, Rc::new(client));
    }
}
