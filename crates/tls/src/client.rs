//! Configuration of TLS clients.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::certificate;
use crate::server::LoadError;

/// Files in which distributions store the trusted certificate authorities.
const SYSTEM_AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Options of a TLS client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// PEM file of trusted authorities. `None`: use the system's authorities.
    pub authorities: Option<PathBuf>,
    /// PEM files of the client certificate and its key, for servers that request a client certificate.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// True to accept any certificate (`--insecure`).
    pub is_insecure: bool,
    /// True to start every connection with a full handshake.
    pub never_resumes: bool,
    /// True to offer HTTP/2 before HTTP/1.1 (ALPN); [`Tls::protocol`](crate::Tls::protocol) returns the selected one.
    pub offers_http2: bool,
    /// True to offer no protocol, for connections that are not HTTP.
    pub offers_nothing: bool,
    /// Names of these options in errors.
    pub names: ClientNames,
}

/// Names of the options or settings that contain the files of [`ClientOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientNames {
    /// Name of the authorities' option.
    pub authorities: &'static str,
    /// Name of the certificate's option.
    pub certificate: &'static str,
    /// Name of the key's option.
    pub key: &'static str,
}

impl Default for ClientNames {
    fn default() -> Self {
        Self {
            authorities: "--ca",
            certificate: "--cert",
            key: "--key",
        }
    }
}

/// Returns a configuration for [`Tls::connect`](crate::Tls::connect) or [`Stream::secure`](crate::Stream::secure).
///
/// # Errors
/// A file cannot be read or used; the message names the option.
pub fn client_config(options: &ClientOptions) -> Result<Arc<ClientConfig>, LoadError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(options.names.authorities, &error))?;
    let builder = if options.is_insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
    } else {
        let roots = Arc::new(roots(options)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| LoadError::Unusable {
                setting: options.names.authorities,
                cause: error.to_string(),
            })?;
        builder.with_webpki_verifier(verifier)
    };
    let mut config = match &options.certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let own = own(options, certificate, key)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own)))
        }
    };
    if options.offers_http2 {
        config.alpn_protocols.push(b"h2".to_vec());
    }
    if !options.offers_nothing {
        config.alpn_protocols.push(b"http/1.1".to_vec());
    }
    if options.never_resumes {
        config.resumption = rustls::client::Resumption::disabled();
    }
    Ok(Arc::new(config))
}

/// Loads the client certificate.
fn own(
    options: &ClientOptions,
    certificate: &Path,
    key: &Path,
) -> Result<Arc<CertifiedKey>, LoadError> {
    let unix_s = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix_s = unix_s.map_or(0, |since| since.as_secs());
    let pair = certificate::read_pair(certificate, key, unix_s);
    pair.map(|pair| pair.certified).map_err(|(is_key, error)| {
        let setting = if is_key {
            options.names.key
        } else {
            options.names.certificate
        };
        LoadError::File { setting, error }
    })
}

fn roots(options: &ClientOptions) -> Result<RootCertStore, LoadError> {
    let setting = options.names.authorities;
    let path = match &options.authorities {
        Some(path) => path.clone(),
        None => SYSTEM_AUTHORITIES
            .iter()
            .map(PathBuf::from)
            .find(|path| path.is_file())
            .ok_or_else(|| LoadError::Unusable {
                setting,
                cause: "this machine has no file of trusted authorities; give one".to_owned(),
            })?,
    };
    let chain =
        certificate::read_chain(&path).map_err(|error| LoadError::File { setting, error })?;
    let mut roots = RootCertStore::empty();
    // The system's file may contain very old certificates that cannot be parsed.
    let (added, _) = roots.add_parsable_certificates(chain);
    if added == 0 {
        return Err(LoadError::Unusable {
            setting,
            cause: format!("{} holds no authority that can be read", path.display()),
        });
    }
    Ok(roots)
}

fn unusable(setting: &'static str, error: &Error) -> LoadError {
    LoadError::Unusable {
        setting,
        cause: error.to_string(),
    }
}

/// Accepts every certificate, but still checks that the server has its private key.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
