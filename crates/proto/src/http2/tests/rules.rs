//! Frames in invalid states and the reactions to them (RFC 9113, sections 5 and 6).

use super::*;

/// Returns the effect of one frame on a server with these streams: 1 half-closed, 3 open, 5 ended, 7 reset by the
/// client, 9 reset by the server, 11 skipped, 13 open.
fn after(
    kind: Kind,
    flags: u8,
    stream: u32,
    payload: &[u8],
) -> (Result<Vec<Received>, Violation>, Vec<Sent>) {
    let mut end = End::server(Limits::default());
    end.open(1, true);
    end.open(3, false);
    let over = end.open(5, true);
    end.answer(over, b"", Rest::End);
    end.release(over);
    let over = end.open(7, false);
    let told = end.frame(Kind::RstStream, 0, 7, &8u32.to_be_bytes());
    assert_eq!(
        told,
        Ok(vec![Received::Reset(7, ErrorCode::CANCEL, Origin::Peer)])
    );
    end.release(over);
    let over = end.open(9, false);
    end.connection.reset(over, ErrorCode::CANCEL, &mut end.out);
    end.release(over);
    end.open(13, false);
    end.sent();
    let result = end.frame(kind, flags, stream, payload);
    let sent = end.sent();
    if let Err(violation) = result {
        let (last, code) = go_away(&sent);
        assert_eq!(code, violation.code());
        assert_eq!(
            last,
            if kind == Kind::Headers && violation.code() == ErrorCode::COMPRESSION_ERROR {
                stream.max(13)
            } else {
                13
            }
        );
        // The failed connection stays failed, and sends no further frames.
        assert_eq!(end.frame(Kind::Ping, 0, 0, &[0; 8]), Err(violation));
        assert!(end.sent().is_empty());
    }
    (result, sent)
}

#[test]
fn connection_errors() {
    use Violation::*;
    let padded = flag::PADDED;
    for (kind, flags, stream, payload, violation) in [
        (Kind::Data, 0, 0, &b"x"[..], FrameStream),
        (Kind::Data, 0, 2, b"x", StreamIdle),
        (Kind::Data, 0, 15, b"x", StreamIdle),
        (Kind::Data, padded, 3, b"", FrameLength),
        (Kind::Data, padded, 3, b"\x01", Padding),
        (Kind::Data, padded, 3, b"\x02x", Padding),
        (Kind::Headers, 4, 0, b"", FrameStream),
        (Kind::Headers, 4, 2, b"", StreamNumber),
        (Kind::Headers, 5, 5, b"", StreamClosed),
        (Kind::Headers, 5, 7, b"", StreamClosed),
        (Kind::Headers, 5, 11, b"", StreamOrder),
        (Kind::Headers, padded | 4, 15, b"\x02x", Padding),
        (
            Kind::Headers,
            flag::PRIORITY | 4,
            15,
            b"\0\0\0\0",
            FrameLength,
        ),
        (
            Kind::Headers,
            5,
            15,
            b"\xff",
            Compression(hpack::Error::Truncated),
        ),
        (
            Kind::Headers,
            5,
            1,
            b"\x80",
            Compression(hpack::Error::Index),
        ),
        (
            Kind::Headers,
            5,
            9,
            b"\x80",
            Compression(hpack::Error::Index),
        ),
        (Kind::Priority, 0, 0, b"\0\0\0\0\0", FrameStream),
        (Kind::Priority, 0, 3, b"\0\0\0\0", FrameLength),
        (Kind::Priority, 0, 15, b"\0\0\0\x0f\0", PrioritySelf),
        (Kind::RstStream, 0, 0, b"\0\0\0\0", FrameStream),
        (Kind::RstStream, 0, 15, b"\0\0\0\0", StreamIdle),
        (Kind::RstStream, 0, 3, b"\0\0\0", FrameLength),
        (Kind::Settings, 0, 3, b"", FrameStream),
        (Kind::Settings, 0, 0, b"\0", FrameLength),
        (Kind::Settings, 1, 0, b"\0\0\0\0\0\0", FrameLength),
        (Kind::Settings, 1, 0, b"", SettingsAcknowledgement),
        (Kind::Settings, 0, 0, b"\0\x02\0\0\0\x02", SettingValue),
        (Kind::Settings, 0, 0, b"\0\x04\x80\0\0\0", SettingWindow),
        (Kind::PushPromise, 4, 3, b"\0\0\0\x02", PushPromise),
        (Kind::Ping, 0, 3, b"01234567", FrameStream),
        (Kind::Ping, 0, 0, b"0123456", FrameLength),
        (Kind::GoAway, 0, 3, b"01234567", FrameStream),
        (Kind::GoAway, 0, 0, b"0123456", FrameLength),
        (Kind::WindowUpdate, 0, 0, b"\0\0\0\0", WindowIncrement),
        (
            Kind::WindowUpdate,
            0,
            0,
            b"\x7f\xff\xff\xff",
            WindowTooLarge,
        ),
        (Kind::WindowUpdate, 0, 15, b"\0\0\0\x01", StreamIdle),
        (Kind::WindowUpdate, 0, 3, b"\0\0\0", FrameLength),
        (Kind::Continuation, 4, 3, b"", ContinuationUnexpected),
        (Kind::Continuation, 4, 0, b"", FrameStream),
        (Kind::PriorityUpdate, 0, 3, b"\0\0\0\x01u=1", FrameStream),
        (Kind::PriorityUpdate, 0, 0, b"\0\0\0", FrameLength),
        (Kind::PriorityUpdate, 0, 0, b"\0\0\0\0u=1", PriorityUpdate),
        (Kind::PriorityUpdate, 0, 0, b"\0\0\0\x02u=1", PriorityUpdate),
    ] {
        let (result, _) = after(kind, flags, stream, payload);
        assert_eq!(
            result,
            Err(violation),
            "{kind:?} on {stream}: {}",
            payload.escape_ascii()
        );
    }
    let (result, _) = after(Kind::Data, 0, 3, &[0; 16_385]);
    assert_eq!(result, Err(FrameTooLong));
}

