//! What a hub that speaks the draft of version 1.0 is to OAuth: a resource that tokens are made for.

use std::sync::Arc;

use serde_json::json;

use crate::PATH;
use crate::url::Url;

/// The cookie that may have the token.
pub const COOKIE: &str = "__Secure-mercure_access_token";

/// The type of the events by which subscriptions are told, which nobody else's have.
pub const EVENT: &str = "mercure";

/// Where the hub says how its tokens are made (RFC 9728).
pub const METADATA_PATH: &str = "/.well-known/oauth-protected-resource/.well-known/mercure";

/// What tokens grant.
pub(crate) const DETAIL: &str = "https://mercure.rocks/authorization-detail";

/// What a hub that speaks the draft knows of itself.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Its URL, which tokens are made for.
    pub resource: String,
    /// The issuer of its tokens.
    pub issuer: String,
    /// The same URL: what topics and patterns are relative to.
    pub base: Arc<Url>,
}

impl Draft {
    /// `None`: the URL is none of `http` or `https` with the hub's path, or the issuer is empty.
    pub fn new(resource: &str, issuer: &str) -> Option<Draft> {
        let base = Url::parse(resource, None)?;
        let is_good = ["http", "https"].contains(&base.scheme.as_str())
            && base.path == PATH
            && base.query.is_empty()
            && base.fragment.is_empty()
            && !issuer.is_empty();
        is_good.then(|| Draft {
            resource: resource.to_owned(),
            issuer: issuer.to_owned(),
            base: Arc::new(base),
        })
    }

    /// What the hub says about its tokens.
    pub fn metadata(&self, cookie: &str, has_subscriptions: bool) -> String {
        let mut document = json!({
            "resource": self.resource,
            "authorization_details_types_supported": [DETAIL],
            "bearer_methods_supported": ["header"],
            "mercure_cookie": cookie,
        });
        if has_subscriptions {
            document["mercure_subscriptions"] = true.into();
        }
        document.to_string()
    }

    /// The challenge that goes with a refusal; `error` may be empty.
    pub fn challenge(&self, error: &str) -> String {
        let metadata = format!("{}{METADATA_PATH}", self.base.origin());
        match error {
            "" => format!("Bearer resource_metadata=\"{metadata}\""),
            _ => format!("Bearer error=\"{error}\", resource_metadata=\"{metadata}\""),
        }
    }
}
