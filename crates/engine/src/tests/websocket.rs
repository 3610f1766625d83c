//! Tests of handshake, messages, limits, queues and closing, over a network that splits everything.

use fermata_io::sys::fake::End;
use fermata_proto::ws::frame::Opcode;
use proptest::prelude::*;

use super::sockets::{Call, Client, close, handshake, masked, text};
use super::*;
use crate::admin::stats::Counter;
use crate::log::Detail;

#[test]
fn closes_the_socket_of_a_failed_handler() {
    let mut rig = Rig::new(40);
    let mut client = rig.socket("/ws");
    let socket = rig.open[0];
    for _ in 0..2 {
        rig.worker.fail_socket(socket, "", &Detail::default());
        rig.run();
    }
    assert_eq!(client.closed(), (1011, String::new()));
    assert_eq!(rig.worker.net.counts.get(Counter::HandlerFailures), 2);
}

#[test]
fn accepts_a_handshake_and_echoes_messages() {
    let mut rig = Rig::new(1);
    let mut client = rig.socket("/ws");
    client.peer.write(&text("hello"));
    client
        .peer
        .write(&masked(Opcode::Binary, true, &[0, 255, 7]));
    rig.run();
    let expected = vec![
        (Opcode::Text, b"hello".to_vec()),
        (Opcode::Binary, vec![0, 255, 7]),
    ];
    assert_eq!(client.frames(), expected);
    let socket = rig.open[0];
    assert_eq!(
        rig.calls,
        [
            Call::Open(socket),
            Call::Text(socket, "hello".into()),
            Call::Binary(socket, vec![0, 255, 7]),
        ]
    );
}

#[test]
fn frames_in_the_read_of_the_handshake_count() {
    for path in ["/ws", "/asked/x", "/asked/late"] {
        let mut rig = Rig::new(2);
        let mut bytes = handshake(path, "");
        bytes.extend(text("one"));
        bytes.extend(text("two"));
        let peer = rig.peer(&bytes);
        if let Some(handle) = rig.late.pop_front() {
            rig.worker
                .accept_upgrade(handle, None, &[])
                .expect("it is open");
            rig.run();
        }
        let mut client = Client::new(peer);
        client.accepted();
        assert_eq!(client.texts(), ["one", "two"], "{path}");
    }
}

#[test]
fn pipelined_messages_are_answered_in_one_write() {
    let mut rig = Rig::new(3);
    let mut client = rig.socket("/ws");
    let mut bytes = Vec::new();
    let texts: Vec<String> = (0..120).map(|at| format!("message {at}")).collect();
    for each in &texts {
        bytes.extend(text(each));
    }
    let before = client.peer.sends();
    client.peer.write(&bytes);
    rig.run();
    assert_eq!(client.texts(), texts);
    assert_eq!(client.peer.sends() - before, 1);
}

#[test]
fn refuses_handshakes_with_a_reason_and_keeps_the_connection() {
    for (request, status, header) in [
        (get("/ws"), 426, Some(("upgrade", "websocket"))),
        (
            String::from_utf8(handshake("/ws", ""))
                .expect("text")
                .replace("Version: 13", "Version: 8")
                .into_bytes(),
            426,
            Some(("sec-websocket-version", "13")),
        ),
        (handshake("/ws", "Origin: http://other\r\n"), 403, None),
        (handshake("/ws", "Sec-WebSocket-Key: x\r\n"), 400, None),
        (
            handshake("/listed", "Origin: http://example.org\r\n"),
            403,
            None,
        ),
        (post("/ws", ""), 405, Some(("allow", "GET, OPTIONS"))),
        (handshake("/asked/no", ""), 403, None),
        (
            b"HEAD /ws HTTP/1.1\r\nHost: test\r\n\r\n".to_vec(),
            405,
            Some(("allow", "GET")),
        ),
    ] {
        let shown = String::from_utf8_lossy(&request).into_owned();
        let is_head = shown.starts_with("HEAD");
        let mut rig = Rig::new(4);
        let peer = rig.peer(&request);
        peer.write(&get("/hello"));
        rig.run();
        let answers = client::answers(&peer.read(), &[is_head, false]);
        assert_eq!(answers[0].status, status, "{shown}");
        if let Some((name, value)) = header {
            assert_eq!(answers[0].headers[name], value, "{shown}");
        }
        assert_eq!(answers[1].body, b"hello", "{shown}");
        assert!(rig.open.is_empty());
    }
}

