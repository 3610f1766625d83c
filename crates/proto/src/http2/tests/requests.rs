//! Accepted heads with their content, and the responses to rejected heads (RFC 9113, section 8).

use super::*;
use crate::http1::{Body, Method};

fn refusal(fields: &[(&str, &str)]) -> Option<Refusal> {
    let mut end = End::server(Limits::default());
    match &end.head(1, true, fields).expect("the connection goes on")[..] {
        [Received::Request(1, true)] => None,
        [Received::Refused(1, refusal)] => {
            // A response, and the end of the stream.
            let sent = end.sent();
            let head = &sent[0];
            assert_eq!((head.kind, head.flags, head.stream), (1, 5, 1));
            assert_eq!(end.connection.streams_count(), 0);
            Some(*refusal)
        }
        other => panic!("{other:?}"),
    }
}

/// Returns the result of a usual request with one field changed (or removed, if the value is ""), and with further fields.
fn changed(name: &str, value: &str, more: &[(&str, &str)]) -> Option<Refusal> {
    let mut fields: Vec<(&str, &str)> = USUAL
        .into_iter()
        .map(|field| {
            if field.0 == name {
                (name, value)
            } else {
                field
            }
        })
        .filter(|field| !(field.0 == name && value.is_empty()))
        .collect();
    fields.extend_from_slice(more);
    refusal(&fields)
}

#[test]
fn pseudo_headers() {
    assert_eq!(changed("", "", &[]), None);
    for name in [":method", ":scheme", ":path"] {
        assert_eq!(
            changed(name, "", &[]),
            Some(Refusal::PseudoHeaderMissing),
            "{name}"
        );
        let twice = [(name, "/"), USUAL[0], USUAL[1], USUAL[2], USUAL[3]];
        assert_eq!(refusal(&twice), Some(Refusal::PseudoHeader), "{name}");
    }
    for (name, value, expected) in [
        (":path", "x", Refusal::Target),
        (":path", "*", Refusal::Target),
        (":path", "/a b", Refusal::Target),
        (":path", "/a#b", Refusal::Target),
        (":path", "/\u{e9}", Refusal::Target),
        (":path", "http://a.example/", Refusal::Target),
        (":path", "/\r\nx: y", Refusal::HeaderValue),
        (":scheme", "ftp", Refusal::PseudoHeader),
        (":scheme", "HTTPS", Refusal::PseudoHeader),
        (":method", "G T", Refusal::PseudoHeader),
        (":method", "CONNECT", Refusal::Connect),
        (":authority", "u@a.example", Refusal::HostInvalid),
        (":authority", "a b", Refusal::HostInvalid),
    ] {
        assert_eq!(changed(name, value, &[]), Some(expected), "{name} {value}");
    }
    let long = "/".repeat(8193);
    assert_eq!(changed(":path", &long, &[]), Some(Refusal::TargetTooLong));
    let unknown = [(":foo", "x")];
    assert_eq!(changed("", "", &unknown), Some(Refusal::PseudoHeader));
    assert_eq!(
        changed("", "", &[(":status", "200")]),
        Some(Refusal::PseudoHeader)
    );
    // Extended CONNECT was not announced.
    assert_eq!(
        changed("", "", &[(":protocol", "websocket")]),
        Some(Refusal::PseudoHeader)
    );
    let late = [USUAL[0], USUAL[1], USUAL[2], ("a", "b"), USUAL[3]];
    assert_eq!(refusal(&late), Some(Refusal::PseudoHeaderLate));
    let options = [(":method", "OPTIONS"), USUAL[1], (":path", "*"), USUAL[3]];
    assert_eq!(refusal(&options), None);
}

#[test]
fn authority_and_host() {
    assert_eq!(changed(":authority", "", &[]), Some(Refusal::HostMissing));
    assert_eq!(changed(":authority", "", &[("host", "b.example")]), None);
    assert_eq!(changed("", "", &[("host", "A.example")]), None);
    assert_eq!(
        changed("", "", &[("host", "b.example")]),
        Some(Refusal::AuthorityDiffers)
    );
    let twice = [("host", "a.example"), ("host", "a.example")];
    assert_eq!(changed("", "", &twice), Some(Refusal::HostRepeated));
}

