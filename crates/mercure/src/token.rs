//! Tokens: signed JSON web tokens (RFC 7519) that authorize publishers and subscribers.
//!
//! Keys and their algorithms come from the settings. The algorithm named in a token must be that of the key. It is never used to
//! select one.

use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::matcher::matcher;
use crate::resource::{DETAIL, Draft};
use crate::selector::{Selector, Syntax};
use crate::topic::Topic;

/// Maximum length of a token, in bytes.
const TOKEN_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of keys in a set.
const KEYS_MAX: usize = 32;

/// Maximum number of selectors of each kind in a token.
const SELECTORS_MAX: usize = 1024;

/// Names of the claim; the second is for issuers that accept only URLs as names.
const CLAIMS: [&str; 2] = ["mercure", "https://mercure.rocks/"];

/// Verifier of publishers' or subscribers' tokens. Clones share the keys: [`Verifier::replace`] replaces them in all clones.
#[derive(Clone)]
pub struct Verifier {
    keys: Arc<RwLock<Arc<[Key]>>>,
    /// True if a token was refused because its key may be missing.
    has_missed: Arc<AtomicBool>,
}

#[derive(Clone)]
struct Key {
    /// Its `kid`.
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// Reason why a key is refused. No message contains a part of the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is empty.
    #[error("the key is empty")]
    Empty,
    /// The algorithm is unknown, or not for signatures.
    #[error(
        "there is no algorithm {0}; use HS256, HS384, HS512, RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 or EdDSA"
    )]
    Algorithm(String),
    /// A public key, or part of a key pair, is used as a secret.
    #[error(
        "the key is PEM, and {0} needs a secret: anyone who knows the public key could sign; set the algorithm to that of the pair (RS256, ES256, EdDSA)"
    )]
    PemAsSecret(String),
    /// The text is not PEM of the required kind of key.
    #[error("the key is not the public key in PEM that {0} needs")]
    Pem(String),
    /// The text is not a valid key set.
    #[error("the JWKS cannot be used: {0}")]
    Jwks(JwksError),
}

/// Reason why a key set is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwksError {
    /// Invalid JSON or structure, with the text of the parser's error, because that error cannot be compared.
    #[error("{0}")]
    Json(String),
    /// No keys, or too many.
    #[error("it has to have 1 to {KEYS_MAX} keys")]
    Count,
    /// The key is not for signatures.
    #[error("its keys are for encryption")]
    Encryption,
    /// Invalid parameters, with the text of the library's error.
    #[error("{0}")]
    Parameters(String),
    /// The algorithm is not for signatures.
    #[error("{0} signs nothing")]
    Algorithm(String),
}

impl From<serde_json::Error> for JwksError {
    fn from(error: serde_json::Error) -> JwksError {
        JwksError::Json(error.to_string())
    }
}

/// Claims of a token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claims {
    /// Expiry time, in seconds since 1970. The token is invalid from that second on.
    pub expires_s: Option<u64>,
    /// Topics to which the bearer of the token may publish. `None`: the bearer may not publish.
    pub publish: Option<Vec<String>>,
    /// Topics whose private updates the bearer of the token may read.
    pub subscribe: Option<Vec<String>>,
    /// Public data about the bearer of the token.
    pub payload: Option<Value>,
}

/// Reason why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a token, or malformed claims.
    #[error("the token is malformed")]
    Malformed,
    /// Signed with another algorithm or an unknown key.
    #[error("the token is signed with an algorithm or a key that is not configured")]
    Key,
    /// The signature is wrong.
    #[error("the token's signature is wrong: another key made it")]
    Signature,
    /// Expired.
    #[error("the token has expired")]
    Expired,
    /// The token is not valid yet.
    #[error("the token is not yet valid")]
    NotYet,
}

