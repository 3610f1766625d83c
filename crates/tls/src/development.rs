//! A certificate for localhost, created on this machine.
//!
//! A new authority signs one certificate, and then the authority's key is discarded. Trusting the authority therefore means trusting
//! only this certificate.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::certificate;

/// Lifetime in days; browsers reject certificates valid for more than 398 days.
const LIFETIME_DAYS: i64 = 397;

/// Number of remaining days below which the certificate is renewed, so that it does not expire while somebody works with it.
const RENEWED_DAYS: u64 = 7;

const DAY_S: u64 = 24 * 3_600;

/// Names and addresses in the certificate.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Files of the development certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Authority, which browsers and tools must trust.
    pub authority: PathBuf,
    /// Certificate chain of the server.
    pub certificate: PathBuf,
    /// Private key of the server.
    pub key: PathBuf,
    /// True if this call created them.
    pub is_new: bool,
}

/// Returns the directory of this user's certificate: `$XDG_DATA_HOME/fermata` or `~/.local/share/fermata`. Returns
/// `None` without a home directory.
pub fn folder() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(std::env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let data =
        absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(data.join("fermata"))
}

/// Returns the certificate in `folder`. Creates it if it is missing, incomplete or about to expire.
///
/// # Errors
/// A file cannot be written, or the kernel returns no random numbers.
pub fn provide(folder: &Path, unix_s: u64) -> io::Result<Files> {
    let files = Files {
        authority: folder.join("localhost-ca.pem"),
        certificate: folder.join("localhost.pem"),
        key: folder.join("localhost-key.pem"),
        is_new: false,
    };
    if is_usable(&files, unix_s) {
        return Ok(files);
    }
    make(&files, unix_s)?;
    Ok(Files {
        is_new: true,
        ..files
    })
}

fn is_usable(files: &Files, unix_s: u64) -> bool {
    let Ok(chain) = certificate::read_chain(&files.certificate) else {
        return false;
    };
    let lasts =
        certificate::ends_s(&chain[0]).is_some_and(|ends_s| ends_s > unix_s + RENEWED_DAYS * DAY_S);
    lasts
        && files.authority.is_file()
        && certificate::read_pair(&files.certificate, &files.key, unix_s).is_ok()
}

fn make(files: &Files, unix_s: u64) -> io::Result<()> {
    let (authority, certificate, key) = generate(unix_s).map_err(io::Error::other)?;
    if let Some(folder) = files.key.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
    }
    write(&files.key, &key, 0o600)?;
    write(&files.certificate, &certificate, 0o644)?;
    write(&files.authority, &authority, 0o644)
}

/// Creates authority, certificate and key as PEM.
fn generate(unix_s: u64) -> Result<(String, String, String), rcgen::Error> {
    let begins =
        rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(unix_s - unix_s % 60);
    // Valid from a day ago, because the clock of another machine may be late.
    let (begins, ends) = (
        begins - std::time::Duration::from_secs(DAY_S),
        begins + std::time::Duration::from_secs(LIFETIME_DAYS as u64 * DAY_S - DAY_S),
    );

    let mut authority = CertificateParams::default();
    let user = std::env::var("USER").unwrap_or_else(|_| "this machine".to_owned());
    authority
        .distinguished_name
        .push(DnType::CommonName, format!("Fermata development ({user})"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    (authority.not_before, authority.not_after) = (begins, ends);
    let authority_key = KeyPair::generate()?;
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let mut leaf = CertificateParams::new(NAMES.map(str::to_owned))?;
    leaf.distinguished_name
        .push(DnType::CommonName, "localhost");
    leaf.use_authority_key_identifier_extension = true;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    (leaf.not_before, leaf.not_after) = (begins, ends);
    let key = KeyPair::generate()?;
    let certificate = leaf.signed_by(&key, &issuer)?;
    Ok((authority_pem, certificate.pem(), key.serialize_pem()))
}

/// Writes a temporary file and renames it, so that another server never reads a partial file.
fn write(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let _ = fs::remove_file(&beside);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}
