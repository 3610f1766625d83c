//! TLS towards a control port, trusting whom the system trusts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Where distributions keep the certificates they trust.
const AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// A connection that is plain or encrypted.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// Why nothing can be encrypted.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The library has no use for what it is given.
    #[error(transparent)]
    Library(#[from] rustls::Error),
    /// A host that no certificate can name.
    #[error(transparent)]
    Name(#[from] InvalidDnsNameError),
    /// A system without certificates.
    #[error("no file of trusted certificates was found; set SSL_CERT_FILE to one")]
    NoAuthorities,
    /// A file of certificates that is of no use, and why.
    #[error("the trusted certificates {path} cannot be read: {cause}; set SSL_CERT_FILE to others", path = .path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// What the system or the library says.
        cause: String,
    },
}

/// Trusted authorities and protocols. It reads the environment, which no other thread may change meanwhile.
pub fn configuration() -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(authorities()?)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Encrypts a connection; `host` must be who its certificate names.
pub fn connect(
    socket: TcpStream,
    host: &str,
    config: &Arc<ClientConfig>,
) -> Result<Box<dyn Stream>, TlsError> {
    let name = ServerName::try_from(host.to_owned())?;
    let client = ClientConnection::new(Arc::clone(config), name)?;
    Ok(Box::new(StreamOwned::new(client, socket)))
}

fn authorities() -> Result<RootCertStore, TlsError> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let known = AUTHORITIES
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists());
    let path = named.or(known).ok_or(TlsError::NoAuthorities)?;
    let wrong = |cause: &dyn std::fmt::Display| TlsError::Authorities {
        path: path.clone(),
        cause: cause.to_string(),
    };
    let mut store = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(&path).map_err(|error| wrong(&error))?;
    let certificates: Vec<_> = certificates
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(&error))?;
    store.add_parsable_certificates(certificates);
    match store.is_empty() {
        true => Err(wrong(&"there is none in it")),
        false => Ok(store),
    }
}
