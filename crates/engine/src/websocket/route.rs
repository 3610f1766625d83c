//! Options of a WebSocket route, as given and completed by the settings.

use fermata_config::Settings;
use fermata_proto::http1::is_token;
use fermata_proto::ws::deflate::{Compressor, LEVELS};
use fermata_proto::ws::extension::{Policy, WINDOW_BITS_MAX, WINDOW_BITS_MIN};
use fermata_proto::ws::handshake::Origins;
use fermata_proto::ws::{Role, message};

use super::option_error::{OptionError, PROTOCOLS_MAX};
use crate::http::router::RouteError;

/// Events delivered to the application; the engine handles all other events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Callbacks {
    /// Acceptable handshakes.
    pub upgrade: bool,
    /// Opened sockets.
    pub open: bool,
    /// Messages.
    pub message: bool,
    /// Pings and pongs. The application then has to reply to pings.
    pub control: bool,
    /// Closed sockets.
    pub close: bool,
}

/// Pages that may connect; see [`Origins`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OriginPolicy {
    /// Pages of the request's host.
    #[default]
    SameHost,
    /// Listed origins: `scheme://host` or `scheme://host:port`.
    Listed(Vec<Vec<u8>>),
    /// All pages.
    Any,
}

/// Action if a message for one socket does not fit into its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueuePolicy {
    /// Refuse the message with an error for the caller.
    Refuse,
    /// Drop older, completely unsent messages.
    DropOldest,
    /// Close the socket with code 1013.
    #[default]
    Close,
}

/// Compression of messages for clients that support it (RFC 7692).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// Keep the compression context of sent messages, so that similar messages compress better.
    /// Costs memory and CPU time per socket; channel messages are then compressed separately for
    /// each socket.
    pub server_takeover: bool,
    /// Let clients keep their compression context. Costs memory per socket.
    pub client_takeover: bool,
    /// Base-2 logarithm of the window size in bytes: 9 to 15.
    pub window_bits: u8,
    /// 1 (fast) to 9 (small).
    pub level: u8,
    /// Minimum size of a compressed message in bytes.
    pub bytes_min: u32,
}

/// Options of a WebSocket route.
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// The embedder's number, part of every event.
    pub handler: u32,
    /// Events delivered to the application.
    pub callbacks: Callbacks,
    /// Pages that may connect.
    pub origins: OriginPolicy,
    /// Subprotocols, the preferred one first.
    pub protocols: Vec<Vec<u8>>,
    /// Maximum message size in bytes. In this and the following fields, `None` = the setting with
    /// the prefix `websocket_`.
    pub message_bytes_max: Option<u64>,
    /// Maximum frame size; 0 = the maximum message size.
    pub frame_bytes_max: Option<u64>,
    /// Maximum number of bytes queued for one socket.
    pub queue_bytes_max: Option<u64>,
    /// Interval of pings; 0 = no pings.
    pub ping_interval_ms: Option<u64>,
    /// Time limit for a pong; 0 = unlimited.
    pub pong_timeout_ms: Option<u64>,
    /// Close code and reason after a missing pong; `None` = close the connection without a close
    /// frame.
    pub pong_timeout_close: Option<(u16, &'static str)>,
    /// Maximum time without a message; 0 = unlimited.
    pub idle_timeout_ms: Option<u64>,
    /// Action if a message does not fit into the queue.
    pub queue_policy: QueuePolicy,
    /// Compression; `None` = off.
    pub compression: Option<Compression>,
}

/// A route completed by the settings, as used by a worker.
pub(crate) struct Served {
    pub handler: u32,
    pub callbacks: Callbacks,
    pub origins: OriginPolicy,
    pub protocols: Vec<Vec<u8>>,
    pub rules: message::Rules,
    /// Frame rules if compression was negotiated.
    pub rules_compressed: message::Rules,
    /// Handling of compression offers; `None` = never accept an offer.
    pub policy: Option<Policy>,
    pub compression: Option<Compression>,
    /// Compressor for all sockets of the route; allocates nothing until the first use.
    pub compressor: Compressor,
    pub queue_bytes_max: usize,
    pub queue_policy: QueuePolicy,
}

