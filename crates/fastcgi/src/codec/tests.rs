use std::net::SocketAddr;

use proptest::prelude::*;

use super::record::{Kind, record};
use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn request<'a>(target: &'a str, headers: &'a [(&'a [u8], &'a [u8])]) -> HttpRequest<'a> {
    HttpRequest {
        method: b"POST",
        target: target.as_bytes(),
        prefix: "",
        protocol: "HTTP/1.1",
        headers,
        content_bytes: Some(5),
        client: address("192.0.2.1:50000"),
        server: address("127.0.0.1:7999"),
        host: b"example.com",
        is_tls: true,
    }
}

fn value(found: &[(Vec<u8>, Vec<u8>)], name: &str) -> Option<String> {
    let values: Vec<_> = found
        .iter()
        .filter(|(other, _)| other == name.as_bytes())
        .collect();
    assert!(values.len() <= 1, "{name} twice");
    values
        .first()
        .map(|(_, value)| String::from_utf8(value.clone()).expect("text"))
}

#[test]
fn prefix_is_not_part_of_the_script_path() {
    let script = Script::Path { root: "/srv" };
    let of = |target| {
        let request = HttpRequest {
            prefix: "/old",
            ..request(target, &[])
        };
        variables(&request, script)
    };
    let found = of("/old/a.php/b?c").expect("a script");
    for (name, expected) in [
        ("SCRIPT_FILENAME", "/srv/a.php"),
        ("SCRIPT_NAME", "/old/a.php"),
        ("PATH_INFO", "/b"),
        ("DOCUMENT_URI", "/old/a.php/b"),
        ("REQUEST_URI", "/old/a.php/b?c"),
    ] {
        assert_eq!(value(&found, name).as_deref(), Some(expected), "{name}");
    }
    for target in ["/older/a.php", "/a.php", "/old", "/old/"] {
        assert_eq!(of(target), Err(VariablesError::Script), "{target}");
    }
}

#[test]
fn derives_variables_from_a_request() {
    let headers: &[(&[u8], &[u8])] = &[
        (b"Host", b"example.com"),
        (b"Content-Type", b"text/plain"),
        (b"Accept", b"a"),
        (b"accept", b"b"),
        (b"Cookie", b"c=1"),
        (b"Cookie", b"d=2"),
        (b"Proxy", b"evil"),
        (b"X_Forwarded_For", b"evil"),
        (b"Content-Length", b"99"),
    ];
    let found = variables(
        &request("/a%20b.php/in/fo?x=%2F", headers),
        Script::Path { root: "/srv/www/" },
    )
    .expect("a script");
    for (name, expected) in [
        ("SCRIPT_FILENAME", Some("/srv/www/a b.php")),
        ("SCRIPT_NAME", Some("/a b.php")),
        ("PATH_INFO", Some("/in/fo")),
        ("QUERY_STRING", Some("x=%2F")),
        ("REQUEST_URI", Some("/a%20b.php/in/fo?x=%2F")),
        ("REQUEST_METHOD", Some("POST")),
        ("HTTPS", Some("on")),
        ("REMOTE_ADDR", Some("192.0.2.1")),
        ("SERVER_PORT", Some("7999")),
        ("CONTENT_LENGTH", Some("5")),
        ("CONTENT_TYPE", Some("text/plain")),
        ("HTTP_CONTENT_TYPE", None),
        ("HTTP_HOST", Some("example.com")),
        ("HTTP_ACCEPT", Some("a, b")),
        ("HTTP_COOKIE", Some("c=1; d=2")),
        ("HTTP_PROXY", None),
        ("HTTP_X_FORWARDED_FOR", None),
        ("HTTP_CONTENT_LENGTH", None),
    ] {
        assert_eq!(value(&found, name).as_deref(), expected, "{name}");
    }
    let found = variables(
        &request("/any/path", &[]),
        Script::Fixed {
            root: "/srv",
            name: "/index.php",
        },
    )
    .expect("a script");
    assert_eq!(
        value(&found, "SCRIPT_FILENAME").as_deref(),
        Some("/srv/index.php")
    );
}

