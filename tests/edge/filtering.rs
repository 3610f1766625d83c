//! Filters that request a decision from a server: `http-check` and `http-modify`. Debian's Pushpin
//! does not have these filters, so the tests run only against `fermata edge`, and expect the
//! behaviour that Pushpin 2.0 documents.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use fermata_testkit::{deadline, wait_until};
use serde_json::{Value, json};

use crate::client::Client;
use crate::origin::{Origin, Reply, Request, ok, text};
use crate::own::Own;
use crate::socket::{accept, open};

/// Maximum number of items that the edge queues for one client.
const WAITING_MAX: usize = 100;
/// Time within which concurrent requests would reach the server.
const PAUSE: Duration = Duration::from_millis(30);

/// Delays responses until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn wait(&self) {
        let (is_open, changed) = &*self.0;
        let guard = is_open.lock().expect("a gate");
        let waited = changed.wait_timeout_while(guard, deadline(), |is_open| !*is_open);
        drop(waited.expect("a gate"));
    }

    fn open(&self) {
        *self.0.0.lock().expect("a gate") = true;
        self.0.1.notify_all();
    }
}

fn start(origin: &Origin, arguments: &[&str]) -> Own {
    let route = format!("* 127.0.0.1:{}", origin.port());
    let own = ["--workers", "1", "--sig-key", "key", "--route", &route];
    Own::start(&[&own[..], arguments].concat())
}

fn item(content: &str, sender: &str) -> Value {
    json!({"channel": "c", "meta": {"sender": sender}, "http-stream": {"content": content},
        "http-response": {"body": content}, "ws-message": {"content": content}})
}

/// Holds every client that requests `/hold`.
fn hold(origin: &Origin, mode: &'static str, filter: &'static str) {
    origin.on("hold", move |_| {
        ok(
            &[
                ("Grip-Hold", mode),
                ("Grip-Channel", &format!("c; {filter}")),
                ("Grip-Set-Meta", "url=\"/filter?a\", user=\"me\""),
            ],
            "opened\n",
        )
    });
}

fn stream(own: &Own) -> Client {
    let mut client = own.client();
    client.send("GET", "/hold/here", &[("Cookie", "secret=1")], b"");
    assert_eq!(client.read_head().status, 200);
    client.read_until("opened\n");
    client
}

fn meta(request: &Request, name: &str) -> Value {
    let value = request.header(name).unwrap_or_default();
    serde_json::from_str(&value).unwrap_or(Value::Null)
}

/// Drops items whose sender is "bad".
fn judge(request: &Request) -> Reply {
    match meta(request, "pub-meta")["sender"].as_str() {
        Some("bad") => ok(&[("Action", "drop")], "whatever"),
        _ => ok(&[], "whatever"),
    }
}

#[test]
fn a_server_says_what_is_delivered() {
    let (origin, gate) = (Origin::start(), Gate::default());
    hold(&origin, "stream", "filter=http-check");
    let held = gate.clone();
    origin.on("filter", move |request| {
        if meta(request, "pub-meta")["sender"] == "slow" {
            held.wait();
        }
        judge(request)
    });
    let own = start(&origin, &[]);
    let mut client = stream(&own);
    own.publish_items(&[
        item("one,", "slow"),
        item("two,", "bad"),
        item("three.", ""),
    ]);
    wait_until("the first is asked about", || {
        (!origin.seen("filter").is_empty()).then_some(())
    });
    // Later items do not overtake the first one.
    thread::sleep(PAUSE);
    assert_eq!(origin.seen("filter").len(), 1);
    gate.open();
    assert_eq!(client.read_until("three."), "one,three.");
    let seen = origin.seen("filter");
    assert_eq!(seen.len(), 3);
    for request in &seen {
        assert_eq!((&*request.method, &*request.target), ("POST", "/filter?a"));
        assert_eq!(request.header("content-length").as_deref(), Some("0"));
        assert_eq!(meta(request, "sub-meta")["user"], "me");
        // The filter request carries the edge's signature but no cookie of the client.
        assert!(request.header("grip-sig").is_some() && request.header("cookie").is_none());
    }
    assert_eq!(meta(&seen[1], "pub-meta"), json!({"sender": "bad"}));
    // Clients cannot forge the headers of such a request.
    let forged = [("Sub-Meta", "{}"), ("Pub_Meta", "{}"), ("X-Own", "1")];
    own.client().request("GET", "/filter", &forged, b"");
    let last = origin.seen("filter").pop().expect("the forged one");
    let names = ["sub-meta", "pub-meta", "pub_meta", "x-own"].map(|name| last.header(name));
    assert_eq!(names, [None, None, None, Some("1".to_owned())]);
}

