use proptest::prelude::*;

use super::*;

/// The events of a response, with the pieces of the body joined.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    interim: Vec<u16>,
    head: Option<Head>,
    body: Vec<u8>,
    upgraded: Vec<u8>,
    is_reusable: Option<bool>,
}

fn read(wire: &[u8], len: usize, mut reader: ResponseReader) -> (Answer, Option<ResponseError>) {
    let mut events = Vec::new();
    let error = wire
        .chunks(len)
        .find_map(|piece| reader.handle(piece, &mut events).err());
    let error = error.or_else(|| reader.finish(&mut events).err());
    let mut answer = Answer::default();
    for event in events {
        assert!(answer.is_reusable.is_none(), "an event after the end");
        match event {
            Event::Interim(head) => answer.interim.push(head.status),
            Event::Head(head) => assert!(answer.head.replace(head).is_none()),
            Event::Body(piece) => answer.body.extend(piece),
            Event::Upgraded(piece) => answer.upgraded.extend(piece),
            Event::End { is_reusable } => answer.is_reusable = Some(is_reusable),
        }
    }
    (answer, error)
}

fn get(wire: &str) -> (Answer, Option<ResponseError>) {
    read(
        wire.as_bytes(),
        usize::MAX,
        ResponseReader::new(RequestKind::default()),
    )
}

/// Some CGI programs and devices send LF line ends (RFC 9112, section 2.2).
#[test]
fn accepts_a_head_whose_lines_all_end_in_lf() {
    let wire = "HTTP/1.1 103 E\nLink: a\n\nHTTP/1.1 200 OK\nA: b\nContent-Length: 2\n\nok";
    for len in [1, 2, 7, wire.len()] {
        let reader = ResponseReader::new(RequestKind::default());
        let (answer, error) = read(wire.as_bytes(), len, reader);
        assert_eq!(error, None, "pieces of {len}");
        let head = answer.head.expect("a head");
        let header = (b"A".to_vec(), b"b".to_vec());
        assert_eq!((head.status, &head.headers[0]), (200, &header));
        assert_eq!((answer.interim, answer.body), (vec![103], b"ok".to_vec()));
        assert_eq!(answer.is_reusable, Some(true));
    }
}

#[test]
fn a_body_ends_in_one_of_four_ways() {
    for (wire, body, is_reusable) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "hello",
            true,
        ),
        (
            "HTTP/1.1 200\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\nhello",
            "hello",
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
            "hello",
            true,
        ),
        ("HTTP/1.1 200 OK\r\n\r\nhello", "hello", false),
        ("HTTP/1.1 204 No Content\r\n\r\n", "", true),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
            "",
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: x, Close\r\n\r\n",
            "",
            false,
        ),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab",
            "ab",
            false,
        ),
        (
            "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: Keep-Alive\r\n\r\nab",
            "ab",
            true,
        ),
    ] {
        let (answer, error) = get(wire);
        assert_eq!(
            (&answer.body[..], answer.is_reusable, error),
            (body.as_bytes(), Some(is_reusable), None),
            "{wire}"
        );
    }
    let wire = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(
        read(
            wire,
            9,
            ResponseReader::new(RequestKind {
                is_head: true,
                wants_upgrade: false
            })
        )
        .0
        .is_reusable,
        Some(true)
    );
}

#[test]
fn interim_responses_and_upgrades() {
    let (answer, error) = get(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
    );
    assert_eq!(
        (answer.interim, answer.body, error),
        (vec![100, 103], b"x".to_vec(), None)
    );
    let wire = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x01a";
    let (answer, error) = read(
        wire,
        usize::MAX,
        ResponseReader::new(RequestKind {
            is_head: false,
            wants_upgrade: true,
        }),
    );
    assert_eq!(
        (answer.upgraded, answer.is_reusable, error),
        (b"\x81\x01a".to_vec(), None, None)
    );
    let (_, error) = read(wire, 7, ResponseReader::new(RequestKind::default()));
    assert_eq!(error, Some(ResponseError::Head(HeadError::Upgrade)));
    assert_eq!(
        get(&"HTTP/1.1 100 Continue\r\n\r\n".repeat(17)).1,
        Some(ResponseError::Interim)
    );
}

