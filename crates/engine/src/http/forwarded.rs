//! Client address and request properties reported by trusted proxies: `Forwarded` (RFC 7239) or
//! `X-Forwarded-*`.
//!
//! Any client can send these headers. So only entries written by proxies in `trusted_proxies` are
//! used. The address list is read from its end; the first untrusted address is the client. A client
//! can forge the entries before it. Reading stops at a malformed entry; the entries read before it
//! are used.
//!
//! A proxy forwards the headers that it does not write, so only the headers in `proxy_headers` are
//! read. If headers of the other kind are present, either the client sent them or the setting is
//! wrong. The server cannot distinguish the two cases, so it ignores both kinds.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use fermata_config::{LogLevel, Networks, ProxyHeader, ProxyHeaders};
use fermata_io::{Driver, net};
use fermata_proto::http1::valid_host;
use fermata_tls::ClientCertificate;

use crate::admin::stats::Counter;
use crate::http::Http;
use crate::http::protocol::Protocol;
use crate::http::request::RequestView;
use crate::id::RequestId;
use crate::net::Net;
use crate::net::index::ExchangeIndex;
use crate::net::preface::is_unnamed;
use crate::websocket::Sockets;

/// Maximum number of proxies in a row.
const HOPS_MAX: usize = 32;

/// Values reported by proxies. `None` = use the connection's own value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim<'a> {
    /// Address and port; port 0 = unknown.
    pub address: Option<(IpAddr, u16)>,
    pub is_secure: Option<bool>,
    pub host: Option<&'a [u8]>,
}

/// Reads the values reported by proxies; all `None` if `peer` is not trusted.
pub(crate) fn read<'a>(
    request: &RequestView<'a>,
    peer: Option<IpAddr>,
    trusted: &Networks,
    written: &ProxyHeaders,
) -> Claim<'a> {
    if trusted.is_empty() || !trusted.contains(peer) || is_contradictory(request, written) {
        return Claim::default();
    }
    let has_standard = request.header(b"forwarded", 0).is_some();
    if written.contains(ProxyHeader::Forwarded) && (has_standard || !written.has_customary()) {
        read_standard(request, trusted)
    } else {
        read_customary(request, trusted, written)
    }
}

/// Returns true if a request has headers of the kind that no proxy in front writes.
fn is_contradictory(request: &RequestView<'_>, written: &ProxyHeaders) -> bool {
    let has = |header: ProxyHeader| request.header(header.name().as_bytes(), 0).is_some();
    let customary = [ProxyHeader::For, ProxyHeader::Proto, ProxyHeader::Host];
    if written.contains(ProxyHeader::Forwarded) {
        !written.has_customary() && customary.into_iter().any(has)
    } else {
        has(ProxyHeader::Forwarded)
    }
}

/// Reads `Forwarded: for=192.0.2.60;proto=https;host=example.com, for="[2001:db8::1]:4711"`.
fn read_standard<'a>(request: &RequestView<'a>, trusted: &Networks) -> Claim<'a> {
    let mut claim = Claim::default();
    for element in elements_from_end(request, b"forwarded").take(HOPS_MAX) {
        let Some(element) = read_element(element) else {
            break;
        };
        claim.is_secure = element.is_secure.or(claim.is_secure);
        claim.host = element.host.or(claim.host);
        let Some(address) = element.address else {
            // The proxy hides the address or does not know it.
            break;
        };
        claim.address = Some(address);
        if !trusted.contains(Some(address.0)) {
            break;
        }
    }
    claim
}

