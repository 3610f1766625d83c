use proptest::prelude::*;

use super::*;
use crate::ws::message::{Event, Reader, Rules};

const LIMIT: usize = 1 << 20;

fn agreed(server: (u8, bool), client: (u8, bool)) -> Agreed {
    Agreed {
        server_max_window_bits: Some(server.0),
        server_no_context_takeover: !server.1,
        client_max_window_bits: Some(client.0),
        client_no_context_takeover: !client.1,
    }
}

fn hex(text: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(byte).collect()
}

/// Decompresses successive payloads of one client as a server.
fn read_all(client: (u8, bool), payloads: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Violation> {
    let mut decompressor = Decompressor::new();
    let mut context = Context::new(Role::Server, &agreed((15, true), client));
    let read = payloads.iter().map(|payload| {
        let mut out = b"in front".to_vec();
        decompressor.read(&mut context, Kind::Binary, payload, LIMIT, &mut out)?;
        Ok(out.split_off(8))
    });
    read.collect()
}

fn read_one(payload: &[u8], max: usize) -> Result<Vec<u8>, Violation> {
    let mut context = Context::new(Role::Server, &agreed((15, true), (15, true)));
    let mut out = Vec::new();
    Decompressor::new().read(&mut context, Kind::Text, payload, max, &mut out)?;
    Ok(out)
}

#[test]
fn the_examples_of_the_standard() {
    // RFC 7692, section 7.2.3.
    for payload in [
        "f248cdc9c90700",
        "000500faff48656c6c6f00",
        "f348cdc9c9070000",
        "f2480500 0000ffffcac9c90700",
    ] {
        let payload = hex(&payload.replace(' ', ""));
        assert_eq!(read_one(&payload, LIMIT), Ok(b"Hello".to_vec()));
    }
    let both = [hex("f248cdc9c90700"), hex("f200110000")];
    let hello = b"Hello".to_vec();
    assert_eq!(
        read_all((15, true), &both),
        Ok(vec![hello.clone(), hello.clone()])
    );
    // Without its context, the second message refers to unknown history.
    assert_eq!(
        read_all((15, false), &both),
        Err(Violation::CompressionInvalid)
    );
    assert_eq!(read_one(&[0], LIMIT), Ok(Vec::new()));
    assert_eq!(read_one(&[], LIMIT), Ok(Vec::new()));
}

#[test]
fn decompresses_output_of_zlib() {
    // Python: compressobj(9, DEFLATED, -bits), compress(message) + flush(Z_SYNC_FLUSH), without the tail.
    let ada = br#"{"user":"ada","text":"hello"}"#.to_vec();
    let bob = br#"{"user":"bob","text":"hello"}"#.to_vec();
    let first = "aa562a2d4e2d52b2524a4c4954d2512a49ad28017232527372f2956a0100";
    let large = [first, "aa864926e52761480200", "00", "aac6a71300"].map(hex);
    let said = vec![ada.clone(), bob, Vec::new(), ada.clone()];
    assert_eq!(read_all((15, true), &large), Ok(said));

    // With a window of 512 bytes, the second message displaces the first.
    let small = [first, "4a1c05a380060000", first].map(hex);
    let said = vec![ada.clone(), vec![b'a'; 600], ada];
    assert_eq!(read_all((9, true), &small), Ok(said.clone()));
    // An implementation that agrees to 8 bits compresses with 9.
    assert_eq!(read_all((8, true), &small), Ok(said));
}

#[test]
fn rejects_invalid_compressed_data() {
    for payload in [
        // A block of the reserved type; a stored block whose lengths differ; a distance before the start.
        &b"\x06"[..],
        b"\x00\x05\x00\xff\xffHello",
        b"\x4b\x04\x62\x00",
        // Ends inside a block; inside a stored block; announces more data.
        &hex("f248cdc9"),
        b"\x00\x05\x00\xfa\xffHel",
        b"Hello",
    ] {
        let read = read_one(payload, LIMIT);
        assert_eq!(
            read,
            Err(Violation::CompressionInvalid),
            "{}",
            payload.escape_ascii()
        );
    }
    let violation = Violation::CompressionInvalid;
    assert_eq!(violation.close_code() as u16, 1007);
    // A stored block of one byte that starts a character.
    assert_eq!(
        read_one(b"\x00\x01\x00\xfe\xff\xc3\x00", LIMIT),
        Err(Violation::TextNotUtf8)
    );
}

#[test]
fn limits_streams_per_message() {
    // Each payload consists of empty final blocks, and then "Hello".
    let streams = |count| [[3, 0].repeat(count), hex("f248cdc9c90700")].concat();
    assert_eq!(
        read_one(&streams(STREAMS_MAX - 1), LIMIT),
        Ok(b"Hello".to_vec())
    );
    assert_eq!(
        read_one(&streams(STREAMS_MAX), LIMIT),
        Err(Violation::CompressionInvalid)
    );
    // History from before the end of a stream is available after the end, also across messages.
    let payloads = [
        hex("f348cdc9c9070000"),
        hex("f200110000"),
        [hex("f348cdc9c90700"), hex("f200110000")].concat(),
    ];
    let said = [&b"Hello"[..], b"Hello", b"HelloHello"].map(<[u8]>::to_vec);
    assert_eq!(read_all((15, true), &payloads), Ok(said.to_vec()));
}

#[test]
fn a_bomb_stops_at_the_limit() {
    let context = || Context::new(Role::Client, &agreed((15, false), (15, false)));
    let mut frame = Vec::new();
    let zeros = vec![0; 64 << 20];
    Compressor::new(9, 0).write(&mut context(), Kind::Binary, &zeros, None, &mut frame);
    let payload = &frame[4..];
    assert!(payload.len() < zeros.len() / 1000 + 100);

    let mut out = Vec::new();
    let mut server = Context::new(Role::Server, &agreed((15, true), (15, true)));
    let mut decompressor = Decompressor::new();
    for max in [0, 1, 1000, 1 << 20] {
        out.clear();
        let read = decompressor.read(&mut server, Kind::Binary, payload, max, &mut out);
        assert_eq!(read, Err(Violation::MessageTooLarge));
        assert!(out.capacity() <= max.max(ROOM_BYTES_MIN) + 1);
    }
    // A message may reach the limit, and a rejected message adds no history.
    assert_eq!(server.kept_bytes(), 0);
    let max = zeros.len();
    let read = decompressor.read(&mut server, Kind::Binary, payload, max, &mut out);
    assert_eq!((read, server.kept_bytes()), (Ok(()), 1 << 15));
    assert_eq!(
        Violation::MessageTooLarge.close_code(),
        crate::ws::close::CloseCode::MessageTooBig
    );
}

#[test]
fn sends_incompressible_messages_uncompressed() {
    let mut compressor = Compressor::new(6, 20);
    let mut context = Context::new(Role::Server, &agreed((15, true), (15, true)));
    let incompressible: Vec<u8> = (0..300u32).map(|n| (n * n * 167 / 7) as u8).collect();
    for message in [&b""[..], &[b'a'; 19], &incompressible] {
        let mut out = Vec::new();
        compressor.write(&mut context, Kind::Binary, message, None, &mut out);
        let mut plain = Vec::new();
        frame::write(
            &mut plain,
            Opcode::Binary,
            true,
            Reserved::NONE,
            None,
            message,
        );
        assert_eq!(out, plain);
    }
    assert_eq!(context.kept_bytes(), 0);
    let mut out = Vec::new();
    compressor.write(&mut context, Kind::Text, &[b'a'; 20], None, &mut out);
    assert_eq!(out[0], 0xc1);
    assert!(out.len() < 20);
}

#[test]
fn a_small_message_may_grow_so_that_the_next_can_refer_to_it() {
    let text = br#"{"user":"ada","text":"hello"}"#;
    let mut compressor = Compressor::new(6, 20);
    let mut sizes = |takeover| {
        let mut context = Context::new(Role::Server, &agreed((15, takeover), (15, true)));
        [(); 2].map(|()| {
            let mut out = Vec::new();
            compressor.write(&mut context, Kind::Text, text, None, &mut out);
            (out[0] == 0xc1, out.len())
        })
    };
    assert_eq!(sizes(false), [(false, text.len() + 2); 2]);
    let [first, second] = sizes(true);
    assert!(first.0 && first.1 <= text.len() + 2 + INVESTED_BYTES_MAX);
    assert!(second.0 && second.1 < 10, "{}", second.1);
}

#[test]
fn a_stream_works_after_many_incompressible_messages() {
    // zlib-rs 0.6.8 panics when streams with pending output are reused often enough.
    let mut state = 1u64;
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    for level in [1, 2, 6, 9] {
        let mut compressor = Compressor::new(level, 0);
        let mut context = Context::new(Role::Server, &agreed((15, true), (15, true)));
        for round in 0..200 {
            let message: Vec<u8> = (0..16_384 + round * 7).map(|_| noise()).collect();
            // Space that runs out while output is pending.
            let mut out = Vec::with_capacity(message.len() + 8 + round % 8);
            compressor.write(&mut context, Kind::Binary, &message, None, &mut out);
            assert_eq!(out.len(), 4 + message.len());
            assert!(out.ends_with(&message));
        }
    }
}

#[test]
fn without_takeover_nothing_is_kept() {
    let agreed = agreed((15, false), (15, false));
    assert!(!agreed.keeps_context());
    let mut server = Context::new(Role::Server, &agreed);
    let mut client = Context::new(Role::Client, &agreed);
    let (mut compressor, mut decompressor) = (Compressor::new(1, 0), Decompressor::new());
    let mut frames = Vec::new();
    for _ in 0..2 {
        let mut frame = Vec::new();
        let key = Some([7; 4]);
        compressor.write(&mut client, Kind::Text, &[b'a'; 500], key, &mut frame);
        frames.push(frame);
    }
    assert_eq!(frames[0], frames[1]);
    let (mut frame, mut out) = (frames.remove(0), Vec::new());
    mask::apply(&mut frame[6..], [7; 4], 0);
    let read = decompressor.read(&mut server, Kind::Text, &frame[6..], 500, &mut out);
    assert_eq!((read, &out[..]), (Ok(()), &[b'a'; 500][..]));
    assert_eq!((server.kept_bytes(), client.kept_bytes()), (0, 0));
}

#[test]
fn a_shared_frame_is_read_by_all_with_such_a_window() {
    let message = "one for all ".repeat(5000);
    let mut out = Vec::new();
    Compressor::new(6, 0).write_shared(10, Kind::Text, message.as_bytes(), &mut out);
    for bits in 10..=15 {
        let mut context = Context::new(Role::Client, &agreed((bits, false), (15, true)));
        let rules = Rules::new(Role::Client, 1 << 20, 1 << 20, true);
        let mut input = out.clone();
        let step = Reader::new().handle(&mut input, &rules).expect("valid");
        let Some(Event::Message {
            compressed: true,
            kind,
            payload,
        }) = step.event
        else {
            panic!("not compressed");
        };
        let mut text = Vec::new();
        let read = Decompressor::new().read(&mut context, kind, &payload, LIMIT, &mut text);
        assert_eq!((read, text), (Ok(()), message.clone().into_bytes()));
    }
}

/// Generates messages that repeat parts of themselves and of each other, and random messages.
fn messages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let message = prop_oneof![
        "(\\{\"user\":\"(ada|bob|eve)\",\"text\":\"[a-f]{0,20}\"\\}){0,40}"
            .prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..400),
        (any::<u8>(), 0usize..70_000).prop_map(|(byte, len)| vec![byte; len]),
        (any::<u64>(), 0usize..70_000).prop_map(|(seed, len)| {
            let word = |at: usize| (seed >> (at * 7 % 61)) as u8 ^ (at / 900) as u8;
            (0..len).map(word).collect()
        }),
    ];
    proptest::collection::vec(message, 1..8)
}