impl Verifier {
    /// Creates a verifier with one key and its algorithm.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn new(key: &str, algorithm: &str) -> Result<Verifier, KeyError> {
        if key.is_empty() {
            return Err(KeyError::Empty);
        }
        let unknown = |_| KeyError::Algorithm(algorithm.to_owned());
        let name = Algorithm::from_str(algorithm).map_err(unknown)?;
        use Algorithm::{ES256, ES384, EdDSA, HS256, HS384, HS512};
        let bytes = key.as_bytes();
        let is_secret = matches!(name, HS256 | HS384 | HS512);
        if is_secret && key.trim_start().starts_with("-----BEGIN ") {
            return Err(KeyError::PemAsSecret(algorithm.to_owned()));
        }
        let key = match name {
            HS256 | HS384 | HS512 => Ok(DecodingKey::from_secret(bytes)),
            ES256 | ES384 => DecodingKey::from_ec_pem(bytes),
            EdDSA => DecodingKey::from_ed_pem(bytes),
            _ => DecodingKey::from_rsa_pem(bytes),
        };
        let key = key.map_err(|_| KeyError::Pem(algorithm.to_owned()))?;
        let algorithms = vec![name];
        Ok(Verifier::of(vec![Key {
            id: None,
            algorithms,
            key,
        }]))
    }

    fn of(keys: Vec<Key>) -> Verifier {
        Verifier {
            keys: Arc::new(RwLock::new(keys.into())),
            has_missed: Arc::default(),
        }
    }

    /// Creates a verifier without keys, which refuses every token.
    pub fn empty() -> Verifier {
        Verifier::of(Vec::new())
    }

    /// Replaces the keys of this verifier with those of `other`.
    pub fn replace(&self, other: &Verifier) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = other.keys();
    }

    /// Returns true if a token was refused since the last call because its key may be missing: no key has its `kid`, or it has
    /// no `kid` and no key verifies its signature. The caller may then fetch the keys again.
    pub fn take_missed(&self) -> bool {
        self.has_missed.swap(false, Ordering::Relaxed)
    }

    fn keys(&self) -> Arc<[Key]> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Parses a key set (RFC 7517). Keys that are not for signatures, or of unknown types, are skipped as section 5
    /// requires.
    ///
    /// # Errors
    /// No key of the set can be used.
    pub fn from_jwks(text: &str) -> Result<Verifier, KeyError> {
        let set: Set = serde_json::from_str(text).map_err(|error| KeyError::Jwks(error.into()))?;
        if set.keys.is_empty() || set.keys.len() > KEYS_MAX {
            return Err(KeyError::Jwks(JwksError::Count));
        }
        let mut keys = Vec::new();
        let mut first = None;
        for jwk in set.keys {
            match Key::from_jwk(jwk) {
                Ok(key) => keys.push(key),
                Err(error) => first = first.or(Some(error)),
            }
        }
        match first {
            Some(error) if keys.is_empty() => Err(KeyError::Jwks(error)),
            _ => Ok(Verifier::of(keys)),
        }
    }

    /// Verifies a token.
    ///
    /// # Errors
    /// The token is refused.
    pub fn verify(&self, token: &str, unix_s: u64) -> Result<Claims, TokenError> {
        let (_, claims) = self.decode(token)?;
        claims_of(&claims, unix_s)
    }

    /// Verifies a token of the draft, an OAuth access token (RFC 9068).
    ///
    /// # Errors
    /// The token is refused.
    pub(crate) fn verify_access(
        &self,
        token: &str,
        draft: &Draft,
        unix_s: u64,
    ) -> Result<Grants, TokenError> {
        let (kind, claims) = self.decode(token)?;
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        if kind.strip_prefix("application/").unwrap_or(&kind) != "at+jwt" {
            return Err(TokenError::Malformed);
        }
        grants_of(&claims, draft, unix_s)
    }

    /// Returns the type and the claims of a token, if one of the keys has signed the token.
    fn decode(&self, token: &str) -> Result<(Option<String>, Value), TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::Malformed);
        }
        if has_critical(token) {
            return Err(TokenError::Malformed);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|error| match error.kind() {
            // The algorithm is unknown, for example `none`.
            jsonwebtoken::errors::ErrorKind::Json(_) => TokenError::Key,
            _ => TokenError::Malformed,
        })?;
        let fits = |key: &&Key| {
            let is_named = match (&header.kid, &key.id) {
                (Some(wanted), Some(id)) => wanted == id,
                _ => true,
            };
            is_named && key.algorithms.contains(&header.alg)
        };
        let keys = self.keys();
        let is_missed = |failure| match &header.kid {
            Some(wanted) => !keys.iter().any(|key| key.id.as_ref() == Some(wanted)),
            None => failure == TokenError::Signature,
        };
        let mut failure = TokenError::Key;
        for key in keys.iter().filter(fits) {
            let mut validation = Validation::new(header.alg);
            // Times are checked below, with the clock of the caller.
            validation.validate_exp = false;
            validation.validate_aud = false;
            validation.required_spec_claims.clear();
            match jsonwebtoken::decode::<Value>(token, &key.key, &validation) {
                Ok(token) => return Ok((header.typ, token.claims)),
                Err(error) => {
                    use jsonwebtoken::errors::ErrorKind::{InvalidAlgorithm, InvalidSignature};
                    failure = match error.kind() {
                        InvalidSignature => TokenError::Signature,
                        InvalidAlgorithm => TokenError::Key,
                        _ => TokenError::Malformed,
                    };
                }
            }
        }
        if is_missed(failure) {
            self.has_missed.store(true, Ordering::Relaxed);
        }
        Err(failure)
    }
}