#[test]
fn accepts_same_host_and_listed_origins() {
    for (path, origin) in [
        ("/ws", "http://test"),
        ("/ws", "https://test"),
        ("/listed", "https://example.org"),
        ("/listed", "https://EXAMPLE.org"),
    ] {
        let mut rig = Rig::new(5);
        let peer = rig.peer(&handshake(path, &format!("Origin: {origin}\r\n")));
        let mut client = Client::new(peer);
        assert!(client.accepted().contains(" 101 "), "{path} {origin}");
    }
}

#[test]
fn selects_subprotocols_by_server_or_application() {
    for (path, offered, expected) in [
        ("/listed", "chat, chat.v2", Some("chat.v2")),
        ("/listed", "other", None),
        ("/asked/x", "x, chat", Some("chat")),
        ("/asked/own", "chat, mine", Some("mine")),
    ] {
        let mut rig = Rig::new(6);
        let lines = format!("Sec-WebSocket-Protocol: {offered}\r\n");
        let peer = rig.peer(&handshake(path, &lines));
        let mut client = Client::new(peer);
        let head = client.accepted().to_owned();
        let line = head
            .lines()
            .find_map(|line| line.strip_prefix("Sec-WebSocket-Protocol: "));
        assert_eq!(line, expected, "{head}");
        assert_eq!(head.contains("X-Room: own"), path == "/asked/own");
        let info = rig.worker.socket_info(rig.open[0]).expect("it is open");
        assert_eq!(info.protocol, expected.map(str::as_bytes));
        assert!(info.is_open && info.queued_bytes == 0);
    }
}

#[test]
fn checks_accepted_handshakes() {
    let mut rig = Rig::new(7);
    let peer = rig.peer(&handshake(
        "/asked/late",
        "Sec-WebSocket-Protocol: chat\r\n",
    ));
    let handle = rig.late.pop_front().expect("a handshake");
    for (protocol, headers, word) in [
        (Some(&b"other"[..]), &[][..], "offer"),
        (
            None,
            &[(&b"Upgrade"[..], &b"x"[..])][..],
            "the server writes",
        ),
        (None, &[(b"a b", b"x")], "malformed"),
        (None, &[(b"A", b"x\r\ny")], "malformed"),
    ] {
        let error = rig.worker.accept_upgrade(handle, protocol, headers);
        let error = error.expect_err(word).to_string();
        assert!(error.contains(word), "{error}");
    }
    rig.worker
        .accept_upgrade(handle, Some(b"chat"), &[])
        .expect("it is offered");
    assert!(rig.worker.accept_upgrade(handle, None, &[]).is_err());
    rig.run();
    assert!(Client::new(peer).accepted().contains(" 101 "));
}

#[test]
fn closes_from_either_side() {
    let mut rig = Rig::new(8);
    let mut client = rig.socket("/ws");
    let socket = rig.open[0];
    client.peer.write(&close(4001, "done"));
    client.peer.write(&text("too late"));
    rig.run();
    assert_eq!(client.closed(), (4001, String::new()));
    assert_eq!(rig.calls[1..], [Call::Close(socket, 4001, "done".into())]);
    client.peer.close();
    rig.run();
    assert_eq!(rig.worker.net.sockets_len(), 0);

    let mut client = rig.socket("/ws");
    let socket = rig.open[0];
    client.peer.write(&text("/close 4002 enough"));
    rig.run();
    assert_eq!(client.closed(), (4002, "enough".into()));
    assert!(rig.worker.send(socket, false, b"x").is_err());
    // Client messages that crossed our close frame are ignored.
    client.peer.write(&text("crossed"));
    client.peer.write(&close(4002, ""));
    rig.run();
    assert_eq!(
        rig.calls.last(),
        Some(&Call::Close(socket, 4002, String::new()))
    );
    assert_eq!(client.peer.end(), End::Finished);
    assert_eq!(rig.worker.net.sockets_len(), 0);
}

