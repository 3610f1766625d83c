//! Flow control and turns (RFC 9113, sections 5.2 and 6.9; RFC 9218, section 10).

use super::*;

fn settings_window(end: &mut End, window: u32) -> Result<Vec<Received>, Violation> {
    let mut payload = vec![0, 4];
    payload.extend_from_slice(&window.to_be_bytes());
    let told = end.frame(Kind::Settings, 0, 0, &payload);
    end.sent();
    told
}

fn open_window(end: &mut End, stream: u32, increment: u32) {
    let told = end.frame(Kind::WindowUpdate, 0, stream, &increment.to_be_bytes());
    assert_eq!(told, Ok(Vec::new()));
}

#[test]
fn a_body_waits_for_windows() {
    let mut end = End::server(Limits::default());
    settings_window(&mut end, 3).expect("goes on");
    let stream = end.open(1, true);
    assert_eq!(end.answer(stream, b"hello", Rest::End), 3);
    assert_eq!(end.sent()[1..], [data(1, false, b"hel")]);
    assert_eq!(
        (end.connection.next_ready(), end.connection.window(stream)),
        (None, 0)
    );
    // The window becomes negative, then positive again (RFC 9113, section 6.9.2).
    settings_window(&mut end, 1).expect("goes on");
    open_window(&mut end, 1, 2);
    assert_eq!(end.connection.next_ready(), None);
    open_window(&mut end, 1, 1);
    let ready = end.connection.next_ready().expect("a window");
    assert_eq!((ready.stream, ready.bytes_max), (stream, 1));
    assert_eq!(
        end.connection
            .send_data(stream, b"lo", Rest::End, &mut end.out),
        1
    );
    settings_window(&mut end, 100).expect("goes on");
    assert!(end.connection.has_ready());
    assert_eq!(
        end.connection
            .send_data(stream, b"o", Rest::End, &mut end.out),
        1
    );
    assert_eq!(end.sent(), [data(1, true, b"o")]);
    assert!(!end.connection.has_ready());
    end.release(stream);
    assert!(end.sent().is_empty());
}

#[test]
fn the_end_alone_needs_no_window() {
    let mut end = End::server(Limits::default());
    settings_window(&mut end, 0).expect("goes on");
    let stream = end.open(1, true);
    assert_eq!(end.answer(stream, b"", Rest::End), 0);
    assert_eq!(end.sent()[1..], [data(1, true, b"")]);
}

#[test]
fn the_connections_window_bounds_all_streams() {
    let mut end = End::server(Limits::default());
    settings_window(&mut end, 1 << 20).expect("goes on");
    let (first, second) = (end.open(1, true), end.open(3, true));
    let body = vec![0; 70_000];
    assert_eq!(end.answer(first, &body, Rest::End), 65_535);
    let frames: Vec<usize> = end.sent()[1..]
        .iter()
        .map(|frame| frame.payload.len())
        .collect();
    assert_eq!(frames, [16_384, 16_384, 16_384, 16_383]);
    assert_eq!(end.answer(second, b"x", Rest::End), 0);
    assert!(!end.connection.has_ready());
    open_window(&mut end, 0, 4000);
    // The first stream was requested earlier.
    let ready = end.connection.next_ready().expect("a window");
    assert_eq!((ready.stream, ready.bytes_max), (first, 4000));
}

#[test]
fn larger_frames_when_the_peer_takes_them() {
    let mut end = End::server(Limits::default());
    end.frame(Kind::Settings, 0, 0, b"\0\x05\0\x01\0\0")
        .expect("goes on");
    let stream = end.open(1, true);
    end.sent();
    assert_eq!(end.answer(stream, &[0; 65_535], Rest::End), 65_535);
    assert_eq!(end.sent().len(), 2);
}

#[test]
fn incremental_streams_share() {
    let mut end = End::server(Limits::default());
    settings_window(&mut end, 1 << 20).expect("goes on");
    open_window(&mut end, 0, 1 << 20);
    for id in [1, 3, 5] {
        let stream = end.open(id, true);
        end.connection.set_priority(stream, Priority::STREAM);
        end.answer(stream, b"", Rest::Pending);
    }
    let urgent = end.open(7, true);
    end.connection.set_priority(urgent, Priority::new(0, false));
    end.answer(urgent, b"", Rest::Pending);
    end.sent();
    let mut turns = Vec::new();
    for _ in 0..8 {
        let ready = end.connection.next_ready().expect("output waits");
        let len = ready.bytes_max.min(40_000);
        let rest = if ready.stream == urgent {
            Rest::End
        } else {
            Rest::Pending
        };
        let sent = end
            .connection
            .send_data(ready.stream, &vec![0; len], rest, &mut end.out);
        turns.push((ready.stream.number(), sent));
    }
    assert_eq!(turns[0], (7, 40_000));
    let shared: Vec<u32> = turns[1..].iter().map(|turn| turn.0).collect();
    assert_eq!(shared, [1, 3, 5, 1, 3, 5, 1]);
    assert!(turns[1..].iter().all(|turn| turn.1 == 16_384));
}

