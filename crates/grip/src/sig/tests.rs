use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A fixed present time, so that the tests need no clock.
const NOW_S: u64 = 1_800_000_000;

fn claims() -> Claims {
    Claims {
        issuer: Some("pushpin".into()),
        expires_s: Some(NOW_S + LIFETIME_S),
        not_before_s: None,
    }
}

fn no_file(path: &str) -> Result<Vec<u8>, FileError> {
    panic!("{path} is not to be read")
}

/// Keys made with OpenSSL for these tests only.
const EC: [&str; 2] = [
    include_str!("../../tests/keys/ec-sec1.pem"),
    include_str!("../../tests/keys/ec-pkcs8.pem"),
];
const EC_PUBLIC: &str = include_str!("../../tests/keys/ec-public.pem");
const EC_WITH_PARAMETERS: &str = include_str!("../../tests/keys/ec-params.pem");
const RSA: [&str; 2] = [
    include_str!("../../tests/keys/rsa-pkcs1.pem"),
    include_str!("../../tests/keys/rsa-pkcs8.pem"),
];
const RSA_PUBLIC: [&str; 2] = [
    include_str!("../../tests/keys/rsa-public.pem"),
    include_str!("../../tests/keys/rsa-public-pkcs1.pem"),
];

fn key(text: &str) -> Key {
    Key::parse(text, no_file).expect("a key of the tests")
}

/// RFC 7515, appendix A.1: a token of another implementation.
#[test]
fn accepts_the_token_of_the_rfc() {
    let token = b"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let secret = BASE64_URL_SAFE_NO_PAD.decode(
        "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow",
    );
    let key = Key::secret(&secret.expect("base64"));
    assert!(verify(&key, token, 1_300_819_379, Some("joe")).is_ok());
    assert_eq!(
        verify(&key, token, 1_300_819_380, None),
        Err(VerifyError::Expired)
    );
    assert_eq!(
        verify(&key, token, 1_300_819_379, Some("jim")),
        Err(VerifyError::Issuer)
    );
}

#[test]
fn accepts_tokens_of_pyjwt() {
    let tokens = [
        (
            EC_PUBLIC,
            include_bytes!("../../tests/keys/es256.jwt").as_slice(),
        ),
        (
            RSA_PUBLIC[0],
            include_bytes!("../../tests/keys/rs256.jwt").as_slice(),
        ),
        (
            RSA_PUBLIC[1],
            include_bytes!("../../tests/keys/rs256.jwt").as_slice(),
        ),
    ];
    for (public, token) in tokens {
        let claims = verify(&key(public), token, NOW_S, Some("pushpin")).expect("a good token");
        assert_eq!(claims.expires_s, Some(2_000_000_000));
    }
}

#[test]
fn every_private_key_form_matches_its_public_key() {
    let mut pairs = vec![(key("base64:Y2hhbmdlbWU="), key("changeme"))];
    pairs.extend(EC.map(|private| (key(private), key(EC_PUBLIC))));
    pairs.extend(RSA.map(|private| (key(private), key(RSA_PUBLIC[0]))));
    pairs.push((key(EC_WITH_PARAMETERS), key(EC_WITH_PARAMETERS)));
    for (private, public) in pairs {
        let token = sign(&private, &claims()).expect("a private key");
        assert_eq!(
            verify(&public, token.as_bytes(), NOW_S, Some("pushpin")),
            Ok(claims())
        );
        assert_eq!(
            verify(&private, token.as_bytes(), NOW_S, None),
            Ok(claims())
        );
        assert!(verify(&Key::secret(b"other"), token.as_bytes(), NOW_S, None).is_err());
    }
    for public in [EC_PUBLIC, RSA_PUBLIC[0]] {
        assert_eq!(sign(&key(public), &claims()), Err(SignError::Public));
    }
}

#[test]
fn reads_keys_from_files() {
    let pem = Key::parse("file:ec.pem", |path| {
        assert_eq!(path, "ec.pem");
        Ok(EC[0].into())
    });
    assert_eq!(pem.expect("PEM").algorithm(), "ES256");
    let hex = Key::parse("file:secret", |_| Ok(b"6368616e6765 6d65\n".to_vec()));
    assert_eq!(
        hex.expect_err("a blank").to_string(),
        KeyError::FileContent.to_string()
    );
    let hex =
        Key::parse("file:secret", |_| Ok(b"6368616e67656D65\n".to_vec())).expect("hexadecimal");
    let token = sign(&hex, &claims()).expect("a secret");
    assert!(verify(&key("changeme"), token.as_bytes(), NOW_S, None).is_ok());
}