#[test]
fn stream_errors() {
    use Violation::*;
    let closed = ErrorCode::STREAM_CLOSED;
    for (kind, flags, stream, payload, violation) in [
        (Kind::Data, 0, 1, &b"x"[..], StreamClosed),
        (Kind::Headers, 5, 1, b"", StreamClosed),
        (Kind::Headers, 4, 3, b"", TrailersUnfinished),
        (Kind::WindowUpdate, 0, 3, b"\0\0\0\0", WindowIncrement),
        (
            Kind::WindowUpdate,
            0,
            1,
            b"\x7f\xff\xff\xff",
            WindowTooLarge,
        ),
        (Kind::Priority, 0, 3, b"\0\0\0\x03\0", PrioritySelf),
    ] {
        let (result, sent) = after(kind, flags, stream, payload);
        let code = violation.code();
        assert_eq!(
            result,
            Ok(vec![Received::Reset(stream, code, Origin::Here(violation))])
        );
        assert_eq!(sent, [reset(stream, code)]);
    }
    // DATA after the end, on a stream that is no longer remembered.
    for stream in [5, 7, 11] {
        let (result, sent) = after(Kind::Data, 0, stream, b"x");
        assert_eq!(
            (result, sent),
            (Ok(Vec::new()), vec![reset(stream, closed)])
        );
    }
}

#[test]
fn ignores_frames_of_reset_streams_and_unknown_types() {
    for (kind, flags, stream, payload) in [
        // The frame was in flight when this side reset the stream.
        (Kind::Data, 1, 9, &b"x"[..]),
        (Kind::Headers, 5, 9, b"\x82"),
        (Kind::WindowUpdate, 0, 9, b"\0\0\0\0"),
        (Kind::RstStream, 0, 5, b"\0\0\0\x08"),
        (Kind::RstStream, 0, 11, b"\0\0\0\x08"),
        (Kind::WindowUpdate, 0, 5, b"\0\0\0\x08"),
        (Kind::Priority, 0, 5, b"\0\0\0\x05\0"),
        (Kind::Priority, 0, 15, b"\0\0\0\x03\0"),
        (Kind::Data, 0, 3, b""),
        (Kind::PriorityUpdate, 0, 0, b"\0\0\0\x05garbage"),
    ] {
        let (result, sent) = after(kind, flags, stream, payload);
        assert_eq!(
            (result, sent),
            (Ok(Vec::new()), Vec::new()),
            "{kind:?} on {stream}"
        );
    }
    // An unknown frame type, on any stream (RFC 9113, section 5.5).
    let mut end = End::server(Limits::default());
    assert_eq!(end.feed(b"\0\0\x03\xfa\xff\0\0\0\x09abc"), Ok(Vec::new()));
    assert!(end.sent().is_empty());
}

#[test]
fn header_blocks_are_not_interrupted() {
    for (kind, stream) in [
        (Kind::Data, 1),
        (Kind::Headers, 3),
        (Kind::Ping, 0),
        (Kind::Continuation, 3),
    ] {
        let mut end = End::server(Limits::default());
        let block = block(&USUAL);
        assert_eq!(end.frame(Kind::Headers, 0, 1, &block[..5]), Ok(Vec::new()));
        assert!(!end.connection.is_between_frames());
        let told = end.frame(kind, 0, stream, &[0; 8]);
        assert_eq!(told, Err(Violation::ContinuationMissing), "{kind:?}");
    }
    let mut end = End::server(Limits::default());
    let block = block(&USUAL);
    assert_eq!(end.frame(Kind::Headers, 1, 1, &block[..5]), Ok(Vec::new()));
    assert_eq!(
        end.feed(b"\0\0\0\xfa\0\0\0\0\x01"),
        Err(Violation::ContinuationMissing)
    );
    let mut end = End::server(Limits::default());
    end.frame(Kind::Headers, 1, 1, &block[..5])
        .expect("goes on");
    end.frame(Kind::Continuation, 0, 1, &[]).expect("goes on");
    let told = end.frame(Kind::Continuation, 4, 1, &block[5..]);
    assert_eq!(told, Ok(vec![Received::Request(1, true)]));
    assert!(end.connection.is_between_frames());
}