/// Decompresses one message with an independent decoder, given the history.
fn read_by_another(payload: &[u8], remembered: &[u8], window_bits: u8) -> Vec<u8> {
    use miniz_oxide::inflate::TINFLStatus;
    use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
    let mut stream = [payload, &TAIL, &[3, 0]].concat();
    let from = remembered.len().saturating_sub(1 << window_bits);
    let mut out = remembered[from..].to_vec();
    let start = out.len();
    out.resize(start + 80_000, 0);
    let flags = inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let mut state = DecompressorOxide::new();
    let (status, taken, written) = decompress(&mut state, &stream, &mut out, start, flags);
    assert_eq!((status, taken), (TINFLStatus::Done, stream.len()));
    stream.clear();
    out[start..start + written].to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_reads_back_in_any_split(
        messages in messages(),
        server in (9u8..=15, any::<bool>()),
        client in (9u8..=15, any::<bool>()),
        level in 1u8..=9,
        role in prop_oneof![Just(Role::Server), Just(Role::Client)],
        pieces in proptest::collection::vec(1usize..5000, 1..6),
    ) {
        let agreed = agreed(server, client);
        let (peer, key, bits) = match role {
            Role::Server => (Role::Client, None, server.0),
            Role::Client => (Role::Server, Some([1, 2, 3, 4]), client.0),
        };
        let mut compressor = Compressor::new(level, 16);
        let mut sends = Context::new(role, &agreed);
        let mut wire = Vec::new();
        for message in &messages {
            let before = wire.len();
            compressor.write(&mut sends, Kind::Binary, message, key, &mut wire);
            prop_assert!(wire.len() - before <= message.len() + 14 + INVESTED_BYTES_MAX);
        }
        prop_assert!(sends.kept_bytes() <= 1 << bits);

        let rules = Rules::new(peer, LIMIT as u64, LIMIT, true);
        let (mut reader, mut decompressor) = (Reader::new(), Decompressor::new());
        let mut receives = Context::new(peer, &agreed);
        let (mut read, mut said, mut sizes) = (Vec::new(), Vec::new(), pieces.iter().cycle());
        let mut rest = &mut wire[..];
        while !rest.is_empty() {
            let size = rest.len().min(*sizes.next().expect("cycle"));
            let (piece, after) = rest.split_at_mut(size);
            rest = after;
            let mut at = 0;
            while at < piece.len() {
                let step = reader.handle(&mut piece[at..], &rules).expect("valid");
                at += step.consumed;
                let Some(Event::Message { kind, compressed, payload }) = step.event else {
                    continue;
                };
                let mut out = payload.to_vec();
                if compressed {
                    out.clear();
                    let takes_over = if role == Role::Server { server.1 } else { client.1 };
                    let remembered: &[u8] = if takes_over { &said } else { &[] };
                    let other = read_by_another(&payload, remembered, bits);
                    decompressor
                        .read(&mut receives, kind, &payload, LIMIT, &mut out)
                        .expect("valid");
                    prop_assert_eq!(&out, &other);
                    said.extend_from_slice(&out);
                }
                read.push(out);
            }
        }
        prop_assert_eq!(read, messages);
        prop_assert!(receives.kept_bytes() <= 1 << bits);
    }

    #[test]
    fn any_bytes_give_a_message_or_a_violation(
        payload in proptest::collection::vec(any::<u8>(), 0..200),
        max in 0usize..5000,
    ) {
        match read_one(&payload, max) {
            Ok(message) => prop_assert!(message.len() <= max),
            Err(violation) => prop_assert!(matches!(
                violation,
                Violation::CompressionInvalid | Violation::MessageTooLarge | Violation::TextNotUtf8
            )),
        }
    }
}
