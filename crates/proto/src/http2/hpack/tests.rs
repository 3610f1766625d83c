//! Examples of RFC 7541, appendix C, and vectors of other implementations.

use httlib_hpack::Encoder;
use proptest::prelude::*;

use super::*;
use crate::Span;

type Pair = (Vec<u8>, Vec<u8>);

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Pair>, Error> {
    let mut text = Vec::new();
    let mut fields = Vec::new();
    let mut at = decoder.begin(block)?;
    while let Some(field) = decoder.next(block, &mut at, &mut text, true)? {
        fields.push((field.name, field.value));
    }
    let bytes = |span: Span| span.of(&text).to_vec();
    Ok(fields
        .into_iter()
        .map(|(name, value)| (bytes(name), bytes(value)))
        .collect())
}

fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .bytes()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let digit = |byte: u8| (byte as char).to_digit(16).expect("hexadecimal") as u8;
    digits
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

fn pairs(fields: &[(&str, &str)]) -> Vec<Pair> {
    fields
        .iter()
        .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
        .collect()
}

const REQUESTS: [&[(&str, &str)]; 3] = [
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
];

const RESPONSES: [&[(&str, &str)]; 3] = [
    &[
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        ("location", "https://www.example.com"),
        ("content-encoding", "gzip"),
        (
            "set-cookie",
            "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
        ),
    ],
];

fn check(
    decoder: &mut Decoder,
    blocks: [&str; 3],
    fields: [&[(&str, &str)]; 3],
    sizes: [usize; 3],
) {
    for ((block, fields), size) in blocks.into_iter().zip(fields).zip(sizes) {
        assert_eq!(decode(decoder, &unhex(block)), Ok(pairs(fields)));
        assert_eq!(decoder.table_size(), size);
    }
}

/// Appendix C.2.
#[test]
fn single_fields() {
    let mut decoder = Decoder::new();
    let block = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    let expected = pairs(&[("custom-key", "custom-header")]);
    assert_eq!(decode(&mut decoder, &unhex(block)), Ok(expected));
    assert_eq!(decoder.table_size(), 55);

    let mut decoder = Decoder::new();
    let block = "040c 2f73 616d 706c 652f 7061 7468";
    let expected = pairs(&[(":path", "/sample/path")]);
    assert_eq!(decode(&mut decoder, &unhex(block)), Ok(expected));
    let block = unhex("1008 7061 7373 776f 7264 0673 6563 7265 74");
    assert_eq!(
        decode(&mut decoder, &block),
        Ok(pairs(&[("password", "secret")]))
    );
    let field = decoder.next(&block, &mut 0, &mut Vec::new(), true);
    assert!(field.expect("valid").expect("one").never_indexed);
    assert_eq!(
        decode(&mut decoder, &[0x82]),
        Ok(pairs(&[(":method", "GET")]))
    );
    // Without an insertion no memory is allocated.
    assert_eq!(decoder.kept_bytes(), 0);
}

/// Appendices C.3 and C.4.
#[test]
fn requests() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let huffman = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, huffman] {
        check(&mut Decoder::new(), blocks, REQUESTS, [57, 110, 164]);
    }
}

/// Appendices C.5 and C.6, with a table of 256 octets, which evicts.
#[test]
fn responses() {
    let plain = [
        "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133
         2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70
         6c65 2e63 6f6d",
        "4803 3330 37c1 c0bf",
        "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d
         54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049
         5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e
         3d31",
    ];
    let huffman = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6
         2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab
         77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
         9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    ];
    for blocks in [plain, huffman] {
        let mut decoder = Decoder::new();
        decoder.set_size_max(256);
        // A size update must come first (section 4.2).
        assert_eq!(decode(&mut decoder, &[0x82]), Err(Error::SizeUpdateMissing));
        assert_eq!(decode(&mut decoder, &unhex("3fe1 01")), Ok(Vec::new()));
        check(&mut decoder, blocks, RESPONSES, [222, 222, 215]);
    }
}

#[test]
fn malformed_blocks() {
    for (block, error) in [
        ("80", Error::Index),
        ("be", Error::Index),
        ("7e00", Error::Index),
        ("ff80 8080 8010", Error::Integer),
        ("ff", Error::Truncated),
        ("4005 61", Error::Truncated),
        ("40", Error::Truncated),
        ("0081 0000", Error::Huffman),
        ("8220", Error::SizeUpdateLate),
        ("3fe2 1f", Error::SizeUpdateTooLarge),
    ] {
        assert_eq!(
            decode(&mut Decoder::new(), &unhex(block)),
            Err(error),
            "{block}"
        );
    }
    // The largest allowed size, and several updates in a row.
    assert_eq!(
        decode(&mut Decoder::new(), &unhex("3fe1 1f20 3fe1 1f")),
        Ok(Vec::new())
    );
}

