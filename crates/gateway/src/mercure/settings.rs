//! Settings of Mercure: the `[mercure]` table of the file, and the environment variables of the Mercure hub.

use std::collections::HashMap;

use fermata_mercure::Hub;
use fermata_mercure::origin::Origins;
use fermata_mercure::resource::{self, Draft};
use fermata_mercure::token::Verifier;
use fermata_pusher::App;
use serde::Deserialize;

use super::caddyfile::{duration_ms, words_of};
use super::keys::KeySource;
use crate::written::{OneOrMany, SettingsError, take};

/// Indexes of roles in `key_sources`.
const PUBLISHER: usize = 0;
const SUBSCRIBER: usize = 1;

/// Range of the refresh interval in seconds. No issuer publishes a key for more than a week after it has stopped signing with it.
const REFRESH_S: std::ops::RangeInclusive<u64> = 1..=7 * 24 * 3600;

/// The cookie of clients of version 0.x.
const COOKIE: &str = "mercureAuthorization";

/// Directives of the Mercure hub that have no effect here. docs/replace-mercure.md explains the reasons.
const IDLE: [&str; 13] = [
    "transport",
    "transport_url",
    "dispatch_timeout",
    "demo",
    "ui",
    "playground",
    "debugger",
    "cache",
    "topic_selector_cache",
    "topic_matcher_cache",
    "subscriber_list_cache_size",
    "protocol_version_compatibility",
    "name",
];

/// Settings of Mercure.
#[derive(Clone, Debug)]
pub struct MercureSettings {
    /// Settings of the protocol itself.
    pub hub: Hub,
    /// Key sources of publishers and of subscribers; `None` = the keys are not fetched.
    pub(crate) key_sources: [Option<KeySource>; 2],
    /// The keys of the settings, which sign the application's fingerprint. `Debug` does not show them.
    pub(crate) fingerprinted: Vec<App>,
    /// Interval between fetches of keys, in seconds.
    pub jwks_refresh_s: u64,
    /// Silence after which a comment is sent, in milliseconds; 0: never.
    pub heartbeat_ms: u64,
    /// Duration after which the server ends a subscriber's response, and the client reconnects; 0: never.
    pub stream_ms_max: u64,
    /// Send subscribers their position before the first update.
    pub tells_position: bool,
    /// Maximum size of an update's data, in bytes.
    pub update_bytes_max: usize,
    /// Maximum number of distinct templates of a worker's subscribers.
    pub templates_max: usize,
    /// Maximum number of URI templates per client address.
    pub templates_per_address_max: usize,
    /// Maximum number of subscribers with announced subscriptions, over all workers.
    pub subscribers_max: usize,
    /// The version of the protocol, as given in the settings; `None` = 0.x.
    pub version: Option<String>,
    /// The hub's own URL, for version 1.0.
    pub resource_identifier: Option<String>,
    /// The issuer of the tokens.
    pub issuer: Option<String>,
    /// Id of the Pusher application that shares its channels with these topics.
    pub pusher_app: Option<String>,
    /// Prefix of the channels that are shared with these topics.
    pub shared_prefix: Option<String>,
}

impl Default for MercureSettings {
    fn default() -> MercureSettings {
        MercureSettings {
            hub: Hub {
                cookie: COOKIE.to_owned(),
                ..Hub::default()
            },
            key_sources: [None, None],
            fingerprinted: Vec::new(),
            jwks_refresh_s: 3600,
            heartbeat_ms: 40_000,
            stream_ms_max: 0,
            tells_position: true,
            update_bytes_max: 256 * 1024,
            templates_max: 10_000,
            templates_per_address_max: 1_000,
            subscribers_max: 16_384,
            version: None,
            resource_identifier: None,
            issuer: None,
            pusher_app: None,
            shared_prefix: None,
        }
    }
}

/// The `[mercure]` table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    publisher_key: Option<String>,
    publisher_algorithm: Option<String>,
    publisher_jwks_file: Option<String>,
    publisher_jwks_url: Option<String>,
    subscriber_key: Option<String>,
    subscriber_algorithm: Option<String>,
    subscriber_jwks_file: Option<String>,
    subscriber_jwks_url: Option<String>,
    jwks_refresh_s: Option<u64>,
    anonymous: Option<bool>,
    subscriptions: Option<bool>,
    cookie_name: Option<String>,
    cors_origins: Option<OneOrMany>,
    publish_origins: Option<OneOrMany>,
    heartbeat_s: Option<u64>,
    stream_s_max: Option<u64>,
    position: Option<bool>,
    update_bytes_max: Option<usize>,
    templates_max: Option<usize>,
    templates_per_address_max: Option<usize>,
    subscribers_max: Option<usize>,
    version: Option<String>,
    resource_identifier: Option<String>,
    issuer: Option<String>,
    pusher_app: Option<String>,
    shared_prefix: Option<String>,
}

