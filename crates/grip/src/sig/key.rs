//! Keys, in the forms that configurations use.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use jsonwebtoken::crypto;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RsaKeyPair};

use crate::encoding::{base64, hex};

/// A key for [`super::sign`] and [`super::verify`].
pub struct Key {
    /// The only algorithm of tokens that are signed or accepted with this key.
    pub(super) algorithm: Algorithm,
    /// `None`: the key is public.
    pub(super) signing: Option<EncodingKey>,
    /// The secret, or the public key that belongs to `signing`.
    pub(super) verifying: DecodingKey,
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
        // The key does not reveal its secret, so compare signatures of the same text.
        self.is_secret()
            && crypto::sign(WITNESS, &EncodingKey::from_secret(bytes), self.algorithm)
                .and_then(|tag| crypto::verify(&tag, WITNESS, &self.verifying, self.algorithm))
                .unwrap_or(false)
    }

    /// Creates a shared secret.
    pub fn secret(secret: &[u8]) -> Self {
        Self {
            algorithm: Algorithm::HS256,
            signing: Some(EncodingKey::from_secret(secret)),
            verifying: DecodingKey::from_secret(secret),
        }
    }

    /// Returns true if the key is a secret that both ends share.
    pub fn is_secret(&self) -> bool {
        self.algorithm == Algorithm::HS256
    }

    /// Returns the `alg` value of tokens that are signed with this key.
    pub fn algorithm(&self) -> &'static str {
        match self.algorithm {
            Algorithm::ES256 => "ES256",
            Algorithm::RS256 => "RS256",
            _ => "HS256",
        }
    }

    /// Parses the first key in a PEM text.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        const NO_BLOCK: KeyError = KeyError::Pem("no complete block of a key");
        let blocks = pem::parse_many(text).map_err(|_| NO_BLOCK)?;
        // Precedes the key in files of `openssl ecparam -genkey`.
        let block = blocks.iter().find(|it| it.tag() != "EC PARAMETERS");
        let block = block.ok_or(NO_BLOCK)?;
        let der = block.contents();
        let key = match block.tag() {
            "PRIVATE KEY" => ecdsa(der).or_else(|| rsa(&RsaKeyPair::from_pkcs8(der).ok()?, text)),
            "EC PRIVATE KEY" => sec1_to_pkcs8(der).and_then(|der| ecdsa(&der)),
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(der)
                .ok()
                .and_then(|pair| rsa(&pair, text)),
            "PUBLIC KEY" | "RSA PUBLIC KEY" => public(der, text),
            "ENCRYPTED PRIVATE KEY" => return Err(KeyError::Pem("an encrypted key")),
            _ => return Err(KeyError::Pem("another object than a key")),
        };
        key.ok_or(KeyError::Pem("a key that cannot be used here"))
    }
}

impl fmt::Debug for Key {
    /// Omits the key, so that it cannot end up in a log.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({})", self.algorithm())
    }
}

/// Returns the key of a pair for P-256, which must contain its public key.
fn ecdsa(pkcs8: &[u8]) -> Option<Key> {
    let (curve, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let pair = EcdsaKeyPair::from_pkcs8(curve, pkcs8, &random).ok()?;
    Some(Key {
        algorithm: Algorithm::ES256,
        signing: Some(EncodingKey::from_ec_der(pkcs8)),
        verifying: DecodingKey::from_ec_der(pair.public_key().as_ref()),
    })
}

/// Wraps the `ECPrivateKey` that `openssl ecparam -genkey` writes in PKCS #8, because `jsonwebtoken` parses no other form.
fn sec1_to_pkcs8(sec1: &[u8]) -> Option<Vec<u8>> {
    /// Version 0; ECDSA with P-256.
    const PREFIX: &[u8] =
        b"\x02\x01\0\x30\x13\x06\x07*\x86H\xce=\x02\x01\x06\x08*\x86H\xce=\x03\x01\x07";
    // A length above 127 needs a second byte. A key for P-256 has at most 121 bytes.
    let len = u8::try_from(sec1.len()).ok().filter(|&len| len < 0x80)?;
    let all = len + PREFIX.len() as u8 + 2;
    Some([&[0x30, 0x81, all], PREFIX, &[0x04, len], sec1].concat())
}

/// Returns the key of an RSA pair that was parsed from `pem`.
fn rsa(pair: &RsaKeyPair, pem: &[u8]) -> Option<Key> {
    Some(Key {
        algorithm: Algorithm::RS256,
        signing: Some(EncodingKey::from_rsa_pem(pem).ok()?),
        verifying: DecodingKey::from_rsa_der(pair.public().as_ref()),
    })
}

/// Returns the public key that is `der` and the first block of `pem`.
fn public(der: &[u8], pem: &[u8]) -> Option<Key> {
    /// Start of each `SubjectPublicKeyInfo` for P-256; the uncompressed point follows. `jsonwebtoken` does not compare the curve.
    const P256: &[u8] =
        b"\x30\x59\x30\x13\x06\x07*\x86H\xce=\x02\x01\x06\x08*\x86H\xce=\x03\x01\x07\x03\x42\0";
    let (algorithm, verifying) = match der.strip_prefix(P256) {
        Some(point) => (Algorithm::ES256, DecodingKey::from_ec_der(point)),
        None => (Algorithm::RS256, DecodingKey::from_rsa_pem(pem).ok()?),
    };
    Some(Key {
        algorithm,
        signing: None,
        verifying,
    })
}