/// A key set whose keys are not parsed yet, so that an invalid key does not affect the others.
#[derive(serde::Deserialize)]
struct Set {
    keys: Vec<Value>,
}

impl Key {
    fn from_jwk(jwk: Value) -> Result<Key, JwksError> {
        let jwk: Jwk = serde_json::from_value(jwk)?;
        if jwk.common.public_key_use == Some(PublicKeyUse::Encryption) {
            return Err(JwksError::Encryption);
        }
        let key = DecodingKey::from_jwk(&jwk)
            .map_err(|error| JwksError::Parameters(error.to_string()))?;
        let algorithms = match jwk.common.key_algorithm {
            Some(named) => {
                let name = named.to_string();
                let known = Algorithm::from_str(&name);
                vec![known.map_err(|_| JwksError::Algorithm(name))?]
            }
            None => algorithms_of(&jwk.algorithm),
        };
        Ok(Key {
            id: jwk.common.key_id,
            algorithms,
            key,
        })
    }
}

impl std::fmt::Debug for Verifier {
    /// Omits the keys, so that they cannot end up in a log.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Verifier({} keys)", self.keys().len())
    }
}

/// Returns the algorithms of a key in a set that has no `alg`.
fn algorithms_of(parameters: &AlgorithmParameters) -> Vec<Algorithm> {
    use Algorithm::{
        ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, PS384, PS512, RS256, RS384, RS512,
    };
    match parameters {
        AlgorithmParameters::RSA(_) => vec![RS256, RS384, RS512, PS256, PS384, PS512],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => vec![ES384],
        AlgorithmParameters::EllipticCurve(_) => vec![ES256],
        AlgorithmParameters::OctetKey(_) => vec![HS256, HS384, HS512],
        AlgorithmParameters::OctetKeyPair(_) => vec![EdDSA],
    }
}

/// Grants of a token in the draft.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// Expiry, in seconds since 1970.
    pub expires_s: Option<u64>,
    details: Vec<Detail>,
}

#[derive(Debug)]
struct Detail {
    publishes: bool,
    subscribes: bool,
    matchers: Vec<Matcher>,
    payload: Value,
}

/// A matcher, compiled once per token.
#[derive(Debug)]
struct Matcher {
    /// The matcher as written, with its type.
    text: String,
    selector: Selector,
}

impl Detail {
    fn is_for(&self, topic: &Topic) -> bool {
        self.matchers.iter().any(|it| it.selector.matches(topic))
    }
}

impl Grants {
    /// Returns true if the bearer may publish to a topic.
    pub fn publishes(&self, topic: &Topic) -> bool {
        let mut details = self.details.iter().filter(|it| it.publishes);
        details.any(|it| it.is_for(topic))
    }

    /// Returns true if the bearer may read a topic's private updates.
    pub fn subscribes(&self, topic: &Topic) -> bool {
        let mut details = self.details.iter().filter(|it| it.subscribes);
        details.any(|it| it.is_for(topic))
    }

    /// Returns the payload of a subscription with this matcher.
    pub fn payload_of(&self, matcher: &str) -> Value {
        let matcher = Topic::new(matcher);
        let mut details = self.details.iter().filter(|it| it.subscribes);
        let found = details.find(|it| it.is_for(&matcher));
        found.map(|it| it.payload.clone()).unwrap_or_default()
    }

    /// Returns the matchers, as written, of topics whose private updates the bearer may read.
    pub fn into_subscribe(self) -> Vec<String> {
        let details = self.details.into_iter().filter(|it| it.subscribes);
        details
            .flat_map(|it| it.matchers)
            .map(|it| it.text)
            .collect()
    }
}

fn grants_of(claims: &Value, draft: &Draft, unix_s: u64) -> Result<Grants, TokenError> {
    let expires_s = check_times(claims, unix_s)?;
    let is_for_this = match &claims["aud"] {
        Value::Array(all) => all.iter().any(|it| *it == draft.resource),
        one => *one == draft.resource,
    };
    if expires_s.is_none() || claims["iss"] != draft.issuer || !is_for_this {
        return Err(TokenError::Malformed);
    }
    let details = match &claims["authorization_details"] {
        Value::Null => &[][..],
        Value::Array(details) if details.len() <= SELECTORS_MAX => details,
        _ => return Err(TokenError::Malformed),
    };
    let own = details.iter().filter(|it| it["type"] == DETAIL);
    let syntax = Syntax::Matchers(std::sync::Arc::clone(&draft.base));
    let details: Vec<Detail> = own
        .map(|it| detail_of(it, &syntax).ok_or(TokenError::Malformed))
        .collect::<Result<_, _>>()?;
    let matchers: usize = details.iter().map(|it| it.matchers.len()).sum();
    if matchers > SELECTORS_MAX {
        Err(TokenError::Malformed)
    } else {
        Ok(Grants { expires_s, details })
    }
}

