//! Loads certificate files into the configuration that connections share.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use crate::certificate::{self, FileError};
use crate::names::Names;
use crate::ocsp::Served;
use crate::provider;
use crate::ticket::{Secret, Tickets};

/// ALPN name of HTTP/2.
pub(crate) const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Authorities that client certificates are verified with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAuthority {
    /// PEM file with the certificates of these authorities.
    pub path: PathBuf,
    /// True to accept clients without a certificate.
    pub is_optional: bool,
}

/// Options of a TLS server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Certificate chains and their keys. The first pair is for clients that request no known name. A directory instead of a file
    /// means all its files `NAME.crt`, with keys `NAME.key` in the directory of the keys.
    pub pairs: Vec<(PathBuf, PathBuf)>,
    /// Authorities of client certificates. `None`: request no certificate.
    pub clients: Option<ClientAuthority>,
    /// True to reject TLS 1.2.
    pub is_tls13_only: bool,
    /// Interval in seconds after which the keys of session tickets change.
    pub ticket_period_s: u32,
    /// True to offer HTTP/2 in addition to HTTP/1.1.
    pub has_http2: bool,
    /// Names of the settings in messages.
    pub names: PairNames,
}

/// Names of the settings that contain the files of [`Options`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairNames {
    /// Name of the certificate's setting.
    pub certificate: &'static str,
    /// Name of the key's setting.
    pub key: &'static str,
}

impl Default for PairNames {
    fn default() -> Self {
        Self {
            certificate: "tls_certificate",
            key: "tls_key",
        }
    }
}

/// Reason why TLS cannot be served. The message names the setting, the cause and the fix.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file cannot be used.
    #[error("{setting}: {error}")]
    File {
        /// The setting that contains the path.
        setting: &'static str,
        /// The problem.
        error: FileError,
    },
    /// The files do not give a valid configuration.
    #[error("{setting}: {cause}")]
    Unusable {
        /// Name of the setting.
        setting: &'static str,
        /// The problem.
        cause: String,
    },
}

/// Result of loading all files.
#[derive(Debug)]
pub struct Loaded {
    /// Configuration of new connections.
    pub config: Arc<ServerConfig>,
    /// Warnings for the log, as sentences.
    pub warnings: Vec<String>,
}

/// Options of a server, and the secret of its tickets. The secret survives a reload.
#[derive(Debug, Clone)]
pub struct Certificates {
    options: Options,
    secret: Secret,
}

impl Certificates {
    /// Creates a new secret for these options.
    ///
    /// # Errors
    /// The kernel returns no random numbers.
    pub fn new(options: Options) -> Result<Certificates, LoadError> {
        let secret = Secret::new(options.ticket_period_s)
            .map_err(|error| unusable("tls_ticket_period_s", error))?;
        Ok(Certificates { options, secret })
    }

    /// Drops the secrets of earlier ticket periods. Handshakes do this automatically. A process that has no handshakes but forks
    /// others must call this function periodically.
    pub fn forget(&self, unix_s: u64) {
        self.secret.forget(unix_s, self.options.ticket_period_s);
    }

