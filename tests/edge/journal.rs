//! Log lines about requests, subscriptions and items.

use serde_json::json;

use crate::client::Client;
use crate::origin::{Origin, ok, text};
use crate::own::Own;
use crate::socket::open;

/// Returns the log lines about requests, without time, level and process.
fn lines(own: &Own) -> Vec<String> {
    let log = own.log();
    let lines = log.lines().filter_map(|line| line.split_once("] "));
    lines.map(|(_, line)| line.to_owned()).collect()
}

fn origin() -> (Origin, u16) {
    let origin = Origin::start();
    origin.on("plain", |_| text("hello"));
    origin.on("hold", |_| {
        ok(
            &[("Grip-Hold", "stream"), ("Grip-Channel", "c")],
            "opened\n",
        )
    });
    origin.on("over", |request| {
        let events = [
            ("Content-Type", "application/websocket-events"),
            ("Sec-WebSocket-Extensions", "grip; message-prefix=\"\""),
        ];
        let subscribe = json!({"type": "subscribe", "channel": "s"}).to_string();
        match &request.body[..] {
            b"OPEN\r\n" => ok(
                &events,
                format!(
                    "OPEN\r\nTEXT {:x}\r\nc:{subscribe}\r\nTEXT 2\r\nhi\r\n",
                    subscribe.len() + 2
                ),
            ),
            _ => ok(&events, ""),
        }
    });
    let port = origin.port();
    (origin, port)
}

#[test]
fn requests_subscriptions_and_items_are_logged() {
    let (_origin, to) = origin();
    let routes = [
        format!("*,id=r 127.0.0.1:{to},over_http"),
        format!("quiet.test,log_level=1 127.0.0.1:{to}"),
    ];
    let arguments = [
        "--log-requests",
        "true",
        "--log-from",
        "true",
        "--log-user-agent",
        "true",
    ];
    let routes: Vec<&str> = routes.iter().flat_map(|route| ["--route", route]).collect();
    let own = Own::start(&[&arguments[..], &routes[..]].concat());
    let headers = [("User-Agent", "a program"), ("Referer", "http://a/b")];
    let answer = own.client().request("GET", "/plain?a=b", &headers, b"");
    assert_eq!(answer.status, 200);
    assert_eq!(
        Client::open(own.port, "quiet.test").get("/plain").status,
        200
    );
    let mut held = own.client();
    held.send("GET", "/hold", &[], b"");
    held.read_head();
    held.read_until("opened\n");
    own.publish("c", "x");
    held.read_until("x");
    let mut socket = open(own.client(), "/over");
    assert_eq!(socket.next_text(), "hi");
    let base = "://localhost";
    own.wait_for_log("channel=s");
    let lines = lines(&own);
    let target = format!("-> 127.0.0.1:{to}");
    for expected in [
        format!(
            "GET http{base}/plain?a=b {target} from=127.0.0.1 ref=http://a/b route=r code=200 5 ua=\"a program\""
        ),
        format!("GET http{base}/hold {target} from=127.0.0.1 route=r accept"),
        format!("subscribe http{base}/hold channel=c route=r"),
        "publish channel=c receivers=1".to_owned(),
        format!("GET ws{base}/over {target}[http] from=127.0.0.1 route=r code=200 "),
        format!("subscribe ws{base}/over channel=s route=r"),
    ] {
        let is_there = lines.iter().any(|line| line.starts_with(&expected));
        assert!(is_there, "{expected}\n{lines:#?}");
    }
    assert!(
        !lines.iter().any(|line| line.contains("quiet.test")),
        "{lines:#?}"
    );
}

#[test]
fn a_published_item_is_logged_with_the_clients_of_all_workers() {
    const CLIENTS: usize = 8;
    let (_origin, to) = origin();
    let route = format!("* 127.0.0.1:{to}");
    let own = Own::start(&[
        "--workers",
        "2",
        "--log-requests",
        "true",
        "--route",
        &route,
    ]);
    let mut held: Vec<Client> = (0..CLIENTS).map(|_| own.client()).collect();
    for client in &mut held {
        client.send("GET", "/hold", &[], b"");
        client.read_until("opened\n");
    }
    // The publishing worker is notified of another worker's subscription with a short delay.
    let publish_until = |count: usize| {
        let expected = format!("publish channel=c receivers={count}");
        fermata_testkit::wait_until("the item's clients are counted", || {
            own.publish("c", "x");
            lines(&own).contains(&expected).then_some(())
        });
    };
    publish_until(CLIENTS);
    held.truncate(1);
    publish_until(1);
}

#[test]
fn files_are_logged_as_such() {
    let folder = fermata_testkit::Directory::new();
    folder.write("a.txt", "text");
    let route = format!("* file/{}", folder.path().display());
    let own = Own::start(&["--log-level", "3", "--route", &route]);
    assert_eq!(own.get("/a.txt").status, 200);
    assert_eq!(own.get("/b.txt").status, 404);
    let target = format!("-> file/{}", folder.path().display());
    own.wait_for_log(&format!("/a.txt {target} file\n"));
    own.wait_for_log(&format!("/b.txt {target} code=404 "));
}

#[test]
fn without_wishes_requests_are_not_logged_but_those_of_a_route_that_has_some() {
    let (_origin, to) = origin();
    let plain = format!("* 127.0.0.1:{to}");
    let loud = format!("loud.test,log_level=2 127.0.0.1:{to}");
    let own = Own::start(&["--route", &plain, "--route", &loud]);
    assert_eq!(own.get("/plain").status, 200);
    assert_eq!(
        Client::open(own.port, "loud.test").get("/plain").status,
        200
    );
    own.wait_for_log("loud.test/plain -> ");
    let log = own.log();
    // Client addresses and user agents are not logged unless a setting enables it.
    assert!(
        !log.contains("localhost/plain") && !log.contains("from="),
        "{log}"
    );
}