/// Parses one authorization detail. Returns `None` if the detail is malformed, which makes the token malformed.
fn detail_of(detail: &Value, syntax: &Syntax) -> Option<Detail> {
    let actions = detail["actions"].as_array().filter(|it| !it.is_empty())?;
    let actions: Vec<&str> = actions.iter().map(Value::as_str).collect::<Option<_>>()?;
    let topics = detail["topics"].as_array().filter(|it| !it.is_empty())?;
    let read = |topic: &Value| {
        let kind = match topic.get("match_type") {
            Some(kind) => kind.as_str()?,
            None => "exact",
        };
        let text = matcher(kind, topic["match"].as_str()?)?;
        let selector = Selector::parse_as(syntax, &text).ok()?;
        Some(Matcher { text, selector })
    };
    let payload = detail.get("payload").unwrap_or(&Value::Null);
    (payload.is_null() || payload.is_object()).then_some(())?;
    let can = |action: &str| actions.contains(&action);
    Some(Detail {
        publishes: can("publish"),
        subscribes: can("subscribe"),
        matchers: topics.iter().map(read).collect::<Option<_>>()?,
        payload: payload.clone(),
    })
}

/// Returns the expiry time of a token. Fails if the token has expired or is not valid yet.
fn check_times(claims: &Value, unix_s: u64) -> Result<Option<u64>, TokenError> {
    if !claims.is_object() {
        return Err(TokenError::Malformed);
    }
    let seconds = |name: &str| match &claims[name] {
        Value::Null => Ok(None),
        value => match value.as_f64() {
            Some(seconds) if (0.0..1e15).contains(&seconds) => Ok(Some(seconds as u64)),
            _ => Err(TokenError::Malformed),
        },
    };
    let expires_s = seconds("exp")?;
    if expires_s.is_some_and(|expires_s| expires_s <= unix_s) {
        return Err(TokenError::Expired);
    }
    if seconds("nbf")?.is_some_and(|from_s| from_s > unix_s) {
        return Err(TokenError::NotYet);
    }
    Ok(expires_s)
}

/// Returns true if a token has critical extensions (RFC 7515, section 4.1.11). The hub supports none of them.
fn has_critical(token: &str) -> bool {
    #[derive(Deserialize)]
    struct Header {
        crit: Option<IgnoredAny>,
    }
    let header = token.split('.').next().unwrap_or_default();
    let mut bytes = vec![0; header.len() + 3];
    // A header that is not base64 has no `crit` here. `decode_header` refuses it later.
    let len = URL_SAFE_NO_PAD.decode_slice(header, &mut bytes);
    let header = len.ok().and_then(|len| bytes.get(..len));
    let header = header.and_then(|it| serde_json::from_slice::<Header>(it).ok());
    header.is_some_and(|it| it.crit.is_some())
}

fn claims_of(claims: &Value, unix_s: u64) -> Result<Claims, TokenError> {
    let expires_s = check_times(claims, unix_s)?;
    let own = CLAIMS.iter().find_map(|name| claims.get(*name));
    let Some(own) = own else {
        return Ok(Claims {
            expires_s,
            ..Claims::default()
        });
    };
    if !own.is_object() {
        return Err(TokenError::Malformed);
    }
    Ok(Claims {
        expires_s,
        publish: selectors(&own["publish"])?,
        subscribe: selectors(&own["subscribe"])?,
        payload: own.get("payload").filter(|it| !it.is_null()).cloned(),
    })
}

fn selectors(value: &Value) -> Result<Option<Vec<String>>, TokenError> {
    let list = match value {
        Value::Null => return Ok(None),
        Value::Array(list) if list.len() <= SELECTORS_MAX => list,
        _ => return Err(TokenError::Malformed),
    };
    let text = |it: &Value| it.as_str().map(str::to_owned).ok_or(TokenError::Malformed);
    list.iter().map(text).collect::<Result<_, _>>().map(Some)
}

#[cfg(test)]
mod tests;