#[test]
fn reports_1006_once_without_a_close_frame() {
    let mut rig = Rig::new(9);
    for is_reset in [false, true] {
        let client = rig.socket("/ws");
        let socket = rig.open[0];
        if is_reset {
            client.peer.reset();
        } else {
            client.peer.close();
        }
        rig.run();
        let closes = rig
            .calls
            .iter()
            .filter(|it| matches!(it, Call::Close(is, 1006, _) if *is == socket));
        assert_eq!(closes.count(), 1);
        assert_eq!(rig.worker.net.sockets_len(), 0);
        assert!(rig.worker.socket_info(socket).is_none());
    }
}

#[test]
fn answers_a_half_closed_client() {
    let mut rig = Rig::new(10);
    let mut client = rig.socket("/ws");
    client.peer.set_window(4);
    client.peer.write(&text("first"));
    client.peer.write(&text("second"));
    client.peer.shutdown_write();
    rig.run();
    let mut texts = Vec::new();
    for _ in 0..20 {
        texts.extend(client.texts());
        rig.run();
    }
    assert_eq!(texts, ["first", "second"]);
    assert_eq!(rig.worker.net.sockets_len(), 0);
}

#[test]
fn closes_violations_with_their_code() {
    let long = masked(Opcode::Text, true, &[b'x'; 6001]);
    let mut fragments = masked(Opcode::Text, false, &[b'x'; 5000]);
    fragments.extend(masked(Opcode::Continuation, true, &[b'x'; 5000]));
    for (bytes, code) in [
        (b"\x81\x00".to_vec(), 1002),
        (b"\xc1\x80\0\0\0\0".to_vec(), 1002),
        (masked(Opcode::Continuation, true, b"x"), 1002),
        (masked(Opcode::Text, true, b"\xff"), 1007),
        (masked(Opcode::Close, true, b"\x03"), 1002),
        (masked(Opcode::Close, true, &[3; 126]), 1002),
        (masked(Opcode::Close, false, b""), 1002),
        (long, 1009),
        (fragments, 1009),
    ] {
        let mut rig = Rig::new(11);
        let mut client = rig.socket("/close");
        let socket = rig.open[0];
        client.peer.write(&text("before"));
        client.peer.write(&bytes);
        client.peer.write(&text("after"));
        rig.run();
        let frames = client.frames();
        assert_eq!(frames[0].1, b"before");
        assert_eq!(frames[1].0, Opcode::Close, "{frames:?}");
        assert_eq!(frames[1].1[..2], u16::to_be_bytes(code), "{frames:?}");
        assert_eq!(frames.len(), 2);
        let last = rig.calls.last().expect("a close");
        assert!(matches!(last, Call::Close(is, with, _) if *is == socket && *with == code));
        // The socket stays open until the client could read the code, unless the client has already
        // sent its close frame.
        let is_close = bytes[0] & 0xf == 8;
        let end = if is_close { End::Finished } else { End::Open };
        assert_eq!(client.peer.end(), end);
        client.peer.close();
        rig.run();
        assert_eq!(rig.worker.net.sockets_len(), 0);
    }
}

/// Regression: relays without support for half-open connections would cut off the close frame (RFC
/// 6455, section 7.1.1).
#[test]
fn stays_open_until_a_violation_is_answered() {
    for is_together in [true, false] {
        let mut rig = Rig::new(14);
        let client = rig.socket("/ws");
        client.peer.write(b"\xc1\x80\0\0\0\0");
        if !is_together {
            rig.run();
            assert_eq!(client.peer.end(), End::Open);
            client.peer.write(&text("still sending"));
            rig.run();
            assert_eq!(client.peer.end(), End::Open);
        }
        client.peer.write(&close(1002, ""));
        rig.run();
        assert_eq!(client.peer.end(), End::Finished, "{is_together}");
        client.peer.close();
        rig.run();
        assert_eq!(rig.worker.net.sockets_len(), 0);
    }
}

#[test]
fn closes_after_an_unanswered_violation_times_out() {
    let mut rig = Rig::new(15);
    let client = rig.socket("/ws");
    client.peer.write(b"\xc1\x80\0\0\0\0");
    rig.run();
    for _ in 0..4 {
        client.peer.write(&text("still sending"));
        rig.advance(400);
        assert_eq!(client.peer.end(), End::Open);
    }
    rig.advance(500);
    assert_ne!(client.peer.end(), End::Open);
    assert_eq!(rig.worker.net.sockets_len(), 0);
}

