//! Parses a path below the prefix of SockJS.

/// Transport of a session's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A WebSocket.
    Socket,
    /// Requests of JavaScript that wait for messages.
    Poll,
    /// Requests of JavaScript that send messages.
    Send,
    /// Script elements that wait for messages.
    ScriptPoll,
    /// Forms and script elements that send messages.
    ScriptSend,
}

impl Transport {
    fn read(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"websocket" => Self::Socket,
            b"xhr" => Self::Poll,
            b"xhr_send" => Self::Send,
            b"jsonp" => Self::ScriptPoll,
            b"jsonp_send" => Self::ScriptSend,
            _ => return None,
        })
    }

    /// Returns true if the method is valid for this transport.
    pub fn takes(self, method: &[u8]) -> bool {
        match self {
            Self::Socket => false,
            Self::Poll | Self::Send => method == b"POST",
            // A script element can only send GET.
            Self::ScriptPoll | Self::ScriptSend => matches!(method, b"GET" | b"POST"),
        }
    }

    /// Returns true if the transport sends messages to the server.
    pub fn is_send(self) -> bool {
        matches!(self, Self::Send | Self::ScriptSend)
    }

    /// Returns true if the transport belongs to a script element.
    pub fn is_script(self) -> bool {
        matches!(self, Self::ScriptPoll | Self::ScriptSend)
    }
}

/// Resource of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// Information that clients request first.
    Info,
    /// The page for iframes.
    Page,
    /// A plain WebSocket.
    Socket,
    /// A session, with the client's name for the session.
    Session(&'a [u8], Transport),
    /// Not a resource of SockJS.
    Nothing,
}

/// Parses a path: `/info`, or `/SERVER/SESSION/TRANSPORT`. The server part is for load balancers and ignored.
pub fn read(path: &[u8]) -> Place<'_> {
    let Some(path) = path.strip_prefix(b"/") else {
        return Place::Nothing;
    };
    let mut parts = path.split(|&byte| byte == b'/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(b"info"), None, ..) => Place::Info,
        (Some(b"websocket"), None, ..) => Place::Socket,
        (Some(name), None, ..) if name.starts_with(b"iframe") && name.ends_with(b".html") => {
            Place::Page
        }
        (Some(server), Some(session), Some(transport), None)
            if !server.is_empty() && !session.is_empty() =>
        {
            match Transport::read(transport) {
                Some(transport) => Place::Session(session, transport),
                None => Place::Nothing,
            }
        }
        _ => Place::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_paths() {
        for (path, place) in [
            ("/info", Place::Info),
            ("/iframe.html", Place::Page),
            ("/iframe-1.6.1.html", Place::Page),
            ("/websocket", Place::Socket),
            ("/000/abc/xhr", Place::Session(b"abc", Transport::Poll)),
            (
                "/0/a/jsonp_send",
                Place::Session(b"a", Transport::ScriptSend),
            ),
            ("", Place::Nothing),
            ("/", Place::Nothing),
            ("/info/", Place::Nothing),
            ("//a/xhr", Place::Nothing),
            ("/0//xhr", Place::Nothing),
            ("/0/a/xhr/", Place::Nothing),
            ("/0/a/xhr_streaming", Place::Nothing),
        ] {
            assert_eq!(read(path.as_bytes()), place, "{path}");
        }
    }

    #[test]
    fn accepts_the_methods_of_browsers() {
        for (transport, method, expected) in [
            (Transport::Poll, "POST", true),
            (Transport::Poll, "GET", false),
            (Transport::ScriptPoll, "GET", true),
            (Transport::Socket, "GET", false),
        ] {
            assert_eq!(transport.takes(method.as_bytes()), expected, "{method}");
        }
    }
}
