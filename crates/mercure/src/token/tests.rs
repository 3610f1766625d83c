use jsonwebtoken::{EncodingKey, Header, encode};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const SECRET: &str = "!ChangeThisMercureHubJWTSecretKey!";
const NOW_S: u64 = 1_700_000_000;

fn sign(algorithm: Algorithm, key: &EncodingKey, claims: &Value) -> String {
    encode(&Header::new(algorithm), claims, key).expect("a token")
}

fn secret(claims: &Value) -> String {
    sign(
        Algorithm::HS256,
        &EncodingKey::from_secret(SECRET.as_bytes()),
        claims,
    )
}

fn grants() -> Value {
    json!({"mercure": {"publish": ["*"], "subscribe": ["a", "b/{c}"], "payload": {"u": 1}}})
}

/// A token from the Mercure hub's own tests.
#[test]
fn accepts_a_token_of_the_mercure_hub() {
    let verifier = Verifier::new("!ChangeMe!", "HS256").expect("a key");
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.\
        eyJtZXJjdXJlIjp7InB1Ymxpc2giOlsiZm9vIiwiYmFyIl0sInN1YnNjcmliZSI6WyJmb28iLCJiYXoiXX19.\
        e7USPnr2YHHqLYSu9-jEVsynuTXGtAQUDAZuzoR8lxQ";
    let claims = verifier.verify(token, NOW_S).expect("good");
    let texts = |list: [&str; 2]| Some(list.map(str::to_owned).to_vec());
    assert_eq!(claims.publish, texts(["foo", "bar"]));
    assert_eq!(claims.subscribe, texts(["foo", "baz"]));
}

#[test]
fn parses_claims() {
    let verifier = Verifier::new(SECRET, "HS256").expect("a key");
    let claims = verifier.verify(&secret(&grants()), NOW_S).expect("good");
    assert_eq!(
        claims.subscribe,
        Some(vec!["a".to_owned(), "b/{c}".to_owned()])
    );
    assert_eq!(claims.payload, Some(json!({"u": 1})));
    let named = json!({"https://mercure.rocks/": {"subscribe": []}, "exp": NOW_S + 1});
    let claims = verifier.verify(&secret(&named), NOW_S).expect("good");
    assert_eq!((claims.publish, claims.subscribe), (None, Some(Vec::new())));
    assert_eq!(claims.expires_s, Some(NOW_S + 1));
    let nothing = verifier.verify(&secret(&json!({})), NOW_S).expect("good");
    assert_eq!(nothing, Claims::default());
}

#[test]
fn checks_times() {
    let verifier = Verifier::new(SECRET, "HS256").expect("a key");
    for (claims, expected) in [
        (json!({"exp": NOW_S}), Err(TokenError::Expired)),
        (json!({"exp": NOW_S as f64 - 0.5}), Err(TokenError::Expired)),
        (json!({"exp": -1}), Err(TokenError::Malformed)),
        (json!({"exp": "soon"}), Err(TokenError::Malformed)),
        (json!({"nbf": NOW_S + 1}), Err(TokenError::NotYet)),
        (json!({"exp": NOW_S + 1, "nbf": NOW_S}), Ok(())),
        (json!({"mercure": 1}), Err(TokenError::Malformed)),
        (
            json!({"mercure": {"subscribe": "*"}}),
            Err(TokenError::Malformed),
        ),
        (
            json!({"mercure": {"subscribe": [1]}}),
            Err(TokenError::Malformed),
        ),
    ] {
        let outcome = verifier.verify(&secret(&claims), NOW_S).map(|_| ());
        assert_eq!(outcome, expected, "{claims}");
    }
}

fn url_base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for piece in text.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(piece.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..=piece.len() {
            let digit = (bits >> (18 - 6 * at)) & 63;
            out.push(char::from(DIGITS[digit as usize]));
        }
    }
    out
}

