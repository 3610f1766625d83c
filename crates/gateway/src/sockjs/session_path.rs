//! Parses paths of SockJS requests.

/// The message of a refusal.
pub(super) const REFUSED: &str = "SockJS is not supported here: set enabledTransports: ['ws', 'wss'] in pusher-js or Laravel Echo, and let WebSockets through to /app.";

/// Requested by pages with the SockJS library and no `XMLHttpRequest`.
const INFO: &str = "/pusher/info";

/// How a request receives or sends messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Stream,
    Poll,
    Send,
}

/// A session named by a path: `/app/KEY/SERVER/SESSION/TRANSPORT` after any prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionPath<'a> {
    /// Key of the application.
    pub key: &'a str,
    /// The client's name of the session: `SERVER/SESSION`.
    pub session: &'a str,
    pub transport: Transport,
}

/// Parses a path. `Some(None)`: a SockJS path that is not supported; `None`: not a SockJS path.
pub(super) fn read(target: &str) -> Option<Option<SessionPath<'_>>> {
    let path = target.split('?').next().unwrap_or_default();
    if path == INFO {
        return Some(None);
    }
    let (above, name) = path.rsplit_once('/')?;
    let transport = match name {
        "xhr_streaming" => Transport::Stream,
        "xhr" => Transport::Poll,
        "xhr_send" => Transport::Send,
        _ => return None,
    };
    let mut parts = above.rsplitn(3, '/');
    let (session, server, above) = (parts.next()?, parts.next()?, parts.next()?);
    let (above, key) = above.rsplit_once('/')?;
    if session.is_empty() || server.is_empty() || !above.ends_with("/app") {
        return None;
    }
    // `SERVER/SESSION` is contiguous in the path.
    let both = path.len() - name.len() - 1 - session.len() - 1 - server.len();
    Some(Some(SessionPath {
        key,
        session: &path[both..path.len() - name.len() - 1],
        transport,
    }))
}

/// Returns the query string, without the question mark.
pub(super) fn query(target: &str) -> &str {
    target.split_once('?').map_or("", |(_, query)| query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_paths_of_pusher_js() {
        let session_path = |transport| {
            Some(Some(SessionPath {
                key: "key",
                session: "12/a0b",
                transport,
            }))
        };
        for (target, expected) in [
            (
                "/pusher/app/key/12/a0b/xhr_streaming?protocol=7",
                session_path(Transport::Stream),
            ),
            ("/app/key/12/a0b/xhr", session_path(Transport::Poll)),
            (
                "/ws/app/key/12/a0b/xhr_send?t=1&n=2",
                session_path(Transport::Send),
            ),
            ("/pusher/info?t=1", Some(None)),
            ("/pusher/app/key/12/a0b/jsonp", None),
            ("/pusher/app/key//a0b/xhr", None),
            ("/app/key/12/xhr", None),
            ("/apps/key/12/a0b/xhr", None),
            ("/apps/1/events", None),
            ("xhr", None),
            ("", None),
        ] {
            assert_eq!(read(target), expected, "{target}");
        }
    }
}
