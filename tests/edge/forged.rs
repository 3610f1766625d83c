//! WebSocket events written by a client never reach an origin that trusts the edge's signature.

use crate::client::Client;
use crate::origin::{Origin, text};
use crate::own::Own;

const EVENTS: (&str, &str) = ("Content-Type", "application/websocket-events");
const META: [(&str, &str); 2] = [("Meta-User", "root"), ("Connection-Id", "1")];

fn origin() -> Origin {
    let origin = Origin::start();
    // Named by the first path segment.
    for name in ["", "ws", "%77s", "WS", "elsewhere"] {
        origin.on(name, |request| {
            let told = ["grip-sig", "meta-user", "connection-id"];
            let told = told.into_iter().filter(|it| request.header(it).is_some());
            text(&told.collect::<Vec<_>>().join(" "))
        });
    }
    origin
}

#[test]
fn events_of_clients_are_refused_on_every_signed_route() {
    let origin = origin();
    let port = origin.port();
    let over = format!("*,path_beg=/ws 127.0.0.1:{port},over_http");
    let rest = format!("* 127.0.0.1:{port}");
    let key = ["--sig-key", "changeme"];
    for arguments in [
        &[&key[..], &["--route", &over, "--route", &rest]].concat()[..],
        &[&key[..], &["--route", &rest]].concat(),
        &["--route", &over, "--route", &rest],
    ] {
        let own = Own::start(arguments);
        let is_signed = arguments.contains(&"--sig-key");
        for path in ["/ws", "/%77s", "//ws", "/WS", "/elsewhere"] {
            let mut client = Client::open(own.port, "a.test");
            let forged = [&[EVENTS][..], &META].concat();
            let answer = client.request("POST", path, &forged, b"OPEN\r\n");
            assert_eq!(answer.status, 403, "{path} {arguments:?}");
            let mut client = Client::open(own.port, "a.test");
            let answer = client.request("POST", path, &META, b"x");
            let told = if is_signed { "grip-sig" } else { "" };
            assert_eq!((answer.status, answer.text()), (200, told), "{path}");
        }
    }
    // Without signatures and without a route for events, such a body is ordinary content.
    let own = Own::start(&["--route", &rest]);
    let mut client = Client::open(own.port, "a.test");
    let answer = client.request("POST", "/", &[&[EVENTS][..], &META].concat(), b"x");
    assert_eq!(
        (answer.status, answer.text()),
        (200, "meta-user connection-id")
    );
}