impl Route {
    /// Checks the options, and normalizes origins to the form that browsers send.
    pub(crate) fn check(mut self, pattern: &str) -> Result<Route, RouteError> {
        let wrong = |cause| RouteError::WebSocket {
            pattern: pattern.to_owned(),
            cause,
        };
        if let OriginPolicy::Listed(origins) = &mut self.origins {
            for origin in origins {
                *origin = plain_origin(origin).map_err(wrong)?;
            }
        }
        if self.protocols.len() > PROTOCOLS_MAX {
            return Err(wrong(OptionError::ProtocolCount));
        }
        for (at, protocol) in self.protocols.iter().enumerate() {
            let shown = || escaped(&String::from_utf8_lossy(protocol));
            if !is_token(protocol) {
                return Err(wrong(OptionError::Protocol(shown())));
            }
            if self.protocols[..at].contains(protocol) {
                return Err(wrong(OptionError::ProtocolTwice(shown())));
            }
        }
        if let Some(compression) = &self.compression {
            let bits = WINDOW_BITS_MIN..=WINDOW_BITS_MAX;
            if !bits.contains(&compression.window_bits) {
                return Err(wrong(OptionError::WindowBits(compression.window_bits)));
            }
            if !LEVELS.contains(&compression.level) {
                return Err(wrong(OptionError::Level(compression.level)));
            }
            if compression.server_takeover && self.queue_policy == QueuePolicy::DropOldest {
                return Err(wrong(OptionError::TakeoverDropsOldest));
            }
        }
        let bounds = [
            ("messageBytes", self.message_bytes_max, 1),
            ("queueBytes", self.queue_bytes_max, QUEUE_BYTES_MIN),
        ];
        for (name, value, min) in bounds {
            if value.is_some_and(|value| value < min) {
                return Err(wrong(OptionError::TooSmall { name, min }));
            }
        }
        Ok(self)
    }

    pub(crate) fn served(&self, settings: &Settings) -> Served {
        let bytes = |own: Option<u64>, setting: usize| {
            own.map_or(setting, |own| usize::try_from(own).unwrap_or(usize::MAX))
        };
        let message_bytes_max = bytes(self.message_bytes_max, settings.websocket_message_bytes_max);
        let frame_bytes_max = match bytes(self.frame_bytes_max, settings.websocket_frame_bytes_max)
        {
            0 => message_bytes_max,
            bytes => bytes,
        };
        let rules = |compresses| {
            let frame_bytes_max = frame_bytes_max as u64;
            message::Rules::new(Role::Server, frame_bytes_max, message_bytes_max, compresses)
        };
        let policy = self.compression.map(|it| Policy {
            server_no_context_takeover: !it.server_takeover,
            client_no_context_takeover: !it.client_takeover,
            server_max_window_bits: it.window_bits,
            client_max_window_bits: it.window_bits,
        });
        let (level, bytes_min) = self
            .compression
            .map_or((*LEVELS.start(), 0), |it| (it.level, it.bytes_min));
        Served {
            handler: self.handler,
            callbacks: self.callbacks,
            origins: self.origins.clone(),
            protocols: self.protocols.clone(),
            rules: rules(false),
            rules_compressed: rules(true),
            policy,
            compression: self.compression,
            compressor: Compressor::new(level, bytes_min as usize),
            queue_bytes_max: bytes(self.queue_bytes_max, settings.websocket_queue_bytes_max),
            queue_policy: self.queue_policy,
        }
    }
}

/// Minimum of the setting of the same name: a smaller queue would affect ordinary clients.
const QUEUE_BYTES_MIN: u64 = 4096;

impl Served {
    pub fn origins(&self) -> Origins<'_> {
        match &self.origins {
            OriginPolicy::SameHost => Origins::SameHost,
            OriginPolicy::Listed(listed) => Origins::Listed(listed),
            OriginPolicy::Any => Origins::Any,
        }
    }
}

/// Normalizes an origin as browsers do: lower case, without the default port.
fn plain_origin(origin: &[u8]) -> Result<Vec<u8>, OptionError> {
    let text = String::from_utf8_lossy(origin).to_ascii_lowercase();
    let wrong = || OptionError::Origin(escaped(&text));
    let (scheme, host) = text.split_once("://").ok_or_else(wrong)?;
    let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let is_host = |byte: u8| byte.is_ascii_graphic() && !b"/?#@\\*,\"".contains(&byte);
    if scheme.is_empty()
        || host.is_empty()
        || !scheme.bytes().all(is_scheme)
        || !host.bytes().all(is_host)
    {
        return Err(wrong());
    }
    if scheme == "ws" || scheme == "wss" {
        let scheme_of_page = if scheme == "ws" { "http" } else { "https" };
        return Err(OptionError::SocketOrigin {
            origin: escaped(&text),
            page: format!("{scheme_of_page}://{host}"),
        });
    }
    let default_port = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => "",
    };
    let host = host.strip_suffix(default_port).unwrap_or(host);
    Ok(format!("{scheme}://{host}").into_bytes())
}

