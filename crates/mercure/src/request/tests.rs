use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const SECRET: &str = "a-secret-of-tests";
const NOW_S: u64 = 1_700_000_000;

fn hub() -> Hub {
    let verifier = || Some(Verifier::new(SECRET, "HS256").expect("a key"));
    Hub {
        publisher: verifier(),
        subscriber: verifier(),
        is_anonymous: false,
        has_subscriptions: true,
        cookie: "mercureAuthorization".to_owned(),
        cors_origins: Origins::new(["https://page.example".to_owned()]),
        publish_origins: Origins::new(["https://page.example".to_owned()]),
        draft: None,
    }
}

fn token(grants: serde_json::Value) -> String {
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let claims = json!({"mercure": grants, "exp": NOW_S + 60});
    encode(&Header::new(Algorithm::HS256), &claims, &key).expect("a token")
}

fn get(target: &str) -> Request<'_> {
    Request {
        method: "GET",
        target,
        unix_s: NOW_S,
        ..Request::default()
    }
}

fn status(outcome: &Outcome) -> u16 {
    match outcome {
        Outcome::Refused(status, _) => *status,
        Outcome::Elsewhere => 404,
        _ => 200,
    }
}

const TOPIC: &str = "/.well-known/mercure?topic=a";

#[test]
fn accepts_a_subscriber_token_in_header_query_or_cookie() {
    let hub = hub();
    assert_eq!(status(&read(&hub, &get(TOPIC))), 401);
    let token = token(json!({"subscribe": ["a", "b/{c}"], "payload": 7}));
    let bearer = format!("Bearer {token}");
    let query = format!("{TOPIC}&authorization={token}");
    let cookie = format!("x=1; mercureAuthorization={token}");
    let mut by_header = get(TOPIC);
    by_header.authorization = vec![&bearer];
    let mut by_cookie = get(TOPIC);
    by_cookie.cookies = vec!["y=2", &cookie];
    for request in [by_header, get(&query), by_cookie] {
        let Outcome::Subscribe(subscribe) = read(&hub, &request) else {
            panic!("{request:?}");
        };
        assert_eq!(subscribe.topics, ["a"]);
        assert_eq!(subscribe.private, ["a", "b/{c}"]);
        assert_eq!(subscribe.payload, Some(json!(7)));
        assert_eq!(subscribe.expires_s, Some(NOW_S + 60));
    }
    let mut twice = get(TOPIC);
    twice.authorization = vec![&bearer, &bearer];
    assert_eq!(status(&read(&hub, &twice)), 401);
    // A client with an invalid token is not anonymous.
    let anonymous = Hub {
        is_anonymous: true,
        ..hub
    };
    assert_eq!(status(&read(&anonymous, &get(TOPIC))), 200);
    let wrong = format!("{TOPIC}&authorization=x");
    assert_eq!(status(&read(&anonymous, &get(&wrong))), 401);
    assert_eq!(status(&read(&anonymous, &get("/.well-known/mercure"))), 400);
    assert_eq!(
        status(&read(&anonymous, &get("/.well-known/mercure?topic"))),
        400
    );
    assert_eq!(
        status(&read(&anonymous, &get("/.well-known/mercure?topic=%f"))),
        400
    );
    let many = format!("/.well-known/mercure?{}", "topic=a&".repeat(TOPICS_MAX + 1));
    assert_eq!(status(&read(&anonymous, &get(&many))), 400);
}

