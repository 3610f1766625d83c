//! Routes, parameters, percent-decoding, and the request as a handler sees it.

use fermata_tests::{fixture, json};

#[test]
fn parameters_match_one_segment_and_the_rest() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    assert_eq!(connection.get("/rooms/blue").text(), "blue");
    assert_eq!(connection.get("/rooms/new").text(), "the static route");
    assert_eq!(connection.get("/rooms/blue/messages/7").text(), "blue|7");
    assert_eq!(connection.get("/rooms/new/messages/7").text(), "new|7");
    assert_eq!(connection.get("/files/a").text(), "a");
    assert_eq!(connection.get("/files/a/b/c.txt").text(), "a/b/c.txt");
    assert_eq!(connection.get("/rooms/blue?id=red").text(), "blue");
}

#[test]
fn parameters_are_percent_decoded_once() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    assert_eq!(connection.get("/rooms/a%20b").text(), "a b");
    assert_eq!(connection.get("/rooms/%E4%BD%A0%e5%a5%bd").text(), "你好");
    assert_eq!(connection.get("/rooms/100%25").text(), "100%");
    assert_eq!(connection.get("/rooms/%2541").text(), "%41");
    assert_eq!(connection.get("/rooms/a+b").text(), "a+b");
    assert_eq!(connection.get("/%72ooms/x").text(), "x");
}

#[test]
fn a_handler_sees_path_target_and_query() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    let seen = json(&connection.get("/%65cho?a=1&b=x%20y&list%5B%5D=1&list[]=2&empty="));
    assert_eq!(seen["path"], "/echo");
    assert_eq!(
        seen["target"],
        "/%65cho?a=1&b=x%20y&list%5B%5D=1&list[]=2&empty="
    );
    assert_eq!(seen["query"], "a=1&b=x%20y&list%5B%5D=1&list[]=2&empty=");
    assert_eq!(seen["queries"]["b"], "x y");
    assert_eq!(seen["queries"]["list"][1], "2");
    assert_eq!(seen["queries"]["empty"], "");
    assert_eq!(json(&connection.get("/echo"))["query"], "");
}

#[test]
fn the_absolute_form_is_understood() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    connection.send("GET http://elsewhere.example/echo?x=1 HTTP/1.1\r\nHost: ignored\r\n\r\n");
    let seen = json(&connection.read_response());
    assert_eq!(
        (seen["path"].as_str(), seen["queries"]["x"].as_str()),
        (Some("/echo"), Some("1"))
    );
    connection.send("GET http://elsewhere.example HTTP/1.1\r\nHost: ignored\r\n\r\n");
    assert_eq!(json(&connection.read_response())["status"], "OK");
}

#[test]
fn a_handler_sees_headers_and_cookies() {
    let server = fixture("http").workers(1).start();
    let headers = [
        ("X-Mixed-Case", "  kept  inside  "),
        ("Accept", "text/html"),
        ("accept", "*/*"),
        ("X-Empty", ""),
        ("Cookie", "a=1; b=two%20words; c="),
    ];
    let seen = json(&server.connect().request("GET", "/echo", &headers, b""));
    assert_eq!(seen["headers"]["x-mixed-case"][0], "kept  inside");
    assert_eq!(seen["headers"]["accept"][0], "text/html");
    assert_eq!(seen["headers"]["accept"][1], "*/*");
    assert_eq!(seen["headers"]["x-empty"][0], "");
    assert_eq!(seen["headers"]["host"][0], "localhost");
    assert_eq!(seen["cookies"]["a"], "1");
    assert_eq!(seen["cookies"]["c"], "");
}

#[test]
fn a_parameter_that_is_no_text_is_400() {
    let server = fixture("http").start();
    let mut connection = server.connect();
    for path in [
        "/rooms/%ff",
        "/rooms/%c3%28",
        "/rooms/a%0ab",
        "/files/%80",
        "/rooms/%7f",
    ] {
        assert_eq!(connection.get(path).status(), 400, "{path}");
    }
    assert_eq!(connection.get("/rooms/%C3%BC").text(), "ü");
}

#[test]
fn a_slash_that_is_part_of_an_id() {
    let builder = fixture("http").workers(1);
    builder.directory().write("assets/a/b.txt", "a file");
    let server = builder.start();
    let mut connection = server.connect();
    assert_eq!(connection.get("/rooms/a%2Fb").text(), "a/b");
    assert_eq!(connection.get("/rooms/%2f").text(), "/");
    assert_eq!(connection.get("/rooms/a%252Fb").text(), "a%2Fb");
    assert_eq!(
        connection.get("/rooms/a%2Fb/messages/c%2fd").text(),
        "a/b|c/d"
    );
    // Literal text contains no slash. A catch-all parameter cannot distinguish encoded slashes from
    // real ones.
    for path in [
        "/rooms%2Fnew",
        "/rooms/a%2Fmessages%2F7/x",
        "/files/a%2Fb",
        "/files/a/b%2Fc",
        "/assets/a%2Fb.txt",
        "/assets%2Fa/b.txt",
    ] {
        assert_eq!(connection.get(path).status(), 404, "{path}");
    }
    assert_eq!(connection.get("/files/a/b").text(), "a/b");
    assert_eq!(connection.get("/assets/a/b.txt").text(), "a file");
}

#[test]
fn what_a_proxy_might_read_otherwise_is_400() {
    let builder = fixture("http").workers(1);
    builder.directory().write("assets/a/b.txt", "a file");
    let server = builder.start();
    for (path, why) in [
        ("/rooms/../rooms/new", "segment . or .."),
        ("/rooms/.", "segment . or .."),
        ("/files/a/../b", "segment . or .."),
        ("/files/a/%2e%2E/b", "segment . or .."),
        ("/files/a/..%2fb", "segment . or .."),
        ("/rooms/a%5c..%5cb", "segment . or .."),
        ("/assets/a/../a/b.txt", "segment . or .."),
        ("/rooms/a\\b", "a backslash"),
        ("/rooms/a%00b", "a NUL byte (%00)"),
        ("/rooms/a%0", "a malformed percent escape"),
    ] {
        let response = server.connect().get(path);
        assert_eq!(response.status(), 400, "{path}");
        assert!(response.text().contains(why), "{path}: {}", response.text());
    }
    let mut connection = server.connect();
    assert_eq!(connection.get("/rooms/...").text(), "...");
    assert_eq!(connection.get("/rooms/.a").text(), ".a");
    assert_eq!(connection.get("/rooms/a%5Cb").text(), "a\\b");
    let seen = json(&connection.get("/echo?path=../a\\b%00"));
    assert_eq!(seen["path"], "/echo");
}
