//! `django-eventstream` (PyPI), unmodified, in a Django project with its own event storage.

use std::process::Command;

use fermata_testkit::install::{install_python, installed, skipped, works};
use fermata_testkit::{free_port, wait_until, workspace_root};

use crate::client::Client;
use crate::components::Running;
use crate::subject::{Kind, SIG_KEY, Subject};

/// Pinned, so that a new release cannot break the test.
const PACKAGES: [&str; 5] = [
    "django-eventstream==5.3.4",
    "django-grip==3.5.2",
    "gripcontrol==4.4.0",
    "pubcontrol==3.5.0",
    "Django==5.2.8",
];
const HOST: &str = "django.test";

/// Opens a stream of events behind the edge and reads its beginning.
fn stream(edge: &Subject, headers: &[(&str, &str)]) -> Client {
    let mut client = Client::open(edge.port, HOST);
    client.send("GET", "/events/", headers, b"");
    let head = client.read_head();
    assert_eq!(head.status, 200, "{head:?}");
    assert_eq!(
        head.header("content-type").as_deref(),
        Some("text/event-stream")
    );
    client.read_until("event: stream-open\ndata:\n\n");
    client
}

fn event(id: usize, text: &str) -> String {
    format!("event: message\nid: news:{id}\ndata: {{\"text\": \"{text}\"}}\n\n")
}

fn django_eventstream(kind: Kind) {
    if !works("python3", &["--version"]) {
        return skipped("python3 is not installed");
    }
    let port = free_port();
    let edge = Subject::start_with(kind, &format!("{HOST} 127.0.0.1:{port}\n"));
    let Some(edge) = edge else {
        return skipped("this edge is not installed");
    };
    let packages = installed("grip-django");
    if !install_python(&packages, &packages.join("django_eventstream"), &PACKAGES) {
        return;
    }
    let folder = fermata_testkit::Directory::new();
    let mut running = Running::default();
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", &packages)
        .arg(workspace_root().join("tests/edge/clients/django_app.py"))
        .args([&port.to_string(), &edge.control.to_string(), SIG_KEY])
        .arg(folder.join("db.sqlite3"));
    running.start(&mut command, &folder.join("django.out"));
    wait_until("Django answers", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    });
    let send = |what: &str, text: &str| {
        let answer = Client::open(port, HOST).get(&format!("/{what}/?text={text}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    };

    // The first event of a channel has no predecessor, so no client can detect its loss. It is
    // stored before the client connects.
    send("send", "first");
    let mut client = stream(&edge, &[]);
    send("send", "second");
    assert!(
        client
            .read_until(&event(2, "second"))
            .ends_with(&event(2, "second"))
    );
    // An event whose publish was lost: the next event's prev-id reveals the gap, and the next link
    // request returns it.
    send("store", "third");
    send("send", "fourth");
    let both = event(3, "third") + &event(4, "fourth");
    assert_eq!(client.read_until(&both), both);
    send("send", "fifth");
    assert_eq!(client.read_until(&event(5, "fifth")), event(5, "fifth"));
    // A client that reconnects receives the missed events, then live ones.
    let mut again = stream(&edge, &[("Last-Event-ID", "news:2")]);
    let missed = both + &event(5, "fifth");
    assert_eq!(again.read_until(&missed), missed);
    send("send", "sixth");
    for client in [&mut client, &mut again] {
        assert_eq!(client.read_until(&event(6, "sixth")), event(6, "sixth"));
    }
}

#[test]
fn django_eventstream_behind_fermata_edge() {
    django_eventstream(Kind::Fermata);
}

#[test]
fn django_eventstream_behind_pushpin() {
    django_eventstream(Kind::Pushpin);
}
