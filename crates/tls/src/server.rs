//! From files to what connections share.

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

/// Application protocols (ALPN), the one that is preferred first.
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Whether clients have to prove who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAuthority {
    /// PEM file with the certificates of those who may vouch for clients.
    pub path: PathBuf,
    /// A client without a certificate is let in.
    pub is_optional: bool,
}

/// What to serve TLS with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Certificate chains and their keys; the first serves clients that ask for no known name. A folder in the place of a file
    /// stands for all of its files `NAME.crt`, with their keys `NAME.key` in the folder of the keys.
    pub pairs: Vec<(PathBuf, PathBuf)>,
    /// The authorities of client certificates; `None`: none is asked for.
    pub clients: Option<ClientAuthority>,
    /// Refuse TLS 1.2.
    pub is_tls13_only: bool,
    /// Seconds after which the keys of session tickets change.
    pub ticket_period_s: u32,
    /// Whether HTTP/2 is offered beside HTTP/1.1.
    pub has_http2: bool,
    /// What the files are called, for messages.
    pub names: PairNames,
}

/// What the files of [`Options`] are called where they are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairNames {
    /// The certificate.
    pub certificate: &'static str,
    /// Its key.
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

/// Why TLS cannot be served. The sentence names the setting, the cause and the fix.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file is not what it should be.
    #[error("{setting}: {error}")]
    File {
        /// The setting that names it.
        setting: &'static str,
        /// What is wrong with it.
        error: FileError,
    },
    /// What the files give does not make a configuration.
    #[error("{setting}: {cause}")]
    Unusable {
        /// The setting to look at.
        setting: &'static str,
        /// What is wrong.
        cause: String,
    },
}

/// What was loaded.
#[derive(Debug)]
pub struct Loaded {
    /// What new connections are to use.
    pub config: Arc<ServerConfig>,
    /// Sentences that belong into the log as warnings.
    pub warnings: Vec<String>,
}

/// The files of a server and the secret of its tickets, which outlives a reload.
#[derive(Debug, Clone)]
pub struct Certificates {
    options: Options,
    secret: Secret,
}

impl Certificates {
    /// For these files.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn new(options: Options) -> Result<Certificates, LoadError> {
        let secret = Secret::new(options.ticket_period_s)
            .map_err(|error| unusable("tls_ticket_period_s", error))?;
        Ok(Certificates { options, secret })
    }

    /// Forgets what opens the tickets of earlier periods. Handshakes do so by themselves; a process
    /// that has none, but will fork others, calls this now and then.
    pub fn forget(&self, unix_s: u64) {
        self.secret.forget(unix_s, self.options.ticket_period_s);
    }

    /// Reads all files.
    ///
    /// # Errors
    /// The first thing that makes them unusable.
    pub fn load(&self, unix_s: u64) -> Result<Loaded, LoadError> {
        let mut warnings = Vec::new();
        let mut all = Vec::new();
        let mut pairs = Vec::new();
        let names = self.options.names;
        for (certificate, key) in &self.options.pairs {
            match certificate.is_dir() {
                true => pairs.append(&mut pairs_of(
                    names.certificate,
                    certificate,
                    key,
                    &mut warnings,
                )?),
                false => pairs.push((certificate.clone(), key.clone())),
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
        // Sessions are resumed by ticket alone, so that any worker can and none remembers them.
        config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        Ok(Loaded {
            config: Arc::new(config),
            warnings,
        })
    }
}

/// The pairs of a folder, those named `default…` first and then by name. A certificate whose key is not there, because
/// somebody is copying both, is left out for now with a word in `warnings`.
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
            "{setting}: {} is left out: its key {} is not there; put it there, and have them read again",
            certificate.display(),
            key.display()
        )
    }));
    match pairs.is_empty() {
        true => Err(problem(
            "no certificate has its key; put it there as NAME.key",
        )),
        false => Ok(pairs),
    }
}

/// The authorities of clients; `context` gets what tells them from others.
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
