//! CGI data of a worker's current request.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use fermata_engine::Worker;
use fermata_io::Driver;

use crate::codec::{HttpRequest, Script, Variables, VariablesError, variables};
use crate::site::Site;

/// Hop-by-hop headers, headers that the server has processed itself, and headers with a CGI variable of their own.
const LEFT_OUT: [&[u8]; 10] = [
    b"host",
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"expect",
    b"http2-settings",
];

/// Returns the variables of the current request. Omits the length of the body while it is unknown.
pub(crate) fn of_current<D: Driver>(
    worker: &mut Worker<D>,
    site: &Site,
    content_bytes: Option<u64>,
) -> Result<Variables, VariablesError> {
    let server = worker.net.own_address(worker.request().handle());
    let view = worker.request();
    let lines = (0..view.headers_len()).filter_map(|at| view.header_at(at));
    let of_hop: Vec<&[u8]> = lines
        .clone()
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"))
        .flat_map(|(_, value)| value.split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .collect();
    let mut headers: Vec<(&[u8], &[u8])> = lines
        .filter(|(name, _)| {
            let mut left_out = LEFT_OUT.iter().chain(&of_hop);
            !left_out.any(|it| name.eq_ignore_ascii_case(it))
        })
        .collect();
    headers.extend(view.host().map(|host| (&b"Host"[..], host)));
    let unnamed = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let client = worker.client_address();
    let host = worker.client_host().unwrap_or(b"localhost");
    let name = match host.iter().rposition(|&byte| byte == b':') {
        Some(at) if !host[at..].contains(&b']') => &host[..at],
        _ => host,
    };
    let (root, denied) = (&*site.root, &[][..]);
    let script = match &site.index {
        Some(name) if site.has_files => Script::Front { root, name, denied },
        Some(name) => Script::Fixed { root, name },
        None => Script::Path { root },
    };
    let request = HttpRequest {
        method: view.method(),
        target: view.target(),
        prefix: &site.prefix,
        protocol: worker.net.protocol(view.handle()),
        headers: &headers,
        content_bytes,
        client: client.map_or(unnamed, |(ip, port)| SocketAddr::new(ip, port)),
        server: server.unwrap_or(unnamed),
        host: name,
        is_tls: worker.is_client_secure(),
    };
    variables(&request, script)
}