#[test]
fn rejects_other_algorithms_and_keys() {
    let verifier = Verifier::new(SECRET, "HS256").expect("a key");
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let other = sign(Algorithm::HS512, &key, &grants());
    assert_eq!(verifier.verify(&other, NOW_S), Err(TokenError::Key));
    let key = EncodingKey::from_secret(b"another");
    let other = sign(Algorithm::HS256, &key, &grants());
    assert_eq!(verifier.verify(&other, NOW_S), Err(TokenError::Signature));
    for none in ["none", "None", "NONE", "", "HS256 "] {
        let header = url_base64(&json!({"alg": none, "typ": "JWT"}).to_string());
        let body = url_base64(&grants().to_string());
        for token in [format!("{header}.{body}."), format!("{header}.{body}.AAAA")] {
            assert_eq!(
                verifier.verify(&token, NOW_S),
                Err(TokenError::Key),
                "{none}"
            );
        }
    }
    // A public key used as an HMAC secret must not be accepted.
    let public = include_str!("rsa.pub.pem");
    let verifier = Verifier::new(public, "RS256").expect("a key");
    let key = EncodingKey::from_secret(public.as_bytes());
    let confused = sign(Algorithm::HS256, &key, &grants());
    assert_eq!(verifier.verify(&confused, NOW_S), Err(TokenError::Key));
}

#[test]
fn rejects_a_public_key_as_secret() {
    // If the verifier took the key as a secret, with the default algorithm, anyone who knows the
    // public key could sign.
    for (pem, name) in [
        (include_str!("rsa.pub.pem"), "HS256"),
        (include_str!("ec.pub.pem"), "HS512"),
    ] {
        let error = Verifier::new(pem, name).expect_err("no secret");
        assert_eq!(error, KeyError::PemAsSecret(name.to_owned()));
        assert!(!error.to_string().contains("BEGIN"), "{error}");
    }
}

#[test]
fn rejects_tokens_with_critical_extensions() {
    let verifier = Verifier::new(SECRET, "HS256").expect("a key");
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let verify = |header: Value| {
        let text = format!(
            "{}.{}",
            url_base64(&header.to_string()),
            url_base64(&grants().to_string())
        );
        let signature = jsonwebtoken::crypto::sign(text.as_bytes(), &key, Algorithm::HS256);
        let token = format!("{text}.{}", signature.expect("a signature"));
        verifier.verify(&token, NOW_S).map(|_| ())
    };
    assert_eq!(verify(json!({"alg": "HS256", "x": ["exp"]})), Ok(()));
    for crit in [json!(["exp"]), json!(["b64"]), json!([]), json!("x")] {
        let header = json!({"alg": "HS256", "crit": crit});
        assert_eq!(verify(header), Err(TokenError::Malformed));
    }
}

#[test]
fn verifies_with_key_pairs() {
    let rsa = EncodingKey::from_rsa_pem(include_bytes!("rsa.pem")).expect("a key");
    let curve = EncodingKey::from_ec_pem(include_bytes!("ec.pem")).expect("a key");
    let large = EncodingKey::from_ec_pem(include_bytes!("ec384.pem")).expect("a key");
    let edwards = EncodingKey::from_ed_pem(include_bytes!("ed.pem")).expect("a key");
    for (public, name, algorithm, private) in [
        (include_str!("rsa.pub.pem"), "RS256", Algorithm::RS256, &rsa),
        (include_str!("rsa.pub.pem"), "RS512", Algorithm::RS512, &rsa),
        (include_str!("rsa.pub.pem"), "PS384", Algorithm::PS384, &rsa),
        (
            include_str!("ec.pub.pem"),
            "ES256",
            Algorithm::ES256,
            &curve,
        ),
        (
            include_str!("ec384.pub.pem"),
            "ES384",
            Algorithm::ES384,
            &large,
        ),
        (
            include_str!("ed.pub.pem"),
            "EdDSA",
            Algorithm::EdDSA,
            &edwards,
        ),
    ] {
        let verifier = Verifier::new(public, name).expect("a key");
        let token = sign(algorithm, private, &grants());
        assert!(verifier.verify(&token, NOW_S).is_ok(), "{name}");
    }
    assert_eq!(Verifier::new("", "HS256").err(), Some(KeyError::Empty));
    let unknown = Verifier::new("x", "none").err();
    assert_eq!(unknown, Some(KeyError::Algorithm("none".to_owned())));
    let error = Verifier::new("secret text", "RS256")
        .expect_err("no PEM")
        .to_string();
    assert!(
        error.contains("RS256") && !error.contains("secret text"),
        "{error}"
    );
}

