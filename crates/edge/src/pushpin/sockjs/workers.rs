//! Requests for sessions of other workers.

use std::net::{IpAddr, SocketAddr};

use fermata_io::Peer;

use crate::client::request::{Body, ClientRequest};
use crate::error::StartError;
use crate::pushpin::rendezvous::{self, Rendezvous};
use crate::settings::Settings;

/// Field with the client's address and a flag for TLS. The edge removes the field from clients'
/// requests.
const CLIENT: &str = "Fermata-Client";

/// Opens a socket for each worker if there are several workers.
pub(crate) fn bind(settings: &Settings) -> Result<Vec<Rendezvous>, StartError> {
    let workers = settings.workers;
    if workers < 2 {
        return Ok(Vec::new());
    }
    (0..workers)
        .map(|worker| rendezvous::bind("workers", &worker.to_string(), settings))
        .collect()
}

/// Encodes a request for the session's worker.
pub(crate) fn pack(request: &ClientRequest, out: &mut Vec<u8>) {
    const OWN: [&[u8]; 6] = [
        b"host",
        b"connection",
        b"content-length",
        b"transfer-encoding",
        b"expect",
        b"upgrade",
    ];
    let mut line = |parts: &[&[u8]]| {
        parts.iter().for_each(|part| out.extend_from_slice(part));
        out.extend_from_slice(b"\r\n");
    };
    line(&[&request.method, b" ", &request.target, b" HTTP/1.1"]);
    line(&[b"Host: ", &request.host]);
    for (name, value) in &request.headers {
        let is_own = OWN.iter().any(|own| name.eq_ignore_ascii_case(own));
        if !is_own && !name.eq_ignore_ascii_case(CLIENT.as_bytes()) {
            line(&[name, b": ", value]);
        }
    }
    let peer = request
        .peer
        .ip()
        .map(|ip| SocketAddr::new(ip, request.peer.port()));
    let peer = peer.map_or("unix".to_owned(), |address| address.to_string());
    let scheme = if request.is_tls { "https" } else { "http" };
    line(&[format!("{CLIENT}: {scheme} {peer}").as_bytes()]);
    if !matches!(request.body, Body::None) {
        line(&[format!("Content-Length: {}", request.body.bytes()).as_bytes()]);
    }
    line(&[]);
    if let Body::Memory(body) = &request.body {
        out.extend_from_slice(body);
    }
}

/// Restores the client of a forwarded request.
pub(crate) fn unpack(request: &mut ClientRequest) {
    let header = request.header(&CLIENT.to_ascii_lowercase());
    let header = String::from_utf8_lossy(header.unwrap_or_default()).into_owned();
    let (scheme, peer) = header.split_once(' ').unwrap_or_default();
    request.is_tls = scheme == "https";
    if let Ok(address) = peer.parse::<SocketAddr>() {
        request.peer = match address.ip() {
            IpAddr::V4(ip) => Peer::V4(ip, address.port()),
            IpAddr::V6(ip) => Peer::V6(ip, address.port()),
        };
    }
    request
        .headers
        .retain(|(name, _)| !name.eq_ignore_ascii_case(CLIENT.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(peer: Peer, is_tls: bool) -> ClientRequest {
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        ClientRequest {
            method: b"POST".to_vec(),
            target: b"/sockjs/0/a/xhr?b".to_vec(),
            headers: vec![
                pair("Cookie", "c"),
                pair("content-length", "9"),
                pair("Fermata-Client", "https 192.0.2.9:1"),
            ],
            body: Body::Memory(b"[]".to_vec()),
            peer,
            host: b"host".to_vec(),
            is_tls,
        }
    }

    #[test]
    fn a_request_is_handed_on_with_its_client() {
        let mut out = Vec::new();
        pack(
            &request(Peer::V4([192, 0, 2, 1].into(), 7), false),
            &mut out,
        );
        let expected = "POST /sockjs/0/a/xhr?b HTTP/1.1\r\nHost: host\r\nCookie: c\r\n\
            Fermata-Client: http 192.0.2.1:7\r\nContent-Length: 2\r\n\r\n[]";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn the_owner_sees_the_client_and_not_the_worker() {
        for peer in [
            Peer::V4([192, 0, 2, 1].into(), 7),
            Peer::V6("2001:db8::1".parse().expect("an address"), 7),
            Peer::Unix,
        ] {
            let mut out = Vec::new();
            pack(&request(peer, true), &mut out);
            let text = String::from_utf8(out).expect("ASCII");
            let value = text
                .lines()
                .find_map(|line| line.strip_prefix("Fermata-Client: "))
                .expect("it says so");
            let mut seen = request(Peer::Unix, false);
            seen.headers = vec![(b"fermata-client".to_vec(), value.as_bytes().to_vec())];
            unpack(&mut seen);
            assert_eq!((seen.peer, seen.is_tls), (peer, true));
            assert!(seen.headers.is_empty());
        }
    }
}