#[test]
fn a_server_changes_what_is_delivered() {
    let origin = Origin::start();
    origin.on("filter", |request| match request.text().as_str() {
        "same" => Reply::Answer(204, Vec::new(), Vec::new()),
        "nothing" => text(""),
        content => text(&format!(
            "<{content} for {}>",
            meta(request, "sub-meta")["user"]
        )),
    });
    let own = start(&origin, &[]);
    // Later filters process the content that the server returns.
    hold(&origin, "stream", "filter=http-modify; filter=var-subst");
    let mut client = stream(&own);
    let contents = ["same", "nothing", "new %(user)s", "close"];
    let mut items = contents.map(|content| item(content, ""));
    items[3] = json!({"channel": "c", "http-stream": {"action": "close"}});
    own.publish_items(&items);
    let (text, is_clean) = client.read_end();
    assert_eq!((&*text, is_clean), ("same<new me for \"me\">", true));

    hold(&origin, "response", "filter=http-modify");
    let mut client = own.client();
    client.send("GET", "/hold/here", &[], b"");
    let answer = loop {
        own.publish_items(&[item("poll", "")]);
        if client.has_data(PAUSE) {
            break client.read_answer(false);
        }
    };
    assert_eq!(answer.text(), "<poll for \"me\">");

    origin.on("ws", |request| {
        accept(
            request,
            "Sec-WebSocket-Extensions: grip\r\n",
            |mut socket| {
                for control in [
                    json!({"type": "set-meta", "name": "url", "value": "/filter"}),
                    json!({"type": "set-meta", "name": "user", "value": "ws"}),
                    json!({"type": "subscribe", "channel": "c", "filters": ["http-modify"]}),
                ] {
                    socket.text(&format!("c:{control}"));
                }
                socket.text("m:subscribed");
                socket.next();
            },
        )
    });
    let mut socket = open(own.client(), "/ws");
    assert_eq!(socket.next_text(), "subscribed");
    own.publish_items(&[item("a", ""), item("same", "")]);
    assert_eq!(socket.next_text(), "<a for \"ws\">");
    assert_eq!(socket.next_text(), "same");
}

