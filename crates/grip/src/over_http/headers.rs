//! Headers of requests and responses of WebSocket over HTTP.

use crate::instruct::Meta;
use crate::params::values;
use crate::spelling::Folded;
use crate::ws_control;

/// The media type of bodies.
pub const MEDIA_TYPE: &str = "application/websocket-events";
/// Default of the minimum keep-alive interval in seconds. As in Pushpin, a shorter interval is raised to the minimum.
pub const KEEP_ALIVE_MIN_DEFAULT_S: u32 = 20;

const SET_META: &[u8] = b"set-meta-";

/// Returns true if a client's header is forwarded to the origin. Only the headers that the edge sets itself are not forwarded, in
/// any spelling.
pub fn is_forwarded(name: &[u8]) -> bool {
    const OWN: [&str; 8] = [
        "upgrade",
        "connection",
        "accept",
        "connection-id",
        "content-length",
        "content-type",
        "sec-websocket-extensions",
        "content-bytes-replayed",
    ];
    let name = Folded::new(name);
    !name.starts_with("meta-") && !OWN.iter().any(|own| name.is(own))
}

/// Returns a header `Meta-NAME: value` for every metadata entry.
pub fn meta_headers(meta: &Meta) -> impl Iterator<Item = (Vec<u8>, &[u8])> {
    meta.iter()
        .map(|(name, value)| ([&b"Meta-"[..], name].concat(), value.as_slice()))
}

/// Keep-alive setting in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// The header is not present, so the setting stays unchanged.
    Unchanged,
    /// The edge sends no keep-alive requests.
    Off,
    /// The edge sends a keep-alive request after this number of idle seconds.
    Every(u32),
}

/// Content of a response's headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Set in the first response if control messages are enabled. All other messages then have this prefix.
    pub message_prefix: Option<Vec<u8>>,
    /// Change to the keep-alive requests.
    pub keep_alive: KeepAlive,
    /// Metadata to set (with a value) or to remove (`None`), by lower-case name.
    pub set_meta: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Number of content bytes of the request that the origin accepted. `None`: it accepted all.
    pub content_bytes_accepted: Option<usize>,
}

/// Reason why a response is not a valid response with events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Another status: during the opening, the response is for the client.
    #[error("the origin responds with {0}; a WebSocket over HTTP needs 200")]
    Status(u16),
    /// Another media type: during the opening, the response is for the client.
    #[error("the origin responds with another Content-Type than {MEDIA_TYPE}")]
    MediaType,
    /// A number is invalid.
    #[error("{0} is not a whole number")]
    Number(&'static str),
}

impl Reply {
    /// Parses the head of a response. Raises keep-alive intervals to at least `keep_alive_min_s`.
    ///
    /// # Errors
    /// It is not a response of events.
    pub fn read(
        status: u16,
        headers: &[(&[u8], &[u8])],
        keep_alive_min_s: u32,
    ) -> Result<Self, HeaderError> {
        if status != 200 {
            return Err(HeaderError::Status(status));
        }
        let media = values(headers, "Content-Type").next().unwrap_or_default();
        let media = media.split(|&byte| byte == b';').next().unwrap_or_default();
        if !media
            .trim_ascii()
            .eq_ignore_ascii_case(MEDIA_TYPE.as_bytes())
        {
            return Err(HeaderError::MediaType);
        }
        let keep_alive = match number(headers, "Keep-Alive-Interval")? {
            None => KeepAlive::Unchanged,
            Some(..=0) => KeepAlive::Off,
            Some(seconds) => {
                let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
                KeepAlive::Every(seconds.max(keep_alive_min_s))
            }
        };
        let content_bytes_accepted = number(headers, "Content-Bytes-Accepted")?
            .map(|bytes| {
                usize::try_from(bytes).map_err(|_| HeaderError::Number("Content-Bytes-Accepted"))
            })
            .transpose()?;
        let set_meta = headers.iter().filter_map(|(name, value)| {
            let name = name.to_ascii_lowercase();
            let name = name
                .strip_prefix(SET_META)
                .filter(|name| !name.is_empty())?;
            let value = value.trim_ascii();
            Some((name.to_vec(), (!value.is_empty()).then(|| value.to_vec())))
        });
        Ok(Self {
            message_prefix: ws_control::accepted_prefix(headers),
            keep_alive,
            set_meta: set_meta.collect(),
            content_bytes_accepted,
        })
    }
}