#[test]
fn pings_are_answered_between_fragments() {
    let mut rig = Rig::new(12);
    let mut client = rig.socket("/ws");
    client.peer.write(&masked(Opcode::Text, false, b"one "));
    client.peer.write(&masked(Opcode::Ping, true, b"a"));
    client
        .peer
        .write(&masked(Opcode::Continuation, false, b"two "));
    client.peer.write(&masked(Opcode::Ping, true, b"b"));
    client.peer.write(&masked(Opcode::Pong, true, b"unasked"));
    client
        .peer
        .write(&masked(Opcode::Continuation, true, b"three"));
    rig.run();
    assert_eq!(
        client.frames(),
        [
            (Opcode::Pong, b"a".to_vec()),
            (Opcode::Pong, b"b".to_vec()),
            (Opcode::Text, b"one two three".to_vec()),
        ]
    );
}

#[test]
fn bounds_pongs_for_a_client_that_never_reads() {
    let mut rig = Rig::new(13);
    let client = rig.socket("/close");
    client.peer.set_window(0);
    let ping = masked(Opcode::Ping, true, &[7; 125]);
    for _ in 0..200 {
        client.peer.write(&ping.repeat(50));
        rig.run();
    }
    let info = rig.worker.socket_info(rig.open[0]).expect("it is open");
    assert!(info.queued_bytes <= 4096, "{}", info.queued_bytes);
    assert!(
        client.peer.unread_bytes() > 1_000_000,
        "reading has stopped"
    );
    // Another client is served meanwhile.
    let mut other = rig.socket("/ws");
    other.peer.write(&text("hello"));
    rig.run();
    assert_eq!(other.texts(), ["hello"]);
}

#[test]
fn pauses_a_client_that_sends_more_than_it_reads() {
    for path in ["/close", "/refuse", "/drop"] {
        let mut rig = Rig::new(14);
        let mut client = rig.socket(path);
        client.peer.set_window(1000);
        let texts: Vec<String> = (0..300).map(|at| format!("{at:0500}")).collect();
        for each in &texts {
            client.peer.write(&text(each));
        }
        let mut got = Vec::new();
        for _ in 0..1000 {
            rig.run();
            got.extend(client.texts());
        }
        assert_eq!(got, texts, "{path}");
    }
}

#[test]
fn applies_the_queue_policy_of_the_route() {
    let flood = |path: &str| {
        let mut rig = Rig::new(15);
        let mut client = rig.socket(path);
        client.peer.set_window(1500);
        client.peer.write(&text("/flood 40 200"));
        rig.run();
        let mut frames = Vec::new();
        for _ in 0..100 {
            frames.extend(client.frames());
            rig.run();
        }
        (rig, frames)
    };
    let number = |payload: &[u8]| -> usize {
        let text = std::str::from_utf8(payload).expect("text");
        text.parse().unwrap_or(usize::MAX)
    };

    let (rig, frames) = flood("/refuse");
    let numbers: Vec<usize> = frames.iter().map(|(_, payload)| number(payload)).collect();
    let whole = numbers.len();
    assert!((20..40).contains(&whole), "{whole}");
    assert_eq!(numbers, (0..whole).collect::<Vec<_>>());
    assert_eq!(rig.open.len(), 1);

    let (rig, frames) = flood("/drop");
    let numbers: Vec<usize> = frames.iter().map(|(_, payload)| number(payload)).collect();
    assert!(numbers.is_sorted() && numbers.len() < 40, "{numbers:?}");
    assert_eq!(numbers.last(), Some(&39));
    assert_eq!(numbers[0], 0);
    assert_eq!(rig.open.len(), 1);

    let (rig, frames) = flood("/close");
    let (opcode, payload) = frames.last().expect("a close frame");
    assert_eq!(
        (*opcode, &payload[..2]),
        (Opcode::Close, &1013u16.to_be_bytes()[..])
    );
    // The client has not replied yet.
    assert!(
        rig.worker
            .socket_info(rig.open[0])
            .is_some_and(|info| !info.is_open)
    );
}