#[test]
fn fields() {
    for (name, value, expected) in [
        ("Upper", "x", Refusal::HeaderNameCase),
        ("", "x", Refusal::HeaderName),
        ("a b", "x", Refusal::HeaderName),
        ("a:", "x", Refusal::HeaderName),
        ("a\r\nb", "x", Refusal::HeaderName),
        ("a", "x\r\ny: z", Refusal::HeaderValue),
        ("a", "x\0", Refusal::HeaderValue),
        ("a", " x", Refusal::HeaderValue),
        ("a", "x\t", Refusal::HeaderValue),
        ("connection", "close", Refusal::ConnectionHeader),
        ("keep-alive", "1", Refusal::ConnectionHeader),
        ("proxy-connection", "close", Refusal::ConnectionHeader),
        ("transfer-encoding", "chunked", Refusal::ConnectionHeader),
        ("upgrade", "h2c", Refusal::ConnectionHeader),
        ("te", "gzip", Refusal::ConnectionHeader),
        ("content-length", "x", Refusal::ContentLengthInvalid),
        ("content-length", "+1", Refusal::ContentLengthInvalid),
        ("content-length", "1", Refusal::ContentLengthMismatch),
        ("expect", "200-ok", Refusal::Expectation),
    ] {
        assert_eq!(
            changed("", "", &[(name, value)]),
            Some(expected),
            "{name}: {value}"
        );
    }
    let twice = [("content-length", "0"), ("content-length", "0")];
    assert_eq!(
        changed("", "", &twice),
        Some(Refusal::ContentLengthRepeated)
    );
    for good in [
        ("te", "trailers"),
        ("content-length", "0"),
        ("a", ""),
        ("a", "x\ty"),
    ] {
        assert_eq!(changed("", "", &[good]), None, "{good:?}");
    }
}

#[test]
fn statuses_of_refusals() {
    let long = "x".repeat(20_000);
    let many: Vec<(&str, &str)> = (0..125).map(|_| ("a", "b")).collect();
    for (fields, status, code) in [
        (
            &[("a", &long[..])][..],
            &b"\x08\x03431"[..],
            ErrorCode::NO_ERROR,
        ),
        (&many[..], &b"\x08\x03431"[..], ErrorCode::NO_ERROR),
        (&[("A", "b")][..], b"\x8c", ErrorCode::PROTOCOL_ERROR),
    ] {
        for is_end in [false, true] {
            let mut end = End::server(Limits::default());
            let mut all = USUAL.to_vec();
            all.extend_from_slice(fields);
            let block = block(&all);
            let flags = if is_end { flag::END_STREAM } else { 0 };
            let mut bytes = Vec::new();
            let (first, rest) = block.split_at(block.len().min(16_384));
            frame::write(&mut bytes, Kind::Headers, flags, 1, first);
            frame::write(&mut bytes, Kind::Continuation, flag::END_HEADERS, 1, rest);
            assert!(matches!(
                end.feed(&bytes).expect("goes on")[..],
                [Received::Refused(1, _)]
            ));
            let sent = end.sent();
            assert_eq!(sent[0].payload, status);
            let over = is_end && code == ErrorCode::NO_ERROR;
            if over {
                assert_eq!(sent.len(), 1);
            } else {
                assert_eq!(sent[1..], [reset(1, code)]);
            }
            // Both sides still have the same header table.
            end.open(3, true);
        }
    }
}

