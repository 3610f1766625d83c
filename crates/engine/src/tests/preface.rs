//! Tests of connections that start with a PROXY protocol header.

use fermata_config::{Builder, Settings, Source};

use super::client::answers;
use super::{Rig, get, settings};
use crate::stats::Counter;

const HEADER: &[u8] = b"PROXY TCP4 198.51.100.7 192.0.2.1 4711 80\r\n";

fn rig() -> Rig {
    let mut builder = Builder::new();
    builder
        .set("trusted_proxies", "192.0.2.0/24", Source::Code)
        .expect("a network");
    let of_proxies = builder.build().expect("settings");
    Rig::with(
        1,
        Settings {
            trusted_proxies: of_proxies.trusted_proxies,
            ..settings()
        },
    )
}

#[test]
fn serves_a_proxied_connection_from_before_a_drain() {
    let mut rig = rig();
    // One connection that is not accepted yet, one whose header has arrived, and one without any
    // bytes.
    let asked = rig.connect();
    asked.write(HEADER);
    asked.write(&get("/hello"));
    let [known, silent] = [rig.connect(), rig.connect()];
    known.write(HEADER);
    rig.run();
    let late = rig.connect();
    late.write(HEADER);
    late.write(&get("/hello"));
    known.write(&get("/hello"));
    assert_eq!(answers(&asked.read(), &[])[0].status, 200);
    rig.worker.begin_drain(false);
    rig.run();
    assert_eq!(answers(&late.read(), &[])[0].status, 200);
    assert_eq!(answers(&known.read(), &[])[0].status, 200);
    assert!(silent.read().is_empty());
    rig.advance(3_000);
    assert!(rig.is_stopped);
    assert!(rig.worker.net.addresses.is_empty());
}

#[test]
fn ignores_headers_of_a_connection_without_a_client() {
    for (header, count) in [(HEADER, 0), (&b"PROXY UNKNOWN\r\n"[..], 0)] {
        let mut rig = rig();
        let peer = rig.connect();
        peer.write(header);
        peer.write(b"GET /hello HTTP/1.1\r\nHost: a\r\nForwarded: for=192.0.2.9\r\n\r\n");
        rig.run();
        assert_eq!(answers(&peer.read(), &[])[0].status, 200);
        let ignored = rig.worker.net.counts.get(Counter::ProxyHeadersIgnored);
        assert_eq!(ignored, count, "{}", String::from_utf8_lossy(header));
    }
}
