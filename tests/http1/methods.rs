//! HEAD, OPTIONS, and responses to unhandled methods and paths.

use fermata_testkit::Framing;
use fermata_tests::fixture;

/// Returns the methods of an `Allow` header, sorted.
fn allowed(response: &fermata_testkit::Response) -> Vec<String> {
    let value = response
        .header("allow")
        .expect("the answer lists the allowed methods");
    let mut methods: Vec<String> = value
        .split(',')
        .map(|part| part.trim().to_string())
        .collect();
    methods.sort();
    methods
}

#[test]
fn head_is_get_without_a_body() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    for path in ["/", "/rooms/42", "/bytes/4096", "/missing", "/status/404"] {
        let get = connection.get(path);
        let head = connection.request("HEAD", path, &[], b"");
        assert_eq!(head.status(), get.status(), "{path}");
        assert_eq!((head.framing, head.body.len()), (Framing::None, 0));
        assert_eq!(
            head.header("content-length"),
            get.header("content-length"),
            "{path}"
        );
        assert_eq!(
            head.header("content-type"),
            get.header("content-type"),
            "{path}"
        );
    }
}

#[test]
fn statuses_without_a_body_have_none() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    for status in [204, 304] {
        let response = connection.get(&format!("/status/{status}"));
        assert_eq!(
            (response.status(), response.framing),
            (status, Framing::None)
        );
    }
    for status in [200, 201, 202, 205, 301, 404, 418, 500, 503] {
        let response = connection.get(&format!("/status/{status}"));
        assert_eq!(
            (response.status(), response.framing),
            (status, Framing::Length(0))
        );
    }
}

#[test]
fn a_205_has_no_content_whatever_the_program_gives() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    let response = connection.get("/reset-content");
    assert_eq!(
        (response.status(), response.framing),
        (205, Framing::Length(0))
    );
    assert_eq!(response.header("content-type"), None);
    assert_eq!(connection.get("/rooms/1").text(), "1");
}

#[test]
fn unknown_paths_are_404() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    for path in [
        "/missing",
        "/rooms",
        "/rooms/",
        "/rooms/1/",
        "/rooms/1/messages",
        "//",
        "/Echo",
    ] {
        assert_eq!(connection.get(path).status(), 404, "{path}");
        assert_eq!(connection.post(path, "body").status(), 404, "{path}");
    }
}

#[test]
fn a_known_path_with_another_method_is_405_with_allow() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    let response = connection.post("/rooms/1", "body");
    assert_eq!(response.status(), 405);
    assert_eq!(allowed(&response), ["GET", "HEAD", "OPTIONS"]);

    let response = connection.get("/things/1");
    assert_eq!(response.status(), 405);
    assert_eq!(allowed(&response), ["DELETE", "OPTIONS", "PUT"]);

    assert_eq!(
        connection.request("PUT", "/things/7", &[], b"x").text(),
        "put 7"
    );
    assert_eq!(
        connection.request("DELETE", "/things/7", &[], b"").status(),
        204
    );
}

#[test]
fn options_tells_the_methods_of_a_path() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    let response = connection.request("OPTIONS", "/things/1", &[], b"");
    assert!(
        matches!(response.status(), 200 | 204),
        "{}",
        response.status()
    );
    assert_eq!(allowed(&response), ["DELETE", "OPTIONS", "PUT"]);

    let response = connection.request("OPTIONS", "/preflight", &[], b"");
    assert_eq!(response.header("access-control-allow-origin"), Some("*"));
    let response = connection.request("OPTIONS", "/echo", &[], b"");
    assert!(
        response.text().contains(r#""method":"OPTIONS""#),
        "any() handles OPTIONS itself"
    );

    let response = connection.request("OPTIONS", "*", &[], b"");
    assert!(
        matches!(response.status(), 200 | 204),
        "{}",
        response.status()
    );
    assert_eq!(
        connection.request("OPTIONS", "/missing", &[], b"").status(),
        404
    );
}

#[test]
fn methods_nobody_knows_are_refused() {
    let server = fixture("http").workers(1).start();
    for method in ["BREW", "get", "PROPFIND"] {
        let response = server.connect().request(method, "/rooms/1", &[], b"");
        assert!(
            matches!(response.status(), 405 | 501),
            "{method}: {}",
            response.status()
        );
    }
    let response = server.connect().request("BREW", "/echo", &[], b"");
    assert!(
        response.text().contains(r#""method":"BREW""#),
        "any() takes every method"
    );
    let mut connection = server.connect();
    connection.send("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n");
    let status = connection.read_response().status();
    assert!(matches!(status, 400 | 405 | 501), "{status}");
}
