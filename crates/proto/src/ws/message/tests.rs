use proptest::prelude::*;

use super::*;

const SERVER: Rules = Rules {
    frame: frame::Rules {
        masking: frame::Masking::Required,
        reserved: Reserved::NONE,
        frame_bytes_max: 1000,
    },
    message_bytes_max: 2000,
};

/// Owned events, and the violation that ended them.
type Outcome = (Vec<Event<'static>>, Option<Violation>);

fn owned(event: Event<'_>) -> Event<'static> {
    let bytes = |bytes: Cow<'_, [u8]>| Cow::Owned(bytes.into_owned());
    match event {
        Event::Message {
            kind,
            compressed,
            payload,
        } => Event::Message {
            kind,
            compressed,
            payload: bytes(payload),
        },
        Event::Ping(payload) => Event::Ping(bytes(payload)),
        Event::Pong(payload) => Event::Pong(bytes(payload)),
        Event::Close { code, reason } => Event::Close {
            code,
            reason: Cow::Owned(reason.into_owned()),
        },
    }
}

/// Reads `input` in pieces of these sizes, using `pieces` cyclically.
fn read(input: &[u8], pieces: &[usize], rules: &Rules) -> Outcome {
    let mut reader = Reader::new();
    let mut events = Vec::new();
    let mut sizes = pieces.iter().copied().cycle();
    let mut rest = input;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(sizes.next().unwrap_or(usize::MAX).min(rest.len()));
        rest = after;
        let mut piece = piece.to_vec();
        let (mut at, len) = (0, piece.len());
        while at < len {
            match reader.handle(&mut piece[at..], rules) {
                Ok(step) => {
                    assert!(step.event.is_some() || at + step.consumed == len);
                    at += step.consumed;
                    events.extend(step.event.map(owned));
                }
                Err(violation) => return (events, Some(violation)),
            }
        }
        assert!(reader.kept_bytes() <= rules.message_bytes_max);
    }
    (events, None)
}

/// Returns a frame masked like a client's.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let opcode = Opcode::from_number(first & 15).expect("not reserved");
    let reserved = Reserved::from_bits(first);
    let key = Some([1, 2, 3, 0x84]);
    frame::write(&mut out, opcode, first & 0x80 != 0, reserved, key, payload);
    out
}

fn text(payload: &str) -> Event<'_> {
    message(Kind::Text, payload.as_bytes())
}

fn message(kind: Kind, payload: &[u8]) -> Event<'_> {
    Event::Message {
        kind,
        compressed: false,
        payload: Cow::Borrowed(payload),
    }
}

fn bytes(payload: &[u8]) -> Cow<'_, [u8]> {
    Cow::Borrowed(payload)
}

#[test]
fn control_frames_come_between_fragments() {
    let input = [
        masked(0x01, b"He"),
        masked(0x89, b"are you there"),
        masked(0x00, b""),
        masked(0x8a, b""),
        masked(0x80, b"llo"),
        masked(0x82, b"\xff\x00"),
        masked(0x81, b""),
        masked(0x88, b"\x03\xe8bye"),
        masked(0x81, b"ignored"),
        b"\xff\xff\xff".to_vec(),
    ]
    .concat();
    let events = vec![
        Event::Ping(bytes(b"are you there")),
        Event::Pong(bytes(b"")),
        text("Hello"),
        message(Kind::Binary, b"\xff\x00"),
        text(""),
        Event::Close {
            code: Some(1000),
            reason: Cow::Borrowed("bye"),
        },
    ];
    for size in [1, 2, 3, 7, 20, usize::MAX] {
        assert_eq!(read(&input, &[size], &SERVER), (events.clone(), None));
    }
}

#[test]
fn a_whole_message_is_lent_and_nothing_is_kept() {
    let mut input = masked(0x81, b"Hello");
    let mut reader = Reader::new();
    let step = reader.handle(&mut input, &SERVER).expect("valid");
    assert!(matches!(
        step.event,
        Some(Event::Message {
            payload: Cow::Borrowed(b"Hello"),
            ..
        })
    ));
    assert!(reader.is_between_messages());

    let mut input = masked(0x81, b"Hello");
    let (first, second) = input.split_at_mut(8);
    assert_eq!(reader.handle(first, &SERVER).expect("valid").event, None);
    assert!(!reader.is_between_messages());
    assert_eq!(reader.kept_bytes(), 2);
    assert_eq!(
        reader.handle(second, &SERVER).expect("valid").event,
        Some(text("Hello"))
    );
    assert!(reader.is_between_messages());
    assert!(size_of::<Reader>() <= 16);
}