/// A block above the limits costs no more than its own bytes, however large the entries are that it refers to.
#[test]
fn what_is_not_stored_is_followed() {
    let mut decoder = Decoder::new();
    let mut block = unhex("4001 78");
    integer::write(&mut block, 0, 7, 4000);
    block.extend([b'v'; 4000]);
    let fields = decode(&mut decoder, &block).expect("valid");
    let mut text = Vec::new();
    for _ in 0..100_000 {
        let field = decoder
            .next(&[0xbe], &mut 0, &mut text, false)
            .expect("valid");
        assert_eq!(field.expect("one").value.len, 0);
    }
    assert_eq!(text.capacity(), 0);
    // A name from the table is still inserted, because the peer refers to the new entry.
    let found = decoder.next(&unhex("7e01 77"), &mut 0, &mut text, false);
    assert!(found.expect("valid").is_some());
    assert_eq!(decode(&mut decoder, &[0xbe]), Ok(pairs(&[("x", "w")])));
    assert_eq!(decode(&mut decoder, &[0xbf]), Ok(fields));
}

#[test]
fn encoded_fields() {
    let mut out = Vec::new();
    encode_status(&mut out, 200);
    encode(&mut out, b"Content-Type", b"text/event-stream");
    encode(&mut out, b"cache-control", b"no-cache");
    assert_eq!(
        out,
        b"\x88\x0f\x10\x11text/event-stream\x0f\x09\x08no-cache"
    );
    out.clear();
    encode(&mut out, b"Set-Cookie", b"a=b");
    encode_secret(&mut out, b"X-Key", b"k");
    assert_eq!(out, b"\x1f\x28\x03a=b\x10\x05x-key\x01k");
    let mut decoder = Decoder::new();
    let expected = pairs(&[("set-cookie", "a=b"), ("x-key", "k")]);
    assert_eq!(decode(&mut decoder, &out), Ok(expected));
    for status in 100..=999 {
        out.clear();
        encode_status(&mut out, status);
        let expected = pairs(&[(":status", &status.to_string())]);
        assert_eq!(decode(&mut decoder, &out), Ok(expected));
    }
}

/// Fields that repeat names and values, so that the table is used.
fn any_fields() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>, u8)>> {
    let name = prop_oneof![
        Just(b":path".to_vec()),
        Just(b"content-type".to_vec()),
        Just(b"x-a".to_vec()),
        "[a-z-]{1,40}".prop_map(String::into_bytes),
    ];
    let value = prop_oneof![
        Just(b"text/plain".to_vec()),
        Just(b"/".to_vec()),
        prop::collection::vec(any::<u8>(), 0..200),
    ];
    let bits = Encoder::HUFFMAN_NAME | Encoder::HUFFMAN_VALUE;
    let flags = prop_oneof![
        Just(Encoder::BEST_FORMAT),
        Just(Encoder::WITH_INDEXING),
        Just(Encoder::NEVER_INDEXED),
        Just(0),
    ];
    let field = (name, value, flags, any::<bool>());
    let field = field.prop_map(move |(name, value, flags, huffman)| {
        (name, value, if huffman { flags | bits } else { flags })
    });
    prop::collection::vec(field, 0..30)
}

proptest! {
    /// The decoder reads another encoder's output, with any table size and Huffman codes.
    #[test]
    fn another_encoder_is_understood(
        blocks in prop::collection::vec((any_fields(), prop::option::of(0u32..4096)), 1..8)
    ) {
        let mut encoder = Encoder::default();
        let mut decoder = Decoder::new();
        for (fields, size) in blocks {
            let mut block = Vec::new();
            if let Some(size) = size {
                encoder.update_max_dynamic_size(size, &mut block).expect("written");
            }
            let mut expected = Vec::new();
            for (name, value, flags) in fields {
                let field = (name.clone(), value.clone(), flags);
                encoder.encode(field, &mut block).expect("written");
                expected.push((name, value));
            }
            prop_assert_eq!(decode(&mut decoder, &block), Ok(expected));
        }
    }

    /// Another decoder reads the encoder's output.
    #[test]
    fn another_decoder_understands(fields in any_fields(), status in 100u16..1000) {
        let mut block = Vec::new();
        encode_status(&mut block, status);
        let mut expected = vec![(b":status".to_vec(), status.to_string().into_bytes())];
        for (name, value, flags) in fields {
            if flags & Encoder::NEVER_INDEXED == Encoder::NEVER_INDEXED {
                encode_secret(&mut block, &name, &value);
            } else {
                encode(&mut block, &name.to_ascii_uppercase(), &value);
            }
            expected.push((name, value));
        }
        let mut found = Vec::new();
        let mut decoder = httlib_hpack::Decoder::default();
        decoder.decode(&mut block, &mut found).expect("valid");
        let found: Vec<Pair> = found.into_iter().map(|(name, value, _)| (name, value)).collect();
        prop_assert_eq!(found, expected);
    }

    /// Any bytes are rejected, or decoded like another decoder does, which accepts more.
    #[test]
    fn any_bytes_read_the_same(block in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(fields) = decode(&mut Decoder::new(), &block) {
            let mut found = Vec::new();
            let mut other = httlib_hpack::Decoder::default();
            other.decode(&mut block.clone(), &mut found).expect("ours took it");
            let found: Vec<Pair> = found.into_iter().map(|(name, value, _)| (name, value)).collect();
            prop_assert_eq!(found, fields);
        }
    }
}