/// Parses one element, written by one proxy. `None` if it is malformed.
fn read_element(element: &[u8]) -> Option<Claim<'_>> {
    let mut claim = Claim::default();
    for pair in split_outside_quotes(element, b';') {
        let pair = pair.trim_ascii();
        if pair.is_empty() {
            continue;
        }
        let equals = memchr::memchr(b'=', pair)?;
        let (name, value) = (&pair[..equals], unquote(&pair[equals + 1..])?);
        if name.eq_ignore_ascii_case(b"for") {
            // `unknown` and obfuscated names starting with `_` are valid but not addresses.
            claim.address = parse_node(value);
        } else if name.eq_ignore_ascii_case(b"proto") {
            claim.is_secure = Some(parse_scheme(value)?);
        } else if name.eq_ignore_ascii_case(b"host") {
            claim.host = Some(value).filter(|host| valid_host(host));
            claim.host?;
        }
    }
    Some(claim)
}

/// Reads `X-Forwarded-For: client, proxy`, with `X-Forwarded-Proto` and `X-Forwarded-Host`.
fn read_customary<'a>(
    request: &RequestView<'a>,
    trusted: &Networks,
    written: &ProxyHeaders,
) -> Claim<'a> {
    let mut claim = Claim::default();
    let mut hops = 0;
    let elements = |header: ProxyHeader| {
        let all = elements_from_end(request, header.name().as_bytes());
        all.take(if written.contains(header) {
            HOPS_MAX
        } else {
            0
        })
    };
    for element in elements(ProxyHeader::For) {
        let Some(address) = parse_node(element) else {
            break;
        };
        claim.address = Some(address);
        if !trusted.contains(Some(address.0)) {
            break;
        }
        hops += 1;
    }
    // A proxy that appends makes this list as long as the address list; a proxy that replaces the
    // header leaves one value.
    let of_hop = |header: ProxyHeader| elements(header).take(hops + 1).last();
    claim.is_secure = of_hop(ProxyHeader::Proto).and_then(parse_scheme);
    claim.host = of_hop(ProxyHeader::Host).filter(|host| valid_host(host));
    claim
}

/// Returns the elements of all field lines of a list header, the last first.
fn elements_from_end<'a>(
    request: &RequestView<'a>,
    name: &[u8],
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let lines: Vec<&[u8]> = (0..).map_while(|nth| request.header(name, nth)).collect();
    // Split each line from its end: a quote left open by the client must not hide an element that a
    // proxy has appended.
    let elements = lines.into_iter().rev();
    elements
        .flat_map(|line| rsplit_outside_quotes(line, b','))
        .map(<[u8]>::trim_ascii)
}

/// Splits at separators outside of quoted strings.
fn split_outside_quotes(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    text.split(move |&byte| {
        if is_escaped {
            is_escaped = false;
        } else if is_quoted && byte == b'\\' {
            is_escaped = true;
        } else if byte == b'"' {
            is_quoted = !is_quoted;
        }
        byte == separator && !is_quoted
    })
}

/// Splits from the end. Ignores escapes, because no valid value contains one.
fn rsplit_outside_quotes(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    text.rsplit(move |&byte| {
        is_quoted ^= byte == b'"';
        byte == separator && !is_quoted
    })
}

/// Parses a token or a quoted string. An escape is an error, because no valid value contains one.
fn unquote(value: &[u8]) -> Option<&[u8]> {
    let inside = match value {
        [b'"', inside @ .., b'"'] => inside,
        _ => value,
    };
    (!inside.is_empty() && !inside.iter().any(|byte| b"\"\\".contains(byte))).then_some(inside)
}

/// Parses an address with an optional port: `192.0.2.60`, `192.0.2.60:80`, `2001:db8::1`,
/// `[2001:db8::1]:80`.
fn parse_node(node: &[u8]) -> Option<(IpAddr, u16)> {
    let text = std::str::from_utf8(node).ok()?;
    if let Some(rest) = text.strip_prefix('[') {
        let (address, behind) = rest.split_once(']')?;
        let address: Ipv6Addr = address.parse().ok()?;
        return Some((IpAddr::V6(address).to_canonical(), parse_port(behind)?));
    }
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address.to_canonical(), 0));
    }
    let (address, _) = text.split_once(':')?;
    let port = parse_port(&text[address.len()..])?;
    Some((IpAddr::V4(address.parse().ok()?), port))
}

