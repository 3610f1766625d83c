//! What origins know the edge by.

use std::collections::HashMap;
use std::rc::Rc;

use fermata_grip::sig;

use crate::prepared::Prepared;
use crate::routes::{Routes, Rule};
use crate::upstream::route_keys::RouteKeys;

/// How long a signature is good, and how long it is used.
const SIGNATURE_S: u64 = 3_600;
const SIGNATURE_USED_S: u64 = 600;

/// Issuer and key of a route, where it has its own.
type Signer = (Option<String>, Option<String>);

/// What origins know the edge by: one token per issuer and key, made anew now and then.
pub(crate) struct Signatures {
    issuer: String,
    key: Option<Rc<sig::Key>>,
    /// When each was made.
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

    /// The value of `Grip-Sig` for a route; `None`: it has no key.
    pub fn get(&mut self, rule: &Rule, now_s: u64) -> Option<Rc<str>> {
        // Not by the route's line: a stream that was held by routes of before asks by them still.
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

    /// Files of keys may have changed.
    pub fn forget(&mut self) {
        self.made.clear();
        self.of_routes.forget();
    }

    /// Routes have changed, and files of keys may have.
    pub fn replace(&mut self, routes: &Routes) {
        self.forget();
        self.of_routes.keep(routes);
    }

    /// What is wrong with the key of a route, once.
    pub fn take_problem(&mut self) -> Option<String> {
        self.of_routes.take_problem()
    }
}
