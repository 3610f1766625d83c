//! Tests of heartbeats, timeouts and drain of sockets.

use fermata_io::sys::fake::End;
use fermata_proto::ws::frame::Opcode;

use super::sockets::{Call, close, handshake, masked, text};
use super::*;

#[test]
fn pings_a_silent_client_and_keeps_it_after_a_pong() {
    let mut rig = Rig::new(1);
    let mut client = rig.socket("/ws");
    for _ in 0..5 {
        rig.advance(25_100);
        assert_eq!(client.frames(), [(Opcode::Ping, Vec::new())]);
        client.peer.write(&masked(Opcode::Pong, true, b""));
        rig.run();
    }
    // A client that sent something within half of the interval gets no ping.
    for _ in 0..5 {
        rig.advance(12_400);
        client.peer.write(&text("x"));
        rig.run();
        assert_eq!(client.texts(), ["x"]);
    }
    assert_eq!(rig.open.len(), 1);
}

#[test]
fn cuts_off_a_client_that_sends_no_pong() {
    let mut rig = Rig::new(2);
    let client = rig.socket("/ws");
    let socket = rig.open[0];
    // The server sends the ping in the second half of the interval.
    rig.advance(12_500 + 19_900);
    assert_eq!(client.peer.end(), End::Open);
    rig.advance(12_500 + 200);
    assert_ne!(client.peer.end(), End::Open);
    assert_eq!(
        rig.calls.last(),
        Some(&Call::Close(socket, 1006, String::new()))
    );
    assert_eq!(rig.worker.net.sockets_len(), 0);
}

#[test]
fn ignores_channel_messages_as_sign_of_life() {
    let mut rig = Rig::new(3);
    let client = rig.socket("/ws");
    client.peer.write(&text("/join room"));
    rig.run();
    for _ in 0..50 {
        rig.publish("room", "x");
        rig.advance(1_000);
    }
    assert_ne!(client.peer.end(), End::Open);
    assert!(rig.open.is_empty());
}

#[test]
fn closes_an_idle_socket_by_its_route() {
    let mut rig = Rig::new(4);
    let mut client = rig.socket("/idle");
    let socket = rig.open[0];
    rig.advance(50_000);
    client.peer.write(&text("x"));
    rig.run();
    assert_eq!(client.texts(), ["x"]);
    for _ in 0..5 {
        rig.advance(10_000);
        // Pongs do not count.
        client.peer.write(&masked(Opcode::Pong, true, b""));
        rig.run();
    }
    assert_eq!(client.frames(), []);
    rig.advance(12_000);
    assert_eq!(client.closed().0, 1001);
    client.peer.write(&close(1001, ""));
    rig.run();
    assert_eq!(
        rig.calls.last(),
        Some(&Call::Close(socket, 1001, String::new()))
    );
}

#[test]
fn closes_after_an_unanswered_close_frame_times_out() {
    let mut rig = Rig::new(5);
    let client = rig.socket("/ws");
    let socket = rig.open[0];
    client.peer.write(&text("/close 4000 x"));
    rig.run();
    rig.advance(4_800);
    assert_eq!(rig.worker.net.sockets_len(), 1);
    rig.advance(400);
    assert_eq!(rig.worker.net.sockets_len(), 0);
    assert_eq!(
        rig.calls.last(),
        Some(&Call::Close(socket, 1006, String::new()))
    );
}

#[test]
fn does_not_extend_the_close_timeout_for_further_input() {
    let mut rig = Rig::new(11);
    let client = rig.socket("/ws");
    client.peer.write(&text("/close 4000 x"));
    rig.run();
    for _ in 0..6 {
        client.peer.write(&masked(Opcode::Ping, true, b""));
        rig.advance(1_000);
    }
    assert_eq!(rig.worker.net.sockets_len(), 0);
    assert!(rig.open.is_empty());
}

#[test]
fn cuts_off_a_client_that_reads_nothing_after_write_timeout() {
    let mut rig = Rig::new(6);
    let client = rig.socket("/ws");
    client.peer.set_window(0);
    client.peer.write(&text("x"));
    rig.run();
    rig.advance(29_000);
    assert_eq!(rig.worker.net.sockets_len(), 1);
    rig.advance(1_500);
    assert_eq!(rig.worker.net.sockets_len(), 0);
    assert!(rig.open.is_empty());
}

#[test]
fn refuses_a_dripping_handshake_after_header_timeout() {
    let mut rig = Rig::new(7);
    let peer = rig.connect();
    for byte in handshake("/ws", "") {
        peer.write(&[byte]);
        rig.advance(1_000);
    }
    let answers = client::answers(&peer.read(), &[]);
    assert_eq!(answers[0].status, 408);
    assert!(rig.open.is_empty());
}

#[test]
fn closes_sockets_with_1001_on_drain() {
    for is_retired in [false, true] {
        let mut rig = Rig::new(8);
        let mut polite = rig.socket("/ws");
        let mut rude = rig.socket("/ws");
        let sockets = rig.open.clone();
        polite.peer.write(&text("/join room"));
        rig.run();
        if is_retired {
            rig.worker.retire();
        } else {
            rig.worker.begin_drain(false);
        }
        rig.run();
        let code = if is_retired { 1012 } else { 1001 };
        assert_eq!(polite.closed().0, code);
        assert_eq!(rude.closed().0, code);
        polite.peer.write(&close(code, ""));
        rig.run();
        assert!(!rig.is_stopped);
        rig.advance(11_000);
        assert!(rig.is_stopped);
        let closes: Vec<_> = rig
            .calls
            .iter()
            .filter(|it| matches!(it, Call::Close(..)))
            .cloned()
            .collect();
        if is_retired {
            assert!(closes.is_empty(), "nobody is there to be told");
        } else {
            let expected = [
                Call::Close(sockets[0], 1001, String::new()),
                Call::Close(sockets[1], 1006, String::new()),
            ];
            assert_eq!(closes, expected);
        }
    }
}

#[test]
fn closes_a_socket_accepted_during_a_drain() {
    let mut rig = Rig::new(9);
    let peer = rig.peer(&handshake("/asked/late", ""));
    let handle = rig.late.pop_front().expect("a handshake");
    rig.worker.begin_drain(false);
    rig.run();
    rig.worker
        .accept_upgrade(handle, None, &[])
        .expect("it is open");
    rig.run();
    let mut client = super::sockets::Client::new(peer);
    assert!(client.accepted().contains(" 101 "));
    assert_eq!(client.closed().0, 1001);
}

#[test]
fn drops_a_client_that_disconnects_during_its_handshake() {
    let mut rig = Rig::new(10);
    let peer = rig.peer(&handshake("/asked/late", ""));
    let handle = rig.late.pop_front().expect("a handshake");
    peer.reset();
    rig.run();
    let accepted = rig.worker.accept_upgrade(handle, None, &[]);
    if accepted.is_ok() {
        // Noticed when something is written.
        rig.run();
    }
    assert!(rig.open.is_empty());
    assert_eq!(rig.worker.net.sockets_len(), 0);
    assert!(rig.worker.sockets.upgrades.is_empty());
}