#[test]
fn window_updates_are_sent_per_half_window() {
    let limits = Limits {
        stream_window_bytes: 100,
        connection_window_bytes: 65_535,
        ..Limits::default()
    };
    let mut end = End::server(limits);
    let stream = end.open(1, false);
    // Padding is returned to the windows immediately.
    let told = end.frame(
        Kind::Data,
        flag::PADDED,
        1,
        &[&[9][..], &[b'x'; 90], &[0; 9]].concat(),
    );
    assert_eq!(told, Ok(vec![Received::Data(1, vec![b'x'; 90], false)]));
    end.connection
        .consumed(stream, 39, &end.limits, &mut end.out);
    assert!(end.sent().is_empty());
    end.connection
        .consumed(stream, 1, &end.limits, &mut end.out);
    assert_eq!(end.sent(), [window_update(1, 50)]);
    // Bytes that were not consumed still use the window.
    let told = end.frame(Kind::Data, 0, 1, &[0; 51]);
    let violation = Violation::WindowExceeded;
    let code = ErrorCode::FLOW_CONTROL_ERROR;
    assert_eq!(
        told,
        Ok(vec![Received::Reset(1, code, Origin::Here(violation))])
    );
    // No more bytes are returned than were received.
    end.connection
        .consumed(stream, 1_000_000, &end.limits, &mut end.out);
    assert_eq!(end.sent(), [reset(1, code)]);
}

#[test]
fn connection_window_is_restored_when_streams_end_early() {
    let limits = Limits {
        connection_window_bytes: 65_535,
        ..Limits::default()
    };
    let mut end = End::server(limits);
    // Four ways to end early: released without being consumed, reset by this side, unknown stream,
    // after the end.
    let unread = end.open(1, false);
    let given_up = end.open(3, false);
    end.open(5, true);
    for _ in 0..100 {
        end.frame(Kind::Data, 0, 3, &[0; 100]).expect("goes on");
    }
    end.connection
        .reset(given_up, ErrorCode::CANCEL, &mut end.out);
    end.frame(Kind::Data, 0, 1, &[0; 10_000]).expect("goes on");
    end.frame(Kind::Data, 0, 3, &[0; 10_000]).expect("goes on");
    end.frame(Kind::Data, 0, 5, &[0; 2_000]).expect("goes on");
    end.release(unread);
    end.release(given_up);
    end.release(StreamId(5));
    end.frame(Kind::Data, 0, 5, &[0; 767]).expect("goes on");
    end.frame(Kind::Data, 0, 3, &[0; 1]).expect("goes on");
    let updates: Vec<Sent> = end
        .sent()
        .into_iter()
        .filter(|frame| frame.kind == 8)
        .collect();
    assert_eq!(updates, [window_update(0, 32_767)]);
    assert_eq!(end.connection.windows().1, 65_535 - 1);
    // The connection fails when the window is exceeded.
    let stream = end.open(7, false);
    for _ in 0..4 {
        end.frame(Kind::Data, 0, stream.0, &[0; 16_000])
            .expect("goes on");
    }
    let told = end.frame(Kind::Data, 0, stream.0, &[0; 16_000]);
    assert_eq!(told, Err(Violation::WindowExceeded));
}

