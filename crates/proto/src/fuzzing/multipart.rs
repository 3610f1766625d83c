//! Fuzz target for multipart bodies.

use crate::Refusal;
use crate::multipart::{BOUNDARY_BYTES_MAX, Event, PART_HEAD_BYTES_MAX, Parser, Part, boundary};

/// Checks a `multipart/form-data` body: every split gives the same parts, and written parts round-trip.
pub fn multipart(data: &[u8]) {
    // The first byte selects the splits.
    let Some((&seed, input)) = data.split_first() else {
        return;
    };
    if let Some(Ok(boundary)) = boundary(input) {
        assert!((1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()));
    }
    let whole = events(b"B", input, &[]);
    for splits in [
        &[0][..],
        &[seed % 5],
        &[seed % 3, seed / 7 % 13, 0, seed % 31],
    ] {
        assert_eq!(events(b"B", input, splits), whole);
    }
    for (part, _) in whole.iter().flatten() {
        assert!(part.name.len() <= PART_HEAD_BYTES_MAX);
        let filename = part.filename.as_deref().unwrap_or_default();
        assert!(!filename.iter().any(|byte| b"/\\".contains(byte)));
    }
    check_comes_back(seed, input);
}

/// Writes pieces of the input as contents of parts and checks that parsing returns them.
fn check_comes_back(seed: u8, input: &[u8]) {
    const BOUNDARY: &[u8] = b"a-boundary-that-is-in-none-of-them";
    if memchr::memmem::find(input, BOUNDARY).is_some() {
        return;
    }
    let mut body = Vec::new();
    let mut written = Vec::new();
    // Write few parts, because runs with many parts take too long.
    for (number, content) in input.chunks(16 + 4 * usize::from(seed)).enumerate() {
        let (name, filename) = (number.to_string(), format!("f{number}"));
        body.extend_from_slice(&[b"--", BOUNDARY, b"\r\n"].concat());
        body.extend_from_slice(b"Content-Disposition: form-data; name=\"");
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(b"\"; filename=\"");
        body.extend_from_slice(filename.as_bytes());
        body.extend_from_slice(b"\"\r\n\r\n");
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
        let part = Part {
            name: name.into(),
            filename: Some(filename.into()),
            content_type: None,
        };
        written.push((part, content.to_vec()));
    }
    body.extend_from_slice(&[b"--", BOUNDARY, b"--\r\n"].concat());
    assert_eq!(events(BOUNDARY, &body, &[seed]), Ok(written));
}

/// Returns the parts with their contents, parsed in pieces of `splits[i] + 1` bytes, using `splits` cyclically; in one piece if
/// `splits` is empty.
pub(crate) fn events(
    boundary: &[u8],
    input: &[u8],
    splits: &[u8],
) -> Result<Vec<(Part, Vec<u8>)>, Refusal> {
    let mut parser = Parser::new(boundary);
    let mut parts = Vec::new();
    let mut is_open = false;
    let mut take = |event: Event<'_>| {
        match event {
            Event::Part(part) => {
                assert!(!std::mem::replace(&mut is_open, true));
                parts.push((part, Vec::new()));
            }
            Event::Data(data) => {
                assert!(is_open && !data.is_empty());
                let (_, content) = parts.last_mut().expect("a part is open");
                content.extend_from_slice(data);
            }
            Event::PartEnd => assert!(std::mem::replace(&mut is_open, false)),
        }
        Ok::<(), Refusal>(())
    };
    let mut at = 0;
    let mut lengths = splits.iter().cycle().map(|&len| usize::from(len) + 1);
    while at < input.len() {
        let end = input
            .len()
            .min(at.saturating_add(lengths.next().unwrap_or(usize::MAX)));
        parser.feed(&input[at..end], &mut take)?;
        at = end;
    }
    parser.finish()?;
    assert!(!is_open);
    Ok(parts)
}