impl Table {
    pub(crate) fn apply(self, settings: &mut MercureSettings) -> Result<(), SettingsError> {
        for (role, name, key, file, url) in [
            (
                PUBLISHER,
                "mercure.publisher",
                (self.publisher_key, self.publisher_algorithm),
                self.publisher_jwks_file,
                self.publisher_jwks_url,
            ),
            (
                SUBSCRIBER,
                "mercure.subscriber",
                (self.subscriber_key, self.subscriber_algorithm),
                self.subscriber_jwks_file,
                self.subscriber_jwks_url,
            ),
        ] {
            let key_text = key.0.as_deref();
            let app = key_text.and_then(|it| App::new("mercure", "mercure", it).ok());
            settings.fingerprinted.extend(app);
            let is_given = [key.0.is_some(), file.is_some(), url.is_some()];
            if is_given.iter().filter(|it| **it).count() > 1 {
                return Err(SettingsError::new(format!(
                    "{name}: give a key, a file of keys or the URL of one, not two of them"
                )));
            }
            if let Some(url) = url {
                settings.fetch_from(role, &format!("{name}_jwks_url"), &url)?;
            } else if let Some(verifier) = verifier(name, key, file)? {
                settings.believe(role, verifier);
            }
        }
        take(&mut settings.jwks_refresh_s, self.jwks_refresh_s);
        let hub = &mut settings.hub;
        take(&mut hub.is_anonymous, self.anonymous);
        take(&mut hub.has_subscriptions, self.subscriptions);
        take(&mut hub.cookie, self.cookie_name);
        let origins = |list: OneOrMany| Origins::new(list.into_list());
        take(&mut hub.cors_origins, self.cors_origins.map(origins));
        take(&mut hub.publish_origins, self.publish_origins.map(origins));
        let ms = |s: u64| s.saturating_mul(1000);
        take(&mut settings.heartbeat_ms, self.heartbeat_s.map(ms));
        take(&mut settings.stream_ms_max, self.stream_s_max.map(ms));
        take(&mut settings.tells_position, self.position);
        take(&mut settings.update_bytes_max, self.update_bytes_max);
        take(&mut settings.templates_max, self.templates_max);
        take(
            &mut settings.templates_per_address_max,
            self.templates_per_address_max,
        );
        take(&mut settings.subscribers_max, self.subscribers_max);
        settings.version = self.version.or(settings.version.take());
        settings.resource_identifier = self
            .resource_identifier
            .or(settings.resource_identifier.take());
        settings.issuer = self.issuer.or(settings.issuer.take());
        settings.pusher_app = self.pusher_app.or(settings.pusher_app.take());
        settings.shared_prefix = self.shared_prefix.or(settings.shared_prefix.take());
        Ok(())
    }
}

impl MercureSettings {
    /// Reads the environment variables of the Mercure hub. `notes` receives a line for each variable without effect.
    ///
    /// # Errors
    /// A variable is invalid; the message names it.
    pub(crate) fn read_environment(
        &mut self,
        known: &HashMap<String, String>,
        notes: &mut Vec<String>,
    ) -> Result<(), SettingsError> {
        let get = |name: &str| known.get(name).cloned();
        for (role, text) in [(PUBLISHER, "PUBLISHER"), (SUBSCRIBER, "SUBSCRIBER")] {
            let url_name = format!("MERCURE_{text}_JWKS_URL");
            let name = format!("MERCURE_{text}_JWT");
            let key = get(&format!("{name}_KEY"));
            // The URL precedes the key, as in the Mercure hub, whose configuration always sets a key.
            if let Some(url) = get(&url_name) {
                self.fetch_from(role, &url_name, &url)?;
            } else if let Some(verifier) =
                verifier(&name, (key, get(&format!("{name}_ALG"))), None)?
            {
                self.believe(role, verifier);
            }
        }
        self.version = get("MERCURE_PROTOCOL_VERSION").or(self.version.take());
        let directives = get("MERCURE_EXTRA_DIRECTIVES").unwrap_or_default();
        self.read_directives(&directives, known, notes)
    }