/// A peer that has not received SETTINGS may use the initial windows (RFC 9113, section 6.9.2).
#[test]
fn windows_before_the_acknowledgement() {
    let limits = Limits {
        stream_window_bytes: 10,
        ..Limits::default()
    };
    let mut out = Vec::new();
    let connection = Connection::server(&limits, 0, &mut out);
    let mut end = End::new(connection, limits, out);
    end.feed(PREFACE).expect("goes on");
    end.frame(Kind::Settings, 0, 0, &[]).expect("goes on");
    let stream = end.open(1, false);
    assert!(matches!(
        end.frame(Kind::Data, 0, 1, &[0; 1000]).expect("goes on")[..],
        [Received::Data(..)]
    ));
    end.frame(Kind::Settings, 1, 0, &[]).expect("goes on");
    end.sent();
    end.connection
        .consumed(stream, 1000, &end.limits, &mut end.out);
    assert_eq!(end.sent(), [window_update(1, 1000)]);
    assert!(matches!(
        end.frame(Kind::Data, 0, 1, &[0; 10]).expect("goes on")[..],
        [Received::Data(..)]
    ));
    assert!(matches!(
        end.frame(Kind::Data, 0, 1, &[0; 1]).expect("goes on")[..],
        [Received::Reset(..)]
    ));
}

#[test]
fn a_stream_without_a_window_is_reset_in_time() {
    let mut end = End::server(Limits::default());
    settings_window(&mut end, 3).expect("goes on");
    let (stuck, slow, idle) = (end.open(1, true), end.open(3, true), end.open(5, true));
    assert_eq!(end.answer(stuck, b"hello", Rest::End), 3);
    assert_eq!(end.answer(slow, &[0; 5000], Rest::End), 3);
    // A stream without output does not wait for a window.
    assert_eq!(end.answer(idle, b"abc", Rest::Open), 3);
    assert_eq!(end.tick(), Ok(None));
    for second in 1..30 {
        end.now_ms = second * 1000;
        // A byte at a time is no progress; the speed of a slow client is.
        open_window(&mut end, 1, 1);
        open_window(&mut end, 3, 150);
        end.connection.send_data(
            stuck,
            b"loooooooooooooooooooooooooooooo",
            Rest::End,
            &mut end.out,
        );
        end.connection
            .send_data(slow, &[0; 5000], Rest::Pending, &mut end.out);
        assert_eq!(end.tick(), Ok(None));
    }
    end.sent();
    end.now_ms = 30_000;
    let event = end.tick().expect("goes on");
    assert!(matches!(
        event,
        Some(Event::Reset {
            stream: StreamId(1),
            code: ErrorCode::CANCEL,
            origin: Origin::Here(Violation::Stalled)
        })
    ));
    assert_eq!(end.tick(), Ok(None));
    assert_eq!(end.sent(), [reset(1, ErrorCode::CANCEL)]);
    end.release(stuck);
    // The connection's window blocks streams too.
    let stream = end.open(7, true);
    settings_window(&mut end, 100_000).expect("goes on");
    assert!(end.answer(stream, &[0; 100_000], Rest::End) < 65_535);
    assert_eq!(end.tick(), Ok(None));
    end.now_ms += 30_000;
    assert!(matches!(end.tick(), Ok(Some(Event::Reset { .. }))));
}

#[test]
fn sends_nothing_on_a_closed_stream() {
    let mut end = End::server(Limits::default());
    let stream = end.open(1, false);
    end.frame(Kind::RstStream, 0, 1, &8u32.to_be_bytes())
        .expect("goes on");
    let none = std::iter::empty();
    assert!(
        !end.connection
            .send_head(stream, 200, none, false, &mut end.out)
    );
    assert_eq!(
        end.connection
            .send_data(stream, b"x", Rest::End, &mut end.out),
        0
    );
    end.connection.set_pending(stream, true);
    assert!(!end.connection.has_ready());
    end.release(stream);
    assert!(end.sent().is_empty());
    assert_eq!(end.connection.context(stream), None);
}

#[test]
fn releasing_an_incomplete_stream_resets_it() {
    let mut end = End::server(Limits::default());
    // A complete response before the end of the request body; a partial response.
    let early = end.open(1, false);
    end.answer(early, b"x", Rest::End);
    end.release(early);
    assert_eq!(end.sent()[2..], [reset(1, ErrorCode::NO_ERROR)]);
    let half = end.open(3, true);
    end.answer(half, b"x", Rest::Open);
    end.release(half);
    assert_eq!(end.sent()[2..], [reset(3, ErrorCode::CANCEL)]);
    // The rest of the current frame is returned to the connection's window.
    let cut = end.open(5, false);
    assert!(end.feed(b"\0\0\x04\0\x01\0\0\0\x05ab").is_ok());
    end.release(cut);
    assert_eq!(end.feed(b"cd"), Ok(Vec::new()));
    assert!(end.connection.is_between_frames());
    end.open(7, true);
}
