//! What the owner of the driver may ask about its sessions.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use fermata_io::Fd;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;

use crate::certificate;
use crate::fd_map::{FdMap, FdSet};

/// Why a handshake did not come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Failure {
    /// The client spoke HTTP without TLS; it was answered 400.
    PlainHttp,
    /// No protocol version, cipher suite or application protocol in common.
    Incompatible,
    /// The client's certificate is missing or not acceptable.
    Certificate,
    /// The client refused: usually it does not trust our certificate.
    Alert,
    /// The client broke the protocol.
    Protocol,
    /// The client left or took longer than the server waits.
    Abandoned,
}

impl Failure {
    /// All of them, in the order of the variants.
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

/// The certificate a client has proved to own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Its subject as RFC 4514 writes it, such as `CN=alice,O=Example`.
    pub subject: String,
    /// The certificate as PEM.
    pub pem: String,
}

/// Figures of a driver's sessions and the configuration of its next ones, shared with its owner.
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
    /// A handle whose driver serves TLS with `config`; `None` when it has no such listener.
    pub fn new(config: Option<Arc<ServerConfig>>) -> Rc<Handle> {
        Rc::new(Handle {
            config: RefCell::new(config),
            ..Handle::default()
        })
    }

    /// For a forked process: the same configuration, figures of its own.
    pub fn fork(&self) -> Rc<Handle> {
        Handle::new(self.config())
    }

    /// Connections accepted from now on use `config`; open ones keep what they have.
    pub fn set_config(&self, config: Arc<ServerConfig>) {
        *self.config.borrow_mut() = Some(config);
    }

    /// Whether there is anything to serve TLS with.
    pub fn is_configured(&self) -> bool {
        self.config.borrow().is_some()
    }

    /// Handshakes that were completed in full.
    pub fn full(&self) -> u64 {
        self.full.get()
    }

    /// Handshakes that were shortened by a session ticket.
    pub fn resumed(&self) -> u64 {
        self.resumed.get()
    }

    /// Handshakes that failed, by reason.
    pub fn failed(&self, failure: Failure) -> u64 {
        self.failed[failure as usize].get()
    }

    /// Open connections with a session.
    pub fn open(&self) -> u64 {
        self.open.borrow().len() as u64
    }

    /// Whether the connection at `fd` is encrypted.
    pub fn is_secure(&self, fd: Fd) -> bool {
        self.open.borrow().contains(&fd)
    }

    /// Closed connections whose last bytes the kernel has not taken yet.
    pub fn leaving(&self) -> u64 {
        self.leaving.get()
    }

    /// The certificate that the client at `fd` has shown and that was verified.
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