#[test]
fn rejects_paths_that_leave_the_root() {
    for target in [
        "/../a.php",
        "/a/../../b.php",
        "/%2e%2e/a.php",
        "/a%2fb.php",
        "/a%5cb.php",
        "/a%00.php",
        "/%ff.php",
        "/%zz.php",
        "/%2",
        "a.php",
        "/./a.php",
    ] {
        assert_eq!(
            variables(&request(target, &[]), Script::Path { root: "/" }),
            Err(VariablesError::Path),
            "{target}"
        );
    }
    for target in ["/", "/a.txt", "/a.phps", "/a.php.txt"] {
        assert_eq!(
            variables(&request(target, &[]), Script::Path { root: "/" }),
            Err(VariablesError::Script),
            "{target}"
        );
    }
}

#[test]
fn writes_a_request_as_records() {
    let mut out = Vec::new();
    let long = [b'v'; 200];
    Request::begin(&mut out, true).params([(&b"N"[..], &long[..])]);
    Request::body(&mut out, b"");
    Request::body(&mut out, b"hello");
    Request::body_end(&mut out);
    assert_eq!(out[..16], [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(
        out[16..30],
        [1, 4, 0, 1, 0, 206, 2, 0, 1, 0x80, 0, 0, 200, b'N']
    );
    let rest = &out[16 + 8 + 208..];
    assert_eq!(rest[..8], [1, 4, 0, 1, 0, 0, 0, 0]);
    assert_eq!(rest[8..24], *b"\x01\x05\0\x01\0\x05\x03\0hello\0\0\0");
    assert_eq!(rest[24..], [1, 5, 0, 1, 0, 0, 0, 0]);
    let mut out = Vec::new();
    Request::body(&mut out, &[0; 70_000]);
    assert_eq!(out.len(), 70_000 + 2 * 8);
}

/// Head, body, standard error and exit status.
type Answer = (Option<Head>, Vec<u8>, Vec<u8>, Option<u32>);

/// Parses a response and joins pieces of one kind.
fn read(wire: &[u8], len: usize) -> Result<Answer, FastCgiError> {
    let (mut exchange, mut events) = (Exchange::default(), Vec::new());
    for piece in wire.chunks(len) {
        exchange.handle(piece, &mut events)?;
    }
    let (mut head, mut body, mut stderr, mut end) = (None, Vec::new(), Vec::new(), None);
    for event in events {
        match event {
            Event::Interim(_) => assert!(head.is_none()),
            Event::Head(found) => assert!(head.replace(found).is_none() && body.is_empty()),
            Event::Body(piece) => body.extend(piece),
            Event::Stderr(piece) => stderr.extend(piece),
            Event::End { exit_status } => end = Some(exit_status),
        }
    }
    assert_eq!(exchange.is_complete(), end.is_some());
    assert_eq!(exchange.finish().is_ok(), end.is_some());
    Ok((head, body, stderr, end))
}

fn wire(stdout: &[&[u8]]) -> Vec<u8> {
    let mut wire = Vec::new();
    stdout
        .iter()
        .for_each(|piece| record(&mut wire, Kind::Stdout, piece));
    record(&mut wire, Kind::Stdout, b"");
    record(&mut wire, Kind::End, &[0; 8]);
    wire
}

#[test]
fn head_has_a_default_status() {
    for (text, status, reason) in [
        ("Content-type: text/html\r\n\r\n", 200, ""),
        ("Status: 404 Not Found\nA: b\n\n", 404, "Not Found"),
        ("STATUS:500\r\n\r\n", 500, ""),
        ("Location: /x\r\n\r\n", 302, ""),
        (
            "Location: /x\r\nStatus: 201 Created\r\n\r\n",
            201,
            "Created",
        ),
        ("\r\n", 200, ""),
    ] {
        let (head, body, _, end) = read(&wire(&[text.as_bytes(), b"body"]), 1000).expect("valid");
        let head = head.expect("a head");
        assert_eq!(
            (head.status, &head.reason[..], &body[..], end),
            (status, reason.as_bytes(), &b"body"[..], Some(0)),
            "{text}"
        );
        assert!(
            head.headers
                .iter()
                .all(|(name, _)| !name.eq_ignore_ascii_case(b"status"))
        );
    }
}

#[test]
fn rejects_malformed_responses() {
    let too_large = [b"A: ".to_vec(), vec![b'a'; HEAD_BYTES_MAX - 3]].concat();
    let (first, second) = too_large.split_at(60_000);
    for (wire, error) in [
        (b"HTTP/1.1 200 OK\r\n".to_vec(), FastCgiError::Version),
        (vec![1, 99, 0, 1, 0, 0, 0, 0], FastCgiError::Record),
        (vec![1, 6, 0, 2, 0, 0, 0, 0], FastCgiError::Record),
        (vec![1, 3, 0, 1, 0, 7, 0, 0], FastCgiError::Record),
        (
            vec![1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0],
            FastCgiError::Refused(2),
        ),
        (wire(&[]), FastCgiError::Head(HeadError::Truncated)),
        (
            wire(&[b"no header\r\n\r\n"]),
            FastCgiError::Head(HeadError::Line),
        ),
        (
            wire(&[b"A b: c\r\n\r\n"]),
            FastCgiError::Head(HeadError::Line),
        ),
        (
            wire(&[b"A: b\0\r\n\r\n"]),
            FastCgiError::Head(HeadError::Line),
        ),
        (
            wire(&[b"Status: 101 Switching Protocols\r\n\r\n"]),
            FastCgiError::Head(HeadError::Status),
        ),
        (
            wire(&[b"Status: 99\r\n\r\n"]),
            FastCgiError::Head(HeadError::Status),
        ),
        (
            wire(&[b"Status: 2000\r\n\r\n"]),
            FastCgiError::Head(HeadError::Status),
        ),
        (
            wire(&[first, second]),
            FastCgiError::Head(HeadError::TooLarge),
        ),
        ([wire(&[b"\n"]), vec![1]].concat(), FastCgiError::Rest),
    ] {
        assert_eq!(read(&wire, 100_000), Err(error));
        assert_eq!(read(&wire, 1), Err(error));
    }
}

#[test]
fn standard_error_is_bounded() {
    let mut wire_bytes = Vec::new();
    for _ in 0..10 {
        record(&mut wire_bytes, Kind::Stderr, &[b'e'; 10_000]);
    }
    let (_, _, stderr, _) = read(&[wire_bytes, wire(&[b"\n"])].concat(), 5_000).expect("valid");
    assert_eq!(stderr.len(), STDERR_BYTES_MAX);
}

proptest! {
    #[test]
    fn result_is_independent_of_the_split(body in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6), len in 1usize..20) {
        let mut pieces = vec![&b"Status: 200 OK\r\nA:"[..], b" b\r\n\r", b"\nx"];
        // An empty record ends the stream.
        pieces.extend(body.iter().filter(|piece| !piece.is_empty()).map(Vec::as_slice));
        let wire = wire(&pieces);
        prop_assert_eq!(read(&wire, len), read(&wire, usize::MAX));
        let (_, found, _, _) = read(&wire, len).expect("valid");
        prop_assert_eq!(found, [b"x".to_vec(), body.concat()].concat());
    }

    #[test]
    fn never_panics_on_any_bytes(bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(3), Just(6), Just(8), any::<u8>()], 0..60), len in 1usize..9) {
        prop_assert_eq!(read(&bytes, len).err(), read(&bytes, usize::MAX).err());
    }
}

