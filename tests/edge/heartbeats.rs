//! WebSocket clients that send nothing.

use fermata_testkit::wait_until;
use fermata_testkit::websocket::{PING, PONG};

use crate::own::Own;
use crate::socket::open;

#[test]
fn silent_sockets_are_asked_and_cut_off() {
    let edge = Own::start(&[
        "--route=* test",
        "--websocket-ping-interval-ms=1000",
        "--websocket-pong-timeout-ms=1000",
    ]);
    let mut alive = open(edge.client(), "/ws");
    let mut silent = open(edge.client(), "/ws");
    let ping = silent.next().expect("a ping");
    assert_eq!(ping.first, PING);
    for _ in 0..2 {
        let ping = alive.next().expect("a ping");
        assert_eq!(ping.first, PING);
        alive.send(PONG, ping.payload);
    }
    while let Some(frame) = silent.next() {
        assert_eq!(frame.first, PING);
    }
    alive.text("here");
    assert_eq!(alive.next_text(), "here");
    wait_until("the log tells why", || {
        let log = edge.log();
        log.contains("websocket_pong_timeout_ms").then_some(())
    });
}
