//! Held clients: keep-alive comments, requests pipelined before a hold, and disconnects.

use std::time::Duration;

use fermata_testkit::sse::{Item, Stream};
use fermata_testkit::wait_until;
use fermata_tests::{fixture, publish};

/// Reads until a comment arrives.
#[track_caller]
fn expect_comment(stream: &mut Stream) {
    loop {
        match stream.next_item() {
            Item::Comment(_) => return,
            Item::Retry(_) | Item::Position(_) => {}
            item => panic!("{item:?} where a keep-alive comment was due"),
        }
    }
}

#[test]
fn silence_is_filled_with_comments() {
    let server = fixture("hub")
        .workers(1)
        .setting("keep_alive_ms", 150)
        .start();
    let mut stream = Stream::open(server.connect(), "/events", None);
    for _ in 0..3 {
        expect_comment(&mut stream);
    }
    publish(&server, "news", "still here");
    assert_eq!(stream.next_event().data, "still here");
    expect_comment(&mut stream);
}

#[test]
fn the_handler_chooses_the_interval() {
    let server = fixture("hub").workers(1).start();
    let mut stream = Stream::open(server.connect(), "/events?keepalive=1", None);
    expect_comment(&mut stream);
}

#[test]
fn keep_alive_can_be_off() {
    let server = fixture("hub")
        .workers(1)
        .setting("keep_alive_ms", 100)
        .start();
    let mut quiet = Stream::open(server.connect(), "/events?keepalive=0", None);
    let mut noisy = Stream::open(server.connect(), "/events", None);
    for _ in 0..5 {
        expect_comment(&mut noisy);
    }
    while let Some(item) = quiet.try_next(Duration::ZERO) {
        assert!(
            matches!(item, Item::Retry(_) | Item::Position(_)),
            "{item:?} on a stream without keep-alive"
        );
    }
}

#[test]
fn a_held_client_outlives_every_time_out() {
    let builder = fixture("hub").workers(1).setting("idle_timeout_ms", 200);
    let builder = builder
        .setting("header_timeout_ms", 200)
        .setting("body_timeout_ms", 200);
    let builder = builder
        .setting("write_timeout_ms", 200)
        .setting("keep_alive_ms", 100);
    let server = builder.start();
    let mut stream = Stream::open(server.connect(), "/events", None);
    for _ in 0..10 {
        expect_comment(&mut stream);
    }
    publish(&server, "news", "after a second");
    assert_eq!(stream.next_event().data, "after a second");
}

#[test]
fn requests_before_a_hold_are_answered_first() {
    let server = fixture("hub").workers(1).start();
    let mut connection = server.connect();
    connection.send(
        "POST /publish/news HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nearly\
         GET /events HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(connection.read_response().status(), 200);
    let mut stream = Stream::after_request(connection).expect("it is held");
    publish(&server, "news", "live");
    assert_eq!(
        stream.next_event().data,
        "live",
        "nothing is replayed without being asked for"
    );
}

#[test]
fn a_long_answer_before_a_hold_goes_out_first() {
    let builder = fixture("hub").workers(1).setting("queue_bytes_max", 65_536);
    let server = builder.start();
    let mut connection = server.connect();
    let body = "x".repeat(1_000_000);
    let mut wire =
        format!("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n{body}");
    wire = wire.repeat(8) + "GET /events HTTP/1.1\r\nHost: a\r\n\r\n";
    let sender = connection.send_in_background(wire.into_bytes());
    for _ in 0..8 {
        assert_eq!(connection.read_response().body.len(), 1_000_000);
    }
    sender
        .join()
        .expect("the sender does not panic")
        .expect("everything was taken");
    let mut stream = Stream::after_request(connection).expect("it is held");
    publish(&server, "news", "live");
    assert_eq!(stream.next_event().data, "live");
}

#[test]
fn bytes_after_a_hold_do_not_disturb_it() {
    let server = fixture("hub").workers(1).start();
    let mut connection = server.connect();
    connection.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
    connection.send("POST /publish/news HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nsneak");
    let mut stream = Stream::after_request(connection).expect("it is held");
    publish(&server, "news", "live");
    assert_eq!(stream.next_event().data, "live");
}

#[test]
fn holds_that_cannot_be_are_500() {
    let server = fixture("hub")
        .workers(1)
        .setting("channels_per_hold_max", 3)
        .start();
    let mut connection = server.connect();
    let long_user = "u".repeat(5_000);
    for query in [
        "channels=a,b,c,d",
        "channels=a,a",
        "channels=",
        "channels=a,",
        "channels=a%0Ab",
        "channels=a&user=",
        "channels=a&user=%FF",
        &format!("channels=a&user={long_user}"),
    ] {
        assert_eq!(
            connection.get(&format!("/events?{query}")).status(),
            500,
            "{query}"
        );
    }
    assert_eq!(connection.get("/members/a").text(), "[]");
    Stream::open(server.connect(), "/events?channels=a,b,c", None);
}

#[test]
fn clients_that_leave_are_forgotten() {
    let server = fixture("hub").start();
    let pids = server.worker_pids();
    for number in 0..60 {
        let path = format!("/events?channels=news,room.{number}&user=user.{number}&silent=1");
        let mut stream = Stream::open(server.connect(), &path, None);
        if number % 3 == 0 {
            publish(&server, "news", "hello");
            assert_eq!(stream.next_event().data, "hello");
        }
        match number % 2 {
            0 => drop(stream),
            _ => stream.into_connection().reset(),
        }
    }
    wait_until("nobody is present", || {
        (server.connect().get("/members/news").text() == "[]").then_some(())
    });
    for pid in pids.values() {
        assert_eq!(server.connect_to(*pid).get("/pid").status(), 200);
    }
    assert_eq!(server.worker_pids(), pids, "no worker was replaced");
}

#[test]
fn a_thousand_clients_get_one_message() {
    let server = fixture("hub").start();
    let streams: Vec<Stream> = (0..1_000)
        .map(|_| Stream::open(server.connect(), "/events", None))
        .collect();
    let id = publish(&server, "news", "to all");
    for mut stream in streams {
        let event = stream.next_event();
        assert_eq!(
            (event.data.as_str(), event.id.as_deref()),
            ("to all", Some(id.as_str()))
        );
    }
}
