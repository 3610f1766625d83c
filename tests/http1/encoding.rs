//! Content codings: precompressed files, compression of responses, and content that stays
//! uncompressed.

use std::io::Read;

use fermata_testkit::{Builder, Connection, Response};
use fermata_tests::fixture;

fn site() -> Builder {
    let builder = fixture("responses").workers(1);
    let directory = builder.directory();
    directory.write("assets/app.js", script());
    directory.write("assets/lib.js", "plain");
    directory.write("assets/lib.js.br", "as brotli");
    directory.write("assets/lib.js.gz", "as gzip");
    directory.write("assets/small.css", "a{}");
    directory.write("assets/photo.png", script());
    directory.write("assets/huge.txt", "x".repeat(600_000));
    builder
}

fn script() -> String {
    "export const answer = 42; // and so on\n".repeat(500)
}

fn ask(connection: &mut Connection, path: &str, accept: &str) -> Response {
    connection.request("GET", path, &[("Accept-Encoding", accept)], b"")
}

fn decoded(response: &Response) -> String {
    let mut out = Vec::new();
    let body = &response.body[..];
    match response.header("content-encoding") {
        Some("gzip") => flate2::read::GzDecoder::new(body).read_to_end(&mut out),
        Some("br") => brotli::Decompressor::new(body, 4096).read_to_end(&mut out),
        Some("zstd") => {
            out = zstd::stream::decode_all(body).expect("zstd");
            Ok(out.len())
        }
        None => {
            out = body.to_vec();
            Ok(out.len())
        }
        Some(other) => panic!("{other}"),
    }
    .expect("well-formed");
    String::from_utf8(out).expect("text")
}

#[test]
fn text_is_compressed_for_those_who_read_it() {
    let server = site().start();
    let mut connection = server.connect();
    for path in ["/assets/app.js", "/file/app.js", "/text/20000"] {
        let plain = ask(&mut connection, path, "");
        assert_eq!(plain.header("content-encoding"), None);
        assert_eq!(plain.header("vary"), Some("Accept-Encoding"), "{path}");
        for coding in ["gzip", "br", "zstd"] {
            // Request twice: the first response is compressed, the second one comes from the cache.
            for _ in 0..2 {
                let response = ask(&mut connection, path, coding);
                assert_eq!(response.header("content-encoding"), Some(coding), "{path}");
                assert_eq!(response.header("vary"), Some("Accept-Encoding"));
                assert!(response.body.len() < plain.body.len() / 4);
                assert_eq!(decoded(&response), plain.text());
            }
        }
        for accept in [
            "gzip;q=0",
            "identity",
            "deflate",
            "br;q=0, gzip;q=0, zstd;q=0",
        ] {
            let response = ask(&mut connection, path, accept);
            assert_eq!(response.header("content-encoding"), None, "{path} {accept}");
        }
        let all = ask(
            &mut connection,
            path,
            "gzip;q=0.1, deflate, br;q=0.1, zstd;q=0.2",
        );
        assert_eq!(all.header("content-encoding"), Some("zstd"));
    }
}

#[test]
fn a_sibling_is_sent_in_place_of_its_original() {
    let server = site().start();
    let mut connection = server.connect();
    for (accept, coding, content) in [
        ("gzip, br, zstd", Some("br"), "as brotli"),
        ("gzip", Some("gzip"), "as gzip"),
        ("zstd", None, "plain"),
        ("", None, "plain"),
    ] {
        let response = ask(&mut connection, "/assets/lib.js", accept);
        assert_eq!(
            (response.header("content-encoding"), response.text()),
            (coding, content)
        );
        assert_eq!(
            response.header("content-type"),
            Some("text/javascript; charset=utf-8")
        );
        assert_eq!(response.header("vary"), Some("Accept-Encoding"));
    }
    let headers = [("Accept-Encoding", "br"), ("Range", "bytes=3-8")];
    let part = connection.request("GET", "/assets/lib.js", &headers, b"");
    assert_eq!((part.status(), part.text()), (206, "brotli"));
    assert_eq!(part.header("content-encoding"), Some("br"));
    assert_eq!(ask(&mut connection, "/plain/lib.js", "br").text(), "plain");
}

#[test]
fn each_coding_has_a_tag_of_its_own_that_is_met() {
    let server = site().start();
    let mut connection = server.connect();
    for path in ["/assets/app.js", "/assets/lib.js"] {
        let mut tags = Vec::new();
        for accept in ["", "gzip", "br"] {
            let etag = ask(&mut connection, path, accept)
                .header("etag")
                .expect("a tag")
                .to_owned();
            let headers = [("Accept-Encoding", accept), ("If-None-Match", &*etag)];
            assert_eq!(connection.request("GET", path, &headers, b"").status(), 304);
            tags.push(etag);
        }
        tags.dedup();
        assert_eq!(tags.len(), 3, "{tags:?}");
    }
}