#[test]
fn front_controller_handles_paths_without_a_script() {
    let folder = std::env::temp_dir().join(format!("fermata-front-{}", std::process::id()));
    for name in ["admin", "empty", "data/sub", ".git"] {
        std::fs::create_dir_all(folder.join(name)).expect("a folder");
    }
    for name in [
        "index.php",
        "doku.php",
        "admin/index.php",
        "admin/a b.php",
        "data/x.php",
        ".git/x.php",
        "image.jpg",
    ] {
        std::fs::write(folder.join(name), "").expect("a file");
    }
    let root = folder.to_str().expect("a name").to_owned();
    let denied = ["/data".to_owned()];
    let asked = |target: &str, name| {
        let script = Script::Front {
            root: &root,
            name,
            denied: &denied,
        };
        variables(&request(target, &[]), script).map(|found| {
            let name = value(&found, "SCRIPT_NAME").expect("a script");
            assert_eq!(
                value(&found, "SCRIPT_FILENAME"),
                Some(format!("{root}{name}"))
            );
            (name, value(&found, "PATH_INFO").unwrap_or_default())
        })
    };
    for (target, name, info) in [
        ("/", "/index.php", ""),
        ("/a/b?c", "/index.php", ""),
        ("/index.php", "/index.php", ""),
        ("/index.php/a/b", "/index.php", "/a/b"),
        ("/doku.php/start", "/doku.php", "/start"),
        ("/doku.phps", "/index.php", ""),
        ("/nothing.php", "/index.php", ""),
        ("/admin/", "/admin/index.php", ""),
        ("/admin/a%20b.php/c", "/admin/a b.php", "/c"),
        ("/admin/nothing", "/index.php", ""),
        ("/empty", "/index.php", ""),
        ("/empty/", "/index.php", ""),
        ("/image.jpg/x.php", "/index.php", ""),
        ("/.git/x.php", "/index.php", ""),
        ("/database", "/index.php", ""),
        // Paths that are not names of files: a page in Latin-1, and one with a slash in its name.
        ("/wiki/%e4pfel", "/index.php", ""),
        ("/doku.php%2fstart", "/index.php", ""),
        ("/admin%2findex.php", "/index.php", ""),
    ] {
        let expected = Ok((name.to_owned(), info.to_owned()));
        assert_eq!(asked(target, "/index.php"), expected, "{target}");
    }
    assert_eq!(asked("/admin", "/index.php"), Err(VariablesError::Folder));
    for target in [
        "/data",
        "/data/",
        "/data/x.php",
        "/%64ata/x.php",
        "//data/sub/a",
        "/data%2fx.php",
        "/data/%ff",
    ] {
        let found = asked(target, "/index.php");
        assert_eq!(found, Err(VariablesError::Script), "{target}");
    }
    assert_eq!(asked("/a", "/no.php"), Err(VariablesError::Script));
    for target in ["/a%2f..%2fb", "/a%00", "/%2e%2e/%ff"] {
        let found = asked(target, "/index.php");
        assert_eq!(found, Err(VariablesError::Path), "{target}");
    }
    std::fs::remove_dir_all(folder).expect("it was made");
}

#[test]
fn interim_heads_come_before_the_final_one() {
    let interim = "Status: 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n";
    let text = format!("{interim}{interim}Status: 201\r\n\r\nbody");
    for piece in [1, 7, 1000] {
        let mut exchange = Exchange::default();
        let mut events = Vec::new();
        for bytes in wire(&[text.as_bytes()]).chunks(piece) {
            exchange.handle(bytes, &mut events).expect("valid");
        }
        let statuses: Vec<(bool, u16)> = events
            .iter()
            .filter_map(|event| match event {
                Event::Interim(head) => Some((true, head.status)),
                Event::Head(head) => Some((false, head.status)),
                _ => None,
            })
            .collect();
        assert_eq!(statuses, [(true, 103), (true, 103), (false, 201)]);
    }
    let endless = interim.repeat(17);
    let refused = read(&wire(&[endless.as_bytes()]), 1000);
    assert_eq!(refused, Err(FastCgiError::Head(HeadError::Interim)));
}
