//! Keys, in the forms that configurations use.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RsaKeyPair};

use super::der;
use crate::encoding::{base64, hex};

/// A key for [`super::sign`] and [`super::verify`].
pub struct Key(pub(super) Kind);

pub(super) enum Kind {
    Secret(hmac::Key),
    /// Private key, with its public point.
    EcdsaPrivate(Box<EcdsaKeyPair>, Vec<u8>),
    EcdsaPublic(Vec<u8>),
    RsaPrivate(Box<RsaKeyPair>),
    RsaPublic(Vec<u8>),
}

/// System error for a key's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {cause}", path.display())]
pub struct FileError {
    path: PathBuf,
    cause: String,
}

impl FileError {
    /// Creates the error of reading the file at `path`.
    pub fn new(path: &Path, error: &io::Error) -> FileError {
        FileError {
            path: path.to_owned(),
            cause: error.to_string(),
        }
    }
}

/// Reason why a key is refused. No message contains a part of the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is empty.
    #[error("the key is empty; give a secret, base64:… or file:…")]
    Empty,
    /// The text after `base64:` is invalid.
    #[error("the key after base64: is not base64")]
    Base64,
    /// The file after `file:` cannot be read.
    #[error("the key file cannot be read: {0}")]
    File(#[from] FileError),
    /// The file is neither PEM nor a secret in hexadecimal.
    #[error("the key file holds neither PEM nor a secret in hexadecimal")]
    FileContent,
    /// The PEM is unusable.
    #[error("the PEM has {0}; give a private or public key for P-256 or RSA of 2048 bits or more")]
    Pem(&'static str),
}

impl Key {
    /// Parses a configured key: a secret, `base64:…`, `file:PATH`, or PEM. `read` returns a file's content.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn parse(
        text: &str,
        read: impl FnOnce(&str) -> Result<Vec<u8>, FileError>,
    ) -> Result<Self, KeyError> {
        if let Some(path) = text.strip_prefix("file:") {
            let content = read(path)?;
            return match content.trim_ascii() {
                pem if pem.starts_with(b"-----BEGIN ") => Self::from_pem(pem),
                text => match hex(text) {
                    Some(secret) if !secret.is_empty() => Ok(Self::secret(&secret)),
                    _ => Err(KeyError::FileContent),
                },
            };
        }
        if let Some(text) = text.strip_prefix("base64:") {
            return match base64(text.as_bytes()) {
                Some(secret) if secret.is_empty() => Err(KeyError::Empty),
                Some(secret) => Ok(Self::secret(&secret)),
                None => Err(KeyError::Base64),
            };
        }
        match text {
            "" => Err(KeyError::Empty),
            pem if pem.starts_with("-----BEGIN ") => Self::from_pem(pem.as_bytes()),
            secret => Ok(Self::secret(secret.as_bytes())),
        }
    }

    /// Returns true if this key is a secret that equals `bytes`. The comparison takes constant time.
    pub fn is_secret_of(&self, bytes: &[u8]) -> bool {
        const WITNESS: &[u8] = b"the same secret";
        let Kind::Secret(key) = &self.0 else {
            return false;
        };
        // The HMAC key does not reveal its secret, so compare signatures of the same text.
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, bytes), WITNESS);
        hmac::verify(key, WITNESS, tag.as_ref()).is_ok()
    }

    /// Creates a shared secret.
    pub fn secret(secret: &[u8]) -> Self {
        Self(Kind::Secret(hmac::Key::new(hmac::HMAC_SHA256, secret)))
    }

    /// Returns true if the key is a secret that both ends share.
    pub fn is_secret(&self) -> bool {
        matches!(self.0, Kind::Secret(_))
    }

    /// Returns the `alg` value of tokens that are signed with this key.
    pub fn algorithm(&self) -> &'static str {
        match self.0 {
            Kind::Secret(_) => "HS256",
            Kind::EcdsaPrivate(..) | Kind::EcdsaPublic(_) => "ES256",
            Kind::RsaPrivate(_) | Kind::RsaPublic(_) => "RS256",
        }
    }

    /// Parses the first key in a PEM text.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let text =
            std::str::from_utf8(text).map_err(|_| KeyError::Pem("bytes that are no text"))?;
        let mut rest = text;
        loop {
            let (label, body, after) =
                block(rest).ok_or(KeyError::Pem("no complete block of a key"))?;
            rest = after;
            let kind = match label {
                // Precedes the key in files of `openssl ecparam -genkey`.
                "EC PARAMETERS" => continue,
                "PRIVATE KEY" => pkcs8(&body),
                "EC PRIVATE KEY" => sec1(&body),
                "RSA PRIVATE KEY" => RsaKeyPair::from_der(&body)
                    .ok()
                    .map(|pair| Kind::RsaPrivate(Box::new(pair))),
                "PUBLIC KEY" => subject_public_key(&body),
                "RSA PUBLIC KEY" => Some(Kind::RsaPublic(body)),
                "ENCRYPTED PRIVATE KEY" => return Err(KeyError::Pem("an encrypted key")),
                _ => return Err(KeyError::Pem("another object than a key")),
            };
            return kind
                .map(Self)
                .ok_or(KeyError::Pem("a key that cannot be used here"));
        }
    }
}

