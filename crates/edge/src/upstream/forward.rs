//! The request that an origin receives: the client's request, without hop-by-hop fields, with the additions of the route.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use fermata_fastcgi::codec as fastcgi;
use fermata_fastcgi::codec::{HttpRequest, Script, VariablesError};
use fermata_grip::filter::FEATURES;
use fermata_grip::last;
use fermata_grip::spelling::{Folded, same};
use fermata_proto::chunk;
use fermata_proto::number;
use fermata_proto::response::{valid_name, valid_value};
use fermata_proto::traceparent::TraceParent;

use crate::client::request::{Body, ClientRequest};
use crate::routes::{Origin, Rule, Target};
use crate::settings::Settings;

/// Prefix of copies of the client's own headers (`orig_headers`). Pushpin uses the same prefix.
const ORIGINAL: &str = "eb9bf0f5-";

/// Space for the version, the body's framing and line ends of a head.
const FRAMING_BYTES: usize = 64;

/// Hop-by-hop fields (RFC 9110, section 7.6.1), and fields that the edge handles itself. It removes `Accept-Encoding`, because it
/// cannot read compressed GRIP instructions, and `Expect`, because it has received a body before it forwards the request.
const REMOVED: [&str; 12] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "transfer-encoding",
    "content-length",
    "accept-encoding",
    "expect",
    "host",
    // CGI applications would receive this field as HTTP_PROXY, which many HTTP clients use as their proxy.
    "proxy",
];

/// Fields other than `X-Forwarded-*` by which proxies describe the client. Any client can send them.
const SET_BY_PROXIES: [&str; 9] = [
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-originating-ip",
    "x-remote-ip",
    "client-ip",
    "true-client-ip",
];

/// Fields by which the edge describes a WebSocket's client to origins, besides `Meta-*`.
const EVENTS_OWN: [&str; 2] = ["connection-id", "content-bytes-replayed"];

/// Fields by which the edge describes a subscriber and an item to the server of a filter.
const FILTERS_OWN: [&str; 2] = ["sub-meta", "pub-meta"];

/// Fields of a handshake that the edge itself writes.
pub(crate) const HANDSHAKE_OWN: [&[u8]; 3] = [
    b"sec-websocket-key",
    b"sec-websocket-version",
    b"sec-websocket-extensions",
];

/// Settings for rewriting requests.
#[derive(Clone, Debug)]
pub(crate) struct Rewriting {
    /// Rules for `X-Forwarded-For`, of clients and of trusted edges.
    pub forwarded_for: ForwardedFor,
    pub forwarded_for_trusted: ForwardedFor,
    /// Forwards the clients' own `Forwarded` and similar fields.
    pub accepts_forwarded: bool,
    /// Fields that report the scheme: `X-Forwarded-Proto` and `X-Forwarded-Protocol`.
    pub sets_proto: bool,
    pub sets_protocol: bool,
    pub accepts_pushpin_route: bool,
    pub cdn_loop: String,
    /// Fields that `orig_headers` copies only if they arrive with the mark.
    pub need_mark: Vec<Vec<u8>>,
}

impl Rewriting {
    pub fn new(settings: &Settings) -> Self {
        let rule = &settings.set_x_forwarded_protocol;
        Self {
            forwarded_for: ForwardedFor::new(&settings.x_forwarded_for),
            forwarded_for_trusted: ForwardedFor::new(&settings.x_forwarded_for_trusted),
            accepts_forwarded: settings.accept_forwarded,
            sets_proto: rule != "false",
            sets_protocol: rule == "true",
            accepts_pushpin_route: settings.accept_pushpin_route,
            cdn_loop: settings.cdn_loop.clone(),
            need_mark: settings
                .orig_headers_need_mark
                .iter()
                .map(|name| name.as_bytes().to_vec())
                .collect(),
        }
    }
}

impl Rewriting {
    /// Returns `X-Forwarded-For` after the rule was applied; `None` if the settings contain no rule.
    pub fn client_list(&self, request: &ClientRequest, is_trusted: bool) -> Option<Vec<u8>> {
        let rule = if is_trusted {
            self.forwarded_for_trusted
        } else {
            self.forwarded_for
        };
        if rule == ForwardedFor::default() {
            return None;
        }
        let named = request.headers.iter();
        let received: Vec<&[u8]> = named
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"x-forwarded-for"))
            .map(|(_, value)| &value[..])
            .collect();
        rule.apply(&received, request.peer.ip())
    }
}

/// Rule for `X-Forwarded-For`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ForwardedFor {
    /// Number of addresses kept at the end of the list.
    truncate: Option<usize>,
    appends: bool,
}

