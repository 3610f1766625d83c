//! TLS to a control port, with the trusted certificates of the system.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// Locations of trusted certificates in distributions.
const AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// A plain or encrypted connection.
pub trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// Reason why encryption is not possible.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The TLS library refuses the parameters.
    #[error(transparent)]
    Library(#[from] rustls::Error),
    /// No certificate can be valid for the host.
    #[error(transparent)]
    Name(#[from] InvalidDnsNameError),
    /// The system has no trusted certificates.
    #[error("no file of trusted certificates was found; set SSL_CERT_FILE to one")]
    NoAuthorities,
    /// A certificate file is unusable.
    #[error("the trusted certificates {path} cannot be read: {cause}; set SSL_CERT_FILE to others", path = .path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// Error of the system or the library.
        cause: String,
    },
}

/// Returns the configuration with the trusted authorities. This function reads the environment, so no other thread may change the
/// environment during the call.
pub fn configuration() -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(authorities()?)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Encrypts a connection. The server's certificate has to be valid for `host`.
pub fn connect(
    socket: impl Stream + 'static,
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
    if store.is_empty() {
        Err(wrong(&"it contains no certificate"))
    } else {
        Ok(store)
    }
}
