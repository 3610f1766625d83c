//! Reads and checks certificate and key files, and warns about their problems.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_cert::certificate::{Certificate, Version};
use x509_cert::der::{Decode, EncodePem, pem::LineEnding};

/// Remaining validity below which a certificate causes a warning in the log.
const EXPIRES_SOON_S: u64 = 7 * 24 * 3_600;

/// Maximum size of a file in bytes; a chain of certificates has a few kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reason why a file cannot be used. Callers prefix the message with the setting's name.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("{path} cannot be read: {cause}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error and a fix.
        cause: String,
    },
    /// The content is not what the setting requires.
    #[error("{path} {cause}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The problem and a fix.
        cause: String,
    },
}

/// A usable certificate and key, with warnings about them.
#[derive(Debug)]
pub struct Pair {
    /// Certificate chain and key for handshakes.
    pub certified: Arc<CertifiedKey>,
    /// Warnings for the log, as sentences.
    pub warnings: Vec<String>,
}

/// Reads a certificate chain and its key, and checks that they match.
///
/// # Errors
/// The problem. The flag is true if the problem concerns the key file.
pub fn read_pair(certificate: &Path, key: &Path, unix_s: u64) -> Result<Pair, (bool, FileError)> {
    let chain = read_chain(certificate).map_err(|error| (false, error))?;
    let private = read_key(key).map_err(|error| (true, error))?;
    let content = |cause: String| FileError::Content {
        path: key.to_owned(),
        cause,
    };
    let signing = any_supported_type(&private).map_err(|_| {
        let cause = "holds a key of a kind that is not supported; \
            make one by `openssl ecparam -genkey -name prime256v1 -noout`, or RSA with 2048 bits or more";
        (true, content(cause.to_owned()))
    })?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        // Some types of keys cannot be compared. Accept them.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
        Err(rustls::Error::InconsistentKeys(_)) => {
            let cause = format!(
                "is not the key of {}: their public keys differ; give the two files that were made together",
                certificate.display()
            );
            return Err((true, content(cause)));
        }
        Err(error) => {
            let cause = if has_no_extensions(&certified.cert[0]) {
                "begins with a certificate of X.509 version 1, which names no hosts; make one of version 3, \
                    for instance by `openssl req -x509 -addext subjectAltName=DNS:example.org …`"
                    .to_owned()
            } else {
                format!("begins with a certificate that cannot be used: {error}")
            };
            let path = certificate.to_owned();
            return Err((false, FileError::Content { path, cause }));
        }
    }
    let mut warnings = Vec::new();
    warnings.extend(expiry_warning(certificate, &certified.cert[0], unix_s));
    warnings.extend(mode_warning(key));
    Ok(Pair {
        certified: Arc::new(certified),
        warnings,
    })
}

fn has_no_extensions(der: &CertificateDer<'_>) -> bool {
    Certificate::from_der(der).is_ok_and(|read| read.tbs_certificate.version != Version::V3)
}

/// Reads all certificates of a PEM file, which must have at least one.
pub(crate) fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = read(path)?;
    let content = |cause: String| FileError::Content {
        path: path.to_owned(),
        cause,
    };
    let chain = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| content(format!("is damaged: {}", pem_cause(&error))))?;
    let Some(first) = chain.first() else {
        let cause = if PrivateKeyDer::from_pem_slice(&text).is_ok() {
            "holds a private key and no certificate; are the two settings swapped?"
        } else {
            "holds no certificate: a PEM file has the line -----BEGIN CERTIFICATE-----"
        };
        return Err(content(cause.to_owned()));
    };
    Certificate::from_der(first)
        .map_err(|error| content(format!("holds a certificate that cannot be read: {error}")))?;
    Ok(chain)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, FileError> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let cause = match error {
            // "ENCRYPTED PRIVATE KEY", or "Proc-Type: 4,ENCRYPTED" in older formats.
            _ if find(&text, b"ENCRYPTED") => {
                "is encrypted with a password; write it without one by `openssl pkey -in … -out …`"
                    .to_owned()
            }
            pem::Error::NoItemsFound => {
                "holds no private key: a PEM file has the line -----BEGIN PRIVATE KEY-----"
                    .to_owned()
            }
            error => format!("is damaged: {}", pem_cause(&error)),
        };
        FileError::Content {
            path: path.to_owned(),
            cause,
        }
    })
}