#[test]
fn rejects_ambiguous_responses() {
    let head = |error| Some(ResponseError::Head(error));
    for (wire, error) in [
        ("", Some(ResponseError::Empty)),
        ("HTTP/1.1 200 OK\r\n", Some(ResponseError::Truncated)),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            Some(ResponseError::Truncated),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            Some(ResponseError::Truncated),
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\n",
            Some(ResponseError::Truncated),
        ),
        ("SSH-2.0", head(HeadError::StatusLine)),
        ("HTTP/2 200\r\n\r\n", head(HeadError::StatusLine)),
        ("HTTP/1.1 099 X\r\n\r\n", head(HeadError::StatusLine)),
        ("HTTP/1.1 2000\r\n\r\n", head(HeadError::StatusLine)),
        ("HTTP/1.1  200 OK\r\n\r\n", head(HeadError::StatusLine)),
        ("HTTP/1.1 200 OK\r\nA\r\n\r\n", head(HeadError::Line)),
        ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", head(HeadError::Line)),
        (
            "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
            head(HeadError::Line),
        ),
        (
            "HTTP/1.1 200 OK\r\nA: b\nB: c\r\n\r\n",
            head(HeadError::Line),
        ),
        // Mixed line ends.
        ("HTTP/1.1 200 OK\nA: b\r\nB: c\n\n", head(HeadError::Line)),
        ("HTTP/1.1 200 OK\nA: b\r\n\r\n", head(HeadError::Line)),
        ("HTTP/1.1 200 OK\r\nA: b\n\nx", head(HeadError::Line)),
        ("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", head(HeadError::Line)),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            head(HeadError::Framing { status: 200 }),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
            head(HeadError::Framing { status: 200 }),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5,\r\n\r\n",
            head(HeadError::Framing { status: 200 }),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            head(HeadError::Framing { status: 200 }),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            head(HeadError::Framing { status: 200 }),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n\r\n",
            head(HeadError::Framing { status: 200 }),
        ),
        (
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            head(HeadError::Framing { status: 200 }),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
            Some(ResponseError::Rest),
        ),
        ("HTTP/1.1 204 No\r\n\r\nab", Some(ResponseError::Rest)),
    ] {
        assert_eq!(get(wire).1, error, "{wire:?}");
        assert_eq!(
            read(
                wire.as_bytes(),
                1,
                ResponseReader::new(RequestKind::default())
            )
            .1,
            error,
            "{wire:?} byte by byte"
        );
    }
    assert!(matches!(
        get("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx").1,
        Some(ResponseError::Chunk(_))
    ));
    let large = format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(HEAD_BYTES_MAX));
    assert_eq!(get(&large).1, head(HeadError::TooLarge));
    let many = format!(
        "HTTP/1.1 200 OK\r\n{}\r\n",
        "A: b\r\n".repeat(HEADERS_COUNT_MAX + 1)
    );
    assert_eq!(get(&many).1, head(HeadError::TooMany));
}

proptest! {
    #[test]
    fn any_split_gives_the_same(
        parts in prop::collection::vec(prop_oneof![
            Just("HTTP/1.1 200 OK\r\n"), Just("HTTP/1.0 200\r\n"), Just("HTTP/1.1 100 C\r\n\r\n"), Just("HTTP/1.1 101 S\r\n"),
            Just("Content-Length: 3\r\n"), Just("Transfer-Encoding: chunked\r\n"), Just("Connection: close\r\n"), Just("\r\n"),
            Just("3\r\nabc\r\n"), Just("0\r\n\r\n"), Just("abc"), Just("\n"), Just("\0"), Just(": "),
        ], 0..10),
        len in 1usize..9, is_head in any::<bool>(), wants_upgrade in any::<bool>(),
    ) {
        let wire = parts.concat();
        let (mut part, part_error) = read(wire.as_bytes(), len, ResponseReader::new(RequestKind { is_head, wants_upgrade }));
        let (mut whole, whole_error) = read(wire.as_bytes(), usize::MAX, ResponseReader::new(RequestKind { is_head, wants_upgrade }));
        prop_assert_eq!(part_error, whole_error);
        // Bytes after the end make the connection unusable if they arrive with the end. If they arrive later, they are the
        // error `Rest`.
        if whole_error == Some(ResponseError::Rest) {
            (part.is_reusable, whole.is_reusable) = (None, None);
        }
        // The data before the error in a chunk depends on the split.
        if !matches!(whole_error, Some(ResponseError::Chunk(_))) {
            prop_assert_eq!(part, whole);
        }
    }
}
