//! `Grip-Sig` tokens, by which origins recognize the edge.

use std::collections::HashMap;
use std::rc::Rc;

use fermata_grip::sig;

use crate::prepared::Prepared;
use crate::routes::{Routes, Rule};
use crate::upstream::route_keys::RouteKeys;

/// Lifetime of a token in seconds.
const SIGNATURE_S: u64 = 3_600;
/// Age in seconds up to which a token is reused for further requests.
const SIGNATURE_USED_S: u64 = 600;

/// Issuer and key of a route, if it sets them.
type Signer = (Option<String>, Option<String>);

/// Cached tokens, one per issuer and key.
pub(crate) struct Signatures {
    issuer: String,
    key: Option<Rc<sig::Key>>,
    /// Tokens with the time at which they were created.
    made: HashMap<Signer, (u64, Rc<str>)>,
    of_routes: RouteKeys,
}

impl Signatures {
    pub(crate) fn new(prepared: &Prepared) -> Self {
        Self {
            issuer: prepared.settings.sig_iss.clone(),
            key: prepared.keys.sig.clone(),
            made: HashMap::new(),
            of_routes: prepared.route_keys.clone(),
        }
    }

    /// Returns the value of `Grip-Sig` for a route; `None` if the route has no key.
    pub fn get(&mut self, rule: &Rule, now_s: u64) -> Option<Rc<str>> {
        // The key does not contain the route's line, because streams held by previous routes still send requests by those routes.
        let at = (rule.sig_iss.clone(), rule.sig_key.clone());
        if let Some((since_s, token)) = self.made.get(&at)
            && now_s.saturating_sub(*since_s) < SIGNATURE_USED_S
        {
            return Some(Rc::clone(token));
        }
        let own_key = match &rule.sig_key {
            Some(text) => Some(self.of_routes.get(text)?),
            None => None,
        };
        let key = own_key.as_deref().or(self.key.as_deref())?;
        let issuer = rule.sig_iss.as_deref().unwrap_or(&self.issuer);
        if issuer.is_empty() {
            return None;
        }
        let claims = sig::Claims {
            issuer: Some(issuer.to_owned()),
            expires_s: Some(now_s + SIGNATURE_S),
            ..sig::Claims::default()
        };
        let token: Rc<str> = Rc::from(sig::sign(key, &claims).ok()?);
        self.made.insert(at, (now_s, Rc::clone(&token)));
        Some(token)
    }

    /// Reads the keys again and makes new tokens.
    pub fn forget(&mut self) {
        self.made.clear();
        self.of_routes.forget();
    }

    /// Replaces the routes.
    pub fn replace(&mut self, routes: &Routes) {
        self.forget();
        self.of_routes.keep(routes);
    }

    /// Returns the last error of a route's key. Returns it only once.
    pub fn take_problem(&mut self) -> Option<String> {
        self.of_routes.take_problem()
    }
}
