//! Harmful next links: to addresses of this machine, and endless loops.

use std::net::TcpListener;
use std::time::Duration;

use fermata_testkit::wait_until;

use crate::client::Client;
use crate::origin::{Origin, ok};
use crate::own::Own;

/// How long the test observes a loop, and the maximum number of requests of a slowed loop in that
/// time.
const WATCHED: Duration = Duration::from_secs(1);
const REQUESTS_MAX: usize = 50;

/// Returns the number of failed next links.
fn failed(own: &Own) -> u64 {
    let figures = own.figures("fermata_edge_links_failed_total");
    figures.iter().map(|(_, count)| count).sum()
}

#[test]
fn links_of_origins_reach_no_address_of_this_machine() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let internal = listener.local_addr().expect("bound").port();
    let origin = Origin::start();
    let own = Own::start(&["--route", &format!("* 127.0.0.1:{}", origin.port())]);
    for (at, host) in [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "LOCALHOST.",
        "127.0.0.1,host=a",
        "127.0.0.1,trusted",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("case{at}");
        let link = format!("<http://{host}:{internal}/>; rel=next");
        origin.on(&name, move |_| ok(&[("Grip-Link", &link)], "one "));
        let before = failed(&own);
        let mut client = Client::open(own.port, "a.test");
        client.send("GET", &format!("/{name}"), &[], b"");
        let status = client.read_head().status;
        if host.contains(',') {
            // A malformed link invalidates the whole instruction.
            assert_eq!(status, 502, "{host}");
            continue;
        }
        assert_eq!(status, 200, "{host}");
        wait_until("the link has failed", || {
            (failed(&own) > before).then_some(())
        });
    }
    assert!(listener.accept().is_err(), "nobody has connected");
}

#[test]
fn links_that_lead_to_each_other_are_requested_ever_later() {
    let origin = Origin::start();
    origin.on("loop", |_| ok(&[("Grip-Link", "</loop>; rel=next")], ""));
    let own = Own::start(&["--route", &format!("* 127.0.0.1:{}", origin.port())]);
    let mut client = Client::open(own.port, "a.test");
    client.send("GET", "/loop", &[], b"");
    client.read_head();
    wait_until("the link was followed", || {
        (origin.seen("loop").len() > 1).then_some(())
    });
    assert!(!client.has_data(WATCHED), "the response goes on");
    let requests = origin.seen("loop").len();
    assert!(requests < REQUESTS_MAX, "{requests}");
}
