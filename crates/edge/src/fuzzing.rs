//! Fuzz targets: each accepts arbitrary bytes, and panics when its parser breaks an invariant.
//!
//! Property tests next to the parsers check the same invariants on stable Rust.

use fermata_fastcgi::codec as fastcgi;
use fermata_proto::response_reader::{self, ResponseReader};

use crate::routes::{Proto, Request, Routes, normalised};
use crate::settings::{Settings, read_pushpin, read_toml};

/// Configuration files: any text is parsed or refused, and a route that is found matches.
pub fn edge_files(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (routes, _) = Routes::read(text, |_| Ok(()));
    for path in [&b"/"[..], b"/api/x"] {
        let request = Request {
            host: "a.example",
            path,
            proto: Proto::Http,
            is_tls: true,
        };
        if let Some(rule) = routes.find(&request) {
            assert!(normalised(path).starts_with(rule.path_beg.as_bytes()));
            assert!(!rule.targets.is_empty());
            assert!(rule.proto != Some(Proto::Ws) && rule.is_tls != Some(false));
            assert_eq!(rule.backend_path(path).first(), Some(&b'/'));
        }
    }
    let _ = read_pushpin(&mut Settings::default(), "pushpin.conf", text);
    let _ = read_toml(&mut Settings::default(), "edge.toml", text);
}

/// FastCGI responses: however the bytes are split, body, head and error are the same.
pub fn edge_fastcgi(data: &[u8]) {
    let whole = fastcgi_answer(data, usize::MAX);
    for len in [1, 7] {
        assert_eq!(fastcgi_answer(data, len), whole);
    }
}

type FastCgiAnswer = (
    Option<fastcgi::Head>,
    Vec<u8>,
    Option<fastcgi::FastCgiError>,
);

fn fastcgi_answer(data: &[u8], len: usize) -> FastCgiAnswer {
    let (mut exchange, mut events) = (fastcgi::Exchange::default(), Vec::new());
    let error = data
        .chunks(len)
        .find_map(|piece| exchange.handle(piece, &mut events).err());
    let (mut head, mut body) = (None, Vec::new());
    for event in events {
        match event {
            fastcgi::Event::Interim(found) => assert!(head.is_none() && found.is_interim()),
            fastcgi::Event::Head(found) => assert!(head.replace(found).is_none()),
            fastcgi::Event::Body(piece) => body.extend(piece),
            fastcgi::Event::Stderr(_) | fastcgi::Event::End { .. } => {}
        }
    }
    (head, body, error)
}

/// HTTP/1 responses: however the bytes are split, head and error are the same, and the body does
/// not exceed its length.
pub fn edge_response(data: &[u8]) {
    let Some((&selector, wire)) = data.split_first() else {
        return;
    };
    let whole = response(wire, usize::MAX, selector);
    for len in [1, 7] {
        let part = response(wire, len, selector);
        assert_eq!((&part.0, part.2), (&whole.0, whole.2));
        // The bytes of a chunk before an error depend on the split.
        if !matches!(whole.2, Some(response_reader::ResponseError::Chunk(_))) {
            assert_eq!(part.1, whole.1);
        }
    }
    if let (Some(head), body, None) = whole {
        match head.body {
            response_reader::Body::Length(length) => assert_eq!(body.len() as u64, length),
            response_reader::Body::Empty => assert!(body.is_empty()),
            response_reader::Body::Chunked
            | response_reader::Body::UntilClose
            | response_reader::Body::Upgraded => {}
        }
    }
}

type HttpAnswer = (
    Option<response_reader::Head>,
    Vec<u8>,
    Option<response_reader::ResponseError>,
);

fn response(wire: &[u8], len: usize, selector: u8) -> HttpAnswer {
    let mut reader = ResponseReader::new(response_reader::RequestKind {
        is_head: selector & 1 == 1,
        wants_upgrade: selector & 2 == 2,
    });
    let mut events = Vec::new();
    let error = wire
        .chunks(len)
        .find_map(|piece| reader.handle(piece, &mut events).err());
    let error = error.or_else(|| reader.finish(&mut events).err());
    let (mut head, mut body) = (None, Vec::new());
    for event in events {
        match event {
            response_reader::Event::Head(found) => assert!(head.replace(found).is_none()),
            response_reader::Event::Body(piece) => body.extend(piece),
            response_reader::Event::Interim(found) => assert!(found.is_interim()),
            response_reader::Event::Upgraded(_) | response_reader::Event::End { .. } => {}
        }
    }
    (head, body, error)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    const PARTS: &[&[u8]] = &[
        b"HTTP/1.1 200 OK\r\n",
        b"Content-Length: 2\r\n",
        b"\r\n",
        b"ab",
        b"\x01\x06\0\x01\0\x0d\x03\0",
        b"Status: 200\r\n",
        b"\x01\x03\0\x01\0\x08\0\0\0\0\0\0\0\0\0\0",
        b"* ",
        b"a:80",
        b",path_beg=/",
        b"[proxy]\n",
        b"debug=true\n",
        b"\0",
        b"\n",
    ];

    proptest! {
        #[test]
        fn bytes_near_the_formats(parts in prop::collection::vec(prop::sample::select(PARTS), 0..8)) {
            let data = parts.concat();
            super::edge_files(&data);
            super::edge_fastcgi(&data);
            super::edge_response(&[&[0], &data[..]].concat());
        }
    }
}
