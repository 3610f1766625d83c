//! Streams that a handler writes for one client: `Response::events()`.

use std::time::Duration;

use fermata_testkit::sse::{Item, Stream};
use fermata_testkit::{Builder, Server, Signal, wait_until};
use fermata_tests::fixture;

fn site() -> Builder {
    fixture("events").workers(1)
}

fn notes(server: &Server) -> String {
    server.connect().get("/notes").text().to_owned()
}

fn wait_for_note(server: &Server, wanted: &str) {
    wait_until(wanted, || notes(server).contains(wanted).then_some(()));
}

fn data(number: usize, bytes: usize) -> String {
    char::from(b'a' + (number % 26) as u8)
        .to_string()
        .repeat(bytes)
}

#[test]
fn every_event_arrives_in_order() {
    let server = site().start();
    let mut stream = Stream::open(server.connect(), "/tokens/500/1000", None);
    for (number, event) in stream.next_events(500).into_iter().enumerate() {
        assert_eq!(event.data, data(number, 1000), "{number}");
    }
    let rest = stream.read_to_end();
    assert!(!rest.iter().any(|item| matches!(item, Item::Event(_))));
    wait_for_note(&server, "whole");
}

#[test]
fn many_clients_are_served_side_by_side() {
    let server = site().start();
    let mut streams: Vec<_> = (0..20)
        .map(|_| Stream::open(server.connect(), "/tokens/100/3000", None))
        .collect();
    for stream in &mut streams {
        let last = stream.next_events(100).pop().expect("a hundred");
        assert_eq!(last.data, data(99, 3000));
    }
}

#[test]
fn a_slow_reader_makes_its_handler_wait_and_nobody_else() {
    let server = site().start();
    // Much larger than all kernel buffers.
    let path = "/tokens/3000/20000";
    let mut slow = Stream::open(server.connect(), path, None);
    wait_for_note(&server, "begun");
    for _ in 0..50 {
        assert!(!notes(&server).contains("whole"));
    }
    for (number, event) in slow.next_events(3000).into_iter().enumerate() {
        assert_eq!(event.data, data(number, 20000), "{number}");
    }
    wait_for_note(&server, "whole");
}

#[test]
fn a_slow_reader_that_leaves_ends_its_handler() {
    let server = site().start();
    let slow = Stream::open(server.connect(), "/tokens/3000/20000", None);
    wait_for_note(&server, "begun");
    slow.into_connection().reset();
    wait_for_note(&server, "gone after");
    assert!(!notes(&server).contains("whole"));
}

#[test]
fn a_client_that_leaves_ends_a_handler_that_waits() {
    let server = site().start();
    let mut stream = Stream::open(server.connect(), "/wait", None);
    assert_eq!(stream.next_event().data, "begun");
    drop(stream);
    wait_for_note(&server, "ended");
}

#[test]
fn a_client_that_takes_nothing_is_closed() {
    let server = site().setting("write_timeout_ms", 300).start();
    let slow = Stream::open(server.connect(), "/tokens/3000/20000", None);
    wait_for_note(&server, "gone after");
    drop(slow);
}

#[test]
fn a_silence_is_filled_with_comments() {
    let server = site().start();
    let mut stream = Stream::open(server.connect(), "/quiet", None);
    assert_eq!(stream.next_event().data, "begun");
    for _ in 0..3 {
        assert!(matches!(stream.next_item(), Item::Comment(_)));
    }
}

#[test]
fn a_stopping_server_tells_its_handlers_and_waits_for_them() {
    let mut server = site().start();
    let mut stream = Stream::open(server.connect(), "/endless", None);
    assert_eq!(stream.next_event().data, "begun");
    server.signal(Signal::Terminate);
    assert_eq!(stream.next_event().data, "bye");
    stream.read_to_end();
    assert!(server.wait_exit().success());
}

#[test]
fn a_stopping_server_does_not_wait_for_ever() {
    let mut server = site().setting("drain_timeout_ms", 100).start();
    let mut stream = Stream::open(server.connect(), "/wait", None);
    assert_eq!(stream.next_event().data, "begun");
    server.signal(Signal::Terminate);
    assert!(server.wait_exit().success());
    let (_, end) = stream.into_connection().read_to_end();
    assert!(end.is_some());
    let notes = server.directory().path().join("notes.txt");
    let notes = std::fs::read_to_string(notes).expect("the notes");
    assert_eq!(notes, "ended\n");
}

#[test]
fn an_event_goes_out_while_the_handler_waits() {
    let server = site().start();
    let mut stream = Stream::open(server.connect(), "/wait", None);
    let item = stream.try_next(Duration::from_secs(10));
    assert!(matches!(item, Some(Item::Event(event)) if event.data == "begun"));
}