#[test]
fn a_head_equals_that_of_http1() {
    let mut end = End::server(Limits::default());
    let told = end.request(
        1,
        false,
        &[
            ("cookie", "a=b"),
            ("content-length", "7"),
            ("cookie", "c=d"),
            ("expect", "100-continue"),
            ("priority", "u=1, i"),
            ("cookie", "e"),
        ],
    );
    assert_eq!(told, Ok(vec![Received::Request(1, false)]));
    let message = &end.message;
    let (head, text) = (&message.head, &message.text);
    assert_eq!(
        (head.method, head.method_span.of(text)),
        (Method::Post, &b"POST"[..])
    );
    assert_eq!((head.body, head.keep_alive), (Body::Length(7), true));
    assert!(head.expect_continue && !head.upgrade);
    assert_eq!(head.host.expect("a host").of(text), b"a.example");
    assert_eq!(message.header(b"cookie", 0), Some(&b"a=b; c=d; e"[..]));
    assert_eq!(message.header(b"cookie", 1), None);
    assert_eq!(message.header(b"host", 0), Some(&b"a.example"[..]));
    assert_eq!(message.scheme.expect("a scheme").of(text), b"https");
    assert_eq!(
        end.connection.priority(StreamId(1)),
        Some(Priority::new(1, true))
    );

    let told = end.head(
        3,
        false,
        &[USUAL[0], USUAL[1], (":path", "/a/b?c?d"), USUAL[3]],
    );
    assert_eq!(told, Ok(vec![Received::Request(3, false)]));
    let (head, text) = (&end.message.head, &end.message.text);
    assert_eq!(head.path.of(text), b"/a/b");
    assert_eq!(head.query.expect("a query").of(text), b"c?d");
    assert_eq!(head.target.of(text), b"/a/b?c?d");
    assert_eq!(head.body, Body::Chunked);
}

/// RFC 8441, section 4.
#[test]
fn extended_connect() {
    let limits = Limits {
        connect_protocol: true,
        ..Limits::default()
    };
    let mut end = End::server(limits);
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":path", "/chat"),
        (":authority", "a.example"),
        ("sec-websocket-version", "13"),
    ];
    assert_eq!(
        end.head(1, false, &fields),
        Ok(vec![Received::Request(1, false)])
    );
    let (message, text) = (&end.message, &end.message.text);
    assert_eq!(message.protocol.expect("a protocol").of(text), b"websocket");
    assert_eq!(
        (message.head.method, message.head.path.of(text)),
        (Method::Connect, &b"/chat"[..])
    );
    // `:protocol` is valid only with CONNECT, and requires all other pseudo-headers.
    let told = end.head(
        3,
        true,
        &[
            (":protocol", "websocket"),
            USUAL[0],
            USUAL[1],
            USUAL[2],
            USUAL[3],
        ],
    );
    assert_eq!(told, Ok(vec![Received::Refused(3, Refusal::PseudoHeader)]));
    let told = end.head(5, true, &fields[..2]);
    assert_eq!(
        told,
        Ok(vec![Received::Refused(5, Refusal::PseudoHeaderMissing)])
    );
    let told = end.head(7, true, &[("x", "y")]);
    assert_eq!(
        told,
        Ok(vec![Received::Refused(7, Refusal::PseudoHeaderMissing)])
    );
}

#[test]
fn content_length_against_data() {
    let violation = |lengths: &[usize], end_last: bool, trailers: bool| {
        let mut end = End::server(Limits::default());
        assert!(end.request(1, false, &[("content-length", "5")]).is_ok());
        let mut told = Vec::new();
        for (i, &len) in lengths.iter().enumerate() {
            let last = end_last && i + 1 == lengths.len();
            let flags = u8::from(last);
            told.extend(
                end.frame(Kind::Data, flags, 1, &vec![0; len])
                    .expect("goes on"),
            );
        }
        if trailers {
            told.extend(end.head(1, true, &[("a", "b")]).expect("goes on"));
        }
        match told.last() {
            Some(Received::Reset(1, code, Origin::Here(violation))) => {
                assert_eq!(*code, ErrorCode::PROTOCOL_ERROR);
                assert_eq!(end.sent(), [reset(1, *code)]);
                Some(*violation)
            }
            _ => None,
        }
    };
    assert_eq!(violation(&[5], true, false), None);
    assert_eq!(violation(&[2, 3, 0], true, false), None);
    assert_eq!(violation(&[2, 3], false, true), None);
    for (lengths, end_last, trailers) in [
        (&[4][..], true, false),
        (&[6], true, false),
        (&[3, 3], false, false),
        (&[2, 2], false, true),
    ] {
        let found = violation(lengths, end_last, trailers);
        assert_eq!(found, Some(Violation::ContentLength), "{lengths:?}");
    }
}

