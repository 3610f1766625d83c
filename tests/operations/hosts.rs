//! Hosts that a server accepts. A site can point its name at 127.0.0.1 (DNS rebinding) and read
//! from servers there.

use std::process::{Command, Stdio};

use fermata_testkit::{Connection, Directory, Listening, command_path, free_port, wait_until};
use fermata_tests::fixture;

use crate::address_after;

/// Host names of a foreign page's requests, with ports and in spellings that resemble other names.
const FOREIGN: [&str; 8] = [
    "evil.example",
    "evil.example:9100",
    "localhost.evil.example",
    "notlocalhost",
    "127.0.0.1.evil.example",
    "evil.example.",
    "localhost@evil.example",
    "[evil]",
];

const OWN: [&str; 5] = [
    "localhost",
    "127.0.0.1:9100",
    "[::1]:9100",
    "LOCALHOST:1",
    "a.localhost",
];

/// Requests `path` for a host and returns the status.
fn status(connection: &mut Connection, path: &str, lines: &str) -> u16 {
    connection.send(format!("GET {path} HTTP/1.1\r\n{lines}\r\n\r\n"));
    connection.read_response().status()
}

/// Asserts that foreign hosts get 403 from all of these paths, and others do not.
fn refuses_foreign_hosts(open: impl Fn() -> Connection, paths: &[&str]) {
    for path in paths {
        for host in FOREIGN {
            let status = status(&mut open(), path, &format!("Host: {host}"));
            // The server may also reject an invalid host with 400.
            assert!(matches!(status, 400 | 403), "{path} for {host}: {status}");
        }
        for host in OWN {
            let status = status(&mut open(), path, &format!("Host: {host}"));
            assert_eq!(status, 200, "{path} for {host}");
        }
    }
}

const FIGURES: [&str; 4] = ["/metrics", "/stats", "/health/live", "/health/ready"];

#[test]
fn metrics_and_health_of_a_server_refuse_foreign_hosts() {
    for listen in [
        "http://127.0.0.1:0",
        "http://localhost:0",
        "http://LocalHost:0",
    ] {
        let server = fixture("http").setting("metrics_listen", listen).start();
        let address = address_after(&server, "metrics and health at http://");
        refuses_foreign_hosts(|| Connection::open(address), &FIGURES);
    }
}

#[test]
fn metrics_of_a_hub_and_an_edge_refuse_foreign_hosts() {
    let directory = Directory::new();
    let metrics = free_port();
    let text = format!(
        "metrics_listen = \"127.0.0.1:{metrics}\"\n[[app]]\nid = '1'\nkey = 'k'\nsecret = '0123456789abcdef'\n"
    );
    let file = directory.write("hub.toml", text);
    let start = |arguments: &[String]| {
        Listening::start(|port| {
            Command::new(command_path())
                .args(arguments)
                .args(["--listen", &format!("127.0.0.1:{port}")])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
        })
    };
    let at = |port: u16| Connection::open(([127, 0, 0, 1], port).into());
    let hub = start(&["hub".into(), "--config".into(), file.display().to_string()]);
    refuses_foreign_hosts(|| at(metrics), &FIGURES);
    drop(hub);

    let metrics = free_port();
    let prometheus = format!("--prometheus=127.0.0.1:{metrics}");
    let route = "* test".to_owned();
    let _edge = start(&[
        "edge".into(),
        "--control=".into(),
        prometheus,
        "--route".into(),
        route,
    ]);
    refuses_foreign_hosts(|| at(metrics), &FIGURES);
}

#[test]
fn a_header_of_a_proxy_does_not_replace_the_host() {
    let server = fixture("http")
        .setting("allowed_hosts", "app.test")
        .setting("trusted_proxies", "127.0.0.1")
        .setting("proxy_headers", "x-forwarded-host,x-forwarded-for")
        .start();
    let ask = |lines: &str| status(&mut server.connect(), "/", lines);
    wait_until("it serves", || (ask("Host: app.test") == 200).then_some(()));
    assert_eq!(ask("Host: localhost"), 200);
    assert_eq!(ask("Host: evil.example"), 403);
    // Headers that a page of evil.example can add to its own requests.
    for named in ["localhost", "app.test", "127.0.0.1"] {
        let lines = format!("Host: evil.example\r\nX-Forwarded-Host: {named}");
        assert_eq!(ask(&lines), 403, "{named}");
    }
    // A proxy that forwards the requested host does not bypass the check either.
    assert_eq!(ask("Host: app.test\r\nX-Forwarded-Host: evil.example"), 403);
    assert_eq!(ask("Host: 127.0.0.1\r\nX-Forwarded-Host: app.test"), 200);
}
