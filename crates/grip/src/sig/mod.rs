//! `Grip-Sig`: a JSON web token that proves to backends that a request comes from their edge, and to an edge that a
//! client is another edge.
//!
//! The key determines the algorithm: HS256, ES256 or RS256. The algorithm named in a token must be the same. It is never used to
//! select one.

mod key;

use jsonwebtoken::errors::ErrorKind::{InvalidAlgorithm, InvalidSignature, Json};
use jsonwebtoken::{Header, Validation};
use serde_json::{Map, Value};

pub use key::{FileError, Key, KeyError};

/// Name of the header.
pub const HEADER: &str = "Grip-Sig";
/// Validity of the edge's tokens, in seconds.
pub const LIFETIME_S: u64 = 3_600;
/// Maximum length of a token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8_192;

/// Claims of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The issuer.
    pub issuer: Option<String>,
    /// Expiry time, in seconds since 1970. The token is invalid from that second on.
    pub expires_s: Option<u64>,
    /// Start of validity, in seconds since 1970.
    pub not_before_s: Option<u64>,
}

/// Reason why a token cannot be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The key is public.
    #[error("the key is a public one; signing needs the private key")]
    Public,
    /// The system's random number generator failed.
    #[error("the cryptographic library could not sign")]
    Failed,
}

/// Reason why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// Not three parts of base64 and JSON, or longer than [`TOKEN_BYTES_MAX`].
    #[error("the token is malformed")]
    Malformed,
    /// Signed with another algorithm.
    #[error("the token's algorithm does not match the key")]
    Algorithm,
    /// The signature is wrong.
    #[error("the token's signature is wrong: another key made it")]
    Signature,
    /// Expired, or without an expiry.
    #[error("the token has expired, or has no exp; compare the clocks of both machines")]
    Expired,
    /// The token is not valid yet.
    #[error("the token is not yet valid; compare the clocks of both machines")]
    NotYet,
    /// The token has another issuer.
    #[error("the token has another issuer")]
    Issuer,
}

/// Signs a token.
///
/// # Errors
/// The key cannot sign.
pub fn sign(key: &Key, claims: &Claims) -> Result<String, SignError> {
    let signing = key.signing.as_ref().ok_or(SignError::Public)?;
    let mut fields = Map::new();
    if let Some(issuer) = &claims.issuer {
        fields.insert("iss".into(), issuer.as_str().into());
    }
    if let Some(expires_s) = claims.expires_s {
        fields.insert("exp".into(), expires_s.into());
    }
    if let Some(not_before_s) = claims.not_before_s {
        fields.insert("nbf".into(), not_before_s.into());
    }
    jsonwebtoken::encode(&Header::new(key.algorithm), &fields, signing)
        .map_err(|_| SignError::Failed)
}

/// Verifies a token: its signature, its times, and its issuer if one is expected.
///
/// # Errors
/// The token is invalid.
pub fn verify(
    key: &Key,
    token: &[u8],
    now_s: u64,
    issuer: Option<&str>,
) -> Result<Claims, VerifyError> {
    let token = token.trim_ascii();
    if token.len() > TOKEN_BYTES_MAX {
        return Err(VerifyError::Malformed);
    }
    // The key determines the algorithm. If the token selected it, an attacker could sign with a public key as HMAC secret.
    let mut validation = Validation::new(key.algorithm);
    // Times are checked below, with the clock of the caller.
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    let token = std::str::from_utf8(token).map_err(|_| VerifyError::Malformed)?;
    let fields = jsonwebtoken::decode::<Map<String, Value>>(token, &key.verifying, &validation)
        .map_err(|error| match error.kind() {
            InvalidSignature => VerifyError::Signature,
            InvalidAlgorithm => VerifyError::Algorithm,
            // The algorithm is unknown, for example `none`.
            Json(error) if error.is_data() => VerifyError::Algorithm,
            _ => VerifyError::Malformed,
        })?
        .claims;
    let claims = Claims {
        issuer: fields.get("iss").and_then(Value::as_str).map(str::to_owned),
        expires_s: seconds(&fields, "exp")?,
        not_before_s: seconds(&fields, "nbf")?,
    };
    // A token without an expiry would be valid for ever.
    if claims.expires_s.is_none_or(|expires_s| expires_s <= now_s) {
        return Err(VerifyError::Expired);
    }
    if claims
        .not_before_s
        .is_some_and(|not_before_s| not_before_s > now_s)
    {
        return Err(VerifyError::NotYet);
    }
    match issuer {
        Some(issuer) if claims.issuer.as_deref() != Some(issuer) => Err(VerifyError::Issuer),
        _ => Ok(claims),
    }
}

/// Parses a time in seconds. Some libraries write a fraction.
fn seconds(fields: &Map<String, Value>, name: &str) -> Result<Option<u64>, VerifyError> {
    fields
        .get(name)
        .map(|value| {
            let seconds = value
                .as_f64()
                .filter(|seconds| (0.0..1e15).contains(seconds));
            seconds
                .map(|seconds| seconds as u64)
                .ok_or(VerifyError::Malformed)
        })
        .transpose()
}

#[cfg(test)]
mod tests;
