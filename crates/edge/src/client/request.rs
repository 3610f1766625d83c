//! A client's request, retained until its response is complete, or while the edge may send it again.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use fermata_engine::RequestView;
use fermata_grip::over_http;
use fermata_io::Peer;

/// Prefix of gRPC's media types.
const GRPC_MEDIA_TYPE: &[u8] = b"application/grpc";

/// A request as its client sent it.
#[derive(Debug)]
pub(crate) struct ClientRequest {
    pub method: Vec<u8>,
    /// Path and query, or `*`.
    pub target: Vec<u8>,
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub body: Body,
    pub peer: Peer,
    /// Host and port, as the client sent them.
    pub host: Vec<u8>,
    pub is_tls: bool,
}

/// Returns the size of names and values.
pub(crate) fn headers_bytes(headers: &[(Vec<u8>, Vec<u8>)]) -> u64 {
    let of_one = |(name, value): &(Vec<u8>, Vec<u8>)| (name.len() + value.len()) as u64;
    headers.iter().map(of_one).sum()
}

/// The body of a request.
#[derive(Debug)]
pub(crate) enum Body {
    /// No body, and no framing fields of one.
    None,
    Memory(Vec<u8>),
    /// In a temporary file of the engine, which exists until the request ends.
    File {
        path: PathBuf,
        bytes: u64,
    },
    /// Still arriving, and too large to wait for.
    Arriving {
        /// Bytes that have arrived.
        first: Vec<u8>,
        /// Length in bytes; `None` if unknown.
        length: Option<u64>,
    },
}

impl Body {
    pub fn bytes(&self) -> u64 {
        match self {
            Body::None => 0,
            Body::Memory(body) => body.len() as u64,
            Body::File { bytes, .. } => *bytes,
            Body::Arriving { length, .. } => length.unwrap_or(u64::MAX),
        }
    }
}

impl ClientRequest {
    /// Copies the current request. `spooled` is a body that the engine stored in a file.
    pub fn new(view: &RequestView<'_>, spooled: Option<(PathBuf, u64)>, is_tls: bool) -> Self {
        // An HTTP/2 handshake has no Upgrade (RFC 8441, section 5). The copy has the form of HTTP/1.1.
        let upgrade = view
            .is_extended_connect()
            .then_some((&b"Upgrade"[..], &b"websocket"[..]));
        let headers = (0..view.headers_len())
            .filter_map(|at| view.header_at(at))
            .chain(upgrade)
            .map(|(name, value)| (name.to_vec(), value.to_vec()))
            .collect();
        let has_body = view.header(b"content-length", 0).is_some()
            || view.header(b"transfer-encoding", 0).is_some();
        let body = match spooled {
            Some((path, bytes)) => Body::File { path, bytes },
            None if has_body => Body::Memory(view.body().to_vec()),
            None => Body::None,
        };
        Self {
            method: view.method().to_vec(),
            target: origin_form(view.target()),
            headers,
            body,
            peer: view.peer(),
            host: view.host().unwrap_or_default().to_vec(),
            is_tls,
        }
    }

    /// Returns a placeholder for a request that is never sent again.
    pub fn forgotten() -> Self {
        Self {
            method: Vec::new(),
            target: Vec::new(),
            headers: Vec::new(),
            body: Body::None,
            peer: Peer::Unix,
            host: Vec::new(),
            is_tls: false,
        }
    }

    /// Returns a GET request of the same target without fields, against which links are resolved.
    pub fn place(&self) -> Self {
        Self {
            method: b"GET".to_vec(),
            target: self.target.clone(),
            headers: Vec::new(),
            body: Body::None,
            peer: self.peer,
            host: self.host.clone(),
            is_tls: self.is_tls,
        }
    }

    /// Returns a POST to the same target.
    pub fn post(&self, headers: Vec<(Vec<u8>, Vec<u8>)>, body: Vec<u8>) -> Self {
        Self {
            method: b"POST".to_vec(),
            headers,
            body: Body::Memory(body),
            ..self.place()
        }
    }

