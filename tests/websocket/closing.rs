//! The closing handshake, started by either side, and closes without a handshake.

use std::time::Duration;

use fermata_testkit::Signal;
use fermata_testkit::websocket::{CLOSE, TEXT, close_payload, frame};
use fermata_tests::fixture;

use crate::{open, start};

#[test]
fn a_client_closes() {
    let server = start();
    for (payload, answer, told) in [
        (close_payload(1000, "bye"), Some(1000), "closed 1000 [bye]"),
        (close_payload(4321, ""), Some(4321), "closed 4321 []"),
        (Vec::new(), None, "closed 1005 []"),
    ] {
        let mut socket = open(&server, "/echo");
        // Frames after a close frame are ignored.
        socket
            .connection()
            .send([frame(CLOSE, &payload), frame(TEXT, b"late")].concat());
        let close = socket.next_frame();
        assert_eq!((close.first, close.close_code()), (CLOSE, answer));
        socket.expect_end();
        server.log().wait_for(0, told);
    }
}

#[test]
fn the_program_closes_and_what_it_sent_before_arrives() {
    let server = start();
    let mut socket = open(&server, "/does/close");
    socket.connection().send(
        [
            frame(TEXT, b"burst 3 100"),
            frame(TEXT, b"close 4001 so long"),
        ]
        .concat(),
    );
    for number in 0..3 {
        assert!(socket.next_text().starts_with(&format!("{number} ")));
    }
    assert_eq!(socket.expect_close(4001), "so long");
    server.log().wait_for(0, "closed 4001");
}

#[test]
fn a_handler_that_throws_closes_its_socket_alone() {
    let server = start();
    let mut other = open(&server, "/echo");
    let mut socket = open(&server, "/does/close");
    socket.text("throw");
    let reason = socket.expect_close(1011);
    assert!(!reason.contains("on demand"), "details are for the log");
    server.log().wait_for(0, "on demand");
    other.text("fine");
    assert_eq!(other.next_text(), "fine");
}

#[test]
fn a_client_that_never_answers_a_close_is_cut_off() {
    let server = fixture("websocket")
        .workers(1)
        .setting("websocket_close_timeout_ms", 200)
        .start();
    let mut socket = open(&server, "/does/close");
    socket.text("close 4000 now");
    assert_eq!(socket.next_frame().close_code(), Some(4000));
    socket.expect_end();
}

#[test]
fn ends_without_a_close_are_1006() {
    let server = start();
    let mut half_closed = open(&server, "/echo");
    half_closed.text("last words");
    half_closed.connection().finish_sending();
    assert_eq!(half_closed.next_text(), "last words");
    half_closed.expect_end();
    server.log().wait_for(0, "closed 1006");
    let from = server.log().len();
    open(&server, "/echo").into_connection().reset();
    server.log().wait_for(from, "closed 1006");
    let from = server.log().len();
    // Close in the middle of a frame.
    let mut cut = open(&server, "/echo");
    cut.connection().send(&frame(TEXT, b"never whole")[..9]);
    drop(cut);
    server.log().wait_for(from, "closed 1006");
}

#[test]
fn a_server_that_stops_says_1001() {
    let mut server = start();
    let mut sockets: Vec<_> = (0..20).map(|_| open(&server, "/echo")).collect();
    for socket in &mut sockets {
        socket.text("here");
        assert_eq!(socket.next_text(), "here");
    }
    server.signal(Signal::Terminate);
    for socket in &mut sockets {
        socket.expect_close(1001);
    }
    assert!(server.wait_exit().success());
}

#[test]
fn a_silent_client_does_not_keep_a_server_from_stopping() {
    let mut server = fixture("websocket")
        .workers(1)
        .setting("drain_timeout_ms", 300)
        .start();
    let mut socket = open(&server, "/echo");
    server.signal(Signal::Terminate);
    assert_eq!(socket.next_frame().close_code(), Some(1001));
    // The client does not reply.
    assert!(server.wait_exit().success());
    assert!(socket.try_next(Duration::from_secs(1)).is_some());
}
