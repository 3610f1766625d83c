//! Reload of the routes file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use fermata_testkit::{Directory, wait_until};

use crate::client::Client;
use crate::origin::{Origin, Reply, ok, text};
use crate::own::Own;

/// Number of route changes under load.
const RELOADS: usize = 12;
/// Number of clients that send requests continuously, and number of held clients.
const ASKING: usize = 4;
const HELD: usize = 6;

fn named(name: &'static str) -> Origin {
    let origin = Origin::start();
    origin.on("x", move |_| text(name));
    origin.on("held", |_| {
        ok(
            &[("Grip-Hold", "stream"), ("Grip-Channel", "c")],
            "opened\n",
        )
    });
    origin
}

fn start(folder: Directory, routes: &str, workers: &str) -> Own {
    folder.write("routes", routes);
    Own::start_in(folder, &["--workers", workers])
}

#[test]
fn a_file_that_has_changed_is_read_and_a_bad_one_is_not_taken() {
    let (one, other) = (named("one"), named("other"));
    let own = start(
        Directory::new(),
        &format!("* 127.0.0.1:{}\n", one.port()),
        "1",
    );
    assert_eq!(own.get("/x").text(), "one");
    own.folder.write("routes", "");
    own.wait_for_log("the file has no route that can be used");
    assert_eq!(own.get("/x").text(), "one");
    own.folder.write("routes", "no route\n");
    own.wait_for_log("line 1: ");
    assert_eq!(own.get("/x").text(), "one");
    own.folder
        .write("routes", format!("* 127.0.0.1:{}\n", other.port()));
    wait_until("it is read", || {
        (own.get("/x").text() == "other").then_some(())
    });
    // The file is removed and created again.
    std::fs::remove_file(own.folder.join("routes")).expect("it was there");
    assert_eq!(own.get("/x").text(), "other");
    own.folder
        .write("routes", format!("* 127.0.0.1:{}\n", one.port()));
    wait_until("it is read", || {
        (own.get("/x").text() == "one").then_some(())
    });
}

#[test]
fn requests_by_the_routes_of_before_count_for_those_of_now() {
    let (one, other) = (named("one"), named("other"));
    one.on("busy", |_| Reply::Hang(Vec::new()));
    let route = format!(
        "*,balance=least_requests 127.0.0.1:{} 127.0.0.1:{}\n",
        one.port(),
        other.port()
    );
    let own = start(Directory::new(), &route, "1");
    let mut busy = own.client();
    busy.send("GET", "/busy", &[], b"");
    wait_until("it is asked", || {
        (!one.seen("busy").is_empty()).then_some(())
    });
    own.folder.write("routes", format!("{route}b.test test\n"));
    own.signal("-HUP");
    own.wait_for_log("routes read again: 2 of them");
    for _ in 0..4 {
        assert_eq!(own.get("/x").text(), "other");
    }
    drop(busy);
    wait_until("both are asked again", || {
        (own.get("/x").text() == "one").then_some(())
    });
}

#[test]
fn a_signal_has_the_file_read_at_once_and_ends_nothing() {
    let (one, other) = (named("one"), named("other"));
    let own = start(
        Directory::new(),
        &format!("* 127.0.0.1:{}\n", one.port()),
        "2",
    );
    assert_eq!(own.get("/x").text(), "one");
    own.folder
        .write("routes", format!("* 127.0.0.1:{}\n", other.port()));
    own.signal("-HUP");
    wait_until("both workers have read it", || {
        let log = own.log();
        (log.matches("routes read again").count() >= 2).then_some(())
    });
    for _ in 0..8 {
        assert_eq!(own.get("/x").text(), "other");
    }
    // An unreadable file is logged once and retried.
    std::fs::remove_file(own.folder.join("routes")).expect("it was there");
    own.signal("-HUP");
    own.wait_for_log("the routes of before stay, and the file is tried again");
    assert_eq!(own.get("/x").text(), "other");
}

#[test]
fn a_reload_under_load_fails_no_request_and_ends_no_stream() {
    let (one, other) = (named("one"), named("other"));
    let route = |origin: &Origin| format!("*,id=r 127.0.0.1:{}\n", origin.port());
    let own = start(Directory::new(), &route(&one), "2");
    let mut held: Vec<Client> = (0..HELD)
        .map(|_| {
            let mut client = own.client();
            client.send("GET", "/held", &[], b"");
            assert_eq!(client.read_head().status, 200);
            client.read_until("opened\n");
            client
        })
        .collect();
    let (is_over, answered) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    let asking: Vec<_> = (0..ASKING)
        .map(|_| {
            let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
            let mut client = own.client();
            thread::spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    let answer = client.get("/x");
                    assert_eq!(answer.status, 200, "{answer:?}");
                    assert!(matches!(answer.text(), "one" | "other"));
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for at in 0..RELOADS {
        let origin = if at % 2 == 0 { &other } else { &one };
        own.folder.write("routes.new", route(origin));
        std::fs::rename(own.folder.join("routes.new"), own.folder.join("routes"))
            .expect("the same folder");
        own.signal("-HUP");
        let name = if at % 2 == 0 { "other" } else { "one" };
        wait_until("the new routes", || {
            let answers = (0..4).map(|_| own.get("/x").text().to_owned());
            answers.into_iter().all(|it| it == name).then_some(())
        });
        let before = answered.load(Ordering::SeqCst);
        wait_until("requests go on", || {
            (answered.load(Ordering::SeqCst) > before + ASKING).then_some(())
        });
    }
    is_over.store(true, Ordering::SeqCst);
    for client in asking {
        client.join().expect("no request has failed");
    }
    own.publish("c", "still here\n");
    for client in &mut held {
        client.read_until("still here\n");
    }
}
