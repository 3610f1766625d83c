//! Checks across settings.

use super::Settings;
use crate::names;
use crate::webhooks::{WEBHOOKS_MAX, parse_url};
use crate::written::SettingsError;

/// Maximum length in bytes of the prefix of shared channels: the names after it have up to 164 bytes, and the maximum total is 255.
const PREFIX_BYTES_MAX: usize = 64;

impl Settings {
    /// Checks that the settings fit together.
    ///
    /// # Errors
    /// A setting is missing or contradicts another.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.check_with(false)
    }

    /// Checks a hub next to a PHP application (`has_program`), which publishes without a token.
    pub(crate) fn check_with(&self, has_program: bool) -> Result<(), SettingsError> {
        let wrong = |text: String| Err(SettingsError::new(text));
        if self.apps.is_empty() && self.mercure.is_none() {
            return wrong(
                "there is no application: give --app ID:KEY:SECRET, an [[app]] in the file, or REVERB_APP_ID, \
                 REVERB_APP_KEY and REVERB_APP_SECRET; for Mercure, [mercure] in the file, or \
                 MERCURE_PUBLISHER_JWT_KEY and MERCURE_SUBSCRIBER_JWT_KEY"
                    .to_owned(),
            );
        }
        if let Some(mercure) = &self.mercure {
            mercure.check(has_program)?;
            if let Some(id) = &mercure.pusher_app
                && !self.apps.iter().any(|app| app.id == *id)
            {
                return wrong(format!(
                    "mercure.pusher_app: there is no application with the id \"{}\"",
                    id.escape_debug()
                ));
            }
        }
        self.check_prefixes()?;
        for (at, app) in self.apps.iter().enumerate() {
            for other in &self.apps[..at] {
                if other.id == app.id || other.key == app.key {
                    return wrong(format!(
                        "two applications have the id \"{}\" or its key; use distinct ones",
                        app.id
                    ));
                }
            }
        }
        let webhooks = || self.apps.iter().flat_map(|app| &app.webhooks);
        for webhook in webhooks() {
            if let Err(error) = parse_url(webhook) {
                return wrong(format!(
                    "webhook: its url cannot be used: {error}; give http://HOST/PATH or https://HOST/PATH"
                ));
            }
            if webhook.timeout_ms == 0 || webhook.queue_events_max == 0 {
                return wrong(
                    "webhook: timeout_ms and queue_events_max have to be at least 1".to_owned(),
                );
            }
        }
        if webhooks().count() > WEBHOOKS_MAX {
            return wrong(format!(
                "webhook: all applications together have more than {WEBHOOKS_MAX}; each needs a thread"
            ));
        }
        let path = &self.own.path;
        if !path.is_empty() && (!path.starts_with('/') || path.ends_with('/')) {
            return wrong(format!(
                "path: \"{}\" has to begin with a slash and end without one, as in /ws",
                path.escape_debug()
            ));
        }
        if !self.own.listen_tls.is_empty() && self.own.tls_certificate.is_empty() {
            return wrong("listen_tls: give tls_certificate and tls_key as well".to_owned());
        }
        Ok(())
    }

    /// Checks that no shared prefix overlaps that of another application or the hub's own.
    fn check_prefixes(&self) -> Result<(), SettingsError> {
        let of_apps = self
            .apps
            .iter()
            .filter_map(|app| app.shared_prefix.as_deref());
        let of_apps: Vec<&str> = of_apps.collect();
        let of_mercure = match &self.mercure {
            Some(mercure) => mercure.own_prefix(),
            None => None,
        };
        let wrong = |prefix: &str, cause: &str| {
            let prefix = prefix.escape_debug();
            Err(SettingsError::new(format!(
                "shared_prefix \"{prefix}\": {cause}; use a prefix such as \"live.\""
            )))
        };
        for prefix in of_apps.iter().copied().chain(of_mercure) {
            let is_reserved = |own: &&str| own.starts_with(prefix) || prefix.starts_with(*own);
            if prefix.is_empty() {
                return wrong(
                    prefix,
                    "any client could subscribe to every channel of the application",
                );
            }
            if names::RESERVED.iter().any(is_reserved) {
                return wrong(prefix, "it is reserved for the hub");
            }
            if prefix.len() > PREFIX_BYTES_MAX || prefix.chars().any(char::is_control) {
                return wrong(prefix, "it has more than 64 bytes or a control character");
            }
        }
        for (at, prefix) in of_apps.iter().enumerate() {
            let is_nested = |other: &&str| other.starts_with(prefix) || prefix.starts_with(*other);
            if of_apps[..at].iter().any(is_nested) {
                return wrong(prefix, "it overlaps the prefix of another application");
            }
            // Equal prefixes share events. If one prefix contained another, private channels would be published as public topics,
            // or vice versa.
            if of_mercure.is_some_and(|other| other != *prefix && is_nested(&other)) {
                return wrong(prefix, "it overlaps Mercure's prefix without being equal");
            }
        }
        Ok(())
    }
}