#[test]
fn accepts_a_message_larger_than_an_empty_queue() {
    let mut rig = Rig::new(16);
    let mut client = rig.socket("/refuse");
    client
        .peer
        .write(&masked(Opcode::Text, false, &[b'x'; 5000]));
    client
        .peer
        .write(&masked(Opcode::Continuation, true, &[b'y'; 3000]));
    rig.run();
    assert_eq!(client.texts()[0].len(), 8000);
}

#[test]
fn rejects_text_that_is_not_utf8() {
    let mut rig = Rig::new(17);
    let _client = rig.socket("/ws");
    let socket = rig.open[0];
    let error = rig
        .worker
        .send(socket, false, b"\xff")
        .expect_err("not text");
    assert!(error.to_string().contains("binary"), "{error}");
    rig.worker.send(socket, true, b"\xff").expect("binary");
    for (code, reason) in [
        (1005, &b""[..]),
        (999, b""),
        (1000, &[b'x'; 124]),
        (1000, b"\xff"),
    ] {
        assert!(rig.worker.disconnect(socket, code, reason).is_err());
    }
}

#[test]
fn delivers_no_events_without_callbacks() {
    let mut rig = Rig::new(18);
    let mut client = rig.socket("/silent");
    client.peer.write(&text("hello"));
    client.peer.write(&masked(Opcode::Ping, true, b"x"));
    client.peer.write(&close(1000, ""));
    rig.run();
    assert!(rig.calls.is_empty());
    let frames = client.frames();
    assert_eq!(frames[0], (Opcode::Pong, b"x".to_vec()));
    assert_eq!(frames[1].0, Opcode::Close);
}

proptest! {
    #![proptest_config(cases(300))]

    /// For any behavior of the network, the application gets the same messages and the client the
    /// same replies.
    #[test]
    fn handles_any_split_equally(
        seed: u64,
        messages in proptest::collection::vec((any::<bool>(), 0..300usize, 1..4usize), 0..20),
        cuts in proptest::collection::vec(1..700usize, 0..40),
        window in 1..2000usize,
    ) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (at, (is_binary, len, pieces)) in messages.iter().enumerate() {
            let payload = vec![b'a' + (at % 26) as u8; *len];
            let first = if *is_binary { Opcode::Binary } else { Opcode::Text };
            let size = (len / pieces).max(1);
            let mut rest = &payload[..];
            for piece in 0..*pieces {
                let is_last = piece + 1 == *pieces;
                let (now, later) = rest.split_at(if is_last { rest.len() } else { size.min(rest.len()) });
                let opcode = if piece == 0 { first } else { Opcode::Continuation };
                bytes.extend(masked(opcode, is_last, now));
                rest = later;
            }
            expected.push((first, payload));
        }
        let mut rig = Rig::new(seed);
        let mut client = rig.socket("/ws");
        client.peer.set_window(window);
        let mut got = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts {
            let (now, later) = rest.split_at(cut.min(rest.len()));
            client.peer.write(now);
            rest = later;
            rig.run();
            got.extend(client.frames());
        }
        client.peer.write(rest);
        for _ in 0..2 + bytes.len() / window {
            rig.run();
            got.extend(client.frames());
        }
        prop_assert_eq!(got, expected);
    }

    /// Garbage closes at most the socket, never the worker, and each close is reported once.
    #[test]
    fn survives_garbage(
        seed: u64,
        garbage in proptest::collection::vec(any::<u8>(), 0..400),
        at in 0..200usize,
    ) {
        let mut rig = Rig::new(seed);
        let mut bytes = [text("hello"), masked(Opcode::Ping, true, b"x"), close(1000, "")].concat();
        let at = at.min(bytes.len());
        bytes.splice(at..at, garbage);
        let client = rig.socket("/ws");
        let socket = rig.open[0];
        client.peer.write(&bytes);
        rig.run();
        client.peer.close();
        rig.run();
        let closes = rig.calls.iter().filter(|it| matches!(it, Call::Close(is, ..) if *is == socket));
        prop_assert_eq!(closes.count(), 1);
        prop_assert_eq!(rig.worker.net.sockets_len(), 0);
        prop_assert_eq!(rig.worker.net.addresses.len(), 0);
    }
}