#[test]
fn violations_of_order_and_content() {
    use Violation as V;
    let whole = |first: u8, len: usize| masked(first, &vec![b'a'; len]);
    for (frames, violation) in [
        (vec![masked(0x80, b"x")], V::ContinuationUnexpected),
        (vec![masked(0x00, b"x")], V::ContinuationUnexpected),
        (
            vec![masked(0x01, b"x"), masked(0x81, b"y")],
            V::ContinuationMissing,
        ),
        (
            vec![masked(0x02, b"x"), masked(0x02, b"y")],
            V::ContinuationMissing,
        ),
        (
            vec![masked(0x81, b"x"), masked(0x80, b"y")],
            V::ContinuationUnexpected,
        ),
        (vec![masked(0x81, b"\xff")], V::TextNotUtf8),
        (vec![masked(0x81, b"a\xe2\x82")], V::TextNotUtf8),
        (
            vec![masked(0x01, b"a\xe2"), masked(0x80, b"\x82")],
            V::TextNotUtf8,
        ),
        (
            vec![masked(0x01, b"a\xe2"), masked(0x80, b"b")],
            V::TextNotUtf8,
        ),
        (vec![masked(0x88, b"\x03")], V::CloseTruncated),
        (vec![masked(0x88, b"\x03\xed")], V::CloseCodeInvalid),
        (vec![masked(0x88, b"\x03\xe8\xff")], V::CloseReasonNotUtf8),
        (vec![whole(0x82, 1001)], V::FrameTooLarge),
        (
            vec![whole(0x01, 1000), whole(0x00, 1000), whole(0x80, 1)],
            V::MessageTooLarge,
        ),
        (vec![masked(0xc1, b"x")], V::ReservedBits),
        (vec![b"\x81\x01x".to_vec()], V::MaskMissing),
    ] {
        let input = frames.concat();
        for size in [1, 3, 50, usize::MAX] {
            assert_eq!(read(&input, &[size], &SERVER).1, Some(violation));
        }
    }
}

#[test]
fn a_message_may_reach_its_limit() {
    let part = vec![b'a'; 1000];
    let input = [masked(0x01, &part), masked(0x80, &part)].concat();
    let whole = [part.clone(), part].concat();
    let expected = vec![message(Kind::Text, &whole)];
    assert_eq!(read(&input, &[700], &SERVER), (expected, None));
}

#[test]
fn invalid_text_fails_before_its_frame_ends() {
    // The header announces 1,000 bytes; the second byte of the text cannot be UTF-8.
    let mut input = masked(0x81, &[b'a'; 1000]);
    input.truncate(8);
    input.extend_from_slice(&[0xce ^ 1, b'a' ^ 2]);
    let mut reader = Reader::new();
    let all_but_one = input.len() - 1;
    let (before, last) = input.split_at_mut(all_but_one);
    assert!(reader.handle(before, &SERVER).is_ok());
    assert_eq!(reader.handle(last, &SERVER), Err(Violation::TextNotUtf8));
}

#[test]
fn compression_is_marked_on_the_first_frame_only() {
    let rules = Rules::new(Role::Server, 1000, 2000, true);
    let compressed = |kind, payload| Event::Message {
        kind,
        compressed: true,
        payload: bytes(payload),
    };
    let input = [
        masked(0x41, b"\xff\xfe"),
        masked(0x80, b"\x00"),
        masked(0xc2, b"\xfd"),
        masked(0x81, b"plain"),
    ]
    .concat();
    let expected = vec![
        compressed(Kind::Text, b"\xff\xfe\x00"),
        compressed(Kind::Binary, b"\xfd"),
        text("plain"),
    ];
    for size in [1, 4, usize::MAX] {
        assert_eq!(read(&input, &[size], &rules), (expected.clone(), None));
    }
    for bad in [
        [masked(0x41, b"x"), masked(0xc0, b"y")].concat(),
        masked(0xc9, b"ping"),
        masked(0xa1, b"x"),
    ] {
        assert_eq!(read(&bad, &[5], &rules).1, Some(Violation::ReservedBits));
    }
}

#[test]
fn a_header_announcing_gigabytes_reserves_nothing() {
    let rules = Rules::new(Role::Server, 1 << 40, 1 << 40, false);
    let mut input = b"\x82\xff\x00\x00\x00\xff\x00\x00\x00\x00\x01\x02\x03\x04abc".to_vec();
    let mut reader = Reader::new();
    assert!(reader.handle(&mut input, &rules).is_ok());
    let partial = reader.partial.as_ref().expect("kept");
    let message = partial.message.as_ref().expect("begun");
    assert_eq!(message.payload.capacity(), ROOM_BYTES_MIN);
}

#[test]
fn a_message_in_tiny_pieces_gets_room_in_steps_and_only_what_it_needs() {
    let mut room = Vec::new();
    let mut steps = 0;
    for _ in 0..100_000 {
        let before = room.capacity();
        let most = 100_000 - room.len();
        make_room(&mut room, 1, most);
        room.push(0);
        steps += usize::from(room.capacity() != before);
    }
    assert!(steps < 10 && room.capacity() == 100_000);
}

/// Mostly valid frames, so that a run is not ended by an early violation.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![
        9 => prop::sample::select(vec![0x81u8, 0x82, 0x01, 0x00, 0x80, 0x89, 0x8a, 0x02, 0xc1, 0x41]),
        1 => prop::sample::select(vec![0x88u8, 0x09, 0x91, 0xc0]),
    ];
    let payload = prop_oneof![
        "[a-zäöü€🎵]{0,60}".prop_map(String::into_bytes),
        "[a-zäöü€🎵]{40,60}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..10),
        proptest::collection::vec(any::<u8>(), 120..130),
    ];
    proptest::collection::vec((first, payload), 1..12).prop_map(|frames| {
        let frames = frames
            .into_iter()
            .map(|(first, payload)| masked(first, &payload));
        frames.collect::<Vec<_>>().concat()
    })
}

proptest! {
    #[test]
    fn any_split_gives_the_same_events(
        input in frames(),
        pieces in proptest::collection::vec(1usize..40, 1..6),
        compression in any::<bool>(),
    ) {
        let rules = Rules::new(Role::Server, 200, 300, compression);
        let whole = read(&input, &[usize::MAX], &rules);
        prop_assert_eq!(&read(&input, &pieces, &rules), &whole);
        prop_assert_eq!(&read(&input, &[1], &rules), &whole);
    }
}