    fn read_directives(
        &mut self,
        text: &str,
        known: &HashMap<String, String>,
        notes: &mut Vec<String>,
    ) -> Result<(), SettingsError> {
        let mut depth = 0_usize;
        for line in text.lines() {
            let words = words_of(line, known);
            let is_inside = depth > 0;
            match words.last().map(String::as_str) {
                Some("{") => depth += 1,
                Some("}") => depth = depth.saturating_sub(1),
                _ => {}
            }
            let Some((name, values)) = words.split_first() else {
                continue;
            };
            // Directives with a block have no effect here.
            if is_inside || name == "}" {
                continue;
            }
            self.take_directive(name, values, notes)?;
        }
        Ok(())
    }

    fn take_directive(
        &mut self,
        name: &str,
        values: &[String],
        notes: &mut Vec<String>,
    ) -> Result<(), SettingsError> {
        let wrong = |text: String| SettingsError::new(format!("MERCURE_EXTRA_DIRECTIVES: {text}"));
        let first = values.first().cloned();
        let of_time = || {
            let text = first.clone().unwrap_or_default();
            duration_ms(&text).ok_or_else(|| {
                wrong(format!(
                    "{name}: \"{}\" is not a duration such as 40s",
                    text.escape_debug()
                ))
            })
        };
        let hub = &mut self.hub;
        match name {
            "anonymous" => hub.is_anonymous = true,
            "subscriptions" => hub.has_subscriptions = true,
            "cors_origins" => hub.cors_origins = Origins::new(values.iter().cloned()),
            "publish_origins" => hub.publish_origins = Origins::new(values.iter().cloned()),
            "cookie_name" => take(&mut hub.cookie, first),
            "resource_identifier" => self.resource_identifier = first,
            "issuer" => self.issuer = first,
            "heartbeat" => self.heartbeat_ms = of_time()?,
            "write_timeout" => self.stream_ms_max = of_time()?,
            "publisher_jwt" | "subscriber_jwt" => {
                let role = role_of(name);
                match verifier(name, (first, values.get(1).cloned()), None)? {
                    Some(verifier) => self.believe(role, verifier),
                    None => return Err(wrong(format!("{name}: give a key and its algorithm"))),
                }
            }
            "publisher_jwks_url" | "subscriber_jwks_url" => {
                let Some(url) = first else {
                    return Err(wrong(format!("{name}: give the URL of a JWKS")));
                };
                self.fetch_from(role_of(name), name, &url)?;
            }
            _ if IDLE.contains(&name) => {
                notes.push(format!(
                    "MERCURE_EXTRA_DIRECTIVES: {name} changes nothing here"
                ));
            }
            _ => {
                return Err(wrong(format!(
                    "there is no directive {}",
                    name.escape_debug()
                )));
            }
        }
        Ok(())
    }

    fn place_of(&mut self, role: usize) -> &mut Option<Verifier> {
        match role {
            PUBLISHER => &mut self.hub.publisher,
            _ => &mut self.hub.subscriber,
        }
    }

    /// Sets the verifier for the tokens of a role.
    fn believe(&mut self, role: usize, verifier: Verifier) {
        *self.place_of(role) = Some(verifier);
        self.key_sources[role] = None;
    }

    /// Sets a URL of keys for the tokens of a role.
    fn fetch_from(&mut self, role: usize, name: &str, url: &str) -> Result<(), SettingsError> {
        let source = KeySource::new(name, url)?;
        self.believe(role, source.verifier());
        self.key_sources[role] = Some(source);
        Ok(())
    }

    /// Fetches all keys that the settings name by URL. Called before workers start. Returns lines for the log.
    ///
    /// # Errors
    /// The system's trusted certificates cannot be read.
    pub(crate) fn fetch_keys(&mut self) -> Result<Vec<String>, SettingsError> {
        let mut warnings = Vec::new();
        for source in self.key_sources.iter_mut().flatten() {
            warnings.extend(source.fetch_first()?);
        }
        Ok(warnings)
    }

    /// Applies the protocol version after all settings that it needs were read.
    ///
    /// # Errors
    /// A setting of the version is missing or invalid.
    pub(crate) fn choose_version(&mut self) -> Result<(), SettingsError> {
        let wrong = |text: String| Err(SettingsError::new(format!("Mercure: {text}")));
        match self.version.as_deref() {
            None | Some("0.x") => return Ok(()),
            Some("1.0") => {}
            Some(other) => {
                let other = other.escape_debug();
                return wrong(format!("version \"{other}\": use \"0.x\" or \"1.0\""));
            }
        }
        let identifier = self.resource_identifier.as_deref().unwrap_or_default();
        let draft = Draft::new(identifier, self.issuer.as_deref().unwrap_or_default());
        let Some(draft) = draft else {
            return wrong(format!(
                "version 1.0 needs resource_identifier, the hub's URL, such as https://example.com{}, and issuer, who makes \
                 its tokens",
                fermata_mercure::PATH
            ));
        };
        if self.hub.cookie == COOKIE {
            resource::COOKIE.clone_into(&mut self.hub.cookie);
        }
        self.hub.draft = Some(draft);
        Ok(())
    }

