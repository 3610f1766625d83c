//! Static files: content, conditional requests, and no access outside of the directory.

use std::fs;
use std::os::unix::fs::symlink;

use fermata_testkit::{Builder, Framing};
use fermata_tests::fixture;

/// Content that no request may ever reach.
const SECRET: &str = "the secret of the machine";

/// Returns a server whose `/assets` holds a small site, with a secret file next to it.
fn site() -> Builder {
    let builder = fixture("http").workers(1);
    let directory = builder.directory();
    directory.write("secret.txt", SECRET);
    directory.write("assets-secret/secret.txt", SECRET);
    directory.write("assets/index.html", "<!doctype html><title>index</title>");
    directory.write("assets/app.js", "export const answer = 42;\n");
    directory.write("assets/styles/page.css", "body { margin: 0 }\n");
    directory.write("assets/a b.txt", "spaced");
    directory.write("assets/.hidden", SECRET);
    directory.write("assets/.git/config", SECRET);
    directory.write("assets/empty.txt", "");
    directory.write(
        "assets/photo.bin",
        (0..3_000_000u32).map(|n| n as u8).collect::<Vec<u8>>(),
    );
    let link = |target: &str, name: &str| {
        symlink(target, directory.join(name)).expect("the directory is writable");
    };
    link("../secret.txt", "assets/escape.txt");
    link("..", "assets/up");
    link("/etc/passwd", "assets/passwd");
    builder
}

#[test]
fn files_are_served_with_their_type() {
    let server = site().start();
    let mut connection = server.connect();
    let response = connection.get("/assets/app.js");
    assert_eq!(
        (response.status(), response.text()),
        (200, "export const answer = 42;\n")
    );
    assert_eq!(
        response.header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    let style = connection.get("/assets/styles/page.css");
    assert_eq!(
        style.header("content-type"),
        Some("text/css; charset=utf-8")
    );
    let index = connection.get("/assets/");
    assert_eq!(
        index.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    assert!(index.text().contains("<title>index"));
    assert_eq!(connection.get("/assets/a%20b.txt").text(), "spaced");
    assert_eq!(
        connection.get("/assets/empty.txt").framing,
        Framing::Length(0)
    );
    assert_eq!(connection.get("/assets/missing.txt").status(), 404);
    assert_eq!(connection.get("/assets/app.js/").status(), 404);
}

#[test]
fn a_large_file_arrives_whole_and_the_connection_goes_on() {
    let server = site().start();
    let mut connection = server.connect();
    let expected = fs::read(server.directory().join("assets/photo.bin")).expect("it was written");
    for _ in 0..3 {
        assert!(connection.get("/assets/photo.bin").body == expected);
    }
    assert_eq!(connection.get("/rooms/1").text(), "1");
}

#[test]
fn pipelined_files_keep_their_order() {
    let server = site().start();
    let mut connection = server.connect();
    let paths = [
        "/rooms/1",
        "/assets/photo.bin",
        "/assets/empty.txt",
        "/assets/app.js",
    ];
    let paths = [
        paths,
        [
            "/assets/photo.bin",
            "/missing",
            "/assets/photo.bin",
            "/rooms/2",
        ],
    ]
    .concat();
    let wire: String = paths
        .iter()
        .map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"))
        .collect();
    connection.send(wire);
    connection.finish_sending();
    let lengths: Vec<usize> = paths
        .iter()
        .map(|_| connection.read_response())
        .map(|response| {
            if response.status() == 200 {
                response.body.len()
            } else {
                404
            }
        })
        .collect();
    assert_eq!(lengths, [1, 3_000_000, 0, 26, 3_000_000, 404, 3_000_000, 1]);
    connection.expect_end();
}

#[test]
fn head_tells_the_length_without_the_content() {
    let server = site().start();
    let mut connection = server.connect();
    let response = connection.request("HEAD", "/assets/photo.bin", &[], b"");
    assert_eq!((response.status(), response.framing), (200, Framing::None));
    assert_eq!(response.header("content-length"), Some("3000000"));
    assert_eq!(connection.get("/rooms/1").text(), "1");
}

#[test]
fn an_unchanged_file_is_304() {
    let server = site().start();
    let mut connection = server.connect();
    let first = connection.get("/assets/app.js");
    let etag = first
        .header("etag")
        .expect("files have an entity tag")
        .to_string();
    let modified = first
        .header("last-modified")
        .expect("files have a date")
        .to_string();
    for (name, value) in [
        ("If-None-Match", etag.as_str()),
        ("If-None-Match", &format!("\"other\", {etag}")),
        ("If-None-Match", "*"),
        ("If-Modified-Since", &modified),
    ] {
        let response = connection.request("GET", "/assets/app.js", &[(name, value)], b"");
        assert_eq!(response.status(), 304, "{name}: {value}");
        assert_eq!(response.header("etag"), Some(etag.as_str()));
    }
    for (name, value) in [
        ("If-None-Match", "\"other\""),
        ("If-Modified-Since", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ("If-Modified-Since", "not a date"),
    ] {
        let response = connection.request("GET", "/assets/app.js", &[(name, value)], b"");
        assert_eq!(response.status(), 200, "{name}: {value}");
    }
    // The tag takes precedence over the date (RFC 9110, section 13.2.2).
    let both = [
        ("If-None-Match", "\"other\""),
        ("If-Modified-Since", modified.as_str()),
    ];
    assert_eq!(
        connection
            .request("GET", "/assets/app.js", &both, b"")
            .status(),
        200
    );

    server
        .directory()
        .write("assets/app.js", "export const answer = 43; // changed\n");
    let response = connection.request("GET", "/assets/app.js", &[("If-None-Match", &etag)], b"");
    assert_eq!(response.status(), 200);
    assert!(response.text().contains("43"));
}

#[test]
fn other_methods_are_405() {
    let server = site().start();
    let response = server.connect().post("/assets/app.js", "x");
    assert_eq!(response.status(), 405);
    assert!(
        response
            .header("allow")
            .is_some_and(|allow| allow.contains("GET"))
    );
}

#[test]
fn nothing_outside_the_directory_is_served() {
    let server = site().start();
    for path in [
        "/assets/../secret.txt",
        "/assets/styles/../../secret.txt",
        "/assets/%2e%2e/secret.txt",
        "/assets/%2E%2E/secret.txt",
        "/assets/.%2e/secret.txt",
        "/assets/..%2fsecret.txt",
        "/assets/..%5csecret.txt",
        "/assets/..\\secret.txt",
        "/assets/%252e%252e/secret.txt",
        "/assets/..;/secret.txt",
        "/assets/./../secret.txt",
        "/assets/../assets-secret/secret.txt",
        "/assets-secret/secret.txt",
        "/assets//../secret.txt",
        "/assets/styles/..%c0%af../secret.txt",
        "/assets//etc/passwd",
        "/assets/%2fetc%2fpasswd",
        "/assets/.hidden",
        "/assets/%2ehidden",
        "/assets/.git/config",
        "/assets/escape.txt",
        "/assets/up/secret.txt",
        "/assets/passwd",
        "/assets/app.js%00.txt",
        "/secret.txt",
    ] {
        let mut connection = server.connect();
        let response = connection.get(path);
        assert!(
            matches!(response.status(), 400 | 403 | 404),
            "{path}: {}",
            response.status()
        );
        let body = String::from_utf8_lossy(&response.body);
        assert!(!body.contains(SECRET) && !body.contains("root:"), "{path}");
    }
}
