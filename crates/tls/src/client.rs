//! The other end: what a program that connects to a TLS server needs.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::certificate;
use crate::server::LoadError;

/// Where distributions keep the authorities that the machine trusts.
const SYSTEM_AUTHORITIES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

/// Whom to believe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientOptions {
    /// PEM file of authorities in place of the machine's own (`--ca`).
    pub authorities: Option<PathBuf>,
    /// Believe anybody (`--insecure`).
    pub is_insecure: bool,
    /// Begin every connection with a full handshake.
    pub never_resumes: bool,
}

/// A configuration for connections to HTTP servers, to be given to
/// [`Tls::connect`](crate::Tls::connect).
///
/// # Errors
/// The authorities cannot be read; the sentence names the option.
pub fn client_config(options: &ClientOptions) -> Result<Arc<ClientConfig>, LoadError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("--ca", &error))?;
    let mut config = if options.is_insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
            .with_no_client_auth()
    } else {
        let roots = Arc::new(roots(options)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| LoadError::Unusable {
                setting: "--ca",
                cause: error.to_string(),
            })?;
        builder.with_webpki_verifier(verifier).with_no_client_auth()
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if options.never_resumes {
        config.resumption = rustls::client::Resumption::disabled();
    }
    Ok(Arc::new(config))
}

fn roots(options: &ClientOptions) -> Result<RootCertStore, LoadError> {
    let setting = "--ca";
    let path = match &options.authorities {
        Some(path) => path.clone(),
        None => SYSTEM_AUTHORITIES
            .iter()
            .map(PathBuf::from)
            .find(|path| path.is_file())
            .ok_or_else(|| LoadError::Unusable {
                setting,
                cause: "this machine has no file of trusted authorities; give one, or --insecure"
                    .to_owned(),
            })?,
    };
    let chain =
        certificate::read_chain(&path).map_err(|error| LoadError::File { setting, error })?;
    let mut roots = RootCertStore::empty();
    // The machine's file may hold ancient ones that cannot be read.
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

/// Believes every certificate, but still checks that the server owns it.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
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