/// Parses `:80` or nothing. An obfuscated port counts as none.
fn parse_port(text: &str) -> Option<u16> {
    match text.strip_prefix(':') {
        None => text.is_empty().then_some(0),
        Some(port) if port.starts_with('_') => Some(0),
        Some(port) => port.parse().ok(),
    }
}

fn parse_scheme(scheme: &[u8]) -> Option<bool> {
    if scheme.eq_ignore_ascii_case(b"https") || scheme.eq_ignore_ascii_case(b"wss") {
        return Some(true);
    }
    let is_plain = scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"ws");
    is_plain.then_some(false)
}

impl<D: Driver> Net<D> {
    /// Returns the local address to which the client, or the proxy in front of the server, is
    /// connected. `None` for a Unix socket, and if the request is not in progress.
    pub fn own_address(&mut self, handle: RequestId) -> Option<SocketAddr> {
        let carrier = self.carrier_of(handle.exchange().connection())?;
        let connection = self.connections.at_mut(carrier)?;
        if let Some(known) = self.own_addresses.get(connection.own) {
            return Some(known);
        }
        let address = net::own_addr(connection.line.socket()?)?;
        connection.own = self.own_addresses.note(address);
        Some(address)
    }

    /// Returns the HTTP version of the current request in the format of CGI's `SERVER_PROTOCOL`
    /// (RFC 3875, section 4.1.16).
    pub fn protocol(&self, handle: RequestId) -> &'static str {
        let index = handle.exchange();
        let connection = self.connections.at(index.connection());
        if connection.is_some_and(|it| it.line.stream().is_some()) {
            return "HTTP/2.0";
        }
        let exchange = self.connections.exchange(index);
        if exchange.is_some_and(|it| it.protocol == Protocol::Http10) {
            "HTTP/1.0"
        } else {
            "HTTP/1.1"
        }
    }
}

impl Http {
    /// Stores the client address of a handshake, since the request is dropped later.
    pub(crate) fn note_socket_client<D: Driver>(
        &self,
        net: &Net<D>,
        sockets: &mut Sockets,
        index: ExchangeIndex,
    ) {
        match self.claim(net).address {
            Some((address, _)) => {
                sockets.clients.insert(index, address);
            }
            None => {
                sockets.clients.remove(&index);
            }
        }
    }
}

impl Sockets {
    /// Returns the client address of a WebSocket.
    pub(crate) fn socket_client<D: Driver>(
        &self,
        net: &Net<D>,
        index: ExchangeIndex,
    ) -> Option<IpAddr> {
        let claimed = self.clients.get(&index).copied();
        claimed.or_else(|| net.connections.at(index.connection())?.peer.ip())
    }
}

impl Http {
    /// Returns what trusted proxies report about the current request.
    pub(crate) fn claim<'a, D: Driver>(&'a self, net: &'a Net<D>) -> Claim<'a> {
        let trusted = &net.settings.trusted_proxies;
        let request = self.request.view(&net.input.bytes);
        if trusted.is_empty() || is_unnamed(request.peer()) {
            return Claim::default();
        }
        let written = &net.settings.proxy_headers;
        read(&request, request.peer().ip(), trusted, written)
    }