    /// Loads all files.
    ///
    /// # Errors
    /// The first problem that makes them unusable.
    pub fn load(&self, unix_s: u64) -> Result<Loaded, LoadError> {
        let mut warnings = Vec::new();
        let mut all = Vec::new();
        let mut pairs = Vec::new();
        let names = self.options.names;
        for (certificate, key) in &self.options.pairs {
            if certificate.is_dir() {
                pairs.append(&mut pairs_of(
                    names.certificate,
                    certificate,
                    key,
                    &mut warnings,
                )?)
            } else {
                pairs.push((certificate.clone(), key.clone()))
            }
        }
        for (certificate, key) in &pairs {
            let pair =
                certificate::read_pair(certificate, key, unix_s).map_err(|(is_key, error)| {
                    LoadError::File {
                        setting: if is_key { names.key } else { names.certificate },
                        error,
                    }
                })?;
            warnings.extend(pair.warnings);
            let (served, warning) = Served::new(certificate, pair.certified, unix_s);
            warnings.extend(warning.map(|why| format!("{}: {why}", names.certificate)));
            all.push(served);
        }
        let versions: &[&SupportedProtocolVersion] = if self.options.is_tls13_only {
            &[&version::TLS13]
        } else {
            &[&version::TLS13, &version::TLS12]
        };
        let provider = provider::for_servers();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| unusable("tls_version_min", error))?;
        let mut context = Vec::new();
        let builder = match &self.options.clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let roots = read_roots(clients, &mut context)?;
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if clients.is_optional {
                    verifier.allow_unauthenticated()
                } else {
                    verifier
                };
                let verifier = verifier
                    .build()
                    .map_err(|error| unusable("tls_client_ca", error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(Names::new(all)));
        if self.options.has_http2 {
            config.alpn_protocols.push(HTTP2.to_vec());
        }
        config.alpn_protocols.push(HTTP1.to_vec());
        let period_s = self.options.ticket_period_s;
        config.ticketer = Arc::new(Tickets::new(&self.secret, period_s, &context));
        // Sessions are resumed only by ticket, so any worker can do it and none stores sessions.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(Loaded {
            config: Arc::new(config),
            warnings,
        })
    }
}

/// Returns the pairs of a directory: those named `default…` first, then by name. Skips a certificate whose key is
/// missing, because both may be being copied, and adds a warning.
fn pairs_of(
    setting: &'static str,
    folder: &Path,
    keys: &Path,
    warnings: &mut Vec<String>,
) -> Result<Vec<(PathBuf, PathBuf)>, LoadError> {
    let problem = |cause: &str| unusable(setting, format!("{}: {cause}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(|error| problem(&error.to_string()))?;
    let mut names: Vec<OsString> = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => {
                let path = PathBuf::from(entry.file_name());
                let is_meant = path.extension().is_some_and(|ending| ending == "crt");
                names.extend(path.file_stem().filter(|_| is_meant).map(OsStr::to_owned));
            }
            Err(error) => warnings.push(format!(
                "{setting}: {}: an entry cannot be read: {error}",
                folder.display()
            )),
        }
    }
    if names.is_empty() {
        let cause = "the folder has no file NAME.crt; put one there, and its key as NAME.key";
        return Err(problem(cause));
    }
    names.sort_by_key(|name| {
        let is_default = name.as_encoded_bytes().starts_with(b"default");
        (!is_default, name.clone())
    });
    let pair = |name: &OsString| {
        let file = |folder: &Path, ending| {
            let mut name = name.clone();
            name.push(ending);
            folder.join(name)
        };
        (file(folder, ".crt"), file(keys, ".key"))
    };
    let (pairs, alone): (Vec<_>, Vec<_>) = names
        .iter()
        .map(pair)
        .partition(|(_, key)| key.try_exists().unwrap_or(true));
    warnings.extend(alone.iter().map(|(certificate, key)| {
        format!(
            "{setting}: skipped {}: its key {} does not exist; create it and reload the certificates",
            certificate.display(),
            key.display()
        )
    }));
    if pairs.is_empty() {
        Err(problem(
            "no certificate has its key; put it there as NAME.key",
        ))
    } else {
        Ok(pairs)
    }
}

/// Loads the authorities of clients. Appends data to `context` that distinguishes them from others.
fn read_roots(
    clients: &ClientAuthority,
    context: &mut Vec<u8>,
) -> Result<RootCertStore, LoadError> {
    let setting = "tls_client_ca";
    let chain = certificate::read_chain(&clients.path)
        .map_err(|error| LoadError::File { setting, error })?;
    context.push(u8::from(clients.is_optional));
    let mut roots = RootCertStore::empty();
    for certificate in chain {
        context.extend_from_slice(&certificate);
        roots
            .add(certificate)
            .map_err(|error| unusable(setting, error))?;
    }
    Ok(roots)
}

fn unusable(setting: &'static str, error: impl ToString) -> LoadError {
    LoadError::Unusable {
        setting,
        cause: error.to_string(),
    }
}
