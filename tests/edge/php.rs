//! `php server.php` behind an edge: a Hold becomes a GRIP instruction, and published events reach
//! the edge.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use fermata_grip::sig::{Claims, Key, sign};
use fermata_testkit::sse::Stream;
use fermata_testkit::{Php, Server, deadline, free_port, wait_until};
use fermata_tests::{fixture_path, publish, publish_from_cli, stats};

use crate::client::Client;
use crate::subject::{Kind, SIG_KEY, Subject};

const HOST: &str = "php.test";
/// Pause between two attempts to reach a client that may not be held yet.
const PAUSE: Duration = Duration::from_millis(100);

/// An edge and the server behind it.
struct Pair {
    edge: Subject,
    server: Server,
}

impl Pair {
    fn start(kind: Kind) -> Option<Self> {
        Self::start_with(kind, 120_000)
    }

    fn start_with(kind: Kind, link_timeout_ms: u64) -> Option<Self> {
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
            .setting("grip_link_timeout_ms", link_timeout_ms)
            .control()
            .start();
        Some(Self { edge, server })
    }

    /// Opens a held client. Returns it with head and body up to its position.
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

    /// Waits until the server has passed `count` clients to the edge.
    fn wait_given(&self, count: u64) {
        wait_until("the edge holds its clients", || {
            (stats(&self.server)["total"]["holds_at_edges"] == count).then_some(())
        });
    }
}

/// Returns the id of the last event in a stream's text.
fn last_id(text: &str) -> &str {
    let at = text.rfind("id: ").expect("an id") + 4;
    text[at..].lines().next().expect("a line")
}

