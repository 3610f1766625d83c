//! TLS towards a control port, trusting whom the system trusts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
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

/// Trusted authorities and protocols. It reads the environment, which no other thread may change meanwhile.
pub fn configuration() -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(authorities()?)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Encrypts a connection; `host` must be who its certificate names.
pub fn connect(
    socket: TcpStream,
    host: &str,
    config: &Arc<ClientConfig>,
) -> Result<Box<dyn Stream>, String> {
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let client =
        ClientConnection::new(Arc::clone(config), name).map_err(|error| error.to_string())?;
    Ok(Box::new(StreamOwned::new(client, socket)))
}

fn authorities() -> Result<RootCertStore, String> {
    let named = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let known = AUTHORITIES
        .iter()
        .map(PathBuf::from)
        .find(|path| path.exists());
    let path = named
        .or(known)
        .ok_or("no file of trusted certificates was found; set SSL_CERT_FILE to one")?;
    let wrong = |error: &dyn std::fmt::Display| {
        format!(
            "the trusted certificates {} cannot be read: {error}; set SSL_CERT_FILE to others",
            path.display()
        )
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
