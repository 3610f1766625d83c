//! An application: the key of its clients, the secret of its publishers, and the limits of both.

use std::fmt;

use ring::hmac;
use serde::Deserialize;

use crate::target::{Kind, Webhook};

/// Secret that the application shares with its backend. `Debug` does not show it.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl Secret {
    /// Creates a secret from text. Derives the HMAC key once, because that costs as much as a signature.
    pub fn new(text: &str) -> Secret {
        Secret(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes()))
    }

    pub(crate) fn key(&self) -> &hmac::Key {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Senders of accepted client events (`client-…`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientEvents {
    /// Subscribers of the private or presence channel.
    #[default]
    Members,
    /// No client.
    Refused,
}

/// Channels in which a client may resume after its last event (`fermata:since`). A client that may subscribe to a channel can then
/// read events from before it had permission, as far back as events are stored. Settings write these names in lower case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resume {
    /// All channels.
    #[default]
    All,
    /// Public channels, whose past any client may read.
    Public,
    /// No channel.
    None,
}

/// Limits of an application's clients and publishers. Each default is the limit that Pusher documents, or a larger value where that
/// limit was too small for users of Reverb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections on all workers. `None`: only the server's limit applies.
    pub connections_max: Option<u64>,
    /// Maximum size of a client's message, in bytes.
    pub message_bytes_max: usize,
    /// Maximum length of an event's name, in characters.
    pub event_name_chars_max: usize,
    /// Maximum size of an event's data, in bytes.
    pub event_data_bytes_max: usize,
    /// Maximum number of channels to which one event is published.
    pub channels_per_event_max: usize,
    /// Maximum number of events in a batch.
    pub batch_events_max: usize,
    /// Maximum number of client events per connection and second; 0: unlimited.
    pub client_events_per_second: u32,
    /// Maximum number of channels to which one connection is subscribed.
    pub channels_per_connection_max: usize,
    /// Maximum number of users present in one channel.
    pub presence_members_max: usize,
    /// Maximum length of a user's id, in bytes.
    pub user_id_bytes_max: usize,
    /// Maximum size of a user's `user_info` as JSON, in bytes.
    pub user_info_bytes_max: usize,
    /// Maximum number of users on a connection's watchlist.
    pub watchlist_users_max: usize,
    /// Maximum difference between the time of a signed HTTP request and the server's, in seconds.
    pub clock_window_s: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: None,
            message_bytes_max: 10_000,
            event_name_chars_max: 200,
            event_data_bytes_max: 10_240,
            channels_per_event_max: 100,
            batch_events_max: 10,
            client_events_per_second: 10,
            channels_per_connection_max: 256,
            presence_members_max: 100,
            user_id_bytes_max: 128,
            user_info_bytes_max: 1024,
            watchlist_users_max: 100,
            clock_window_s: 600,
        }
    }
}

/// Reason why the settings of an application are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AppError(String);

/// An application.
#[derive(Clone, Debug)]
pub struct App {
    /// Id of the application in the HTTP API.
    pub id: String,
    /// Key of the application for clients.
    pub key: String,
    /// Secret of the application for signatures.
    pub secret: Secret,
    /// Accepts clients and publishers.
    pub is_enabled: bool,
    /// Senders of accepted client events.
    pub client_events: ClientEvents,
    /// Channels in which clients may resume.
    pub resume: Resume,
    /// Hosts of pages that may connect, such as `example.com` or `*.example.com`. Empty: pages of all hosts may connect.
    pub allowed_origins: Vec<String>,
    /// True if subscribers receive the number of subscriptions of their channel (`pusher_internal:subscription_count`).
    pub counts_subscriptions: bool,
    /// Prefix of the application's channels in the ring, if users of another protocol share them. `None`: the channels are not
    /// shared.
    pub shared_prefix: Option<String>,
    /// Webhooks for events of the application's channels.
    pub webhooks: Vec<Webhook>,
    /// The limits.
    pub limits: Limits,
}

