//! Shutdown (RFC 9113, section 6.8).

use super::*;

#[test]
fn two_goaways_and_a_ping_between_them() {
    let mut end = End::server(Limits::default());
    let stream = end.open(1, true);
    end.connection.drain(0, &mut end.out);
    end.connection.drain(0, &mut end.out);
    let sent = end.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(
        go_away(&sent[..1]),
        (frame::STREAM_MAX, ErrorCode::NO_ERROR)
    );
    // A request in flight is accepted.
    end.open(3, true);
    let ping = sent[1].payload.clone();
    assert_eq!(end.frame(Kind::Ping, flag::ACK, 0, &ping), Ok(Vec::new()));
    assert_eq!(go_away(&end.sent()), (3, ErrorCode::NO_ERROR));
    // Streams above the last stream in GOAWAY are ignored without a response.
    let flags = flag::END_HEADERS;
    assert_eq!(
        end.frame(Kind::Headers, flags, 5, &block(&USUAL)),
        Ok(Vec::new())
    );
    assert_eq!(end.frame(Kind::Data, 1, 5, b"x"), Ok(Vec::new()));
    assert_eq!(
        end.frame(Kind::Headers, flags | 1, 7, b"\x82"),
        Ok(Vec::new())
    );
    assert!(end.sent().is_empty());
    // Open streams are completed.
    assert!(!end.connection.is_drained());
    end.answer(stream, b"x", Rest::End);
    end.release(stream);
    end.answer(StreamId(3), b"x", Rest::End);
    end.release(StreamId(3));
    assert!(end.connection.is_drained());
}

#[test]
fn drain_ends_after_its_time_out() {
    let mut end = End::server(Limits::default());
    end.open(1, true);
    end.connection.drain(500, &mut end.out);
    end.sent();
    end.now_ms = 1499;
    assert_eq!(end.tick(), Ok(None));
    assert!(end.sent().is_empty());
    end.now_ms = 1500;
    assert_eq!(end.tick(), Ok(None));
    assert_eq!(go_away(&end.sent()), (1, ErrorCode::NO_ERROR));
    end.connection.drain_now(&mut end.out);
    end.connection.drain(0, &mut end.out);
    assert!(end.sent().is_empty());
}

#[test]
fn a_client_receives_goaway() {
    let mut end = End::client(Limits::default());
    let opening = Opening {
        method: b"GET",
        scheme: b"https",
        authority: b"a",
        path: b"/",
        protocol: None,
    };
    let none = std::iter::empty();
    let opened = end
        .connection
        .open(&opening, none, true, &end.limits, &mut end.out);
    assert_eq!(opened, Ok(StreamId(1)));
    let told = end.frame(Kind::GoAway, 0, 0, b"\0\0\0\0\0\0\0\x0bdebug");
    assert_eq!(
        told,
        Ok(vec![Received::GoAway(0, ErrorCode::ENHANCE_YOUR_CALM)])
    );
    let none = std::iter::empty();
    let opened = end
        .connection
        .open(&opening, none, true, &end.limits, &mut end.out);
    assert_eq!(opened, Err(super::super::OpenError::Leaving));
    end.release(StreamId(1));
    assert!(end.connection.is_drained());
}

#[test]
fn abort_sends_goaway_with_its_code() {
    let mut end = End::server(Limits::default());
    end.open(1, true);
    end.connection
        .abort(ErrorCode::INTERNAL_ERROR, &mut end.out);
    assert_eq!(go_away(&end.sent()), (1, ErrorCode::INTERNAL_ERROR));
    assert_eq!(
        end.frame(Kind::Ping, 0, 0, &[0; 8]),
        Err(Violation::Aborted)
    );
    let none = std::iter::empty();
    assert!(
        !end.connection
            .send_head(StreamId(1), 200, none, true, &mut end.out)
    );
    end.release(StreamId(1));
    assert!(end.sent().is_empty());
}