#[test]
fn reads_every_form_of_the_last_event_id() {
    let hub = Hub {
        is_anonymous: true,
        ..hub()
    };
    let id = |target: &str, header: Option<&str>| {
        let mut request = get(target);
        request.last_event_id = header;
        match read(&hub, &request) {
            Outcome::Subscribe(subscribe) => subscribe.last_event_id,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(id(TOPIC, None), None);
    assert_eq!(id(TOPIC, Some("1")).as_deref(), Some("1"));
    for name in ["lastEventID", "Last-Event-ID", "last-event-id"] {
        let target = format!("{TOPIC}&{name}=a%2Fb");
        assert_eq!(id(&target, None).as_deref(), Some("a/b"));
        assert_eq!(id(&target, Some("2")).as_deref(), Some("2"));
        assert_eq!(id(&target, Some("")).as_deref(), Some("a/b"));
    }
    assert_eq!(
        id(&format!("{TOPIC}&lastEventID="), None).as_deref(),
        Some("")
    );
    assert_eq!(id(TOPIC, Some(&"x".repeat(5000))).as_deref(), Some(""));
}

fn post<'a>(authorization: Vec<&'a str>, body: &'a str) -> Request<'a> {
    Request {
        method: "POST",
        target: "/.well-known/mercure",
        authorization,
        content_type: Some("application/x-www-form-urlencoded; charset=utf-8"),
        body: body.as_bytes(),
        unix_s: NOW_S,
        ..Request::default()
    }
}

/// "Offer more debug on infamous 401", https://github.com/dunglas/mercure/issues/63
#[test]
fn refusal_has_its_cause() {
    let said = |hub: &Hub, request: &Request<'_>| match read(hub, request) {
        Outcome::Refused(status, text) => format!("{status} {text}"),
        other => panic!("{other:?}"),
    };
    let (hub, unkeyed) = (hub(), Hub::default());
    let bearer = |grants| format!("Bearer {}", token(grants));
    let (reader, writer) = (
        bearer(json!({"subscribe": ["a"]})),
        bearer(json!({"publish": ["a"]})),
    );
    let large = bearer(json!({"publish": ["a".repeat(3000)]}));
    let list = Request {
        authorization: vec![&reader],
        ..get("/.well-known/mercure/subscriptions")
    };
    for (hub, request, status, word) in [
        (&hub, get(TOPIC), "401", "anonymous"),
        (&hub, post(vec![], "topic=a"), "401", "no token"),
        (&unkeyed, post(vec![&writer], "topic=a"), "401", "no key"),
        (
            &hub,
            post(vec![&reader], "topic=a"),
            "401",
            "mercure.publish",
        ),
        (
            &hub,
            post(vec![&writer], "topic=b"),
            "403",
            "mercure.publish",
        ),
        (&hub, post(vec![&large], "topic=b"), "403", "too large"),
        (&hub, list, "403", "mercure.subscribe"),
    ] {
        let said = said(hub, &request);
        assert!(said.starts_with(status) && said.contains(word), "{said}");
    }
}

#[test]
fn publisher_needs_rights_to_all_topics() {
    let hub = hub();
    let bearer = format!("Bearer {}", token(json!({"publish": ["a", "b/{id}"]})));
    let publish = |body: &str| read(&hub, &post(vec![&bearer], body));
    assert!(matches!(
        publish("topic=a&topic=b%2F1&data=x"),
        Outcome::Publish(_)
    ));
    assert_eq!(status(&publish("topic=a&topic=c&data=x")), 403);
    assert_eq!(status(&publish("data=x")), 400);
    assert_eq!(status(&publish("topic=a&data=%")), 400);
    assert_eq!(status(&read(&hub, &post(vec![], "topic=a"))), 401);
    let reader = format!("Bearer {}", token(json!({"subscribe": ["*"]})));
    assert_eq!(status(&read(&hub, &post(vec![&reader], "topic=a"))), 401);
    let mut json = post(vec![&bearer], "topic=a");
    json.content_type = Some("application/json");
    assert_eq!(status(&read(&hub, &json)), 415);
    let mut put = post(vec![&bearer], "topic=a");
    put.method = "PUT";
    assert_eq!(status(&read(&hub, &put)), 405);
}

#[test]
fn cookie_publishes_only_from_allowed_origins() {
    let hub = hub();
    let cookie = format!("mercureAuthorization={}", token(json!({"publish": ["*"]})));
    let publish = |origin: Option<&str>, referer: Option<&str>| {
        let mut request = post(vec![], "topic=a");
        request.cookies = vec![&cookie];
        (request.origin, request.referer) = (origin, referer);
        status(&read(&hub, &request))
    };
    assert_eq!(publish(None, None), 401);
    assert_eq!(publish(Some("https://page.example"), None), 200);
    assert_eq!(
        publish(Some("https://evil.example"), Some("https://page.example/")),
        401
    );
    assert_eq!(publish(None, Some("https://page.example/a?b")), 200);
    assert_eq!(publish(None, Some("https://page.example.evil/")), 401);
}

#[test]
fn parses_requests_for_subscriptions() {
    let hub = hub();
    let path = "/.well-known/mercure/subscriptions";
    let template = "/.well-known/mercure/subscriptions{/topic}{/subscriber}";
    let bearer = format!("Bearer {}", token(json!({"subscribe": [template]})));
    let list = |target: &str, bearer: &str| {
        let mut request = get(target);
        request.authorization = vec![bearer];
        read(&hub, &request)
    };
    assert_eq!(
        list(path, &bearer),
        Outcome::Subscriptions(Filter::default())
    );
    let Outcome::Subscriptions(filter) = list(&format!("{path}/a%2Fb?x=1"), &bearer) else {
        panic!("refused");
    };
    assert_eq!(filter.topic.as_deref(), Some("a/b"));
    let other = format!("Bearer {}", token(json!({"subscribe": ["a"]})));
    assert_eq!(status(&list(path, &other)), 403);
    assert_eq!(status(&read(&hub, &get(path))), 401);
    let without = Hub {
        has_subscriptions: false,
        ..hub.clone()
    };
    assert_eq!(read(&without, &get(path)), Outcome::Elsewhere);
    assert_eq!(
        read(&hub, &get("/.well-known/mercures?topic=a")),
        Outcome::Elsewhere
    );
    assert_eq!(read(&hub, &get("/")), Outcome::Elsewhere);
}

#[test]
fn sends_cors_headers_by_origin() {
    let hub = hub();
    let of = |origin: Option<&'static str>, method: &'static str| {
        let request = Request {
            method,
            origin,
            ..get(TOPIC)
        };
        let headers = headers(&hub, &request);
        let find = |name: &str| {
            let found = headers.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.clone())
        };
        (
            find("Access-Control-Allow-Origin"),
            find("Access-Control-Allow-Methods"),
            find("Link"),
        )
    };
    let (origin, methods, link) = of(Some("https://page.example"), "OPTIONS");
    assert_eq!(origin.as_deref(), Some("https://page.example"));
    assert!(methods.is_some());
    assert_eq!(link.as_deref(), Some(LINK));
    assert_eq!(of(Some("https://evil.example"), "OPTIONS").0, None);
    assert_eq!(of(None, "GET").0, None);
    let preflight = Request {
        method: "OPTIONS",
        ..get(TOPIC)
    };
    assert_eq!(read(&hub, &preflight), Outcome::Preflight);
}

proptest! {
    #[test]
    fn never_panics_on_any_request(
        method in "GET|POST|HEAD|OPTIONS|[A-Z]{1,5}",
        rest in "\\PC{0,40}",
        field in "\\PC{0,40}",
        body in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let target = format!("/.well-known/mercure{rest}");
        let request = Request {
            method: &method,
            target: &target,
            authorization: vec![&field],
            cookies: vec![&field],
            content_type: Some("application/x-www-form-urlencoded"),
            body: &body,
            ..Request::default()
        };
        let outcome = read(&hub(), &request);
        prop_assert!(!matches!(outcome, Outcome::Subscribe(_) | Outcome::Publish(_)));
    }
}
