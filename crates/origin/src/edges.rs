//! The edges in a setting, and the check that a request came through one of these edges.

use fermata_grip::sig::{self, VerifyError};

use crate::address::{Address, AddressError, AuthorizationError, Transport};

/// Edges in front of a server.
pub struct Edges {
    addresses: Vec<Address>,
    /// The last valid token, and its expiry time in seconds. An edge uses the same token for a
    /// while.
    trusted: Option<(Vec<u8>, u64)>,
}

/// Reason why events cannot be published to an edge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EdgeError {
    /// The edge's address is a ZeroMQ endpoint.
    #[error(
        "ZeroMQ does not report whether an item was accepted; give the http:// address of the edge's control port"
    )]
    ZeroMq,
    /// The credentials cannot be sent.
    #[error("{0}: {1}, or use key=…, which signs tokens valid for minutes")]
    Authorization(String, AuthorizationError),
}

/// Reason why a request did not come through an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// No address has a key.
    #[error("grip_url has no key to verify it with")]
    NoKey,
    /// The error with the first key.
    #[error(transparent)]
    Token(VerifyError),
}

impl Edges {
    /// Parses addresses separated by blanks.
    ///
    /// # Errors
    /// An address is invalid. The message never contains its text.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let addresses = text.split_whitespace().map(Address::parse);
        Ok(Self {
            addresses: addresses.collect::<Result<_, _>>()?,
            trusted: None,
        })
    }

    /// Returns true if there is no edge.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Returns the number of edges.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Checks that the credentials of each edge may be sent.
    ///
    /// # Errors
    /// The edge whose credentials may not be sent, with a fix.
    pub fn check(&self) -> Result<(), EdgeError> {
        for address in &self.addresses {
            let Transport::Http(url) = &address.transport else {
                return Err(EdgeError::ZeroMq);
            };
            let authorization = address.authorization(None, None);
            authorization.map_err(|error| EdgeError::Authorization(url.authority(), error))?;
        }
        Ok(())
    }

    /// Returns true if requests of at least one edge can be verified.
    pub fn can_verify(&self) -> bool {
        self.addresses
            .iter()
            .any(|address| address.verifier().is_some())
    }

    /// Returns the addresses of the edges.
    pub fn into_addresses(self) -> Vec<Address> {
        self.addresses
    }

    /// Verifies that one of the edges has signed a token.
    ///
    /// # Errors
    /// The error with the first key, for the log.
    pub fn verify(&mut self, token: &[u8], now_s: u64) -> Result<(), SignatureError> {
        if let Some((trusted, expires_s)) = &self.trusted
            && is_same(trusted, token)
            && now_s < *expires_s
        {
            return Ok(());
        }
        let mut first = None;
        for (key, issuer) in self.addresses.iter().filter_map(Address::verifier) {
            match sig::verify(key, token, now_s, issuer) {
                Ok(claims) => {
                    let expires_s = claims.expires_s.unwrap_or(now_s);
                    self.trusted = Some((token.to_vec(), expires_s));
                    return Ok(());
                }
                Err(error) => {
                    first.get_or_insert(error);
                }
            }
        }
        Err(first.map_or(SignatureError::NoKey, SignatureError::Token))
    }
}

/// Compares two tokens in constant time, so that a token cannot be guessed byte by byte.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let pairs = one.iter().zip(other);
    let difference = pairs.fold(0, |all, (one, other)| {
        all | std::hint::black_box(one ^ other)
    });
    one.len() == other.len() && difference == 0
}

#[cfg(test)]
mod tests {
    use fermata_grip::sig::{Claims, Key, sign};

    use super::*;

    const NOW_S: u64 = 1_800_000_000;

    fn token(key: &[u8], issuer: &str, expires_s: u64) -> Vec<u8> {
        let claims = Claims {
            issuer: Some(issuer.to_owned()),
            expires_s: Some(expires_s),
            not_before_s: None,
        };
        let token = sign(&Key::secret(key), &claims).expect("a secret");
        token.into_bytes()
    }

    #[test]
    fn accepts_the_token_of_any_edge_until_it_expires() {
        let text = "http://a?key=one  https://b?verify-key=two&verify-iss=edge\n";
        let mut edges = Edges::parse(text).expect("two edges");
        assert!(edges.can_verify() && !edges.is_empty());
        let (one, two) = (
            token(b"one", "x", NOW_S + 9),
            token(b"two", "edge", NOW_S + 9),
        );
        for good in [&one, &two, &two] {
            assert_eq!(edges.verify(good, NOW_S), Ok(()));
            assert!(edges.verify(good, NOW_S + 9).is_err(), "expired");
        }
        for bad in [
            token(b"two", "x", NOW_S + 9),
            token(b"three", "edge", NOW_S + 9),
            one[..one.len() - 1].to_vec(),
            Vec::new(),
        ] {
            assert!(edges.verify(&bad, NOW_S).is_err());
        }
        assert_eq!(edges.into_addresses().len(), 2);
    }

    #[test]
    fn reports_an_edge_with_exposed_credentials() {
        let check = |text: &str| Edges::parse(text).expect("edges").check();
        for fine in [
            "",
            "http://127.0.0.1:5561?key=k https://edge.example?key=k http://u:p@localhost",
            "http://edge.example:5561?key=k http://edge.example?verify-key=k http://edge.example",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
        let error = check("http://127.0.0.1 http://u:hidden@edge.example:5561");
        let error = error.expect_err("a password for all to see").to_string();
        assert!(error.starts_with("edge.example:5561: "), "{error}");
        assert!(
            error.contains("https://") && error.contains("key=") && !error.contains("hidden"),
            "{error}"
        );
        assert!(check("tcp://127.0.0.1:5560").is_err());
    }

    #[test]
    fn rejects_every_token_without_a_key() {
        let mut edges = Edges::parse("http://localhost:5561").expect("an edge");
        assert!(!edges.can_verify());
        let error = edges.verify(&token(b"", "x", NOW_S + 9), NOW_S);
        assert_eq!(error, Err(SignatureError::NoKey));
        assert!(Edges::parse("").expect("none").is_empty());
        assert!(Edges::parse("http://a ftp://b").is_err());
    }
}
