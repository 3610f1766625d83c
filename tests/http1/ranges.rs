//! Ranges and conditions (RFC 9110, sections 13 and 14) for static files and files sent by
//! handlers.

use std::fs;

use fermata_testkit::{Builder, Connection, Framing, Response};
use fermata_tests::fixture;

const DIGITS: &str = "0123456789";
const LARGE_BYTES: usize = 2_000_000;

fn site() -> Builder {
    let builder = fixture("responses").workers(1);
    let directory = builder.directory();
    directory.write("assets/digits.bin", DIGITS);
    directory.write("assets/a.txt", "index");
    directory.write("assets/empty.bin", "");
    directory.write("assets/sub/index.html", "<p>");
    directory.write(
        "assets/large.bin",
        (0..LARGE_BYTES).map(|n| (n / 7) as u8).collect::<Vec<u8>>(),
    );
    directory.write("assets/.hidden", "hidden");
    directory.write("secret.txt", "outside");
    builder
}

fn ask(connection: &mut Connection, path: &str, headers: &[(&str, &str)]) -> Response {
    connection.request("GET", path, headers, b"")
}

/// A static path and a handler for the same file.
const PATHS: [&str; 2] = ["/assets/digits.bin", "/file/digits.bin"];

#[test]
fn a_part_is_sent_as_206() {
    let server = site().start();
    let mut connection = server.connect();
    for path in PATHS {
        for (range, content, content_range) in [
            ("bytes=0-3", "0123", "bytes 0-3/10"),
            ("bytes=8-", "89", "bytes 8-9/10"),
            ("bytes=-2", "89", "bytes 8-9/10"),
            ("bytes=5-500", "56789", "bytes 5-9/10"),
            ("bytes=1-1, 90-", "1", "bytes 1-1/10"),
        ] {
            let response = ask(&mut connection, path, &[("Range", range)]);
            assert_eq!(
                (response.status(), response.text()),
                (206, content),
                "{range}"
            );
            assert_eq!(response.header("content-range"), Some(content_range));
            let length = Framing::Length(content.len());
            assert_eq!(response.framing, length);
        }
        let whole = ask(&mut connection, path, &[]);
        assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    }
}

#[test]
fn what_is_no_range_gives_the_whole() {
    let server = site().start();
    let mut connection = server.connect();
    for range in ["bytes=a", "lines=0-1", "bytes=4-2", "", "bytes=0-9,0-9"] {
        let response = ask(&mut connection, PATHS[0], &[("Range", range)]);
        assert_eq!(
            (response.status(), response.text()),
            (200, DIGITS),
            "{range}"
        );
    }
    let head = connection.request("HEAD", PATHS[0], &[("Range", "bytes=0-1")], b"");
    assert_eq!(
        (head.status(), head.header("content-length")),
        (200, Some("10"))
    );
}

#[test]
fn a_range_beyond_the_end_is_416() {
    let server = site().start();
    let mut connection = server.connect();
    for path in PATHS {
        let response = ask(&mut connection, path, &[("Range", "bytes=10-")]);
        assert_eq!(response.status(), 416);
        assert_eq!(response.header("content-range"), Some("bytes */10"));
    }
    let empty = ask(
        &mut connection,
        "/assets/empty.bin",
        &[("Range", "bytes=0-0")],
    );
    assert_eq!(empty.status(), 416);
    let empty = ask(
        &mut connection,
        "/assets/empty.bin",
        &[("Range", "bytes=-1")],
    );
    assert_eq!((empty.status(), empty.text()), (200, ""));
}

#[test]
fn several_parts_are_multipart() {
    let server = site().start();
    let mut connection = server.connect();
    let response = ask(&mut connection, PATHS[0], &[("Range", "bytes=0-1,-1,4-5")]);
    assert_eq!(response.status(), 206);
    let content_type = response.header("content-type").expect("it has a type");
    let boundary = content_type
        .strip_prefix("multipart/byteranges; boundary=")
        .expect("several parts");
    let part = |range: &str, content: &str| {
        format!(
            "\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\nContent-Range: bytes {range}/10\r\n\r\n{content}"
        )
    };
    let parts = [part("0-1", "01"), part("9-9", "9"), part("4-5", "45")];
    assert_eq!(
        response.text(),
        format!("{}\r\n--{boundary}--\r\n", parts.concat())
    );
    // The connection stays usable.
    assert_eq!(ask(&mut connection, PATHS[1], &[]).text(), DIGITS);
}

#[test]
fn large_parts_arrive_whole_and_in_order() {
    let server = site().start();
    let mut connection = server.connect();
    let content = fs::read(server.directory().join("assets/large.bin")).expect("it was written");
    let mut wire = String::new();
    for range in ["bytes=0-1499999", "bytes=100-1999999", "bytes=-1"] {
        wire.push_str(&format!(
            "GET /assets/large.bin HTTP/1.1\r\nHost: a\r\nRange: {range}\r\n\r\n"
        ));
    }
    connection.send(wire);
    for part in [
        &content[..1_500_000],
        &content[100..],
        &content[LARGE_BYTES - 1..],
    ] {
        let response = connection.read_response();
        assert_eq!(response.status(), 206);
        assert!(response.body == part);
    }
}

