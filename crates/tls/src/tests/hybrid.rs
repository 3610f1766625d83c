//! Tests of the key exchange X25519MLKEM768 with a client that offers it. tests/tls and tests/browser use the implementations of Go
//! and Chromium.

use std::sync::Arc;

use ml_kem::kem::{Decapsulate, KeyExport};
use ml_kem::{MlKem768, ml_kem_768};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::crypto::{ActiveKeyExchange, CryptoProvider, SharedSecret, SupportedKxGroup};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, Error, NamedGroup, PeerMisbehaved, RootCertStore,
    ServerConnection, SupportedProtocolVersion, version,
};

use super::{folder, server_config};

const ENCAPSULATION_KEY_BYTES: usize = 1184;
const CIPHERTEXT_BYTES: usize = 1088;

/// A change of the client's share before it is sent.
type Damage = fn(&mut Vec<u8>);

#[derive(Debug)]
struct Hybrid(Damage);

struct Begun {
    key: ml_kem_768::DecapsulationKey,
    classical: Box<dyn ActiveKeyExchange>,
    share: Vec<u8>,
}

impl SupportedKxGroup for Hybrid {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        let mut seed = [0; 64];
        SystemRandom::new().fill(&mut seed).expect("random numbers");
        let key = ml_kem::DecapsulationKey::<MlKem768>::from_seed(seed.into());
        let classical = rustls::crypto::ring::kx_group::X25519.start()?;
        let mut share = key.encapsulation_key().to_bytes().to_vec();
        share.extend_from_slice(classical.pub_key());
        (self.0)(&mut share);
        Ok(Box::new(Begun {
            key,
            classical,
            share,
        }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }

    fn usable_for_version(&self, version: rustls::ProtocolVersion) -> bool {
        version == rustls::ProtocolVersion::TLSv1_3
    }
}

impl ActiveKeyExchange for Begun {
    fn complete(self: Box<Self>, share: &[u8]) -> Result<SharedSecret, Error> {
        let (ciphertext, classical) = share.split_at(CIPHERTEXT_BYTES);
        let ciphertext = ciphertext.try_into().expect("so many bytes");
        let mut secret = self.key.decapsulate(&ciphertext).to_vec();
        secret.extend_from_slice(self.classical.complete(classical)?.secret_bytes());
        Ok(SharedSecret::from(secret))
    }

    fn pub_key(&self) -> &[u8] {
        &self.share
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519MLKEM768
    }
}

/// Returns the negotiated key exchange, or the server's error.
fn handshake(
    damage: Damage,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<NamedGroup, Error> {
    let config = server_config();
    let mut roots = RootCertStore::empty();
    let own =
        CertificateDer::from_pem_file(folder().join("localhost-ca.pem")).expect("it is there");
    roots.add(own).expect("a certificate");
    let group: &'static Hybrid = Box::leak(Box::new(Hybrid(damage)));
    let mut provider: CryptoProvider = rustls::crypto::ring::default_provider();
    provider.kx_groups.insert(0, group);
    let client = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .expect("they fit")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(Arc::new(client), name).expect("a client");
    let mut server = ServerConnection::new(config).expect("a server");
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).expect("memory");
        server.read_tls(&mut wire.as_slice()).expect("memory");
        server.process_new_packets()?;
        let mut wire = Vec::new();
        server.write_tls(&mut wire).expect("memory");
        client.read_tls(&mut wire.as_slice()).expect("memory");
        client.process_new_packets()?;
    }
    let group = |group: Option<&dyn SupportedKxGroup>| group.map(SupportedKxGroup::name);
    let agreed = group(server.negotiated_key_exchange_group());
    assert_eq!(agreed, group(client.negotiated_key_exchange_group()));
    Ok(agreed.expect("a handshake has one"))
}

#[test]
fn a_client_that_offers_the_hybrid_gets_it() {
    let agreed = handshake(|_| {}, &[&version::TLS13]);
    assert_eq!(agreed, Ok(NamedGroup::X25519MLKEM768));
}

#[test]
fn tls12_uses_only_curves() {
    let agreed = handshake(|_| {}, &[&version::TLS12]);
    assert_eq!(agreed, Ok(NamedGroup::X25519));
}

#[test]
fn rejects_invalid_shares() {
    let damages: [Damage; 4] = [
        |share| share.truncate(share.len() - 1),
        |share| share.push(0),
        |share| share.truncate(1),
        // Twelve one bits are not a coefficient below 3329.
        |share| share[..3].fill(0xff),
    ];
    for (nth, damage) in damages.into_iter().enumerate() {
        let refused = handshake(damage, &[&version::TLS13]);
        let expected = Err(Error::from(PeerMisbehaved::InvalidKeyShare));
        assert_eq!(refused, expected, "damage {nth}");
    }
    let damaged: Damage = |share| share[ENCAPSULATION_KEY_BYTES - 1] ^= 1;
    // Another valid key gives another secret, which the client notices at the first record.
    assert!(handshake(damaged, &[&version::TLS13]).is_err());
}