#[test]
fn trailers() {
    let mut end = End::server(Limits::default());
    end.open(1, false);
    assert_eq!(
        end.head(1, true, &[("x-sum", "1")]),
        Ok(vec![Received::Trailers(1)])
    );
    assert_eq!(end.message.header(b"x-sum", 0), Some(&b"1"[..]));
    for (stream, is_end, fields, violation) in [
        (3, false, &[("a", "b")][..], Violation::TrailersUnfinished),
        (5, true, &[(":path", "/")], Violation::Malformed),
        (7, true, &[("A", "b")], Violation::Malformed),
        (9, true, &[("connection", "close")], Violation::Malformed),
    ] {
        end.open(stream, false);
        let code = ErrorCode::PROTOCOL_ERROR;
        let expected = Received::Reset(stream, code, Origin::Here(violation));
        assert_eq!(end.head(stream, is_end, fields), Ok(vec![expected]));
    }
    // Trailers count toward the limits of their head.
    let many: Vec<(&str, &str)> = (0..100).map(|_| ("a", "b")).collect();
    assert_eq!(
        end.request(11, false, &many),
        Ok(vec![Received::Request(11, false)])
    );
    assert_eq!(end.message.head.headers.len(), 101);
    let told = end.head(11, true, &many[..25]).expect("goes on");
    let origin = Origin::Here(Violation::TrailersTooLarge);
    assert_eq!(
        told,
        [Received::Reset(11, ErrorCode::ENHANCE_YOUR_CALM, origin)]
    );
}

#[test]
fn responses_as_bytes() {
    let mut end = End::server(Limits::default());
    let stream = end.open(1, true);
    let fields = [
        (&b"Content-Type"[..], &b"text/event-stream"[..]),
        (b"Connection", b"keep-alive"),
        (b"Cache-Control", b"no-cache"),
        (b"Transfer-Encoding", b"chunked"),
    ];
    let sent = end
        .connection
        .send_head(stream, 200, fields.into_iter(), false, &mut end.out);
    assert!(sent);
    assert_eq!(
        end.out,
        b"\x00\x00\x20\x01\x04\x00\x00\x00\x01\x88\x0f\x10\x11text/event-stream\x0f\x09\x08no-cache"
    );
    end.out.clear();
    let event = b"data: hi\n\n";
    assert_eq!(
        end.connection
            .send_data(stream, event, Rest::Open, &mut end.out),
        10
    );
    assert_eq!(end.out, b"\x00\x00\x0a\x00\x00\x00\x00\x00\x01data: hi\n\n");
    // The same frame, without a copy of the payload.
    let frame = end
        .connection
        .data_frame(stream, event.len(), Rest::Open)
        .expect("a window");
    assert_eq!((&frame.header[..], frame.len), (&end.out[..9], 10));

    // One block for many streams.
    let mut block = Vec::new();
    hpack::encode_status(&mut block, 200);
    hpack::encode(&mut block, b"A", b"b");
    end.out.clear();
    let stream = end.open(3, true);
    assert!(
        end.connection
            .send_block(stream, 200, &block, true, &mut end.out)
    );
    assert_eq!(
        end.out,
        b"\x00\x00\x06\x01\x05\x00\x00\x00\x03\x88\x00\x01a\x01b"
    );
}