    /// Returns the prefix of shared channels, if the settings contain it.
    // Not inlined: otherwise the compiler may read the field speculatively, from uninitialized memory, when Mercure is
    // disabled.
    #[inline(never)]
    pub(crate) fn own_prefix(&self) -> Option<&str> {
        self.shared_prefix.as_deref()
    }

    /// Checks that the settings fit together. `has_program`: a PHP application publishes, which needs no token.
    pub(crate) fn check(&self, has_program: bool) -> Result<(), SettingsError> {
        if self.pusher_app.is_some() && self.shared_prefix.is_some() {
            return Err(SettingsError::new(
                "Mercure: pusher_app and shared_prefix exclude each other; use only shared_prefix, equal to the application's"
                    .to_owned(),
            ));
        }
        if !REFRESH_S.contains(&self.jwks_refresh_s) {
            return Err(SettingsError::new(format!(
                "mercure.jwks_refresh_s is {}: give {} to {}",
                self.jwks_refresh_s,
                REFRESH_S.start(),
                REFRESH_S.end()
            )));
        }
        if self.hub.publisher.is_none() && !has_program {
            return Err(SettingsError::new(
                "Mercure: no client could publish: set MERCURE_PUBLISHER_JWT_KEY, or publisher_key in [mercure]".to_owned(),
            ));
        }
        if self.hub.subscriber.is_none() && !self.hub.is_anonymous {
            return Err(SettingsError::new(
                "Mercure: no client could subscribe: set MERCURE_SUBSCRIBER_JWT_KEY, or subscriber_key in [mercure], or let \
                 clients without a token in by anonymous"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

/// Returns the role that a directive is about.
fn role_of(directive: &str) -> usize {
    if directive.starts_with("publisher") {
        PUBLISHER
    } else {
        SUBSCRIBER
    }
}

/// Creates a verifier from a key or from a file with a JWKS.
fn verifier(
    name: &str,
    (key, algorithm): (Option<String>, Option<String>),
    jwks_file: Option<String>,
) -> Result<Option<Verifier>, SettingsError> {
    let wrong = |text: String| SettingsError::new(format!("{name}: {text}"));
    match (key, jwks_file) {
        // The settings were refused earlier if both are given.
        (Some(key), _) => {
            let algorithm = algorithm.unwrap_or_else(|| "HS256".to_owned());
            let verifier = Verifier::new(&key, &algorithm);
            verifier.map(Some).map_err(|error| wrong(error.to_string()))
        }
        (None, Some(path)) => {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| wrong(format!("{path}: {error}")))?;
            let verifier = Verifier::from_jwks(&text);
            verifier
                .map(Some)
                .map_err(|error| wrong(format!("{path}: {error}")))
        }
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<(MercureSettings, Vec<String>), SettingsError> {
        let known = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let (mut settings, mut notes) = (MercureSettings::default(), Vec::new());
        settings.read_environment(&known, &mut notes)?;
        Ok((settings, notes))
    }

    #[test]
    fn reads_the_environment_of_the_mercure_hub() {
        let (settings, notes) = of(&[
            ("MERCURE_PUBLISHER_JWT_KEY", "a"),
            ("MERCURE_SUBSCRIBER_JWT_KEY", "b"),
            (
                "MERCURE_EXTRA_DIRECTIVES",
                // php/src/FrankenPhp/Hub.php reads the same file.
                concat!(
                    include_str!("../../../../tests/fixtures/mercure-directives.txt"),
                    "heartbeat 1m30s\nwrite_timeout 500ms\n"
                ),
            ),
            ("OTHER_ORIGIN", "https://d.example"),
        ])
        .expect("settings");
        settings.check(false).expect("settings");
        assert!(settings.hub.is_anonymous && settings.hub.has_subscriptions);
        assert_eq!(
            (settings.heartbeat_ms, settings.stream_ms_max),
            (90_000, 500)
        );
        assert_eq!(settings.hub.cookie, "c");
        assert_eq!(notes.len(), 2, "{notes:?}");
        let hub = &settings.hub;
        for (origins, origin) in [
            (&hub.cors_origins, "https://b.example"),
            (&hub.publish_origins, "https://c.example"),
            (&hub.publish_origins, "https://d.example"),
        ] {
            assert_ne!(
                origins.allow(origin),
                fermata_mercure::origin::Allowed::Refused,
                "{origin}"
            );
        }
    }

    #[test]
    fn errors_have_the_invalid_setting() {
        for (name, value, word) in [
            ("MERCURE_EXTRA_DIRECTIVES", "anonymus", "anonymus"),
            ("MERCURE_EXTRA_DIRECTIVES", "heartbeat soon", "soon"),
            (
                "MERCURE_EXTRA_DIRECTIVES",
                "publisher_jwks_url ftp://x",
                "publisher_jwks_url",
            ),
            ("MERCURE_EXTRA_DIRECTIVES", "subscriber_jwks_url", "URL"),
            ("MERCURE_SUBSCRIBER_JWKS_URL", "x", "https://"),
            ("MERCURE_PUBLISHER_JWT_ALG", "RS256", "RS256"),
        ] {
            let error = of(&[("MERCURE_PUBLISHER_JWT_KEY", "a"), (name, value)]).expect_err(value);
            assert!(error.to_string().contains(word), "{error}");
        }
        let (settings, _) = of(&[("MERCURE_PUBLISHER_JWT_KEY", "a")]).expect("settings");
        assert!(settings.check(false).is_err());
        assert!(of(&[]).expect("settings").0.check(false).is_err());
    }

    #[test]
    fn last_key_source_takes_precedence() {
        let sources = |variables: &[(&str, &str)]| {
            let (settings, _) = of(variables).expect("settings");
            settings.key_sources.map(|it| it.is_some())
        };
        let key = ("MERCURE_PUBLISHER_JWT_KEY", "a");
        assert_eq!(sources(&[key]), [false, false]);
        let url = ("MERCURE_PUBLISHER_JWKS_URL", "https://a.example/keys");
        assert_eq!(sources(&[key, url]), [true, false]);
        let directive = "subscriber_jwks_url https://a.example/keys\npublisher_jwt b HS256";
        let directive = ("MERCURE_EXTRA_DIRECTIVES", directive);
        assert_eq!(sources(&[key, url, directive]), [false, true]);
        let table = |text: &str| {
            let table: Table = toml::from_str(text).expect("a table");
            let mut settings = MercureSettings::default();
            table.apply(&mut settings).map(|()| settings)
        };
        let url = "publisher_jwks_url = 'https://a.example/keys?secret'";
        let shown = format!("{:?}", table(url).expect("settings"));
        assert!(shown.contains("a.example") && !shown.contains("secret"));
        for other in ["publisher_key = 'a'", "publisher_jwks_file = '/x'"] {
            let error = table(&format!("{url}\n{other}")).expect_err("two of them");
            assert!(error.to_string().contains("mercure.publisher"), "{error}");
        }
        for refresh_s in [0, 604_801] {
            let text = format!("{url}\nanonymous = true\njwks_refresh_s = {refresh_s}");
            let error = table(&text).and_then(|it| it.check(false));
            let error = error.expect_err("out of range").to_string();
            assert!(error.contains("jwks_refresh_s"), "{error}");
        }
    }

    #[test]
    fn version_1_0_requires_its_settings() {
        let version = |name: &'static str, directives: &'static str| {
            let variables = [
                ("MERCURE_PUBLISHER_JWT_KEY", "a"),
                ("MERCURE_PROTOCOL_VERSION", name),
                ("MERCURE_EXTRA_DIRECTIVES", directives),
            ];
            let (mut settings, _) = of(&variables).expect("settings");
            settings.choose_version().map(|()| settings.hub)
        };
        let both =
            "resource_identifier https://a.example/.well-known/mercure\nissuer https://a.example";
        let hub = version("1.0", both).expect("a hub");
        assert!(hub.draft.is_some());
        assert_eq!(hub.cookie, resource::COOKIE);
        let own = format!("{both}\ncookie_name c");
        assert_eq!(version("1.0", own.leak()).expect("a hub").cookie, "c");
        assert!(version("0.x", both).is_ok_and(|hub| hub.draft.is_none()));
        for (name, directives, word) in [
            ("2", both, "0.x"),
            ("1.0", "", "resource_identifier"),
            ("1.0", "issuer https://a.example", "resource_identifier"),
        ] {
            let error = version(name, directives).expect_err(name);
            assert!(error.to_string().contains(word), "{error}");
        }
    }
}
