//! An application: who may connect by its key, who may publish by its secret, and what bounds both.

use std::fmt;

use ring::hmac;
use serde::Deserialize;

use crate::target::{Kind, Webhook};

/// What only the application and its backend know. It is not shown by `Debug`.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl Secret {
    /// Takes the text as it is. It is made a key once: that costs as much as a signature does.
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

/// From whom events are taken that clients send to each other (`client-…`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientEvents {
    /// From those who are subscribed to the private or presence channel.
    #[default]
    Members,
    /// From nobody.
    Refused,
}

/// In which channels a client may go on after an event that it has had (`fermata:since`). A client that may subscribe to a
/// channel reads by that what was published before it could, as far back as events are kept. Settings name it in lower case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resume {
    /// In all.
    #[default]
    All,
    /// In public ones, whose past is anybody's.
    Public,
    /// In none.
    None,
}

/// What bounds an application's clients and publishers. Each default is what Pusher documents, or larger where that has
/// been too small for Reverb's users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections of the application on all workers; `None`: as many as the server takes.
    pub connections_max: Option<u64>,
    /// Bytes of one message that a client sends.
    pub message_bytes_max: usize,
    /// Characters of an event's name.
    pub event_name_chars_max: usize,
    /// Bytes of an event's data.
    pub event_data_bytes_max: usize,
    /// Channels that one event is published to.
    pub channels_per_event_max: usize,
    /// Events of one batch.
    pub batch_events_max: usize,
    /// Events a client may send to others in a second; 0: any number.
    pub client_events_per_second: u32,
    /// Channels that one connection is subscribed to.
    pub channels_per_connection_max: usize,
    /// Users that are present in one channel.
    pub presence_members_max: usize,
    /// Bytes of a user's id.
    pub user_id_bytes_max: usize,
    /// Bytes of what is told about a user: JSON.
    pub user_info_bytes_max: usize,
    /// Users on the watchlist of one connection.
    pub watchlist_users_max: usize,
    /// Seconds by which the time of a signed HTTP request may differ from the server's.
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

/// Why an application cannot be what it is said to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AppError(String);

/// An application.
#[derive(Clone, Debug)]
pub struct App {
    /// What the HTTP API names it by.
    pub id: String,
    /// What clients name it by.
    pub key: String,
    /// What signs for it.
    pub secret: Secret,
    /// Whether clients may connect and publishers publish.
    pub is_enabled: bool,
    /// From whom events are taken that clients send to each other.
    pub client_events: ClientEvents,
    /// In which channels clients may resume.
    pub resume: Resume,
    /// Hosts of pages that may connect, such as `example.com` or `*.example.com`; empty: all.
    pub allowed_origins: Vec<String>,
    /// Whether subscribers are told how many they are (`pusher_internal:subscription_count`).
    pub counts_subscriptions: bool,
    /// What stands in front of the names of its channels where others speak of them; `None`: nobody else does.
    pub shared_prefix: Option<String>,
    /// The webhooks that get its channels' events.
    pub webhooks: Vec<Webhook>,
    /// The bounds.
    pub limits: Limits,
}

impl App {
    /// An application with the default bounds.
    ///
    /// # Errors
    /// An id, key or secret that is empty, or an id or key that has no place in a path.
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

    /// Whether anybody is told of that.
    pub fn tells(&self, kind: Kind) -> bool {
        self.webhooks.iter().any(|webhook| webhook.wants(kind))
    }

    /// Whether a page of this origin may connect. Clients that are no browsers send none, and may.
    pub fn allows_origin(&self, origin: Option<&str>) -> bool {
        let Some(origin) = origin else {
            return true;
        };
        if self.allowed_origins.is_empty() || self.allowed_origins.iter().any(|it| it == "*") {
            return true;
        }
        let after = origin.split_once("://").map_or(origin, |(_, rest)| rest);
        let host = match after.rfind(':') {
            Some(at) if after[at + 1..].bytes().all(|byte| byte.is_ascii_digit()) => &after[..at],
            _ => after,
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
            (Some("null"), false),
            (Some("http://[::1]:80"), false),
        ] {
            assert_eq!(app.allows_origin(origin), is_allowed, "{origin:?}");
        }
    }

    #[test]
    fn what_has_no_place_in_a_path_is_refused() {
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