#[test]
fn if_range_decides_between_part_and_whole() {
    let server = site().start();
    let mut connection = server.connect();
    let path = PATHS[0];
    let etag = ask(&mut connection, path, &[])
        .header("etag")
        .expect("a tag")
        .to_owned();
    let weak = format!("W/{etag}");
    for (condition, status) in [
        (etag.as_str(), 206),
        (&weak, 200),
        ("\"other\"", 200),
        ("then", 200),
    ] {
        let headers = [("Range", "bytes=0-3"), ("If-Range", condition)];
        assert_eq!(
            ask(&mut connection, path, &headers).status(),
            status,
            "{condition}"
        );
    }
}

#[test]
fn conditions_are_met() {
    let server = site().start();
    let mut connection = server.connect();
    for path in PATHS {
        let first = ask(&mut connection, path, &[]);
        let etag = first.header("etag").expect("a tag").to_owned();
        let modified = first.header("last-modified").expect("a date").to_owned();
        let old = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (headers, status) in [
            (vec![("If-None-Match", etag.as_str())], 304),
            (
                vec![("If-None-Match", "\"a\""), ("If-None-Match", &etag)],
                304,
            ),
            (vec![("If-Modified-Since", modified.as_str())], 304),
            (vec![("If-Match", etag.as_str())], 200),
            (vec![("If-Match", "\"other\"")], 412),
            (vec![("If-Match", "*")], 200),
            (vec![("If-Unmodified-Since", old)], 412),
            (vec![("If-Unmodified-Since", modified.as_str())], 200),
            (
                vec![("If-None-Match", etag.as_str()), ("Range", "bytes=0-1")],
                304,
            ),
            (vec![("If-Match", "\"other\""), ("Range", "bytes=99-")], 412),
        ] {
            let response = ask(&mut connection, path, &headers);
            assert_eq!(response.status(), status, "{path} {headers:?}");
            if status == 304 {
                assert_eq!(response.header("etag"), Some(etag.as_str()));
                assert_eq!(response.framing, Framing::None);
            }
        }
        let head = connection.request("HEAD", path, &[("If-None-Match", &etag)], b"");
        assert_eq!(head.status(), 304);
    }
}

#[test]
fn a_program_sends_files_from_its_root_alone() {
    let server = site().start();
    let mut connection = server.connect();
    let response = ask(&mut connection, "/file/a.txt", &[]);
    assert_eq!((response.status(), response.text()), (200, "index"));
    assert_eq!(
        response.header("content-type"),
        Some("text/plain; charset=utf-8")
    );
    assert_eq!(response.header("x-mine"), Some("yes"));
    for path in [
        "/file/missing",
        "/file/.hidden",
        "/file/sub",
        "/file/..%2e/secret.txt",
    ] {
        let status = ask(&mut connection, path, &[]).status();
        assert_eq!(status, 404, "{path}");
    }
    for path in ["/file/../secret.txt", "/file/%2e%2e/secret.txt"] {
        assert_eq!(server.connect().get(path).status(), 400, "{path}");
    }
    let anywhere = ask(&mut connection, "/anywhere", &[]);
    assert_eq!(
        (anywhere.text(), anywhere.header("content-type")),
        ("outside", Some("text/x-secret"))
    );
}

#[test]
fn a_download_has_a_name() {
    let server = site().start();
    let mut connection = server.connect();
    let response = ask(
        &mut connection,
        "/file/a.txt?as=r%C3%A9sum%C3%A9%22%0D%0A.txt",
        &[],
    );
    assert_eq!(response.status(), 200);
    assert_eq!(
        response.header("content-disposition"),
        Some(
            "attachment; filename=\"r_sum____.txt\"; filename*=UTF-8''r%C3%A9sum%C3%A9%22%0D%0A.txt"
        )
    );
}

#[test]
fn a_directory_keeps_the_query_when_it_redirects() {
    let server = site().start();
    let response = server.connect().get("/assets/sub?page=2&x=%20");
    assert_eq!(response.status(), 308);
    assert_eq!(
        response.header("location"),
        Some("/assets/sub/?page=2&x=%20")
    );
}

#[test]
fn options_of_a_static_tree() {
    let server = site().start();
    let mut connection = server.connect();
    let index = ask(&mut connection, "/cached/", &[]);
    assert_eq!(index.text(), "index");
    assert_eq!(
        index.header("cache-control"),
        Some("public, max-age=3600, immutable")
    );
    let etag = index.header("etag").expect("a tag").to_owned();
    let fresh = ask(&mut connection, "/cached/", &[("If-None-Match", &etag)]);
    assert_eq!(
        fresh.header("cache-control"),
        Some("public, max-age=3600, immutable")
    );
    assert_eq!(
        ask(&mut connection, "/assets/a.txt", &[]).header("cache-control"),
        None
    );
}

#[test]
fn errors_are_said_in_what_the_client_reads() {
    let server = site().start();
    let mut connection = server.connect();
    for (accept, content_type, start) in [
        ("*/*", "text/plain; charset=utf-8", "Nothing is here."),
        ("application/json", "application/json", "{"),
        (
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "text/html; charset=utf-8",
            "<!doctype html>",
        ),
    ] {
        for path in ["/assets/missing", "/missing"] {
            let response = ask(&mut connection, path, &[("Accept", accept)]);
            assert_eq!(response.status(), 404);
            assert_eq!(response.header("content-type"), Some(content_type));
            assert!(response.text().starts_with(start), "{}", response.text());
        }
    }
}
