//! User keys of NATS (nkeys), and credential files with such a key. The server sends a nonce, and the client signs it.
//!
//! <https://docs.nats.io/reference/reference-protocols/nkey>

use ring::signature::{Ed25519KeyPair, KeyPair};
use thiserror::Error;

/// Prefix bytes of a seed and of a user's public key.
const SEED: u8 = 18 << 3;
const USER: u8 = 20 << 3;
const SEED_BYTES: usize = 32;

const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE64_URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Seed of a user's key. Its text form begins with `SU`.
#[derive(Clone, PartialEq, Eq)]
pub struct Nkey([u8; SEED_BYTES]);

/// Content of a credential file.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The key.
    pub key: Nkey,
    /// User JWT. Empty if the server itself has the public key.
    pub jwt: String,
}

/// An invalid credential file. The error does not contain any part of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CredentialsError {
    /// No line has the prefix of a seed.
    #[error(
        "has no seed of a user's nkey, a line that begins with SU; give the .creds file of a user"
    )]
    Seed,
    /// A seed has a wrong length or checksum.
    #[error("has a seed that is damaged; generate the file again (nsc generate creds)")]
    Damaged,
}

impl Credentials {
    /// Parses a `.creds` file, or a file with only a seed.
    ///
    /// # Errors
    /// [`CredentialsError`].
    pub fn read(text: &str) -> Result<Credentials, CredentialsError> {
        let lines = || text.lines().map(str::trim);
        let seed = lines().find(|line| line.starts_with("SU"));
        let key = Nkey::read(seed.ok_or(CredentialsError::Seed)?)?;
        let mut behind = lines().skip_while(|line| !line.contains("BEGIN NATS USER JWT"));
        let jwt = behind.nth(1).unwrap_or_default().to_owned();
        Ok(Credentials { key, jwt })
    }
}

impl Nkey {
    fn read(text: &str) -> Result<Nkey, CredentialsError> {
        let bytes = decode(text).ok_or(CredentialsError::Damaged)?;
        let (content, check) = bytes
            .split_last_chunk::<2>()
            .ok_or(CredentialsError::Damaged)?;
        let (&[kind, of], seed) = content
            .split_first_chunk::<2>()
            .ok_or(CredentialsError::Damaged)?;
        let is_user = kind == SEED | USER >> 5 && of == USER << 3;
        match (
            seed.try_into(),
            is_user && crc(content).to_le_bytes() == *check,
        ) {
            (Ok(seed), true) => Ok(Nkey(seed)),
            _ => Err(CredentialsError::Damaged),
        }
    }

    /// Returns the public key as text, and the signature of the nonce.
    pub(crate) fn sign(&self, nonce: &str) -> Option<(String, String)> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&self.0).ok()?;
        let mut public = vec![USER];
        public.extend_from_slice(pair.public_key().as_ref());
        public.extend_from_slice(&crc(&public).to_le_bytes());
        let signature = encode(pair.sign(nonce.as_bytes()).as_ref(), BASE64_URL);
        Some((encode(&public, BASE32), signature))
    }
}

/// Encodes bytes in base32 or base64, depending on the size of the alphabet, without padding.
fn encode(bytes: &[u8], alphabet: &[u8]) -> String {
    let bits = alphabet.len().trailing_zeros();
    let letter = |value: u32| char::from(alphabet[value as usize % alphabet.len()]);
    let (mut text, mut held, mut count) = (String::new(), 0_u32, 0);
    for &byte in bytes {
        held = held << 8 | u32::from(byte);
        count += 8;
        while count >= bits {
            count -= bits;
            text.push(letter(held >> count));
        }
    }
    if count > 0 {
        text.push(letter(held << (bits - count)));
    }
    text
}

/// Decodes base32 (RFC 4648, section 6).
fn decode(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut held, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes() {
        let value = BASE32.iter().position(|it| *it == letter)?;
        held = held << 5 | value as u32;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((held >> count) as u8);
        }
    }
    Some(bytes)
}

/// Returns the CRC-16/XMODEM checksum.
fn crc(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, &byte| {
        (0..8).fold(sum ^ u16::from(byte) << 8, |sum, _| {
            sum << 1 ^ if sum & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use ring::signature::{ED25519, UnparsedPublicKey};

    use super::*;

    /// A key for tests only.
    const SEED_TEXT: &str = "SUAMLK2ZNL35WSMW37E7UD4VZ7ELPKW7DHC3BWBSD2GCZ7IUQQXZIORRBU";
    const PUBLIC_TEXT: &str = "UAENPZBPMLGI3G5F3ICPM34WEUWHFCKQQQPMM5XPOULYOJE44PUIX2J3";

    #[test]
    fn parses_credentials_with_and_without_jwt() {
        let alone = Credentials::read(&format!("  {SEED_TEXT}\n")).expect("a seed");
        assert_eq!(alone.jwt, "");
        let text = format!(
            "-----BEGIN NATS USER JWT-----\nabc.def.g\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\r\n{SEED_TEXT}\r\n------END USER NKEY SEED------\r\n"
        );
        let both = Credentials::read(&text).expect("both");
        assert_eq!(both.jwt, "abc.def.g");
        assert!(both.key == alone.key);
    }

    #[test]
    fn signature_verifies_with_the_public_key() {
        let key = Nkey::read(SEED_TEXT).expect("a seed");
        let (public, signature) = key.sign("a nonce").expect("it signs");
        assert!(public.starts_with('U') && public.len() == 56, "{public}");
        let bytes = decode(&public).expect("base32");
        let pair = Ed25519KeyPair::from_seed_unchecked(&key.0).expect("a seed");
        assert_eq!(&bytes[1..33], pair.public_key().as_ref());
        assert_eq!(signature.len(), 86);
        let signed = pair.sign(b"a nonce");
        assert_eq!(signature, encode(signed.as_ref(), BASE64_URL));
        let verifies = UnparsedPublicKey::new(&ED25519, &bytes[1..33]);
        verifies.verify(b"a nonce", signed.as_ref()).expect("it is");
    }

    #[test]
    fn rejects_damaged_seeds() {
        for (text, error) in [
            ("", CredentialsError::Seed),
            (PUBLIC_TEXT, CredentialsError::Seed),
            (&SEED_TEXT[..57], CredentialsError::Damaged),
            (
                &SEED_TEXT.replace("ZNL3", "ZNL4"),
                CredentialsError::Damaged,
            ),
            ("SU1", CredentialsError::Damaged),
            ("SU", CredentialsError::Damaged),
        ] {
            assert_eq!(Credentials::read(text).err(), Some(error), "{text}");
        }
    }

    #[test]
    fn encodes_test_vectors_of_rfc_4648() {
        // RFC 4648, section 10.
        assert_eq!(encode(b"foobar", BASE32), "MZXW6YTBOI");
        assert_eq!(encode(b"fooba", BASE32), "MZXW6YTB");
        assert_eq!(encode(b"foob", BASE64_URL), "Zm9vYg");
        assert_eq!(decode("MZXW6YTBOI").as_deref(), Some(&b"foobar"[..]));
        assert_eq!(crc(b"123456789"), 0x31c3);
    }
}