    /// Returns the first field of this name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| &value[..])
    }

    /// Returns the size of method, target and fields without separators.
    pub fn words_bytes(&self) -> u64 {
        let line = self.method.len() + self.target.len();
        line as u64 + headers_bytes(&self.headers)
    }

    /// Returns true for a WebSocket handshake.
    pub fn is_websocket(&self) -> bool {
        self.method == b"GET"
            && self
                .header("upgrade")
                .is_some_and(|it| it.trim_ascii().eq_ignore_ascii_case(b"websocket"))
    }

    /// Returns true if an origin could interpret the request as events of a WebSocket. Checks every line and every part of
    /// `Content-Type`, because frameworks use different ones.
    pub fn has_events(&self) -> bool {
        self.headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"content-type"))
            .flat_map(|(_, value)| value.split(|byte| matches!(byte, b';' | b',')))
            .any(|part| {
                part.trim_ascii()
                    .eq_ignore_ascii_case(over_http::MEDIA_TYPE.as_bytes())
            })
    }

    /// Returns true for a gRPC call, whose request and response bodies are sent concurrently.
    pub fn is_grpc(&self) -> bool {
        let media = self.header("content-type").unwrap_or_default();
        let rest = media
            .split_at_checked(GRPC_MEDIA_TYPE.len())
            .filter(|(start, _)| start.eq_ignore_ascii_case(GRPC_MEDIA_TYPE))
            .map(|(_, rest)| rest.first());
        matches!(rest, Some(None | Some(b'+' | b';' | b' ')))
    }

    pub fn is_head(&self) -> bool {
        self.method == b"HEAD"
    }

    /// Returns true if the method is idempotent (RFC 9110, section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        matches!(
            &self.method[..],
            b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PUT" | b"DELETE"
        )
    }

    /// Returns the path without the query.
    pub fn path(&self) -> &[u8] {
        let end = self.target.iter().position(|&byte| byte == b'?');
        &self.target[..end.unwrap_or(self.target.len())]
    }

    /// Returns the host without the port.
    pub fn host_name(&self) -> String {
        without_port(&String::from_utf8_lossy(&self.host)).to_owned()
    }

    /// Returns the client's address, or a placeholder for Unix sockets.
    pub fn peer_address(&self) -> SocketAddr {
        let address = self.peer.ip().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        SocketAddr::new(address, self.peer.port())
    }
}

/// Returns a host without its port.
pub(crate) fn without_port(host: &str) -> &str {
    match host.rfind(':') {
        Some(at) if !host[at..].contains(']') => &host[..at],
        _ => host,
    }
}

/// Returns path and query of a request target in origin or absolute form (RFC 9112, section 3.2).
fn origin_form(target: &[u8]) -> Vec<u8> {
    if target.first() == Some(&b'/') || target == b"*" {
        return target.to_vec();
    }
    let after_scheme = target.windows(3).position(|three| three == b"://");
    let rest = after_scheme.map_or(&b""[..], |at| &target[at + 3..]);
    let start = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
    match start {
        Some(at) if rest[at] == b'/' => rest[at..].to_vec(),
        Some(at) => [b"/", &rest[at..]].concat(),
        None => b"/".to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_known_however_they_are_named() {
        let request = |types: &[&str]| ClientRequest {
            method: b"POST".to_vec(),
            target: b"/".to_vec(),
            headers: types
                .iter()
                .map(|it| (b"content-Type".to_vec(), it.as_bytes().to_vec()))
                .collect(),
            body: Body::None,
            peer: Peer::Unix,
            host: Vec::new(),
            is_tls: false,
        };
        for types in [
            &["application/websocket-events"][..],
            &["Application/WebSocket-Events ; x=y"],
            &["text/plain", "application/websocket-events"],
            &["text/plain, application/websocket-events"],
        ] {
            assert!(request(types).has_events(), "{types:?}");
        }
        assert!(!request(&["application/websocket-events2", "text/plain"]).has_events());
    }

    #[test]
    fn calls_of_grpc_are_known() {
        let is_grpc = |media: &str| {
            let mut request = ClientRequest::forgotten();
            let media = media.as_bytes().to_vec();
            request.headers = vec![(b"Content-Type".to_vec(), media)];
            request.is_grpc()
        };
        for media in [
            "application/grpc",
            "Application/gRPC+proto",
            "application/grpc; x=y",
        ] {
            assert!(is_grpc(media), "{media}");
        }
        // gRPC-Web sends the bodies of request and response one after the other.
        for media in ["application/grpc-web", "application/grp", "text/plain", ""] {
            assert!(!is_grpc(media), "{media}");
        }
    }

    #[test]
    fn whole_uris_become_paths() {
        for (target, path) in [
            ("/a?b", "/a?b"),
            ("*", "*"),
            ("http://host:80/a?b", "/a?b"),
            ("http://host", "/"),
            ("http://host?q=/", "/?q=/"),
        ] {
            assert_eq!(origin_form(target.as_bytes()), path.as_bytes(), "{target}");
        }
    }
}
