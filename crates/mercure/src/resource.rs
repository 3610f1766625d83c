//! A hub that uses the draft of version 1.0, as an OAuth protected resource.

use std::sync::Arc;

use serde_json::json;

use crate::PATH;
use crate::url::Url;

/// Name of the cookie that may hold the token.
pub const COOKIE: &str = "__Secure-mercure_access_token";

/// Type of the events that announce subscriptions; reserved for the hub.
pub const EVENT: &str = "mercure";

/// Path of the resource metadata (RFC 9728).
pub const METADATA_PATH: &str = "/.well-known/oauth-protected-resource/.well-known/mercure";

/// Type of the authorization details in tokens.
pub(crate) const DETAIL: &str = "https://mercure.rocks/authorization-detail";

/// Settings of the draft.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The hub's URL, the audience of tokens.
    pub resource: String,
    /// Issuer of the hub's tokens.
    pub issuer: String,
    /// The parsed URL of the hub. It is the base of topics and patterns.
    pub base: Arc<Url>,
}

impl Draft {
    /// Returns `None` if the URL is not an `http` or `https` URL with the hub's path, or the issuer is empty.
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

    /// Returns the resource metadata document.
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

    /// Returns the challenge of a refusal; `error` may be empty.
    pub fn challenge(&self, error: &str) -> String {
        let metadata = format!("{}{METADATA_PATH}", self.base.origin());
        match error {
            "" => format!("Bearer resource_metadata=\"{metadata}\""),
            _ => format!("Bearer error=\"{error}\", resource_metadata=\"{metadata}\""),
        }
    }
}
