//! What a request of SockJS asks for.

/// What the sentence of a refusal says.
pub(super) const REFUSED: &str = "SockJS is not spoken here: give pusher-js or Laravel Echo enabledTransports: ['ws', 'wss'], and let WebSockets through to /app.";

/// Where a page asks that has the library of SockJS and no `XMLHttpRequest`.
const INFO: &str = "/pusher/info";

/// How a client gets its messages, or that it brings some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Stream,
    Poll,
    Send,
}

/// Which session a path names: `/app/KEY/SERVER/SESSION/TRANSPORT` behind any prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionPath<'a> {
    /// The application's.
    pub key: &'a str,
    /// Its client's own name for it: `SERVER/SESSION`.
    pub session: &'a str,
    pub transport: Transport,
}

/// `Some(None)`: it is a path of SockJS that is not spoken.
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
    // Both are behind one another in the path.
    let both = path.len() - name.len() - 1 - session.len() - 1 - server.len();
    Some(Some(SessionPath {
        key,
        session: &path[both..path.len() - name.len() - 1],
        transport,
    }))
}

/// What stands behind the question mark.
pub(super) fn query(target: &str) -> &str {
    target.split_once('?').map_or("", |(_, query)| query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_pusher_js() {
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