impl ForwardedFor {
    fn new(rule: &str) -> Self {
        let mut found = Self::default();
        for token in rule.split(',').map(str::trim) {
            match token.strip_prefix("truncate:") {
                Some(count) => found.truncate = count.trim().parse().ok(),
                None => found.appends |= token == "append",
            }
        }
        found
    }

    fn apply(self, received: &[&[u8]], peer: Option<IpAddr>) -> Option<Vec<u8>> {
        if received.is_empty() {
            return peer.filter(|_| self.appends).map(text_of);
        }
        let all: Vec<&[u8]> = received
            .iter()
            .flat_map(|value| value.split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|address| !address.is_empty())
            .collect();
        let kept = self
            .truncate
            .map_or(all.len(), |count| count.min(all.len()));
        let mut list: Vec<Vec<u8>> = all[all.len() - kept..]
            .iter()
            .map(|it| it.to_vec())
            .collect();
        if let Some(peer) = peer
            && self.appends
        {
            list.push(text_of(peer));
        }
        (!list.is_empty()).then(|| list.join(&b", "[..]))
    }
}

fn text_of(address: IpAddr) -> Vec<u8> {
    let mut text = Vec::with_capacity("255.255.255.255".len());
    number::address(&mut text, address);
    text
}

/// All values other than the client's request that determine how it is forwarded.
pub(crate) struct Hop<'a> {
    pub rule: &'a Rule,
    pub target: &'a Target,
    pub rewriting: &'a Rewriting,
    /// The client is an edge with a valid `Grip-Sig`.
    pub is_trusted: bool,
    /// The edge itself sends the request, with events of a WebSocket.
    pub is_events: bool,
    /// The edge itself sends the request as a health check; its path is not rewritten.
    pub is_check: bool,
    /// The edge itself sends the request for a filter.
    pub is_filter: bool,
    /// At least one route has a target with WebSocket-over-HTTP.
    pub has_over_http: bool,
    /// The value of `Grip-Sig`.
    pub signature: Option<&'a str>,
    /// Id of the session to which the request belongs.
    pub session_id: Option<&'a str>,
    /// Value of `traceparent` if the edge records spans; otherwise the client's value is forwarded.
    pub traceparent: Option<&'a str>,
    /// Channels and ids for `Grip-Last`.
    pub last_ids: &'a [(Vec<u8>, Vec<u8>)],
}

/// A request as its origin receives it, without framing. The client's fields are borrowed, not copied.
pub(crate) struct Forwarded<'a> {
    pub target: Cow<'a, [u8]>,
    pub host: Cow<'a, [u8]>,
    pub headers: Vec<Header<'a>>,
}

/// Name and value of a header field.
pub(crate) type Header<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// Returns the client's trace context; `None` if it is malformed or repeated.
pub(crate) fn trace_of(request: &ClientRequest) -> Option<TraceParent<'_>> {
    let is_it = |name: &[u8]| name.eq_ignore_ascii_case(b"traceparent");
    let mut values = request.headers.iter().filter(|it| is_it(&it.0));
    match (values.next(), values.next()) {
        (Some((_, value)), None) => TraceParent::parse(value),
        _ => None,
    }
}

impl<'a> Forwarded<'a> {
    pub fn new(request: &'a ClientRequest, hop: &Hop<'_>) -> Self {
        let rule = hop.rule;
        let host = host(request, hop);
        let target = match request.target.first() {
            Some(b'/') if !hop.is_check => rule.backend_path(&request.target),
            _ => Cow::Borrowed(&request.target[..]),
        };
        let mut headers = Vec::<Header<'a>>::with_capacity(request.headers.len() + 4);
        let of_hop = named_in_connection(request);
        for (name, value) in &request.headers {
            if passes(name, hop) && !of_hop.iter().any(|it| it.eq_ignore_ascii_case(name)) {
                headers.push((Cow::Borrowed(name), Cow::Borrowed(value)));
            }
        }
        if rule.orig_headers {
            originals(request, hop, &mut headers);
        }
        let mut set = |name: Cow<'a, [u8]>, value: Cow<'a, [u8]>| {
            headers.retain(|(other, _)| !same(other, &name));
            if !value.is_empty() {
                headers.push((name, value));
            }
        };
        forwarded(request, hop, &mut set);
        if !rule.no_grip && !hop.is_trusted {
            if let Some(signature) = hop.signature {
                set(literal("Grip-Sig"), signature.as_bytes().to_vec().into());
            }
            set(literal("Grip-Feature"), literal(FEATURES));
        }
        for (name, value) in rule.headers.iter().filter(|(name, _)| !is_host(name)) {
            let name = name.as_bytes().to_vec();
            set(name.into(), value.as_bytes().to_vec().into());
        }
        if let Some(value) = hop.traceparent {
            set(literal("traceparent"), value.as_bytes().to_vec().into());
            if trace_of(request).is_none() {
                // The client's value belongs to its own trace, and a new trace starts here (W3C Trace Context, section 3.3).
                set(literal("tracestate"), literal(""));
            }
        }
        if let Some(id) = hop.session_id {
            set(literal("Grip-Session-Id"), id.as_bytes().to_vec().into());
        }
        for (channel, id) in hop.last_ids {
            if let Some(value) = last::write(channel, id) {
                headers.push((literal(last::HEADER), value.into()));
            }
        }
        // From any source: bytes that are invalid in a field could be parsed as another field or request.
        headers.retain(|(name, value)| valid_name(name) && valid_value(value));
        Self {
            target,
            host,
            headers,
        }
    }

