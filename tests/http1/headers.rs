//! Response headers: the date, cookies, and no injection of header lines.

use std::process::Command;

use fermata_tests::fixture;

#[test]
fn every_answer_has_the_present_date() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    for path in ["/", "/missing", "/status/204", "/status/304"] {
        let date = connection
            .get(path)
            .header("date")
            .expect("the parser checks it")
            .to_string();
        // Converts the time with `date`, so that the test needs no calendar.
        let output = Command::new("date")
            .args(["-u", "+%s", "-d", &date])
            .output();
        let output = output.expect("coreutils are installed");
        let seconds: u64 = String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .expect("seconds");
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.expect("the clock is past 1970").as_secs();
        assert!(now.abs_diff(seconds) < 60, "{path}: {date}");
    }
}

#[test]
fn nothing_tells_the_software() {
    let server = fixture("http").workers(1).start();
    let response = server.connect().get("/");
    assert_eq!(
        (response.header("server"), response.header("x-powered-by")),
        (None, None)
    );
    assert_eq!(response.header("content-type"), Some("application/json"));
}

#[test]
fn each_cookie_has_a_line_of_its_own() {
    let server = fixture("http").workers(1).start();
    let response = server.connect().get("/cookies");
    let lines = response
        .head
        .headers
        .iter()
        .filter(|(name, _)| name == "set-cookie");
    let lines: Vec<&str> = lines.map(|(_, value)| value.as_str()).collect();
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].starts_with("a=1") && lines[1].starts_with("b=2"),
        "{lines:?}"
    );
    assert!(
        lines
            .iter()
            .all(|line| line.contains("HttpOnly") && line.contains("SameSite=Lax"))
    );
}

#[test]
fn valid_headers_are_sent() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    for path in ["/header", "/added-header", "/constructed-header"] {
        let response = connection.get(&format!("{path}?name=X-Mine&value=some%20%09text"));
        assert_eq!(
            (response.status(), response.header("x-mine")),
            (200, Some("some \ttext"))
        );
    }
}

#[test]
fn header_lines_cannot_be_injected() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    for value in [
        "a%0D%0AX-Injected:%20yes",
        "a%0AX-Injected:%20yes",
        "a%0DX-Injected:%20yes",
        "%0D%0A%0D%0A<script>",
        "a%00b",
        "a%7Fb",
    ] {
        for path in ["/header", "/added-header", "/constructed-header"] {
            let response = connection.get(&format!("{path}?name=X-Mine&value={value}"));
            assert_eq!(
                (response.status(), response.text()),
                (422, "refused"),
                "{path} {value}"
            );
        }
        // In a redirect or a cookie the server may also encode the value, but never emit it as a
        // separate line.
        for path in ["/redirect?", "/cookie?name=a&"] {
            let response = connection.get(&format!("{path}value={value}"));
            assert_eq!(response.header("x-injected"), None, "{path} {value}");
            assert!(!response.text().contains("<script>"));
        }
    }
    for name in [
        "X-A%0D%0AX-Injected",
        "X%20A",
        "X:A",
        "",
        "X-%C3%96",
        "X%00",
    ] {
        let response = connection.get(&format!("/header?name={name}&value=a"));
        assert_eq!(response.status(), 422, "{name}");
    }
    for name in ["a%3Bb", "a%3Db", "a%0D%0Ab", "", "a%20b"] {
        let response = connection.get(&format!("/cookie?name={name}&value=a"));
        assert_eq!(response.status(), 422, "{name}");
    }
}

#[test]
fn headers_that_frame_the_message_belong_to_the_server() {
    let server = fixture("http").workers(1).start();
    let mut connection = server.connect();
    for name in [
        "Content-Length",
        "transfer-encoding",
        "Connection",
        "Keep-Alive",
        "Upgrade",
    ] {
        let response = connection.get(&format!("/header?name={name}&value=1"));
        assert_eq!(
            (response.status(), response.text()),
            (422, "refused"),
            "{name}"
        );
    }
}