    /// Counts and logs a request that a trusted proxy forwarded with headers of the wrong kind.
    pub(crate) fn note_contradiction<D: Driver>(&self, net: &mut Net<D>) {
        let (trusted, written) = (&net.settings.trusted_proxies, &net.settings.proxy_headers);
        let request = self.request.view(&net.input.bytes);
        let peer = request.peer();
        if is_unnamed(peer) {
            // The headers of such a peer are ignored in any case.
            return;
        }
        if !trusted.contains(peer.ip()) || !is_contradictory(&request, written) {
            return;
        }
        let other = if written.contains(ProxyHeader::Forwarded) {
            "X-Forwarded headers"
        } else {
            "a Forwarded header"
        };
        net.counts.add(Counter::ProxyHeadersIgnored, 1);
        let message = format!(
            "the proxy at {peer} forwarded {other}, which proxy_headers does not list: \
             all client headers are ignored; make the proxy remove them, or set proxy_headers"
        );
        net.log_for_client(LogLevel::Warning, &message);
    }
    /// See `Worker::client_address`.
    pub(crate) fn client_address<D: Driver>(&self, net: &Net<D>) -> Option<(IpAddr, u16)> {
        let peer = self.request.view(&net.input.bytes).peer();
        let claimed = self.claim(net).address;
        claimed.or_else(|| Some((peer.ip()?, peer.port())))
    }

    /// Returns the client address of a request. Works also after the handler has waited and the
    /// head was dropped.
    pub(crate) fn client_of<D: Driver>(&self, net: &Net<D>, handle: RequestId) -> Option<IpAddr> {
        if self.lent == Some(handle) {
            return self.client_address(net).map(|(address, _)| address);
        }
        match self.deferred.get(handle) {
            Some(asked) => asked.client,
            None => net
                .connections
                .at(handle.exchange().connection())?
                .peer
                .ip(),
        }
    }
    /// See `Worker::client_host`.
    pub(crate) fn client_host<'a, D: Driver>(&'a self, net: &'a Net<D>) -> Option<&'a [u8]> {
        self.claim(net)
            .host
            .or_else(|| self.request.view(&net.input.bytes).host())
    }
}

impl Http {
    /// See `Worker::client_certificate`.
    pub(crate) fn client_certificate<D: Driver>(
        &self,
        net: &Net<D>,
    ) -> Option<Rc<ClientCertificate>> {
        let tls = net.tls.as_ref()?;
        let index = self.request.index().connection();
        tls.handle.client_certificate(net.socket_of(index)?)
    }
}