fn escaped(text: &str) -> String {
    text.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(route: Route) -> Result<Route, String> {
        route.check("/ws").map_err(|error| error.to_string())
    }

    #[test]
    fn normalizes_origins() {
        for (given, plain) in [
            ("https://Example.org", Some("https://example.org")),
            ("https://example.org:443", Some("https://example.org")),
            ("http://example.org:80", Some("http://example.org")),
            ("http://[::1]:8080", Some("http://[::1]:8080")),
            ("chrome-extension://abc", Some("chrome-extension://abc")),
            ("example.org", None),
            ("https://example.org/", None),
            ("https://*.example.org", None),
            ("*", None),
            ("://x", None),
            ("https://", None),
        ] {
            let route = Route {
                origins: OriginPolicy::Listed(vec![given.as_bytes().to_vec()]),
                ..Route::default()
            };
            match (checked(route), plain) {
                (Ok(route), Some(plain)) => {
                    let expected = OriginPolicy::Listed(vec![plain.as_bytes().to_vec()]);
                    assert_eq!(route.origins, expected);
                }
                (Err(error), None) => assert!(error.contains("scheme://host"), "{error}"),
                (outcome, _) => panic!("{given}: {outcome:?}"),
            }
        }
    }

    #[test]
    fn suggests_the_page_for_a_websocket_origin() {
        for (given, page) in [
            ("ws://example.org:81", "http://example.org:81"),
            ("wss://example.org", "https://example.org"),
        ] {
            let route = Route {
                origins: OriginPolicy::Listed(vec![given.as_bytes().to_vec()]),
                ..Route::default()
            };
            let error = checked(route).expect_err(given);
            assert!(error.contains(given) && error.ends_with(page), "{error}");
        }
    }

    fn compressed(window_bits: u8, level: u8) -> Route {
        let compression = Compression {
            server_takeover: true,
            client_takeover: false,
            window_bits,
            level,
            bytes_min: 64,
        };
        Route {
            compression: Some(compression),
            ..Route::default()
        }
    }

    #[test]
    fn rejects_invalid_options_by_name() {
        let protocols = |names: &[&str]| Route {
            protocols: names.iter().map(|name| name.as_bytes().to_vec()).collect(),
            ..Route::default()
        };
        for (route, word) in [
            (protocols(&["a b"]), "malformed"),
            (protocols(&[""]), "malformed"),
            (protocols(&["chat", "chat"]), "twice"),
            (protocols(&["p"; PROTOCOLS_MAX + 1]), "more than"),
            (compressed(8, 1), "windowBits"),
            (compressed(15, 0), "level"),
            (
                Route {
                    queue_policy: QueuePolicy::DropOldest,
                    ..compressed(15, 6)
                },
                "drop-oldest",
            ),
            (
                Route {
                    message_bytes_max: Some(0),
                    ..Route::default()
                },
                "messageBytes",
            ),
            (
                Route {
                    queue_bytes_max: Some(10),
                    ..Route::default()
                },
                "queueBytes",
            ),
        ] {
            let error = checked(route).expect_err(word);
            assert!(error.contains(word) && error.contains("/ws"), "{error}");
        }
        assert!(checked(protocols(&["chat.v2", "chat"])).is_ok());
    }

    #[test]
    fn limits_frames_to_the_message_size_by_default() {
        let settings = Settings::default();
        let served = |message, frame| {
            Route {
                message_bytes_max: message,
                frame_bytes_max: frame,
                ..Route::default()
            }
            .served(&settings)
            .rules
        };
        let rules = served(Some(16 << 20), None);
        assert_eq!(rules.frame.frame_bytes_max, 16 << 20);
        let rules = served(None, Some(10));
        assert_eq!(
            (rules.frame.frame_bytes_max, rules.message_bytes_max),
            (10, 1 << 20)
        );
    }
}