#[test]
fn verifies_with_key_sets() {
    let secret = url_base64(SECRET);
    let set = json!({"keys": [
        {"kty": "oct", "k": url_base64("first"), "alg": "HS256", "kid": "1"},
        {"kty": "oct", "k": secret, "kid": "2"},
    ]});
    let verifier = Verifier::from_jwks(&set.to_string()).expect("a set");
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let token = |kid: Option<&str>, algorithm: Algorithm| {
        let mut header = Header::new(algorithm);
        header.kid = kid.map(str::to_owned);
        encode(&header, &grants(), &key).expect("a token")
    };
    let verify = |kid, algorithm| verifier.verify(&token(kid, algorithm), NOW_S).map(|_| ());
    assert_eq!(verify(Some("2"), Algorithm::HS256), Ok(()));
    assert_eq!(verify(Some("2"), Algorithm::HS384), Ok(()));
    assert_eq!(verify(None, Algorithm::HS256), Ok(()));
    assert_eq!(
        verify(Some("1"), Algorithm::HS256),
        Err(TokenError::Signature)
    );
    assert_eq!(verify(Some("1"), Algorithm::HS384), Err(TokenError::Key));
    assert_eq!(verify(Some("3"), Algorithm::HS256), Err(TokenError::Key));
    // Keys for other purposes are skipped.
    let mixed = json!({"keys": [
        {"kty": "new", "kid": "4"},
        {"kty": "oct", "k": secret, "use": "enc", "kid": "5"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "alg": "RSA-OAEP", "kid": "6"},
        {"kty": "oct", "k": secret, "kid": "7"},
    ]});
    let mixed = Verifier::from_jwks(&mixed.to_string()).expect("one can be used");
    assert_eq!(format!("{mixed:?}"), "Verifier(1 keys)");
    let seventh = token(Some("7"), Algorithm::HS256);
    assert!(mixed.verify(&seventh, NOW_S).is_ok());
    for wrong in ["", "{}", "{\"keys\":[]}", "{\"keys\":[{\"kty\":\"x\"}]}"] {
        assert!(Verifier::from_jwks(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn replaces_keys_of_all_clones_and_records_missing_ones() {
    let set = |kid: &str| {
        let set = json!({"keys": [{"kty": "oct", "k": url_base64(SECRET), "kid": kid}]});
        Verifier::from_jwks(&set.to_string()).expect("a set")
    };
    let verifier = Verifier::empty();
    let twin = verifier.clone();
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let token = |kid: Option<&str>, key: &EncodingKey| {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = kid.map(str::to_owned);
        encode(&header, &grants(), key).expect("a token")
    };
    let one = token(Some("1"), &key);
    assert_eq!(twin.verify(&one, NOW_S), Err(TokenError::Key));
    assert!(verifier.take_missed() && !twin.take_missed());
    verifier.replace(&set("1"));
    assert!(twin.verify(&one, NOW_S).is_ok() && !verifier.take_missed());
    verifier.replace(&set("2"));
    assert!(twin.verify(&one, NOW_S).is_err() && verifier.take_missed());
    // The named key is present but did not sign the token, so no key is missing.
    let other = EncodingKey::from_secret(b"another");
    let forged = twin.verify(&token(Some("2"), &other), NOW_S);
    assert_eq!(forged, Err(TokenError::Signature));
    assert!(!verifier.take_missed());
    assert!(twin.verify(&token(None, &other), NOW_S).is_err() && verifier.take_missed());
    assert!(twin.verify("x", NOW_S).is_err() && !verifier.take_missed());
}

proptest! {
    #[test]
    fn never_panics_on_any_text(text in "\\PC{0,80}") {
        let verifier = Verifier::new(SECRET, "HS256").expect("a key");
        prop_assert!(verifier.verify(&text, NOW_S).is_err());
    }

    #[test]
    fn rejects_any_changed_token(at in 0_usize..200, by in 1_u8..=127) {
        let verifier = Verifier::new(SECRET, "HS256").expect("a key");
        let token = secret(&grants());
        let mut bytes = token.clone().into_bytes();
        let at = at % bytes.len();
        bytes[at] = (bytes[at] + by) % 128;
        let text = String::from_utf8(bytes).expect("ASCII");
        prop_assert!(text == token || verifier.verify(&text, NOW_S).is_err());
    }
}
