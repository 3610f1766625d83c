//! `php server.php` behind an edge: a Hold becomes an instruction, and what is published reaches the edge.

use std::thread;

use fermata_grip::sig::{Claims, Key, sign};
use fermata_testkit::sse::Stream;
use fermata_testkit::{Server, free_port, wait_until};
use fermata_tests::{fixture_path, publish, publish_from_cli, stats};

use crate::client::Client;
use crate::subject::{Kind, SIG_KEY, Subject};

const HOST: &str = "php.test";

/// An edge and the server behind it.
struct Pair {
    edge: Subject,
    server: Server,
}

impl Pair {
    fn start(kind: Kind) -> Option<Self> {
        let port = free_port();
        let edge = Subject::start_with(kind, &format!("{HOST} 127.0.0.1:{port}\n"));
        let Some(edge) = edge else {
            eprintln!("SKIPPED: {kind:?} is not installed");
            return None;
        };
        let key = SIG_KEY.replace(' ', "%20");
        let server = Server::builder(fixture_path("hub"))
            .env("PORT", port.to_string())
            .env(
                "GRIP_URL",
                format!("http://127.0.0.1:{}?key={key}", edge.control),
            )
            .control()
            .start();
        Some(Self { edge, server })
    }

    /// A client that the edge holds: head and body up to its position.
    fn client(&self, target: &str, last_id: Option<&str>) -> (Client, String) {
        let mut client = Client::open(self.edge.port, HOST);
        let headers: Vec<(&str, &str)> = last_id.iter().map(|id| ("Last-Event-ID", *id)).collect();
        client.send("GET", target, &headers, b"");
        let head = client.read_head();
        assert_eq!(head.status, 200, "{head:?}");
        assert_eq!(
            head.header("content-type").as_deref(),
            Some("text/event-stream")
        );
        assert!(
            !head
                .headers
                .iter()
                .any(|(name, _)| name.to_ascii_lowercase().starts_with("grip-")),
            "{head:?}"
        );
        let opening = client.read_until("id: ") + &client.read_until("\n\n");
        (client, opening)
    }

    /// Until so many clients were given to the edge.
    fn wait_given(&self, count: u64) {
        wait_until("the edge holds its clients", || {
            (stats(&self.server)["total"]["holds_at_edges"] == count).then_some(())
        });
    }
}

/// The id of the last event in a stream's text.
fn last_id(text: &str) -> &str {
    let at = text.rfind("id: ").expect("an id") + 4;
    text[at..].lines().next().expect("a line")
}

fn a_hold_is_held_by_the_edge(kind: Kind) {
    let Some(pair) = Pair::start(kind) else {
        return;
    };
    let (mut client, opening) =
        pair.client("/events?channels=a,b&user=u&with=first&keepalive=20", None);
    assert!(
        opening.starts_with("event: welcome\ndata: first\n\n"),
        "{opening}"
    );
    let (mut later, _) = pair.client("/events-later?channels=a", None);
    pair.wait_given(2);
    assert_eq!(stats(&pair.server)["total"]["holds"], 0);
    // Handlers, other processes, and both of its channels.
    let id = publish(&pair.server, "a", "from a handler");
    let event = format!("id: {id}\ndata: from a handler\n\n");
    assert!(client.read_until(&event).ends_with(&event));
    assert!(later.read_until(&event).ends_with(&event));
    let ids = publish_from_cli(&pair.server.control(), "b", 2, "told");
    let events = format!(
        "id: {}\nevent: note\ndata: told0\n\nid: {}\nevent: note\ndata: told1\n\n",
        ids[0], ids[1]
    );
    assert_eq!(client.read_until(&events), events);
    // Whoever comes back through the edge gets what was missed.
    let (mut again, opening) = pair.client("/events?channels=a,b", Some(&ids[0]));
    assert!(opening.ends_with("data: told1\n\n"), "{opening}");
    let id = publish(&pair.server, "a", "news");
    let event = format!("id: {id}\ndata: news\n\n");
    for client in [&mut client, &mut later, &mut again] {
        assert!(client.read_until(&event).ends_with(&event));
    }
}

#[test]
fn a_hold_is_held_by_fermata_edge() {
    a_hold_is_held_by_the_edge(Kind::Fermata);
}

#[test]
fn a_hold_is_held_by_pushpin() {
    a_hold_is_held_by_the_edge(Kind::Pushpin);
}