#[test]
fn rejects_a_connection_without_preface_and_settings() {
    let limits = Limits::default();
    let begin = |bytes: &[u8]| {
        let mut out = Vec::new();
        let connection = Connection::server(&limits, 0, &mut out);
        End::new(connection, limits.clone(), out).feed(bytes)
    };
    assert_eq!(begin(b"GET / HTTP/1.1\r\n"), Err(Violation::Preface));
    assert_eq!(begin(b"PRI * HTTP/2.0\r\n\r\nXX"), Err(Violation::Preface));
    assert_eq!(begin(&PREFACE[..23]), Ok(Vec::new()));
    let with = |frame: &[u8]| begin(&[PREFACE, frame].concat());
    assert_eq!(with(b"\0\0\x08\x06\0\0\0\0\0"), Err(Violation::Preface));
    assert_eq!(with(b"\0\0\0\x04\x01\0\0\0\0"), Err(Violation::Preface));
    assert_eq!(with(b"\0\0\0\xfa\0\0\0\0\0"), Err(Violation::Preface));
    assert_eq!(with(b"\0\0\0\x04\0\0\0\0\0"), Ok(vec![Received::Settings]));
}

#[test]
fn pings() {
    let mut end = End::server(Limits::default());
    assert_eq!(end.frame(Kind::Ping, 0, 0, b"01234567"), Ok(Vec::new()));
    let pong = Sent {
        kind: 6,
        flags: 1,
        stream: 0,
        payload: b"01234567".to_vec(),
    };
    assert_eq!(end.sent(), [pong]);
    end.connection.ping(*b"whowhere", &mut end.out);
    assert_eq!(end.out, b"\0\0\x08\x06\0\0\0\0\0whowhere");
    assert_eq!(
        end.frame(Kind::Ping, 1, 0, b"whowhere"),
        Ok(vec![Received::Pong(*b"whowhere")])
    );
}

/// RFC 9218, section 7.1: a PRIORITY_UPDATE may arrive before the request, and replaces the request's header.
#[test]
fn priority_updates() {
    let mut end = End::server(Limits::default());
    assert!(
        end.frame(Kind::PriorityUpdate, 0, 0, b"\0\0\0\x03u=0")
            .is_ok()
    );
    assert!(end.request(3, true, &[("priority", "u=7")]).is_ok());
    assert_eq!(
        end.connection.priority(StreamId(3)),
        Some(Priority::new(0, false))
    );
    assert!(
        end.frame(Kind::PriorityUpdate, 0, 0, b"\0\0\0\x03u=5, i")
            .is_ok()
    );
    assert_eq!(
        end.connection.priority(StreamId(3)),
        Some(Priority::new(5, true))
    );
    end.open(5, true);
    assert_eq!(end.connection.priority(StreamId(5)), Some(Priority::STREAM));
    let mut end = End::client(Limits::default());
    let told = end.frame(Kind::PriorityUpdate, 0, 0, b"\0\0\0\x03u=0");
    assert_eq!(told, Err(Violation::PriorityUpdate));
}

/// The peer's table became smaller: the next block contains one size update to 0 (RFC 7541, section 4.2).
#[test]
fn a_smaller_table_is_confirmed() {
    let mut end = End::server(Limits::default());
    for size in [0u32, 8192, 100] {
        let mut payload = vec![0, 1];
        payload.extend_from_slice(&size.to_be_bytes());
        end.frame(Kind::Settings, 0, 0, &payload).expect("goes on");
    }
    end.sent();
    for (stream, expected) in [(1, &b"\x20\x89"[..]), (3, b"\x89")] {
        let stream = end.open(stream, true);
        let none = std::iter::empty();
        assert!(
            end.connection
                .send_head(stream, 204, none, true, &mut end.out)
        );
        assert_eq!(end.sent()[0].payload, expected);
    }
}

#[test]
fn settings_have_to_be_acknowledged_in_time() {
    let limits = Limits::default();
    let mut out = Vec::new();
    let connection = Connection::server(&limits, 5, &mut out);
    let mut end = End::new(connection, limits, out);
    end.now_ms = 10_004;
    assert_eq!(end.tick(), Ok(None));
    end.now_ms = 10_005;
    assert_eq!(end.tick(), Err(Violation::SettingsTimeout));
    assert_eq!(go_away(&end.sent()), (0, ErrorCode::SETTINGS_TIMEOUT));
    let mut end = End::server(Limits::default());
    end.now_ms = 1_000_000;
    assert_eq!(end.tick(), Ok(None));
}