impl fmt::Debug for Key {
    /// Omits the key, so that it cannot end up in a log.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({})", self.algorithm())
    }
}

/// Returns the label and the content of the first PEM block, and the text after the block.
fn block(text: &str) -> Option<(&str, Vec<u8>, &str)> {
    let start = text.find("-----BEGIN ")? + "-----BEGIN ".len();
    let (label, rest) = text[start..].split_once("-----")?;
    let (body, rest) = rest.split_once("-----END ")?;
    let rest = rest.strip_prefix(label)?.strip_prefix("-----")?;
    let digits: Vec<u8> = body
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    Some((label, base64(&digits)?, rest))
}

fn pkcs8(body: &[u8]) -> Option<Kind> {
    let random = SystemRandom::new();
    if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, body, &random) {
        return Some(ecdsa(pair));
    }
    let pair = RsaKeyPair::from_pkcs8(body).ok()?;
    Some(Kind::RsaPrivate(Box::new(pair)))
}

/// `ECPrivateKey`: version, private number, curve and public point.
fn sec1(body: &[u8]) -> Option<Kind> {
    let (fields, _) = der::expect(body, der::SEQUENCE)?;
    let (_, rest) = der::expect(fields, der::INTEGER)?;
    let (private, mut rest) = der::expect(rest, der::OCTET_STRING)?;
    while let Some((tag, content, after)) = der::element(rest) {
        if tag == der::SEC1_PUBLIC {
            let public = der::bits(content)?;
            let pair = EcdsaKeyPair::from_private_key_and_public_key(
                &ECDSA_P256_SHA256_FIXED_SIGNING,
                private,
                public,
                &SystemRandom::new(),
            );
            return pair.ok().map(ecdsa);
        }
        rest = after;
    }
    None
}

fn ecdsa(pair: EcdsaKeyPair) -> Kind {
    let public = pair.public_key().as_ref().to_vec();
    Kind::EcdsaPrivate(Box::new(pair), public)
}

/// `SubjectPublicKeyInfo`: an algorithm and the key's bits.
fn subject_public_key(body: &[u8]) -> Option<Kind> {
    /// 1.2.840.10045.3.1.7, the curve P-256.
    const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    /// Object identifier of RSA: 1.2.840.113549.1.1.1.
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
    let (fields, _) = der::expect(body, der::SEQUENCE)?;
    let (algorithm, rest) = der::expect(fields, der::SEQUENCE)?;
    let public = der::bits(rest)?.to_vec();
    let (_, name, parameters) = der::element(algorithm)?;
    if name == RSA {
        return Some(Kind::RsaPublic(public));
    }
    let (_, curve, _) = der::element(parameters)?;
    (curve == P256).then_some(Kind::EcdsaPublic(public))
}
