//! `Hold::fromStart()`, `WebSocket::join(fromStart: true)` and `Channel::read(fromStart: true)`: a client or handler without an id
//! receives all stored events, then new ones.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fermata_testkit::sse::Stream;
use fermata_testkit::websocket::Socket;
use fermata_testkit::{Server, wait_until};
use fermata_tests::{fixture, publish, stats};

/// Number of events that each client has to receive after it has connected.
const LIVE: usize = 20;
const CLIENTS: usize = 40;
/// Number of events that history retains, more than the test publishes.
const HISTORY: usize = 20_000;
const PAUSE: Duration = Duration::from_millis(1);

#[test]
fn clients_receive_all_events_whenever_they_connect() {
    let server = fixture("websocket")
        .workers(2)
        .setting("history_count_max", HISTORY)
        .start();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            let mut connection = server.connect();
            for number in 0..HISTORY {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let response = connection.post("/publish/log", number.to_string());
                assert_eq!(response.status(), 200);
                thread::sleep(PAUSE);
            }
        });
        for client in 0..CLIENTS {
            let numbers = match client % 3 {
                0 => by_event_stream(&server, "/events/log?from=start"),
                1 => by_event_stream(&server, "/read/log"),
                _ => by_socket(&server),
            };
            let expected: Vec<usize> = (0..numbers.len()).collect();
            assert_eq!(numbers, expected, "client {client}");
        }
    });
}

/// Ends the publisher when dropped, even in a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads until the stored events and [`LIVE`] events published after them have arrived.
fn by_event_stream(server: &Server, path: &str) -> Vec<usize> {
    let newest = newest(server);
    let mut stream = Stream::open(server.connect(), path, None);
    let mut numbers = Vec::new();
    while numbers.len() < newest + LIVE {
        let event = stream.next_event();
        assert_eq!(event.name, "message", "no gap");
        numbers.push(event.data.parse().expect("a number"));
    }
    numbers
}

fn by_socket(server: &Server) -> Vec<usize> {
    let newest = newest(server);
    let mut socket = Socket::open(server.connect(), "/rooms/log?from=start");
    let mut numbers = Vec::new();
    while numbers.len() < newest + LIVE {
        let text = socket.next_text();
        if text != "joined" {
            numbers.push(text.parse().expect("a number"));
        }
    }
    numbers
}

/// Returns the number of an event that was just published.
fn newest(server: &Server) -> usize {
    let mut stream = Stream::open(server.connect(), "/events/log", None);
    stream.next_event().data.parse().expect("a number")
}

#[test]
fn an_id_goes_before_the_start() {
    let server = fixture("hub").start();
    let ids: Vec<String> = (0..3)
        .map(|number| publish(&server, "news", &number.to_string()))
        .collect();
    for path in ["/events?from=start", "/read/news?from=start"] {
        let mut stream = Stream::open(server.connect(), path, None);
        for number in 0..3 {
            assert_eq!(stream.next_event().data, number.to_string(), "{path}");
        }
        let mut resumed = Stream::open(server.connect(), path, Some(&ids[1]));
        assert_eq!(resumed.next_event().data, "2", "{path}");
    }
    let paths = ["/events", "/events?from=start", "/read/news?from=start"];
    let mut streams =
        paths.map(|path| Stream::open(server.connect(), path, Some(ids.last().expect("three"))));
    publish(&server, "news", "live");
    for stream in &mut streams {
        assert_eq!(stream.next_event().data, "live");
    }
}

/// A handler that waits for events is cancelled when its client disconnects.
#[test]
fn a_reader_ends_with_its_client() {
    let server = fixture("hub").control().start();
    let mut stream = Stream::open(server.connect(), "/read/news?from=start", None);
    publish(&server, "news", "first");
    assert_eq!(stream.next_event().data, "first");
    wait_until("the handler waits", || {
        (stats(&server)["total"]["fibers_waiting"] == 1).then_some(())
    });
    drop(stream);
    wait_until("the handler has ended", || {
        (stats(&server)["total"]["fibers_waiting"] == 0).then_some(())
    });
}

#[test]
fn a_start_that_is_no_longer_stored_is_a_gap() {
    let server = fixture("hub").setting("history_count_max", 2).start();
    for number in 0..4 {
        publish(&server, "news", &number.to_string());
    }
    for path in ["/events?from=start", "/read/news?from=start"] {
        let mut stream = Stream::open(server.connect(), path, None);
        let gap = stream.next_event();
        assert_eq!(
            (gap.name.as_str(), gap.data.as_str()),
            ("gap", r#"{"reason":"expired"}"#)
        );
        assert_eq!(stream.next_event().data, "2");
        assert_eq!(stream.next_event().data, "3");
    }
    // Nothing was published to this channel, and nothing is missing.
    let mut other = Stream::open(server.connect(), "/events?channels=other&from=start", None);
    publish(&server, "other", "first");
    assert_eq!(other.next_event().data, "first");
}