impl Http {
    /// See `Worker::is_client_secure`.
    pub(crate) fn is_client_secure<D: Driver>(&self, net: &Net<D>) -> bool {
        let claimed = self.claim(net).is_secure;
        claimed.unwrap_or_else(|| self.is_secure(net))
    }
    /// See `Worker::is_secure`.
    pub(crate) fn is_secure<D: Driver>(&self, net: &Net<D>) -> bool {
        let handle = net.tls.as_ref().map(|tls| &tls.handle);
        handle.is_some_and(|handle| {
            let index = self.request.index().connection();
            let socket = net.socket_of(index);
            socket.is_some_and(|fd| handle.is_secure(fd))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use fermata_config::{Builder, Source};
    use fermata_io::Peer;
    use fermata_proto::http1::{Limits, Parse, parse};

    use super::*;
    use crate::http::request::{Place, Request};

    const CUSTOMARY: &str = "x-forwarded-for, x-forwarded-proto, x-forwarded-host";

    /// Trusted: 10.0.0.0/8, fd00::/8 and Unix sockets.
    fn claim(written: &str, peer: Option<&str>, lines: &str) -> (String, String, String) {
        let mut builder = Builder::new();
        for (name, text) in [
            ("trusted_proxies", "10.0.0.0/8, fd00::/8, unix"),
            ("proxy_headers", written),
        ] {
            builder.set(name, text, Source::Code).expect(text);
        }
        let settings = builder.build().expect("settings");
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let mut request = Request::new();
        let parsed = parse(text.as_bytes(), &Limits::default(), &mut request.head);
        assert!(matches!(parsed, Parse::Complete { .. }), "{lines}");
        request.place = Place::Input {
            head_start: 0,
            body_start: text.len(),
            body_len: 0,
        };
        request.peer = Peer::V4(Ipv4Addr::LOCALHOST, 1);
        let peer = peer.map(|peer| peer.parse().expect("an address"));
        let claim = read(
            &request.view(text.as_bytes()),
            peer,
            &settings.trusted_proxies,
            &settings.proxy_headers,
        );
        let address = claim.address.map(|(ip, port)| format!("{ip} {port}"));
        let scheme = claim
            .is_secure
            .map(|is| if is { "https" } else { "http" }.to_owned());
        let host = claim
            .host
            .map(|host| String::from_utf8_lossy(host).into_owned());
        (
            address.unwrap_or_default(),
            scheme.unwrap_or_default(),
            host.unwrap_or_default(),
        )
    }

    #[track_caller]
    fn check(lines: &str, address: &str, scheme: &str, host: &str) {
        check_of(CUSTOMARY, lines, address, scheme, host);
    }

    #[track_caller]
    fn check_of(written: &str, lines: &str, address: &str, scheme: &str, host: &str) {
        let is = claim(written, Some("10.0.0.1"), lines);
        let expected = (address.into(), scheme.into(), host.into());
        assert_eq!(is, expected, "{written}: {lines}");
    }

    #[test]
    fn trusts_only_trusted_peers() {
        let lines =
            "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b\r\n";
        let nothing = (String::new(), String::new(), String::new());
        for peer in ["192.0.2.9", "11.0.0.1", "::1", "127.0.0.1"] {
            assert_eq!(claim(CUSTOMARY, Some(peer), lines), nothing, "{peer}");
        }
        for peer in [
            Some("10.9.9.9"),
            Some("::ffff:10.0.0.1"),
            Some("fd12::1"),
            None,
        ] {
            assert_eq!(
                claim(CUSTOMARY, peer, lines),
                ("192.0.2.1 0".into(), "https".into(), "b".into()),
                "{peer:?}"
            );
        }
    }

    #[test]
    fn reads_proxy_hops_from_the_right() {
        for (list, address) in [
            ("192.0.2.1", "192.0.2.1 0"),
            ("1.1.1.1, 192.0.2.1", "192.0.2.1 0"),
            ("1.1.1.1, 192.0.2.1, 10.0.0.2", "192.0.2.1 0"),
            ("1.1.1.1, 192.0.2.1, 10.0.0.3, fd00::2", "192.0.2.1 0"),
            ("10.0.0.3, 10.0.0.2", "10.0.0.3 0"),
            ("1.1.1.1, nonsense, 10.0.0.2", "10.0.0.2 0"),
            ("1.1.1.1, nonsense", ""),
            // The client left a quote open; elements appended by the proxy still count.
            ("\", 192.0.2.1", "192.0.2.1 0"),
            ("a=\"b, 192.0.2.1, 10.0.0.2", "192.0.2.1 0"),
            ("1.1.1.1, ", ""),
            ("", ""),
            ("192.0.2.1:4711", "192.0.2.1 4711"),
            ("[2001:db8::1]:4711", "2001:db8::1 4711"),
            ("2001:db8::1", "2001:db8::1 0"),
            ("::ffff:192.0.2.1", "192.0.2.1 0"),
            ("192.0.2.1:99999", ""),
            ("192.0.2", ""),
            ("[2001:db8::1", ""),
            ("unknown", ""),
        ] {
            check(&format!("X-Forwarded-For: {list}\r\n"), address, "", "");
        }
        check(
            "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 192.0.2.1, 10.0.0.2\r\n",
            "192.0.2.1 0",
            "",
            "",
        );
        let many = vec!["10.0.0.2"; 1_000].join(",");
        check(
            &format!("X-Forwarded-For: 192.0.2.1,{many}\r\n"),
            "10.0.0.2 0",
            "",
            "",
        );
    }

    #[test]
    fn uses_scheme_and_host_of_the_clients_hop() {
        let addresses = "X-Forwarded-For: 1.1.1.1, 192.0.2.1, 10.0.0.2\r\n";
        for (lines, scheme, host) in [
            (
                "X-Forwarded-Proto: HTTPS\r\nX-Forwarded-Host: b:81\r\n",
                "https",
                "b:81",
            ),
            (
                "X-Forwarded-Proto: made-up, https, http\r\nX-Forwarded-Host: evil, b, c\r\n",
                "https",
                "b",
            ),
            ("X-Forwarded-Proto: https, http\r\n", "https", ""),
            (
                "X-Forwarded-Proto: gopher\r\nX-Forwarded-Host: b/c\r\n",
                "",
                "",
            ),
            ("X-Forwarded-Proto: \r\nX-Forwarded-Host: \r\n", "", ""),
        ] {
            check(&format!("{addresses}{lines}"), "192.0.2.1 0", scheme, host);
        }
    }

    #[test]
    fn reads_forwarded_if_proxies_write_it() {
        for (list, address, scheme, host) in [
            (
                "for=192.0.2.1;proto=https;host=b",
                "192.0.2.1 0",
                "https",
                "b",
            ),
            (
                "For=\"192.0.2.1:80\"; Proto=\"https\" ;Host=\"b:81\"",
                "192.0.2.1 80",
                "https",
                "b:81",
            ),
            (
                "for=1.1.1.1, for=\"[2001:db8::1]:80\";proto=https;host=b, for=10.0.0.2;proto=http;by=10.0.0.1",
                "2001:db8::1 80",
                "https",
                "b",
            ),
            (
                "for=192.0.2.1, for=10.0.0.2;proto=https;host=b",
                "192.0.2.1 0",
                "https",
                "b",
            ),
            ("for=unknown;proto=https", "", "https", ""),
            ("for=_hidden, for=10.0.0.2", "10.0.0.2 0", "", ""),
            ("for=\"192.0.2.1:_port\"", "192.0.2.1 0", "", ""),
            ("for=\"1.1.1.1, for=192.0.2.1", "192.0.2.1 0", "", ""),
            ("for=192.0.2.1;proto=gopher", "", "", ""),
            ("for=192.0.2.1;host=\"b/c\"", "", "", ""),
            ("for", "", "", ""),
            ("proto=https", "", "https", ""),
        ] {
            let line = format!("Forwarded: {list}\r\n");
            check_of("forwarded", &line, address, scheme, host);
        }
    }

    #[test]
    fn ignores_headers_that_no_proxy_writes() {
        let forged = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: evil.example\r\n";
        check_of("x-forwarded-for", forged, "192.0.2.1 0", "", "");
        check_of(
            "x-forwarded-for,x-forwarded-proto",
            forged,
            "192.0.2.1 0",
            "",
            "",
        );
        check_of("x-forwarded-proto", forged, "", "", "");
        let scheme = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n";
        check_of("x-forwarded-for", scheme, "192.0.2.1 0", "", "");
        check_of("x-forwarded-proto", scheme, "", "https", "");
    }

    #[test]
    fn trusts_both_header_kinds_only_if_proxies_write_both() {
        let standard = "Forwarded: for=6.6.6.6;proto=https;host=evil.example\r\n";
        let customary = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n";
        let both = format!("{customary}{standard}");
        for written in ["forwarded", "x-forwarded-for,x-forwarded-proto", CUSTOMARY] {
            check_of(written, &both, "", "", "");
        }
        // Only the wrong kind.
        check_of(CUSTOMARY, standard, "", "", "");
        check_of("forwarded", customary, "", "", "");
        check_of(
            "forwarded",
            "X-Forwarded-Host: evil.example\r\n",
            "",
            "",
            "",
        );
        let written = "forwarded,x-forwarded-for,x-forwarded-proto";
        check_of(written, &both, "6.6.6.6 0", "https", "evil.example");
        check_of(written, customary, "192.0.2.1 0", "https", "");
    }
}
