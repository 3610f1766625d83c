//! Thousands of malformed requests: each gets a response or a close, and other clients are served.

use fermata_testkit::Random;

use crate::hub::{Hub, PATH, publisher, sign};

const REQUESTS: usize = 10_000;

#[test]
fn ten_thousand_requests_that_make_no_sense() {
    let hub = Hub::start("anonymous\nsubscriptions\ncors_origins *");
    let mut random = Random::from_environment();
    let mut witness = hub.subscribe(&["witness"], None);
    let good = sign(&serde_json::json!({"mercure": {"publish": ["*"], "subscribe": ["*"]}}));
    let mut connection = hub.connect();
    for at in 0..REQUESTS {
        let mut noise = |bytes_max: usize, alphabet: &[u8]| -> String {
            let len = random.within(0..bytes_max);
            (0..len)
                .map(|_| char::from(*random.choose(alphabet)))
                .collect()
        };
        let query = noise(60, b"topic=&%{}*+/?#,;:.0fFlastEventID\\\"'|~");
        // An unencoded space or fragment would produce a different request line.
        let query = query.replace('#', "%23");
        let target = match at % 4 {
            0 => format!("{PATH}?{query}"),
            1 => format!("{PATH}?topic={query}&topic={{{query}}}"),
            2 => format!("{PATH}/subscriptions/{query}"),
            _ => PATH.to_owned(),
        };
        let mut token = good.clone().into_bytes();
        if at % 3 > 0 {
            let place = at % token.len();
            token[place] = noise(2, b"a.-_=A/+ ").bytes().next().unwrap_or(b'x');
        }
        let token = String::from_utf8(token).expect("ASCII");
        let bearer = format!("{} {token}", ["Bearer", "bearer", "Basic", "x"][at % 4]);
        let id = noise(20, b"earlist-0123zx#\"%");
        let body = noise(80, b"topic=&data=%private{}retry=id=9\n");
        let headers = [
            ("Authorization", bearer.as_str()),
            ("Last-Event-ID", id.as_str()),
            ("Origin", id.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        let method = ["GET", "POST", "QUERY", "HEAD", "OPTIONS"][at % 5];
        // An accepted subscriber keeps its connection, so the test drops it and opens a new one.
        let is_subscriber = method == "GET" && at % 4 < 2;
        if is_subscriber {
            let mut other = hub.connect();
            let _ = other.try_send_request(method, &target, &headers, b"");
            let status = other.peek_status();
            assert!(
                [200, 400, 401, 404, 503].contains(&status),
                "{status} {target}"
            );
            continue;
        }
        match connection.try_request(method, &target, &headers, body.as_bytes()) {
            Ok(response) => {
                let status = response.status();
                let is_known =
                    [200, 204, 304, 400, 401, 403, 404, 405, 413, 415, 501].contains(&status);
                assert!(is_known, "{status} {method} {target}");
                if response.header("connection") == Some("close") {
                    connection = hub.connect();
                }
            }
            Err(_) => connection = hub.connect(),
        }
    }
    let fields = [("topic", "witness"), ("data", "still here")];
    assert_eq!(hub.try_publish(&publisher(&["*"]), &fields).status(), 200);
    assert_eq!(witness.next_event().data, "still here");
    assert_eq!(hub.workers().len(), 3);
}