#[test]
fn what_is_not_worth_it_or_not_ours_stays_as_it_is() {
    let server = site().start();
    let mut connection = server.connect();
    for path in [
        "/assets/small.css",
        "/assets/photo.png",
        "/assets/huge.txt",
        "/plain/app.js",
        "/text/500",
        "/text/600000",
        "/final",
        "/stream/3/5000",
    ] {
        let response = ask(&mut connection, path, "gzip, br, zstd");
        assert_eq!(response.status(), 200);
        assert_eq!(response.header("content-encoding"), None, "{path}");
    }
    let encoded = ask(&mut connection, "/encoded", "br");
    assert_eq!(encoded.header("content-encoding"), Some("gzip"));
    assert_eq!(decoded(&encoded), "x".repeat(5000));
    // A range selects bytes of the uncompressed file.
    let headers = [("Accept-Encoding", "gzip"), ("Range", "bytes=0-5")];
    let part = connection.request("GET", "/assets/app.js", &headers, b"");
    assert_eq!((part.status(), part.text()), (206, "export"));
    assert_eq!(part.header("content-encoding"), None);
}

#[test]
fn it_can_be_turned_off() {
    let server = site().setting("compression", "off").start();
    let mut connection = server.connect();
    for path in ["/assets/app.js", "/text/20000"] {
        assert_eq!(
            ask(&mut connection, path, "gzip").header("content-encoding"),
            None
        );
    }
    assert_eq!(
        ask(&mut connection, "/assets/lib.js", "gzip").text(),
        "as gzip"
    );
}

#[test]
fn a_tag_of_the_programs_is_met_and_becomes_weak_when_compressed() {
    let server = site().start();
    let mut connection = server.connect();
    let plain = ask(&mut connection, "/tagged", "");
    assert_eq!(plain.header("etag"), Some("\"v1\""));
    let packed = ask(&mut connection, "/tagged", "gzip");
    assert_eq!(packed.header("etag"), Some("W/\"v1\""));
    assert_eq!(decoded(&packed), plain.text());
    for tag in ["\"v1\"", "W/\"v1\"", "\"v0\", \"v1\""] {
        let response = connection.request("GET", "/tagged", &[("If-None-Match", tag)], b"");
        assert_eq!(response.status(), 304, "{tag}");
        assert_eq!(response.header("cache-control"), Some("max-age=60"));
        assert_eq!(response.header("content-type"), None);
    }
    let other = connection.request("GET", "/tagged", &[("If-None-Match", "\"v2\"")], b"");
    assert_eq!(other.status(), 200);
    let failed = connection.request("GET", "/tagged", &[("If-Match", "\"v2\"")], b"");
    assert_eq!(failed.status(), 412);
}

#[test]
fn head_has_the_same_fields_as_get() {
    let server = site().start();
    let mut connection = server.connect();
    for path in ["/assets/app.js", "/text/20000", "/assets/lib.js"] {
        let get = ask(&mut connection, path, "gzip");
        let head = connection.request("HEAD", path, &[("Accept-Encoding", "gzip")], b"");
        for name in [
            "content-length",
            "content-encoding",
            "content-type",
            "etag",
            "vary",
        ] {
            assert_eq!(head.header(name), get.header(name), "{path} {name}");
        }
        assert!(head.body.is_empty());
    }
}

#[test]
fn a_304_has_the_tag_and_the_vary_of_the_200() {
    let server = site().start();
    let mut connection = server.connect();
    for accepted in ["", "gzip"] {
        let whole = ask(&mut connection, "/tagged", accepted);
        let tag = whole.header("etag").expect("it is tagged").to_owned();
        let headers = [("Accept-Encoding", accepted), ("If-None-Match", &*tag)];
        let kept = connection.request("GET", "/tagged", &headers, b"");
        assert_eq!(kept.status(), 304);
        for name in ["etag", "vary", "cache-control"] {
            assert_eq!(
                kept.header(name),
                whole.header(name),
                "{name} for {accepted:?}"
            );
        }
        assert!(kept.header("vary").is_some());
    }
    // An uncompressed copy is validated with its own tag.
    let headers = [("Accept-Encoding", "gzip"), ("If-None-Match", "\"v1\"")];
    let kept = connection.request("GET", "/tagged", &headers, b"");
    assert_eq!((kept.status(), kept.header("etag")), (304, Some("\"v1\"")));
}