    /// Returns the size of method, target and fields without separators.
    pub fn words_bytes(&self, method: &[u8]) -> u64 {
        let host = "Host".len() + self.host.len();
        let headers = self.headers.iter();
        let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
        (method.len() + self.target.len() + host + headers) as u64
    }

    /// Appends the request as HTTP/1.1, with its body if the body is in memory.
    pub fn write_http(&self, request: &ClientRequest, out: &mut Vec<u8>) {
        let body_bytes = match &request.body {
            Body::Memory(body) | Body::Arriving { first: body, .. } => body.len(),
            Body::None | Body::File { .. } => 0,
        };
        let between = self.headers.len() * ": \r\n".len() + FRAMING_BYTES;
        out.reserve(self.words_bytes(&request.method) as usize + between + body_bytes);
        out.extend_from_slice(&request.method);
        out.push(b' ');
        out.extend_from_slice(&self.target);
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(&self.host);
        out.extend_from_slice(b"\r\n");
        for (name, value) in &self.headers {
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
        match &request.body {
            Body::None => {}
            Body::Arriving { length: None, .. } => {
                out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            }
            body => {
                out.extend_from_slice(format!("Content-Length: {}\r\n", body.bytes()).as_bytes());
            }
        }
        out.extend_from_slice(b"\r\n");
        match &request.body {
            Body::Memory(body) => out.extend_from_slice(body),
            Body::Arriving { first, length } => match length {
                Some(_) => out.extend_from_slice(first),
                None => chunk::wrap(out, first),
            },
            Body::None | Body::File { .. } => {}
        }
    }

    /// Appends the request as a WebSocket handshake. `offers_grip` lets the origin send control messages.
    pub fn write_upgrade(&self, key: &[u8], offers_grip: bool, out: &mut Vec<u8>) {
        let mut line = |parts: &[&[u8]]| {
            parts.iter().for_each(|part| out.extend_from_slice(part));
            out.extend_from_slice(b"\r\n");
        };
        line(&[b"GET ", &self.target, b" HTTP/1.1"]);
        line(&[b"Host: ", &self.host]);
        line(&[b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13"]);
        line(&[b"Sec-WebSocket-Key: ", key]);
        if offers_grip {
            line(&[b"Sec-WebSocket-Extensions: grip"]);
        }
        for (name, value) in &self.headers {
            if !HANDSHAKE_OWN.iter().any(|own| same(name, own)) {
                line(&[name, b": ", value]);
            }
        }
        line(&[]);
    }

    /// Appends the request as FastCGI records, with its body if the body is in memory. Records of a body in a file follow later.
    ///
    /// # Errors
    /// The path names no script.
    pub fn write_fastcgi(
        &self,
        request: &ClientRequest,
        script: Script<'_>,
        server: SocketAddr,
        out: &mut Vec<u8>,
    ) -> Result<(), VariablesError> {
        let headers: Vec<(&[u8], &[u8])> = self
            .headers
            .iter()
            .map(|(name, value)| (&name[..], &value[..]))
            .chain([(&b"Host"[..], &self.host[..])])
            .collect();
        let host = String::from_utf8_lossy(&self.host);
        let name = match host.rfind(':') {
            Some(at) if !host[at..].contains(']') => &host[..at],
            _ => &host[..],
        };
        let variables = fastcgi::variables(
            &HttpRequest {
                method: &request.method,
                target: &self.target,
                prefix: "",
                protocol: "HTTP/1.1",
                headers: &headers,
                content_bytes: match request.body {
                    Body::None => None,
                    _ => Some(request.body.bytes()),
                },
                client: request.peer_address(),
                server,
                host: name.as_bytes(),
                is_tls: request.is_tls,
            },
            script,
        )?;
        fastcgi::Request::begin(out, false).params(
            variables
                .iter()
                .map(|(name, value)| (&name[..], &value[..])),
        );
        match &request.body {
            Body::File { .. } => {}
            Body::Arriving { first, .. } => fastcgi::Request::body(out, first),
            Body::Memory(body) => {
                fastcgi::Request::body(out, body);
                fastcgi::Request::body_end(out);
            }
            Body::None => fastcgi::Request::body_end(out),
        }
        Ok(())
    }
}

fn literal(text: &'static str) -> Cow<'static, [u8]> {
    Cow::Borrowed(text.as_bytes())
}

fn is_host(name: &str) -> bool {
    name.eq_ignore_ascii_case("host")
}

/// Returns the `Host` for the origin, never empty: servers refuse HTTP/1.1 without it. If an HTTP/1.0 client sends no `Host`, the
/// target's address is used.
fn host<'a>(request: &'a ClientRequest, hop: &Hop<'_>) -> Cow<'a, [u8]> {
    let of_rule = hop.rule.headers.iter().rev();
    let of_rule = of_rule
        .filter(|(name, value)| is_host(name) && !value.is_empty())
        .map(|(_, value)| value)
        .next();
    let of_route = hop.target.host.as_ref().or(of_rule);
    match of_route.or(hop.rule.as_host.as_ref()) {
        Some(host) => host.clone().into_bytes().into(),
        None if !request.host.is_empty() => Cow::Borrowed(&request.host),
        None => match &hop.target.origin {
            Origin::Host { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Origin::Host { host, port } => format!("{host}:{port}"),
            _ => "localhost".to_owned(),
        }
        .into_bytes()
        .into(),
    }
}

fn is_removed(name: &Folded) -> bool {
    REMOVED.iter().any(|removed| name.is(removed))
}

/// Returns the names listed in `Connection`, which are hop-by-hop.
fn named_in_connection(request: &ClientRequest) -> Vec<&[u8]> {
    request
        .headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"))
        .flat_map(|(_, value)| value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .collect()
}

/// Returns true if a field of the client is forwarded unchanged. Names are compared without case and with `_` as `-`,
/// because CGI applications cannot distinguish the two.
fn passes(name: &[u8], hop: &Hop<'_>) -> bool {
    let is_hyphenated = name
        .iter()
        .all(|&byte| byte == b'-' || byte.is_ascii_alphanumeric());
    let name = Folded::new(name);
    if is_removed(&name) || (name.starts_with("grip-") && !hop.is_trusted) {
        return false;
    }
    // Proxies write names with hyphens. A name with `_` comes from the client, and would override the proxy's field.
    let is_proxys = hop.rewriting.accepts_forwarded && is_hyphenated;
    if !hop.is_trusted && !is_proxys && is_set_by_proxies(&name) {
        return false;
    }
    if !hop.is_trusted && !is_hyphenated && name.is("x-forwarded-for") {
        return false;
    }
    if hop.rewriting.accepts_pushpin_route && name.is("pushpin-route") {
        return false;
    }
    if name.starts_with(ORIGINAL) && !hop.rule.orig_headers {
        return false;
    }
    if !hop.is_filter && !hop.is_trusted && FILTERS_OWN.iter().any(|own| name.is(own)) {
        return false;
    }
    // Only the edge may describe a WebSocket's client to origins that trust the edge.
    let is_signed = hop.signature.is_some() && !hop.rule.no_grip;
    if (hop.has_over_http || is_signed) && !hop.is_events && !hop.is_trusted {
        let is_told = EVENTS_OWN.iter().any(|own| name.is(own));
        if is_told || name.starts_with("meta-") {
            return false;
        }
    }
    true
}

/// Returns true for fields of proxies, except `X-Forwarded-For`, which has a separate setting.
fn is_set_by_proxies(name: &Folded) -> bool {
    let is_forwarded = name.starts_with("x-forwarded-") && !name.is("x-forwarded-for");
    is_forwarded || SET_BY_PROXIES.iter().any(|it| name.is(it))
}

/// Copies the client's fields under marked names. Fields that arrive with the mark stay unchanged.
fn originals<'a>(request: &'a ClientRequest, hop: &Hop<'_>, headers: &mut Vec<Header<'a>>) {
    for (name, value) in &request.headers {
        let folded = Folded::new(name);
        let needs_mark = hop.rewriting.need_mark.iter().any(|it| same(it, name));
        // `Host` is rewritten; the marked copy has the client's value.
        let stays = !is_removed(&folded) || folded.is("host");
        if folded.starts_with(ORIGINAL) || !stays || needs_mark {
            continue;
        }
        let marked = [ORIGINAL.as_bytes(), name].concat();
        let is_there = |(other, _): &Header<'_>| same(other, &marked);
        if !headers.iter().any(is_there) {
            headers.push((marked.into(), Cow::Borrowed(value)));
        }
    }
}

/// Sets the fields that describe the previous hop.
fn forwarded<'a>(
    request: &ClientRequest,
    hop: &Hop<'_>,
    set: &mut dyn FnMut(Cow<'a, [u8]>, Cow<'a, [u8]>),
) {
    let rewriting = hop.rewriting;
    let rule = if hop.is_trusted {
        rewriting.forwarded_for_trusted
    } else {
        rewriting.forwarded_for
    };
    if rule != ForwardedFor::default() {
        let received: Vec<&[u8]> = request
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(b"x-forwarded-for"))
            .map(|(_, value)| &value[..])
            .collect();
        let list = rule.apply(&received, request.peer.ip());
        set(literal("X-Forwarded-For"), list.unwrap_or_default().into());
    }
    if rewriting.sets_proto || rewriting.sets_protocol {
        let scheme = match (request.is_tls, request.is_websocket()) {
            (false, _) => "",
            (true, false) => "https",
            (true, true) => "wss",
        };
        set(literal("X-Forwarded-Proto"), literal(scheme));
        let protocol = if rewriting.sets_protocol { scheme } else { "" };
        set(literal("X-Forwarded-Protocol"), literal(protocol));
    }
    if !rewriting.cdn_loop.is_empty() {
        let received = request.header("cdn-loop").unwrap_or_default();
        let mut list = received.to_vec();
        if !list.is_empty() {
            list.extend_from_slice(b", ");
        }
        list.extend_from_slice(rewriting.cdn_loop.as_bytes());
        set(literal("CDN-Loop"), list.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_addresses_are_cut_and_added_to() {
        let peer = Some(IpAddr::from([192, 0, 2, 9]));
        for (rule, received, expected) in [
            ("", "a", Some("a")),
            ("truncate:0", "a, b", None),
            ("truncate:1", "a, b", Some("b")),
            ("truncate:0,append", "a, b", Some("192.0.2.9")),
            ("append", "a", Some("a, 192.0.2.9")),
            ("append", "", Some("192.0.2.9")),
        ] {
            let list = ForwardedFor::new(rule).apply(&[received.as_bytes()], peer);
            assert_eq!(list.as_deref(), expected.map(str::as_bytes), "{rule}");
        }
    }

    #[test]
    fn handshakes_have_no_spelling_of_what_the_edge_says() {
        let names = [
            "Sec_WebSocket_Extensions",
            "sec-websocket-key",
            "SEC_WEBSOCKET_VERSION",
            "X_Sec",
        ];
        let forwarded = Forwarded {
            target: literal("/"),
            host: literal("h"),
            headers: names.map(|it| (literal(it), literal("own"))).to_vec(),
        };
        let mut out = Vec::new();
        forwarded.write_upgrade(b"key", true, &mut out);
        let text = String::from_utf8(out).expect("text");
        let own: Vec<&str> = text.lines().filter(|it| it.ends_with(": own")).collect();
        assert_eq!(own, ["X_Sec: own"]);
    }

    #[test]
    fn what_cannot_stand_in_a_head_is_left_out() {
        let (routes, _) = crate::routes::Routes::read("* 127.0.0.1:80", |_| Ok(()));
        let settings = Settings::default();
        let hop = Hop {
            rule: &routes.rules()[0],
            target: &routes.rules()[0].targets[0],
            rewriting: &Rewriting::new(&settings),
            is_trusted: false,
            is_events: false,
            is_check: false,
            is_filter: false,
            has_over_http: false,
            signature: None,
            session_id: Some("s\r\nA: b"),
            traceparent: None,
            last_ids: &[],
        };
        let header = |name: &str, value: &str| (name.into(), value.into());
        let request = ClientRequest {
            method: b"GET".to_vec(),
            target: b"/".to_vec(),
            headers: vec![
                header("C: d\r\nE", "f"),
                header("G", "h\0"),
                header("I", "j"),
            ],
            ..ClientRequest::forgotten()
        };
        let mut out = Vec::new();
        Forwarded::new(&request, &hop).write_http(&request, &mut out);
        let text = String::from_utf8(out).expect("text");
        let names: Vec<&str> = text
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .map(|(name, _)| name)
            .filter(|name| name.len() == 1)
            .collect();
        assert_eq!(names, ["I"], "{text}");
        assert!(!text.contains("Grip-Session-Id"), "{text}");
    }
}
