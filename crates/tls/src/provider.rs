//! The cryptography under rustls: ring, and the hybrid key exchange X25519MLKEM768 that browsers offer first.
//!
//! What is recorded today can be read once a quantum computer breaks X25519. The hybrid (draft-ietf-tls-ecdhe-mlkem)
//! mixes the secret of X25519 with one of ML-KEM-768 (FIPS 203), so that a recording stays closed as long as either holds.
//!
//! Only servers agree to it. A client of ours does not offer it: its share makes the first flight two packets,
//! which some old servers do not take, and a target is asked far more often over connections that are kept.

use std::sync::Arc;

use ::ring::rand::{SecureRandom, SystemRandom};
use ml_kem::ml_kem_768::EncapsulationKey;
use rustls::crypto::{
    ActiveKeyExchange, CompletedKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup, ring,
};
use rustls::{Error, NamedGroup, PeerMisbehaved, ProtocolVersion};

/// Bytes of an encapsulation key of ML-KEM-768, which a client's share begins with.
const ENCAPSULATION_KEY_BYTES: usize = 1184;

/// Bytes of a public key of X25519, which both shares end with.
const X25519_BYTES: usize = 32;

/// Random bytes that ML-KEM makes a secret of.
const ENCAPSULATION_RANDOM_BYTES: usize = 32;

/// What a server agrees to: the hybrid before ring's own groups.
pub(crate) fn for_servers() -> Arc<CryptoProvider> {
    let mut provider = ring::default_provider();
    provider.kx_groups.insert(0, &X25519MlKem768);
    Arc::new(provider)
}

/// The key exchange `X25519MLKEM768` as a server does it.
#[derive(Debug)]
struct X25519MlKem768;

impl SupportedKxGroup for X25519MlKem768 {
    /// A client would begin with it; see the top of this file.
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
        // It refuses coefficients that are not reduced (FIPS 203, 7.2).
        let key = EncapsulationKey::new(&(*key).into()).map_err(|_| invalid())?;
        let mut random = [0; ENCAPSULATION_RANDOM_BYTES];
        SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| Error::FailedToGetRandomBytes)?;
        let (ciphertext, secret) = key.encapsulate_deterministic(&random.into());
        let classical = ring::kx_group::X25519.start_and_complete(classical)?;

        // ML-KEM comes first in both: X25519 alone is not to decide what is mixed in before it.
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

    /// The groups of TLS 1.2 are curves alone.
    fn usable_for_version(&self, version: ProtocolVersion) -> bool {
        version == ProtocolVersion::TLSv1_3
    }
}