#[test]
fn a_server_that_fails_costs_the_item_alone() {
    let origin = Origin::start();
    hold(&origin, "stream", "filter=http-modify");
    origin.on("filter", |request| match request.text().as_str() {
        "500" => Reply::Answer(500, Vec::new(), Vec::new()),
        "large" => ok(&[], vec![b'x'; 100_001]),
        "late" => Reply::Hang(b"HTTP/1.1 200 OK\r\n".to_vec()),
        "cut" => Reply::Close(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ncut".to_vec()),
        content => text(content),
    });
    let own = start(&origin, &["--filter-timeout-ms", "5000"]);
    let mut client = stream(&own);
    let items = ["a", "500", "large", "late", "cut", "z"].map(|content| item(content, ""));
    own.publish_items(&items);
    assert_eq!(client.read_until("z"), "az");
    let dropped = own.figures("fermata_edge_deliveries_dropped_total");
    let filter = dropped
        .iter()
        .find(|(name, _)| name.contains("filter_failed"));
    assert_eq!(filter.map(|(_, value)| *value), Some(4), "{dropped:?}");
    own.wait_for_log("answers 500; give 200 or 204");
    // Without a filter server.
    origin.on("bare", |_| {
        let hold = [
            ("Grip-Hold", "stream"),
            ("Grip-Channel", "c; filter=http-check, d"),
        ];
        ok(&hold, "opened\n")
    });
    let mut client = own.client();
    client.send("GET", "/bare", &[], b"");
    client.read_head();
    client.read_until("opened\n");
    let mut of_other = item("other", "");
    of_other["channel"] = "d".into();
    own.publish_items(&[item("unchecked", ""), of_other]);
    assert_eq!(client.read_until("other"), "other");
    own.wait_for_log("needs the meta value url");
}

#[test]
fn filters_ask_a_few_at_a_time() {
    let origin = Origin::start();
    hold(&origin, "stream", "filter=http-check");
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let highest = Arc::clone(&most);
    origin.on("filter", move |_| {
        highest.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(PAUSE);
        open.fetch_sub(1, Ordering::SeqCst);
        text("")
    });
    let own = start(&origin, &["--filter-requests-max", "2"]);
    let mut clients: Vec<Client> = (0..6).map(|_| stream(&own)).collect();
    own.publish_items(&[item("a", ""), item("b", "")]);
    for client in &mut clients {
        assert_eq!(client.read_until("b"), "ab");
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert_eq!(origin.seen("filter").len(), 12);
}

#[test]
fn a_client_whose_queue_is_full_is_told_by_its_end() {
    let (origin, gate) = (Origin::start(), Gate::default());
    hold(&origin, "stream", "filter=http-check");
    let held = gate.clone();
    origin.on("filter", move |_| {
        held.wait();
        text("")
    });
    let own = start(&origin, &[]);
    let mut client = stream(&own);
    let items: Vec<Value> = (0..2 * WAITING_MAX).map(|_| item("x", "")).collect();
    own.publish_items(&items);
    own.wait_for_log("it has missed something");
    gate.open();
    let (text, is_clean) = client.read_end();
    assert_eq!((text.len(), is_clean), (WAITING_MAX, true));
}

#[test]
fn a_client_that_leaves_takes_its_check_along() {
    let origin = Origin::start();
    hold(&origin, "stream", "filter=http-check");
    origin.on("filter", |_| Reply::Hang(Vec::new()));
    let own = start(&origin, &["--filter-requests-max", "1"]);
    let open = |kind: &str| {
        let figures = own.figures("fermata_edge_open");
        let found = figures.iter().find(|(name, _)| name.contains(kind));
        found.map_or(0, |(_, value)| *value)
    };
    let clients = [stream(&own), stream(&own)];
    own.publish_items(&[item("a", "")]);
    wait_until("one is asked about", || {
        (open("request") == 1).then_some(())
    });
    for client in clients {
        drop(client);
    }
    wait_until("nothing is left", || {
        (open("request") == 0 && open("session") == 0).then_some(())
    });
    // The client's slot is free for other clients.
    origin.on("filter", judge);
    let mut client = stream(&own);
    own.publish_items(&[item("b", "")]);
    assert_eq!(client.read_until("b"), "b");
}

#[test]
fn a_long_poll_ends_with_the_item_that_is_asked_about() {
    let (origin, gate) = (Origin::start(), Gate::default());
    origin.on("hold", |_| {
        let hold = [
            ("Grip-Hold", "response"),
            ("Grip-Channel", "c; filter=http-check"),
            ("Grip-Set-Meta", "url=/filter"),
            // The minimum.
            ("Grip-Timeout", "5"),
        ];
        ok(&hold, "nothing")
    });
    let held = gate.clone();
    origin.on("filter", move |request| {
        held.wait();
        judge(request)
    });
    let own = start(&origin, &["--filter-timeout-ms", "60000"]);
    for (sender, expected) in [("good", "a"), ("bad", "nothing")] {
        let before = origin.seen("filter").len();
        let mut client = own.client();
        client.send("GET", "/hold/here", &[], b"");
        wait_until("it is held and asked about", || {
            own.publish_items(&[item("a", sender)]);
            (origin.seen("filter").len() > before).then_some(())
        });
        if expected == "a" {
            // Wait past the time-out, because no event shows that the edge has checked its clock.
            thread::sleep(Duration::from_secs(6));
            gate.open();
        }
        assert_eq!(client.read_answer(false).text(), expected);
    }
}

#[test]
fn a_reliable_client_gets_by_its_link_what_could_not_be_asked_about() {
    let origin = Origin::start();
    origin.on("hold", |request| {
        let is_link = request.target.ends_with("/next");
        let last = if is_link {
            "c; prev-id=2; filter=http-check"
        } else {
            "c; prev-id=0; filter=http-check"
        };
        let hold = [
            ("Grip-Hold", "stream"),
            ("Grip-Channel", last),
            ("Grip-Set-Meta", "url=/filter"),
            ("Grip-Link", "</hold/next>; rel=next; timeout=600"),
        ];
        ok(&hold, if is_link { "by link;" } else { "opened\n" })
    });
    origin.on(
        "filter",
        |request| match meta(request, "pub-meta")["sender"].as_str() {
            Some("fails") => Reply::Answer(500, Vec::new(), Vec::new()),
            _ => judge(request),
        },
    );
    let own = start(&origin, &["--update-on-first-subscription", "false"]);
    let mut client = stream(&own);
    for (id, sender) in [(1, "fails"), (2, ""), (3, "")] {
        let mut item = item(&format!("{id};"), sender);
        item["id"] = id.to_string().into();
        item["prev-id"] = (id - 1).to_string().into();
        own.publish_items(&[item]);
    }
    assert_eq!(client.read_until("3;"), "by link;3;");
    let asked = origin.seen("hold");
    let last = asked.last().and_then(|it| it.header("grip-last"));
    assert_eq!(last.as_deref(), Some("c; last-id=0"));
}