#[test]
fn key_error_has_a_cause_and_no_key() {
    let file = |content: &'static str| Key::parse("file:x", |_| Ok(content.into())).map(drop);
    assert_eq!(Key::parse("", no_file).map(drop), Err(KeyError::Empty));
    assert_eq!(
        Key::parse("base64:", no_file).map(drop),
        Err(KeyError::Empty)
    );
    assert_eq!(
        Key::parse("base64:?", no_file).map(drop),
        Err(KeyError::Base64)
    );
    assert_eq!(
        Key::parse("file:x", |path| {
            Err(FileError::new(
                path.as_ref(),
                &std::io::Error::other("gone"),
            ))
        })
        .map_err(|error| error.to_string())
        .map(drop),
        Err("the key file cannot be read: x: gone".to_owned())
    );
    assert_eq!(file(""), Err(KeyError::FileContent));
    assert_eq!(file("secret"), Err(KeyError::FileContent));
    for pem in [
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----",
        "-----BEGIN EC PARAMETERS-----\nAAAA\n-----END EC PARAMETERS-----",
        // Keys for secp256k1, whose points are as long as those of P-256.
        "-----BEGIN EC PRIVATE KEY-----\nMHQCAQEEICVPUR1oFV6hetjL8NOUbl+I7bCq2/lw8ZPsHbM4Nl1WoAcGBSuBBAAKoUQDQgAE2S3PJXjGLcHz92a/5k/4HYsMCxd1IaPkCUFF6mWeZljFP2Odpw/Gh/vXAJ2D0h6dyfsP3hGUcVaKLlRfClDVEw==\n-----END EC PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\nMFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAE2S3PJXjGLcHz92a/5k/4HYsMCxd1IaPkCUFF6mWeZljFP2Odpw/Gh/vXAJ2D0h6dyfsP3hGUcVaKLlRfClDVEw==\n-----END PUBLIC KEY-----",
        // A key for P-384.
        "-----BEGIN EC PRIVATE KEY-----\nMIGkAgEBBDCpLKPZ42Ms3Mzm4bdJweouj71gJYNQwEq4MB1uhTjcCBRlaYRECUzwqWC3O6Av/hmgBwYFK4EEACKhZANiAASvszGIxV+SoYtVJosEAaViMQLvlIfRpfF9aQClCcj4aMK7BBJ8OY9CPp/7p3K4GM/yvbG/NvygyguTIQ8nRffBDS10A+DkPw1CR7Zp/4qXE5VqmLnTQrhWSgxz+SAbH6E=\n-----END EC PRIVATE KEY-----",
    ] {
        assert!(matches!(file(pem), Err(KeyError::Pem(_))), "{pem}");
    }
    assert_eq!(format!("{:?}", key("changeme")), "Key(HS256)");
}

fn encode(bytes: &[u8]) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

#[test]
fn a_token_cannot_choose_its_algorithm() {
    let body = encode(json!({"exp": NOW_S + 1}).to_string().as_bytes());
    for algorithm in ["none", "HS256", "hs256", "RS256"] {
        let header = encode(json!({"alg": algorithm}).to_string().as_bytes());
        // Signature with the public key's text as a secret.
        let secret = EncodingKey::from_secret(EC_PUBLIC.as_bytes());
        let message = format!("{header}.{body}");
        let signature = crypto::sign(message.as_bytes(), &secret, Algorithm::HS256);
        let signature = signature.expect("a secret");
        for token in [format!("{message}.{signature}"), format!("{message}.")] {
            assert_eq!(
                verify(&key(EC_PUBLIC), token.as_bytes(), NOW_S, None),
                Err(VerifyError::Algorithm)
            );
        }
    }
}

#[test]
fn checks_times_and_format() {
    let secret = key("changeme");
    let token = |claims: &Claims| sign(&secret, claims).expect("a secret");
    let check = |token: String| verify(&secret, token.as_bytes(), NOW_S, None).map(drop);
    for (expires_s, not_before_s, expected) in [
        (Some(NOW_S + 1), Some(NOW_S), Ok(())),
        (Some(NOW_S), None, Err(VerifyError::Expired)),
        (None, None, Err(VerifyError::Expired)),
        (Some(NOW_S + 9), Some(NOW_S + 1), Err(VerifyError::NotYet)),
    ] {
        assert_eq!(
            check(token(&Claims {
                expires_s,
                not_before_s,
                ..claims()
            })),
            expected
        );
    }
    let good = token(&claims());
    assert_eq!(check(format!(" {good}\n")), Ok(()));
    for bad in [
        String::new(),
        ".".into(),
        "..".into(),
        format!("{good}."),
        format!("{good}.x"),
        "a".repeat(TOKEN_BYTES_MAX + 1),
    ] {
        assert_eq!(check(bad), Err(VerifyError::Malformed));
    }
}

proptest! {
    #[test]
    fn rejects_any_changed_token(at in any::<prop::sample::Index>(), bit in 0..6u32) {
        let key = key("changeme");
        let mut token = sign(&key, &claims()).expect("a secret").into_bytes();
        let at = at.index(token.len());
        token[at] ^= 1 << bit;
        prop_assert!(verify(&key, &token, NOW_S, None).is_err());
    }
}