/// `http2jp/hpack-test-case`, which is not part of this repository: encodings of real headers by 32 implementations.
#[test]
fn vectors_of_other_implementations() {
    let Some(folder) = std::env::var_os("FERMATA_HPACK_VECTORS") else {
        println!("not run: FERMATA_HPACK_VECTORS names no folder");
        return;
    };
    let mut cases = 0;
    for implementation in std::fs::read_dir(folder).expect("a folder").flatten() {
        let Ok(stories) = std::fs::read_dir(implementation.path()) else {
            continue;
        };
        for story in stories.flatten() {
            if story
                .path()
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                let text = std::fs::read_to_string(story.path()).expect("readable");
                cases += check_story(&text, &story.path().display().to_string());
            }
        }
    }
    assert!(cases > 0, "the folder holds no stories");
    println!("{cases} blocks");
}

/// Parses the JSON of a test file, only as far as these files need it: `wire`, `header_table_size` and the pairs of `headers`,
/// in order.
fn check_story(text: &str, name: &str) -> usize {
    let mut decoder = Decoder::new();
    let mut cases = 0;
    for case in objects(after(text, "\"cases\"").expect("cases")) {
        let Some(wire) = after(case, "\"wire\"").map(|rest| string(rest).0) else {
            // This test file has no encoded blocks.
            return 0;
        };
        if let Some(size) = after(case, "\"header_table_size\"") {
            let digits = size.trim_start_matches([':', ' ']);
            let digits = &digits[..digits.find([',', '}', '\n']).expect("more")];
            let size = digits.trim().parse().unwrap_or(u32::from(u16::MAX));
            decoder.set_size_max(u16::try_from(size).unwrap_or(u16::MAX));
        }
        let mut expected = Vec::new();
        let mut rest = after(case, "\"headers\"").expect("headers");
        rest = &rest[rest.find('[').expect("a list") + 1..];
        while let Some(open) = rest.find(['{', ']'])
            && rest.as_bytes()[open] == b'{'
        {
            let (field, behind) = string(&rest[open + 1..]);
            let (value, behind) = string(behind);
            expected.push((field.into_bytes(), value.into_bytes()));
            rest = &behind[behind.find('}').expect("the end of a pair") + 1..];
        }
        let found = decode(&mut decoder, &unhex(&wire));
        assert_eq!(found, Ok(expected), "{name}, block {cases}");
        cases += 1;
    }
    cases
}

/// Returns the objects of the list in `text`.
fn objects(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut in_string, mut escaped) = (0, 0, false, false);
    let mut objects = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' => {
                if depth == 0 {
                    start = at;
                }
                depth += 1;
            }
            b'}' if depth == 0 => break,
            b'}' => {
                depth -= 1;
                if depth == 0 {
                    objects.push(&text[start..=at]);
                }
            }
            _ => {}
        }
    }
    objects
}

fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.find(key).map(|at| &text[at + key.len()..])
}

/// Returns the first string of `text` and the text after it.
fn string(text: &str) -> (String, &str) {
    let start = text.find('"').expect("a string") + 1;
    let mut value = String::new();
    let mut characters = text[start..].char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[start + at + 1..]),
            '\\' => match characters.next().expect("an escape").1 {
                'n' => value.push('\n'),
                't' => value.push('\t'),
                'u' => {
                    let digits: String = characters.by_ref().take(4).map(|(_, c)| c).collect();
                    let code = u32::from_str_radix(&digits, 16).expect("hexadecimal");
                    value.push(char::from_u32(code).expect("a character"));
                }
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    panic!("a string without end");
}