fn number(headers: &[(&[u8], &[u8])], name: &'static str) -> Result<Option<i64>, HeaderError> {
    values(headers, name)
        .next()
        .map(|value| {
            let text = std::str::from_utf8(value.trim_ascii()).ok();
            text.and_then(|text| text.parse().ok())
                .ok_or(HeaderError::Number(name))
        })
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEDIA: (&[u8], &[u8]) = (b"Content-Type", b"application/websocket-events");

    fn read(headers: &[(&[u8], &[u8])]) -> Result<Reply, HeaderError> {
        Reply::read(200, &[&[MEDIA], headers].concat(), 20)
    }

    #[test]
    fn parses_the_headers_of_a_response() {
        let reply = read(&[
            (b"Sec-WebSocket-Extensions", b"grip; message-prefix=\"\""),
            (b"Keep-Alive-Interval", b"5"),
            (b"Set-Meta-User", b"alice"),
            (b"set-meta-room", b""),
            (b"Set-Meta-", b"x"),
            (b"Content-Bytes-Accepted", b"17"),
        ]);
        assert_eq!(
            reply,
            Ok(Reply {
                message_prefix: Some(Vec::new()),
                keep_alive: KeepAlive::Every(20),
                set_meta: vec![
                    (b"user".to_vec(), Some(b"alice".to_vec())),
                    (b"room".to_vec(), None)
                ],
                content_bytes_accepted: Some(17),
            })
        );
    }

    #[test]
    fn keep_alive_has_a_minimum_and_can_be_disabled() {
        for (value, expected) in [
            ("60", KeepAlive::Every(60)),
            ("0", KeepAlive::Off),
            ("-1", KeepAlive::Off),
            ("99999999999", KeepAlive::Every(u32::MAX)),
        ] {
            let reply = read(&[(b"Keep-Alive-Interval", value.as_bytes())]).expect("valid");
            assert_eq!(reply.keep_alive, expected, "{value}");
        }
        assert_eq!(read(&[]).expect("valid").keep_alive, KeepAlive::Unchanged);
    }

    #[test]
    fn reports_responses_without_events() {
        assert_eq!(
            Reply::read(404, &[MEDIA], 20),
            Err(HeaderError::Status(404))
        );
        assert_eq!(Reply::read(200, &[], 20), Err(HeaderError::MediaType));
        assert_eq!(
            Reply::read(200, &[(b"Content-Type", b"text/html")], 20),
            Err(HeaderError::MediaType)
        );
        for header in ["Keep-Alive-Interval", "Content-Bytes-Accepted"] {
            assert_eq!(
                read(&[(header.as_bytes(), b"soon")]),
                Err(HeaderError::Number(header))
            );
        }
        assert!(read(&[(b"Content-Bytes-Accepted", b"-1")]).is_err());
    }

    #[test]
    fn does_not_forward_headers_that_the_edge_sets() {
        for (name, expected) in [
            ("Cookie", true),
            ("Sec-WebSocket-Key", true),
            ("upgrade", false),
            ("META-user", false),
            ("connection-id", false),
            ("Metadata", true),
        ] {
            assert_eq!(is_forwarded(name.as_bytes()), expected, "{name}");
        }
        let meta = Meta::from([(b"user".to_vec(), b"alice".to_vec())]);
        let headers: Vec<_> = meta_headers(&meta).collect();
        assert_eq!(headers, [(b"Meta-user".to_vec(), &b"alice"[..])]);
    }
}