/// Clients come while messages are published: each one gets all of them from its first on, in order and once.
fn nothing_gets_lost_on_the_way(kind: Kind, messages: usize) {
    let Some(pair) = Pair::start(kind) else {
        return;
    };
    let all = thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            for number in 0..messages {
                publish(&pair.server, "race", &format!("<{number}>"));
            }
            publish(&pair.server, "race", "<end>");
        });
        let mut clients = Vec::new();
        for _ in 0..8 {
            clients.push(scope.spawn(|| {
                let (mut client, _) = pair.client("/events?channels=race", None);
                client.read_until("<end>")
            }));
        }
        publisher.join().expect("a publisher");
        let texts = clients
            .into_iter()
            .map(|client| client.join().expect("a client"));
        texts.collect::<Vec<_>>()
    });
    for text in all {
        let numbers: Vec<usize> = text
            .split('<')
            .filter_map(|part| part.split_once('>')?.0.parse().ok())
            .collect();
        let first = numbers.first().copied().unwrap_or(messages);
        assert_eq!(numbers, (first..messages).collect::<Vec<_>>(), "{text}");
    }
}

#[test]
fn nothing_gets_lost_on_the_way_to_fermata_edge() {
    nothing_gets_lost_on_the_way(Kind::Fermata, 400);
}

#[test]
fn nothing_gets_lost_on_the_way_to_pushpin() {
    nothing_gets_lost_on_the_way(Kind::Pushpin, 100);
}

#[test]
fn what_no_edge_has_signed_is_held_here() {
    let Some(pair) = Pair::start(Kind::Fermata) else {
        return;
    };
    let token = |key: &str, expires_s| {
        let claims = Claims {
            expires_s: Some(expires_s),
            ..Claims::default()
        };
        sign(&Key::secret(key.as_bytes()), &claims).expect("a secret")
    };
    let far_s = 20_000_000_000;
    for signature in [
        None,
        Some(token("another key", far_s)),
        Some(token(SIG_KEY, 1)),
        Some("nonsense".to_owned()),
    ] {
        let mut headers = vec![("Accept", "text/event-stream")];
        if let Some(signature) = &signature {
            headers.push(("Grip-Sig", signature));
        }
        let mut connection = pair.server.connect();
        let sent = connection.try_send_request("GET", "/events?channels=c", &headers, b"");
        sent.expect("a request");
        let mut stream = Stream::after_request(connection).expect("it is held");
        let id = publish(&pair.server, "c", "here");
        assert_eq!(
            stream.next_event().id.as_deref(),
            Some(&*id),
            "{signature:?}"
        );
    }
    assert_eq!(stats(&pair.server)["total"]["holds_at_edges"], 0);
    pair.server
        .log()
        .wait_for(0, "Grip-Sig: the token has expired");
    // The same with a good signature is an instruction, also to somebody who is no edge.
    let mut client = Client::open(pair.server.address().port(), HOST);
    let signature = token(SIG_KEY, far_s);
    let headers = [
        ("Grip-Sig", &*signature),
        ("Grip-Last", "c; last-id=nonsense"),
    ];
    let answer = client.request("GET", "/events?channels=c,d&x=1", &headers, b"");
    assert_eq!(answer.header("grip-hold").as_deref(), Some("stream"));
    let link = answer.header("grip-link");
    assert_eq!(
        link.as_deref(),
        Some("<?channels=c%2Cd&x=1>; rel=next; timeout=120")
    );
    let channels = answer.header("grip-channel").expect("channels");
    assert!(
        channels.starts_with("c; prev-id=") && channels.contains(", d; prev-id="),
        "{channels}"
    );
    assert!(
        answer
            .text()
            .contains("event: gap\ndata: {\"reason\":\"unknown id\"}\n\nid: "),
        "{answer:?}"
    );
    let head = client.request("HEAD", "/events?channels=c", &headers, b"");
    assert_eq!((head.status, head.header("grip-hold")), (200, None));
    let bad = client.request("GET", "/events?channels=a%3Bb", &headers[..1], b"");
    assert_eq!(bad.status, 500);
    assert!(last_id(answer.text()).contains('-'));
}

#[test]
fn an_address_that_cannot_be_used_is_refused_without_its_key() {
    for (url, said) in [
        (
            "tcp://127.0.0.1:5560?key=hidden",
            "not a list of http:// or https:// URLs",
        ),
        ("http://127.0.0.1:x?key=hidden", "port"),
        ("http://127.0.0.1?key=base64:hid.den", "not base64"),
    ] {
        let exited = Server::builder(fixture_path("hub"))
            .setting("grip_url", url)
            .start_refused();
        let text = exited.log.text();
        assert!(
            text.contains("grip_url") || text.contains("GRIP_URL"),
            "{text}"
        );
        assert!(text.contains(said) && !text.contains("hid"), "{text}");
    }
}
