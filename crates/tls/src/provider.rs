//! Cryptography for rustls: ring, and the hybrid key exchange X25519MLKEM768, which browsers offer first.
//!
//! A recorded connection can be decrypted once a quantum computer breaks X25519. The hybrid
//! (draft-ietf-tls-ecdhe-mlkem) combines the secrets of X25519 and ML-KEM-768 (FIPS 203), so a recording stays secret
//! while either is secure.
//!
//! Only servers support it. Fermata's clients do not offer it: the larger key share needs a second packet in the first
//! flight, which some old servers reject. Most requests to a server use an existing connection anyway.

use std::sync::Arc;

use ::ring::rand::{SecureRandom, SystemRandom};
use ml_kem::ml_kem_768::EncapsulationKey;
use rustls::crypto::{
    ActiveKeyExchange, CompletedKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup, ring,
};
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};

/// Length of an ML-KEM-768 encapsulation key, the first part of a client's share.
const ENCAPSULATION_KEY_BYTES: usize = 1184;

/// Length of an X25519 public key in bytes. The key is the last part of both shares.
const X25519_BYTES: usize = 32;

/// Length of the randomness that ML-KEM needs for a secret.
const ENCAPSULATION_RANDOM_BYTES: usize = 32;

/// Returns the provider for servers: the hybrid before ring's own groups.
pub(crate) fn for_servers() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.kx_groups.insert(0, &X25519MlKem768);
    Arc::new(provider)
}

/// The server side of the key exchange `X25519MLKEM768`.
#[derive(Debug)]
struct X25519MlKem768;

impl SupportedKxGroup for X25519MlKem768 {
    /// Only clients call this function. See the top of this file.
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        Err(Error::General(
            "X25519MLKEM768 is for servers; a client's configuration must not have it".to_owned(),
        ))
    }

    fn start_and_complete(&self, share: &[u8]) -> Result<CompletedKeyExchange, Error> {
        let invalid = || Error::from(PeerMisbehaved::InvalidKeyShare);
        if share.len() != ENCAPSULATION_KEY_BYTES + X25519_BYTES {
            return Err(invalid());
        }
        let (key, classical) = share
            .split_first_chunk::<ENCAPSULATION_KEY_BYTES>()
            .ok_or_else(invalid)?;
        // Rejects coefficients that are not reduced (FIPS 203, section 7.2).
        let key = EncapsulationKey::new(&(*key).into()).map_err(|_| invalid())?;
        let mut random = [0; ENCAPSULATION_RANDOM_BYTES];
        SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| Error::FailedToGetRandomBytes)?;
        let (ciphertext, secret) = key.encapsulate_deterministic(&random.into());
        let classical = ring::kx_group::X25519.start_and_complete(classical)?;

        // ML-KEM comes first in both the share and the secret, as the draft specifies.
        let mut pub_key = ciphertext.to_vec();
        pub_key.extend_from_slice(&classical.pub_key);
        let mut both = secret.to_vec();
        both.extend_from_slice(classical.secret.secret_bytes());
        Ok(CompletedKeyExchange {
            group: self.name(),
            pub_key,
            secret: SharedSecret::from(both),
        })
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn ffdhe_group(&self) -> Option<rustls::ffdhe_groups::FfdheGroup<'static>> {
        None
    }

    /// TLS 1.2 supports only elliptic curves.
    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}