/// A head longer than a frame continues in CONTINUATION; an interim head precedes it.
#[test]
fn long_heads_and_interim_ones() {
    let mut end = End::server(Limits::default());
    let stream = end.open(1, true);
    let long = vec![b'v'; 40_000];
    let none = std::iter::empty();
    assert!(
        end.connection
            .send_head(stream, 103, none, false, &mut end.out)
    );
    let fields = [(&b"a"[..], &long[..])];
    assert!(
        end.connection
            .send_head(stream, 200, fields.into_iter(), true, &mut end.out)
    );
    let sent = end.sent();
    let shape: Vec<(u8, u8, usize)> = sent
        .iter()
        .map(|frame| (frame.kind, frame.flags, frame.payload.len()))
        .collect();
    assert_eq!(shape[..3], [(1, 4, 5), (1, 1, 16_384), (9, 0, 16_384)]);
    assert_eq!((shape.len(), shape[3].0, shape[3].1), (4, 9, 4));
    let mut decoder = hpack::Decoder::new();
    let block: Vec<u8> = sent[1..]
        .iter()
        .flat_map(|frame| frame.payload.clone())
        .collect();
    let (mut at, mut text) = (0, Vec::new());
    decoder
        .next(&block, &mut at, &mut text, true)
        .expect("valid")
        .expect("a status");
    let field = decoder
        .next(&block, &mut at, &mut text, true)
        .expect("valid");
    assert_eq!(field.expect("a field").value.of(&text), long);
}

/// Responses as a client reads them (RFC 9113, sections 8.1 and 8.3.2).
#[test]
fn responses() {
    let open = |end: &mut End, method: &[u8]| {
        let opening = Opening {
            method,
            scheme: b"https",
            authority: b"a.example",
            path: b"/",
            protocol: None,
        };
        let none = std::iter::empty();
        let opened = end
            .connection
            .open(&opening, none, true, &end.limits, &mut end.out);
        opened.expect("there is room").0
    };
    let mut end = End::client(Limits::default());
    let stream = open(&mut end, b"GET");
    assert_eq!(
        end.out,
        b"\x00\x00\x0e\x01\x05\x00\x00\x00\x01\x82\x87\x84\x01\x09a.example"
    );
    let told = end.head(stream, false, &[(":status", "103"), ("link", "x")]);
    assert_eq!(told, Ok(vec![Received::Response(1, 103, false)]));
    let told = end.head(
        stream,
        false,
        &[(":status", "200"), ("content-length", "2")],
    );
    assert_eq!(told, Ok(vec![Received::Response(1, 200, false)]));
    let told = end.frame(Kind::Data, 1, stream, b"hi");
    assert_eq!(told, Ok(vec![Received::Data(1, b"hi".to_vec(), true)]));
    end.release(StreamId(stream));

    // `content-length` has no meaning for responses without a body.
    for (method, status) in [(&b"HEAD"[..], "200"), (b"GET", "304"), (b"GET", "204")] {
        let stream = open(&mut end, method);
        let told = end.head(
            stream,
            true,
            &[(":status", status), ("content-length", "9")],
        );
        assert!(matches!(
            told.expect("goes on")[..],
            [Received::Response(_, _, true)]
        ));
        end.release(StreamId(stream));
    }
    for (fields, violation) in [
        (&[("a", "b")][..], Violation::Malformed),
        (&[(":status", "20")], Violation::Malformed),
        (&[(":status", "101")], Violation::Malformed),
        (&[(":status", "200"), (":path", "/")], Violation::Malformed),
        (
            &[(":status", "200"), ("content-length", "9")],
            Violation::ContentLength,
        ),
        (&[(":status", "100")], Violation::MessageOrder),
    ] {
        let stream = open(&mut end, b"GET");
        let told = end.head(stream, true, fields).expect("goes on");
        assert!(
            matches!(told[..], [Received::Reset(_, _, Origin::Here(found))] if found == violation),
            "{fields:?}: {told:?}"
        );
        end.release(StreamId(stream));
    }
    // DATA before the head.
    let stream = open(&mut end, b"GET");
    let told = end.frame(Kind::Data, 0, stream, b"x").expect("goes on");
    assert!(matches!(
        told[..],
        [Received::Reset(_, _, Origin::Here(Violation::MessageOrder))]
    ));
    // A server must neither push nor open streams.
    assert_eq!(end.head(2, true, &[]), Err(Violation::StreamNumber));
    let mut end = End::client(Limits::default());
    assert_eq!(
        end.frame(Kind::PushPromise, 4, 1, &[0; 4]),
        Err(Violation::PushPromise)
    );
}