/// Returns the events of a stream's text. Drops position updates, which the client receives
/// whenever the edge polls the backend.
fn with_data(text: &str) -> String {
    let blocks = text.split_inclusive("\n\n");
    blocks.filter(|block| block.contains("data: ")).collect()
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
    // Publish from a handler, from another process, and to both of the client's channels.
    let id = publish(&pair.server, "a", "from a handler");
    let event = format!("id: {id}\ndata: from a handler\n\n");
    assert!(client.read_until(&event).ends_with(&event));
    assert!(later.read_until(&event).ends_with(&event));
    let ids = publish_from_cli(&pair.server.control(), "b", 2, "told");
    let events = [0, 1].map(|at| format!("id: {}\nevent: note\ndata: told{at}\n\n", ids[at]));
    let text = client.read_until(&events[1]);
    assert_eq!(with_data(&text), events.concat(), "{text}");
    // A client without an id receives all stored events if the handler says so.
    let (mut from_start, opening) = pair.client("/events?channels=b&from=start", None);
    let text = opening + &from_start.read_until(&events[1]);
    assert_eq!(with_data(&text), events.concat(), "{text}");
    // A client that reconnects through the edge receives the missed events.
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

/// Returns the output of the library's publisher.
fn publish_by_library<const N: usize>(channel: &str, text: &str, addresses: [&str; N]) -> String {
    let output = Php::new(&[])
        .arg(fixture_path("grip-publish"))
        .arg(channel)
        .arg(text)
        .args(addresses)
        .run();
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    output.stdout
}

fn the_library_publishes_everywhere(kind: Kind) {
    // Without ids: Pushpin treats an item without id, on a channel that uses ids, as a sign of lost
    // items.
    let Some(pair) = Pair::start_with(kind, 0) else {
        return;
    };
    let (mut client, _) = pair.client("/events?channels=lib", None);
    let mut here = Stream::open(pair.server.connect(), "/events?channels=lib", None);
    // An arriving item proves that the edge has subscribed.
    wait_until("the edge has subscribed its client", || {
        publish(&pair.server, "lib", "ready");
        client.has_data(PAUSE).then_some(())
    });
    // Items published directly to the edge have no id, and the server does not know them.
    let Subject { control, pull, .. } = pair.edge;
    let key = SIG_KEY.replace(' ', "%20");
    for address in [
        format!("http://127.0.0.1:{control}"),
        format!("http://127.0.0.1:{control}/?iss=me&key={key}"),
        format!("tcp://127.0.0.1:{pull}"),
    ] {
        let said = publish_by_library("lib", &address, [&address]);
        assert_eq!(said, "published\n", "{address}");
        let event = format!("event: library\ndata: {address}\n\n");
        assert!(client.read_until(&event).ends_with(&event));
    }
    // Publishing through the workers reaches both edge and held clients.
    let socket = pair.server.control();
    assert_eq!(
        publish_by_library("lib", "to all", [&socket]),
        "published\n"
    );
    let mut event = here.next_event();
    while event.data == "ready" {
        event = here.next_event();
    }
    assert_eq!(event.data, "to all");
    assert!(
        client
            .read_until("data: to all\n\n")
            .contains("event: library\n")
    );
    // An unreachable address does not affect the others.
    let gone = format!("http://127.0.0.1:{}", free_port());
    let said = publish_by_library("lib", "to the rest", [&gone, &socket]);
    assert!(
        said.starts_with(&format!("{{\"{gone}\":\"cannot be reached")),
        "{said}"
    );
    assert_eq!(here.next_event().data, "to the rest");
}

#[test]
fn the_library_publishes_to_fermata_edge() {
    the_library_publishes_everywhere(Kind::Fermata);
}

#[test]
fn the_library_publishes_to_pushpin() {
    the_library_publishes_everywhere(Kind::Pushpin);
}

/// Clients connect while messages are published. Each receives every message after its first, in
/// order and once.
fn nothing_gets_lost_on_the_way(kind: Kind, messages_after: usize) {
    const CLIENTS: usize = 8;
    const RACE: &str = "/events?channels=race";
    const RECONNECTS_MAX: usize = 3;
    let Some(pair) = Pair::start(kind) else {
        return;
    };
    let come = AtomicUsize::new(0);
    let (count, texts) = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let (mut client, mut text) = pair.client(RACE, None);
                    come.fetch_add(1, Ordering::Relaxed);
                    text += &client.read_until_or_end("<end>");
                    // Pushpin closes a stream whose poll of the backend fails, for example on a
                    // busy machine. The client then reconnects, as an `EventSource` does.
                    for _ in 0..RECONNECTS_MAX {
                        if kind != Kind::Pushpin || text.ends_with("<end>") {
                            break;
                        }
                        // An event that was cut off does not count.
                        text.truncate(text.rfind("\n\n").map_or(0, |at| at + 2));
                        let (mut client, opening) = pair.client(RACE, Some(last_id(&text)));
                        text += &opening;
                        text += &client.read_until_or_end("<end>");
                    }
                    assert!(text.ends_with("<end>"), "no end in {text:?}");
                    text
                })
            })
            .collect();
        let (mut count, mut left) = (0, messages_after);
        let end = Instant::now() + deadline();
        while left > 0 {
            // Check before publishing, because a client that connects during the publish may miss
            // the message.
            let are_all_here = come.load(Ordering::Relaxed) == CLIENTS || Instant::now() > end;
            publish(&pair.server, "race", &format!("<{count}>"));
            count += 1;
            if are_all_here {
                left -= 1;
            } else {
                // On a busy machine, a flood of messages would keep the clients from connecting.
                thread::sleep(Duration::from_millis(1));
            }
        }
        publish(&pair.server, "race", "<end>");
        // While Pushpin polls the backend for a client, it queues 100 messages and drops the rest.
        // The client detects a dropped `<end>` only by a later message that does not follow its
        // last one.
        let end = Instant::now() + deadline();
        while kind == Kind::Pushpin
            && !clients.iter().all(ScopedJoinHandle::is_finished)
            && Instant::now() < end
        {
            thread::sleep(PAUSE);
            publish(&pair.server, "race", "<end>");
        }
        let texts = clients
            .into_iter()
            .map(|client| client.join().expect("a client"));
        (count, texts.collect::<Vec<_>>())
    });
    for text in texts {
        let numbers: Vec<usize> = text
            .split('<')
            .filter_map(|part| part.split_once('>')?.0.parse().ok())
            .collect();
        let first = numbers.first().copied().unwrap_or(count);
        assert!(first + messages_after <= count, "{first} of {count}");
        assert_eq!(numbers, (first..count).collect::<Vec<_>>(), "{text}");
    }
}

#[test]
fn nothing_gets_lost_on_the_way_to_fermata_edge() {
    nothing_gets_lost_on_the_way(Kind::Fermata, 200);
}

#[test]
fn nothing_gets_lost_on_the_way_to_pushpin() {
    nothing_gets_lost_on_the_way(Kind::Pushpin, 50);
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
    // With a valid signature the same request returns an instruction, also to a client that is not
    // an edge.
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
        // A password requires https://, so the events could never be delivered.
        ("http://u:hidden@edge.example:5561", "https://"),
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
