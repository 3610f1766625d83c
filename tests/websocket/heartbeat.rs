//! Pings to the client, and clients that disappear silently.

use std::time::Duration;

use fermata_testkit::websocket::{Item, PING, PONG};

use crate::{open, start};

#[test]
fn a_silent_client_is_pinged_and_stays_while_it_answers() {
    let server = start();
    let mut socket = open(&server, "/watched");
    for _ in 0..5 {
        let ping = socket.next_frame();
        assert_eq!(ping.first, PING);
        socket.send(PONG, &ping.payload);
    }
    socket.text("well");
    loop {
        let frame = socket.next_frame();
        if frame.first != PING {
            assert_eq!(frame.payload, b"well");
            break;
        }
        socket.send(PONG, &frame.payload);
    }
}

#[test]
fn a_client_that_answers_no_ping_is_given_up() {
    let server = start();
    let mut gone = open(&server, "/watched");
    assert_eq!(gone.next_frame().first, PING);
    let ended = std::iter::from_fn(|| gone.try_next(Duration::from_secs(20)))
        .any(|item| matches!(item, Item::End(_)));
    assert!(ended);
    server.log().wait_for(0, "closed 1006");
}