/// Reads a file of at most `FILE_BYTES_MAX` bytes.
///
/// # Errors
/// The path is not a file, or the file is too large or unreadable.
pub fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    let unreadable = |cause: String| FileError::Unreadable {
        path: path.to_owned(),
        cause,
    };
    let explain = |error: io::Error| {
        unreadable(match error.kind() {
            io::ErrorKind::NotFound => "there is no such file".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "permission denied; let the server's user read it".to_owned()
            }
            _ => error.to_string(),
        })
    };
    let metadata = fs::metadata(path).map_err(explain)?;
    if !metadata.is_file() {
        return Err(unreadable("it is not a file".to_owned()));
    }
    if metadata.len() > FILE_BYTES_MAX {
        let cause = format!("it has more than {FILE_BYTES_MAX} bytes");
        return Err(unreadable(cause));
    }
    fs::read(path).map_err(explain)
}

fn find(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

fn pem_cause(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no END line".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line is malformed".to_owned(),
        pem::Error::Base64Decode(_) => "the text between BEGIN and END is not base64".to_owned(),
        error => format!("{error:?}"),
    }
}

/// Returns a warning if the certificate is expired, not yet valid or about to expire. Such a certificate is still
/// served, because a restart would otherwise turn a warning in browsers into an outage.
fn expiry_warning(path: &Path, der: &CertificateDer<'_>, unix_s: u64) -> Option<String> {
    let validity = Certificate::from_der(der).ok()?.tbs_certificate.validity;
    let path = path.display();
    let ends_s = validity.not_after.to_unix_duration().as_secs();
    let begins_s = validity.not_before.to_unix_duration().as_secs();
    let ends = validity.not_after.to_date_time();
    if ends_s <= unix_s {
        Some(format!(
            "the certificate {path} has EXPIRED on {ends}: clients refuse it; renew it and send SIGHUP"
        ))
    } else if begins_s > unix_s {
        let begins = validity.not_before.to_date_time();
        Some(format!(
            "the certificate {path} is not valid before {begins}: clients refuse it until then; is the clock right?"
        ))
    } else if ends_s - unix_s < EXPIRES_SOON_S {
        Some(format!(
            "the certificate {path} expires on {ends}; renew it and send SIGHUP"
        ))
    } else {
        None
    }
}

fn mode_warning(path: &Path) -> Option<String> {
    let mode = fs::metadata(path).ok()?.permissions().mode();
    (mode & 0o004 != 0).then(|| {
        let path = path.display();
        format!("every user of this machine can read {path}, the key of a certificate; run `chmod o-r {path}`")
    })
}

/// Returns the end of a certificate's validity in seconds since 1970. Returns `None` if the certificate cannot be parsed.
pub(crate) fn ends_s(der: &CertificateDer<'_>) -> Option<u64> {
    let validity = Certificate::from_der(der).ok()?.tbs_certificate.validity;
    Some(validity.not_after.to_unix_duration().as_secs())
}

/// Returns the subject in the format of RFC 4514. Returns an empty text if the certificate cannot be parsed.
pub(crate) fn subject(der: &CertificateDer<'_>) -> String {
    Certificate::from_der(der)
        .map(|certificate| certificate.tbs_certificate.subject.to_string())
        .unwrap_or_default()
}

pub(crate) fn pem(der: &CertificateDer<'_>) -> String {
    Certificate::from_der(der)
        .and_then(|certificate| certificate.to_pem(LineEnding::LF))
        .unwrap_or_default()
}