impl App {
    /// Creates an application with the default limits.
    ///
    /// # Errors
    /// Id, key or secret is empty, or id or key is not allowed in a path.
    pub fn new(id: &str, key: &str, secret: &str) -> Result<App, AppError> {
        for (name, value) in [("id", id), ("key", key)] {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if value.is_empty() || value.len() > 64 || !value.bytes().all(is_plain) {
                return Err(AppError(format!(
                    "the application's {name} \"{}\" has to be 1 to 64 letters, digits, '-', '_' or '.': it is part of a path",
                    value.escape_debug()
                )));
            }
        }
        if secret.is_empty() {
            return Err(AppError(format!(
                "the secret of the application \"{id}\" is empty; give it one of at least 16 characters"
            )));
        }
        Ok(App {
            id: id.to_owned(),
            key: key.to_owned(),
            secret: Secret::new(secret),
            is_enabled: true,
            client_events: ClientEvents::default(),
            resume: Resume::default(),
            allowed_origins: Vec::new(),
            counts_subscriptions: false,
            shared_prefix: None,
            webhooks: Vec::new(),
            limits: Limits::default(),
        })
    }

    /// Returns true if a webhook receives events of this kind.
    pub fn reports(&self, kind: Kind) -> bool {
        self.webhooks.iter().any(|webhook| webhook.wants(kind))
    }

    /// Returns true if a page of this origin may connect. Clients that are not browsers send no origin, and may connect.
    pub fn allows_origin(&self, origin: Option<&str>) -> bool {
        let Some(origin) = origin else {
            return true;
        };
        if self.allowed_origins.is_empty() || self.allowed_origins.iter().any(|it| it == "*") {
            return true;
        }
        let Some(host) = host_of(origin) else {
            return false;
        };
        self.allowed_origins
            .iter()
            .any(|allowed| match allowed.strip_prefix("*.") {
                Some(parent) => host.len().checked_sub(parent.len() + 1).is_some_and(|at| {
                    host.is_char_boundary(at)
                        && host[at..].starts_with('.')
                        && host[at + 1..].eq_ignore_ascii_case(parent)
                }),
                None => host.eq_ignore_ascii_case(allowed),
            })
    }
}

/// Returns the host of an origin in the form that browsers send: scheme, host and optional port (RFC 6454, section 6.2). `None`:
/// the text is not such an origin.
fn host_of(origin: &str) -> Option<&str> {
    let (scheme, authority) = origin.split_once("://")?;
    let is_in_host =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || byte >= 0x80;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inner) => {
            let end = inner.find(']')? + 2;
            let is_address = inner[..end - 2].parse::<std::net::Ipv6Addr>().is_ok();
            is_address.then(|| authority.split_at(end))?
        }
        None => {
            let end = authority.find(':').unwrap_or(authority.len());
            let (host, rest) = authority.split_at(end);
            host.bytes().all(is_in_host).then_some((host, rest))?
        }
    };
    let has_port = rest.strip_prefix(':').is_some_and(is_number);
    let is_one = !scheme.is_empty() && !host.is_empty() && (rest.is_empty() || has_port);
    is_one.then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_not_shown() {
        let app = App::new("1", "key", "very-secret").expect("an application");
        assert!(!format!("{app:?}").contains("very-secret"));
    }

    #[test]
    fn origins_are_compared_by_host() {
        let mut app = App::new("1", "key", "secret").expect("an application");
        assert!(app.allows_origin(Some("https://anything.example")));
        app.allowed_origins = vec!["example.com".to_owned(), "*.example.org".to_owned()];
        for (origin, is_allowed) in [
            (None, true),
            (Some("https://example.com"), true),
            (Some("http://EXAMPLE.com:8080"), true),
            (Some("https://www.example.com"), false),
            (Some("https://example.com.evil.example"), false),
            (Some("https://a.b.example.org"), true),
            (Some("https://example.org"), false),
            (Some("https://evilexample.org"), false),
            (Some("https://a.example.org:443"), true),
            (Some("https://evil.com/.example.org"), false),
            (Some("https://evil.com?.example.org"), false),
            (Some("https://evil.com#.example.org"), false),
            (Some("https://evil.com\\.example.org"), false),
            (Some("https://evil.com:.example.org"), false),
            (Some("https://evil.com@a.example.org"), false),
            (Some("https://evil.com:1:2"), false),
            (Some("a.example.org"), false),
            (Some("null"), false),
            (Some("http://[::1]:80"), false),
        ] {
            assert_eq!(app.allows_origin(origin), is_allowed, "{origin:?}");
        }
    }

    #[test]
    fn rejects_ids_and_keys_invalid_in_a_path() {
        for (id, key, secret) in [
            ("", "k", "s"),
            ("a/b", "k", "s"),
            ("a", "k?", "s"),
            ("a", "k", ""),
        ] {
            assert!(App::new(id, key, secret).is_err(), "{id} {key}");
        }
    }
}
