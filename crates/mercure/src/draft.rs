//! Requests in the draft of version 1.0, as far as it differs from version 0.x: typed matchers, OAuth tokens, and other names.

use std::sync::Arc;

use serde_json::Value;

use crate::form::Form;
use crate::matcher::{matcher, split};
use crate::request::{self, Hub, Outcome, Request, Subscribe, last_event_id};
use crate::resource::{Draft, EVENT, METADATA_PATH};
use crate::selector::{Selector, SelectorError, Syntax};
use crate::subscription::Filter;
use crate::token::{Grants, TokenError, Verifier};
use crate::topic::Topic;
use crate::update::{Update, is_topic};
use crate::url::Url;
use crate::{PATH, TOPICS_MAX};

struct Refusal {
    status: u16,
    /// Error code of OAuth. Empty if there is no challenge, or if the challenge has no code.
    error: &'static str,
    text: &'static str,
}

impl Refusal {
    fn bad(text: &'static str) -> Refusal {
        Refusal {
            status: 400,
            error: "",
            text,
        }
    }
}

impl From<(u16, &'static str)> for Refusal {
    fn from((status, text): (u16, &'static str)) -> Refusal {
        Refusal {
            status,
            error: "",
            text,
        }
    }
}

const UNAUTHORIZED: Refusal = Refusal {
    status: 401,
    error: "",
    text: "Unauthorized",
};
const INVALID_TOKEN: Refusal = Refusal {
    status: 401,
    error: "invalid_token",
    text: "Unauthorized: the token is not accepted",
};
const INSUFFICIENT: Refusal = Refusal {
    status: 403,
    error: "insufficient_scope",
    text: "Forbidden",
};

/// Parses a request.
pub fn read(hub: &Hub, draft: &Draft, request: &Request<'_>) -> Outcome {
    let (path, _) = request.split();
    if path == METADATA_PATH {
        return match request.method {
            "OPTIONS" => Outcome::Preflight,
            "GET" | "HEAD" => Outcome::Metadata(draft.metadata(&hub.cookie, hub.has_subscriptions)),
            _ => Outcome::Refused(405, "Method Not Allowed"),
        };
    }
    let (rest, query) = match request::place(hub, request) {
        Ok(place) => place,
        Err(outcome) => return *outcome,
    };
    let outcome = match (request.method, rest) {
        ("GET" | "HEAD", "") => subscribe(hub, draft, request, &query),
        ("QUERY", "") => request::form_of(request)
            .map_err(Refusal::from)
            // The first of several values counts. If both the URL and the body have an id, this is the URL's.
            .and_then(|body| subscribe(hub, draft, request, &query.and(body))),
        ("POST", "") => publish(hub, draft, request),
        ("GET" | "HEAD", _) => list(hub, draft, request, path, rest),
        _ => return Outcome::Refused(405, "Method Not Allowed"),
    };
    outcome.unwrap_or_else(|refusal| match refusal.status {
        401 | 403 => Outcome::Challenged(refusal.status, refusal.error, refusal.text),
        _ if !refusal.error.is_empty() => {
            Outcome::Challenged(refusal.status, refusal.error, refusal.text)
        }
        status => Outcome::Refused(status, refusal.text),
    })
}

fn subscribe(
    hub: &Hub,
    draft: &Draft,
    request: &Request<'_>,
    query: &Form,
) -> Result<Outcome, Refusal> {
    let grants = match &hub.subscriber {
        Some(verifier) => authorize(hub, draft, verifier, request)?,
        None => None,
    };
    if grants.is_none() && !hub.is_anonymous {
        return Err(UNAUTHORIZED);
    }
    let syntax = Syntax::Matchers(Arc::clone(&draft.base));
    let mut topics = Vec::new();
    for (name, value) in query.pairs() {
        // The draft reserves all parameters that start with `match`, so an unknown one is an error.
        let is_reserved = |it: &str| it.eq_ignore_ascii_case("match");
        if !name.get(..5).is_some_and(is_reserved) {
            continue;
        }
        let kind = match name {
            "match" => "exact",
            _ => name.strip_prefix("match_").unwrap_or_default(),
        };
        let matcher =
            matcher(kind, value).ok_or(Refusal::bad("There is no such type of matcher"))?;
        if topics.len() == TOPICS_MAX {
            return Err(Refusal::bad("Too many matchers"));
        }
        if !is_topic(value) || value.chars().any(is_format) {
            return Err(Refusal::bad("A matcher is invalid"));
        }
        Selector::parse_as(&syntax, &matcher).map_err(|error| {
            Refusal::bad(match error {
                SelectorError::TooLarge => {
                    "A matcher has too many groups, or is too large when it is compiled; use fewer groups and repetitions"
                }
                _ => "A matcher is invalid",
            })
        })?;
        topics.push(matcher);
    }
    if topics.is_empty() {
        return Err(Refusal::bad("Missing \"match\" parameter"));
    }
    let grants = grants.unwrap_or_default();
    let payloads: Vec<Value> = topics
        .iter()
        .map(|topic| grants.payload_of(split(topic).1))
        .collect();
    Ok(Outcome::Subscribe(Subscribe {
        payloads: if payloads.iter().all(Value::is_null) {
            Vec::new()
        } else {
            payloads
        },
        topics,
        payload: None,
        last_event_id: last_event_id(request, query, &["last_event_id"]),
        expires_s: grants.expires_s,
        private: grants.into_subscribe(),
    }))
}

fn publish(hub: &Hub, draft: &Draft, request: &Request<'_>) -> Result<Outcome, Refusal> {
    let verifier = hub.publisher.as_ref().ok_or(UNAUTHORIZED)?;
    let grants = authorize(hub, draft, verifier, request)?.ok_or(UNAUTHORIZED)?;
    let form = request::form_of(request)?;
    if form.all("topic").count() > TOPICS_MAX {
        return Err(Refusal::from((413, "Too many \"topic\" parameters")));
    }
    let is_number = |it: &str| it.bytes().all(|byte| byte.is_ascii_digit());
    if !form.all("retry").all(is_number) {
        return Err(Refusal::bad("Invalid \"retry\" parameter"));
    }
    let update = Update::from_form(&form).map_err(Refusal::bad)?;
    check(draft, &update).map_err(Refusal::bad)?;
    let mut topics = update.topics.iter().map(|it| Topic::new(it.as_str()));
    if topics.all(|topic| grants.publishes(&topic)) {
        Ok(Outcome::Publish(update))
    } else {
        Err(INSUFFICIENT)
    }
}

fn list(
    hub: &Hub,
    draft: &Draft,
    request: &Request<'_>,
    path: &str,
    rest: &str,
) -> Result<Outcome, Refusal> {
    let below = rest.strip_prefix("/subscriptions").unwrap_or_default();
    let filter = Filter::parse_typed(below).ok_or(Refusal {
        status: 404,
        error: "",
        text: "Not Found",
    })?;
    if let Some(verifier) = &hub.subscriber {
        let grants = authorize(hub, draft, verifier, request)?.ok_or(UNAUTHORIZED)?;
        if !grants.subscribes(&Topic::new(path)) {
            return Err(INSUFFICIENT);
        }
    }
    Ok(Outcome::Subscriptions(filter))
}

/// Returns the grants of the request's token. `None`: the request has no token.
fn authorize(
    hub: &Hub,
    draft: &Draft,
    verifier: &Verifier,
    request: &Request<'_>,
) -> Result<Option<Grants>, Refusal> {
    let presentation = Refusal {
        status: 400,
        error: "invalid_request",
        text: "The Authorization header has no bearer token",
    };
    let verify = |token: &str| -> Result<Option<Grants>, TokenError> {
        let grants = verifier.verify_access(token, draft, request.unix_s)?;
        Ok(Some(grants))
    };
    let token = match request.authorization[..] {
        [] => request::cookie(hub, request),
        [field] => match field.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("Bearer") => {
                return verify(token.trim()).map_err(|_| INVALID_TOKEN);
            }
            _ => return Err(presentation),
        },
        _ => return Err(presentation),
    };
    let Some(token) = token else {
        return Ok(None);
    };
    // A page of any site can make a browser send the cookie.
    if request.method == "POST" && request::may_publish_by_cookie(hub, request).is_err() {
        return Err(Refusal {
            status: 403,
            error: "insufficient_scope",
            text: "Forbidden: pages of this origin may not publish by a cookie",
        });
    }
    verify(&token).map_err(|_| INVALID_TOKEN)
}

/// Checks an update from a publisher. The error describes the fault.
fn check(draft: &Draft, update: &Update) -> Result<(), &'static str> {
    if update.kind.as_deref() == Some(EVENT) {
        return Err("The type \"mercure\" is reserved for the hub");
    }
    let is_hidden = |text: &String| text.chars().any(is_format);
    if update
        .topics
        .iter()
        .chain(&update.id)
        .chain(&update.kind)
        .any(is_hidden)
    {
        return Err("A topic, id or type has invisible characters");
    }
    let is_own = |topic: &String| {
        let url = Url::parse(topic, Some(&draft.base));
        let path = url.map(|url| decode_unreserved(&url.path));
        topic == "*"
            || path.is_some_and(|path| {
                // The decoded path may have dot segments.
                let path = crate::url::path_of(&path, false);
                let below = path.strip_prefix(PATH);
                below.is_some_and(|it| it.is_empty() || it.starts_with('/'))
            })
    };
    if update.topics.iter().any(is_own) {
        Err("A topic is reserved for the hub")
    } else {
        Ok(())
    }
}

/// Decodes escapes of unreserved characters in a path.
fn decode_unreserved(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3);
        let byte = code.and_then(|it| u8::from_str_radix(it, 16).ok());
        let len = match byte {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                out.push(char::from(byte));
                3
            }
            _ => {
                out.push('%');
                1
            }
        };
        rest = &rest[at + len..];
    }
    out.push_str(rest);
    out
}

/// Returns true for characters of Unicode category Cf, which are invisible.
pub(crate) fn is_format(it: char) -> bool {
    const RANGES: [(u32, u32); 21] = [
        (0xad, 0xad),
        (0x600, 0x605),
        (0x61c, 0x61c),
        (0x6dd, 0x6dd),
        (0x70f, 0x70f),
        (0x890, 0x891),
        (0x8e2, 0x8e2),
        (0x180e, 0x180e),
        (0x200b, 0x200f),
        (0x202a, 0x202e),
        (0x2060, 0x2064),
        (0x2066, 0x206f),
        (0xfeff, 0xfeff),
        (0xfff9, 0xfffb),
        (0x110bd, 0x110bd),
        (0x110cd, 0x110cd),
        (0x13430, 0x1343f),
        (0x1bca0, 0x1bca3),
        (0x1d173, 0x1d17a),
        (0xe0001, 0xe0001),
        (0xe0020, 0xe007f),
    ];
    let code = u32::from(it);
    RANGES
        .iter()
        .any(|&(first, last)| (first..=last).contains(&code))
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};

    use serde_json::json;

    use super::*;
    use crate::counted;
    use crate::origin::Origins;
    use crate::resource::{COOKIE, DETAIL};

    const SECRET: &str = "a-secret-of-tests";
    const NOW_S: u64 = 1_700_000_000;
    const HUB: &str = "https://hub.example/.well-known/mercure";
    const ISSUER: &str = "https://issuer.example";

    fn hub() -> Hub {
        let verifier = || Some(Verifier::new(SECRET, "HS256").expect("a key"));
        Hub {
            publisher: verifier(),
            subscriber: verifier(),
            is_anonymous: true,
            has_subscriptions: true,
            cookie: COOKIE.to_owned(),
            publish_origins: Origins::new(["https://page.example".to_owned()]),
            draft: Draft::new(HUB, ISSUER),
            ..Hub::default()
        }
    }

    fn claims() -> Value {
        json!({
            "iss": ISSUER, "aud": HUB, "exp": NOW_S + 60,
            "authorization_details": [
                {"type": DETAIL, "actions": ["subscribe"], "topics": [{"match": "a"}], "payload": {"of": "a"}},
                {"type": "https://other.example/", "whatever": 1},
                {
                    "type": DETAIL, "actions": ["publish", "subscribe", "dance"],
                    "topics": [{"match": "https://e.com/:id", "match_type": "urlpattern"}, {"match": "b"}],
                    "payload": {"of": "books"},
                },
            ],
        })
    }

    fn sign_as(kind: Option<&str>, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::HS256);
        header.typ = kind.map(str::to_owned);
        encode(
            &header,
            claims,
            &EncodingKey::from_secret(SECRET.as_bytes()),
        )
        .expect("a token")
    }

    fn sign(claims: &Value) -> String {
        sign_as(Some("at+jwt"), claims)
    }

    fn ask(hub: &Hub, method: &str, target: &str, token: Option<&str>, body: &str) -> Outcome {
        let bearer = token.map(|it| format!("Bearer {it}"));
        crate::read(
            hub,
            &Request {
                method,
                target,
                authorization: bearer.as_deref().into_iter().collect(),
                content_type: Some("application/x-www-form-urlencoded"),
                body: body.as_bytes(),
                unix_s: NOW_S,
                ..Request::default()
            },
        )
    }

    fn status(outcome: &Outcome) -> (u16, &str) {
        match outcome {
            Outcome::Refused(status, _) => (*status, ""),
            Outcome::Challenged(status, error, _) => (*status, error),
            Outcome::Elsewhere => (404, ""),
            _ => (200, ""),
        }
    }

    fn subscribe(hub: &Hub, query: &str, token: Option<&str>) -> Outcome {
        ask(hub, "GET", &format!("{PATH}?{query}"), token, "")
    }

    #[test]
    fn parses_the_matchers_of_a_subscriber() {
        let hub = hub();
        let token = sign(&claims());
        let query =
            "match=a&match_urlpattern=https://e.com/:id&match_exact=c&last_event_id=7&other=1";
        let Outcome::Subscribe(found) = subscribe(&hub, query, Some(&token)) else {
            panic!("refused");
        };
        assert_eq!(
            found.topics,
            ["exact:a", "urlpattern:https://e.com/:id", "exact:c"]
        );
        assert_eq!(
            found.private,
            ["exact:a", "urlpattern:https://e.com/:id", "exact:b"]
        );
        assert_eq!(
            found.payloads,
            [json!({"of": "a"}), json!({"of": "books"}), Value::Null]
        );
        assert_eq!(
            (found.last_event_id.as_deref(), found.expires_s),
            (Some("7"), Some(NOW_S + 60))
        );
        for wrong in [
            "",
            "topic=a",
            "match=",
            "match_regexp=a",
            "Match=a",
            "matches=a",
            "match_=a",
            "match_URLPATTERN=a",
            "match=a%00",
            "match=a%E2%80%8B",
            "match_urlpattern=https://e.com/(",
        ] {
            assert_eq!(status(&subscribe(&hub, wrong, None)), (400, ""), "{wrong}");
        }
        let many = "match=a&".repeat(TOPICS_MAX + 1);
        assert_eq!(status(&subscribe(&hub, &many, None)), (400, ""));
        let large = subscribe(&hub, "match_urlpattern=/([a-z]{9999})", None);
        assert!(
            matches!(large, Outcome::Refused(400, text) if text.contains("too large")),
            "{large:?}"
        );
    }

    #[test]
    fn accepts_matchers_in_the_body_of_a_query() {
        let hub = hub();
        let target = format!("{PATH}?match=a&last_event_id=1");
        let body = "match_urlpattern=%2F%3Aid&match=c&last_event_id=2";
        let Outcome::Subscribe(found) = ask(&hub, "QUERY", &target, None, body) else {
            panic!("refused");
        };
        assert_eq!(found.topics, ["exact:a", "urlpattern:/:id", "exact:c"]);
        assert_eq!(found.last_event_id.as_deref(), Some("1"));
        let Outcome::Subscribe(found) = ask(&hub, "QUERY", PATH, None, body) else {
            panic!("refused");
        };
        assert_eq!(found.last_event_id.as_deref(), Some("2"));
        for (target, body) in [
            (PATH, ""),
            (PATH, "match_regexp=a"),
            (PATH, "match=%f"),
            ("/.well-known/mercure?match_urlpattern=(", "match=a"),
        ] {
            let outcome = ask(&hub, "QUERY", target, None, body);
            assert_eq!(status(&outcome), (400, ""), "{target} {body}");
        }
        let split = "match=a&".repeat(TOPICS_MAX / 2 + 1);
        let target = format!("{PATH}?{split}");
        assert_eq!(status(&ask(&hub, "QUERY", &target, None, &split)).0, 400);
        let plain = Request {
            method: "QUERY",
            target: PATH,
            content_type: Some("text/plain"),
            body: b"match=a",
            unix_s: NOW_S,
            ..Request::default()
        };
        assert_eq!(status(&crate::read(&hub, &plain)), (415, ""));
        // Version 0.x has no QUERY.
        let old = Hub { draft: None, ..hub };
        assert_eq!(
            status(&ask(&old, "QUERY", PATH, None, "topic=a")),
            (405, "")
        );
    }

    #[test]
    fn requires_oauth_access_tokens() {
        let hub = hub();
        let with = |name: &str, value: Value| {
            let mut claims = claims();
            claims[name] = value;
            sign(&claims)
        };
        let detail = |detail: Value| with("authorization_details", json!([detail]));
        for good in [
            sign(&claims()),
            sign_as(Some("application/AT+JWT"), &claims()),
            with("aud", json!(["https://other.example", HUB])),
            with("authorization_details", json!([])),
        ] {
            assert_eq!(
                status(&subscribe(&hub, "match=a", Some(&good))),
                (200, ""),
                "{good}"
            );
        }
        for bad in [
            "x".to_owned(),
            sign_as(Some("JWT"), &claims()),
            sign_as(None, &claims()),
            with("iss", json!("https://evil.example")),
            with("iss", Value::Null),
            with("aud", json!("https://other.example")),
            with("aud", Value::Null),
            with("exp", Value::Null),
            with("exp", json!(NOW_S)),
            with("nbf", json!(NOW_S + 1)),
            with("authorization_details", json!({})),
            detail(json!({"type": DETAIL, "actions": [], "topics": [{"match": "a"}]})),
            detail(json!({"type": DETAIL, "actions": [1], "topics": [{"match": "a"}]})),
            detail(json!({"type": DETAIL, "actions": ["publish"], "topics": []})),
            detail(json!({"type": DETAIL, "actions": ["publish"], "topics": ["a"]})),
            detail(
                json!({"type": DETAIL, "actions": ["publish"], "topics": [{"match": "a", "match_type": "regexp"}]}),
            ),
            detail(
                json!({"type": DETAIL, "actions": ["subscribe"], "topics": [{"match": "(", "match_type": "urlpattern"}]}),
            ),
            detail(
                json!({"type": DETAIL, "actions": ["subscribe"], "topics": [{"match": "a"}], "payload": 1}),
            ),
        ] {
            let outcome = subscribe(&hub, "match=a", Some(&bad));
            assert_eq!(status(&outcome), (401, "invalid_token"), "{bad}");
        }
        // A token in the query is ignored. The cookie counts if there is no header.
        let token = sign(&claims());
        let closed = Hub {
            is_anonymous: false,
            ..hub
        };
        let by_query = format!("match=a&authorization={token}");
        assert_eq!(status(&subscribe(&closed, &by_query, None)), (401, ""));
        let cookie = format!("{COOKIE}={token}");
        let target = format!("{PATH}?match=a");
        let mut by_cookie = Request {
            method: "GET",
            target: &target,
            unix_s: NOW_S,
            ..Request::default()
        };
        by_cookie.cookies = vec![&cookie];
        assert_eq!(status(&crate::read(&closed, &by_cookie)), (200, ""));
        by_cookie.authorization = vec!["Basic eA=="];
        assert_eq!(
            status(&crate::read(&closed, &by_cookie)),
            (400, "invalid_request")
        );
        by_cookie.authorization = vec!["Bearer x"];
        assert_eq!(
            status(&crate::read(&closed, &by_cookie)),
            (401, "invalid_token")
        );
    }

    #[test]
    fn compiles_claims_once_per_request() {
        let hub = hub();
        let topics: Vec<Value> = (0..20)
            .map(|at| json!({"match": format!("/{at}/:a"), "match_type": "urlpattern"}))
            .collect();
        let mut claims = claims();
        claims["authorization_details"] = json!([{
            "type": DETAIL, "actions": ["publish", "subscribe"], "topics": topics, "payload": {"of": "all"},
        }]);
        let token = sign(&claims);
        let compiled = |method: &str, target: &str, body: &str| {
            counted::during(&counted::COMPILED, || {
                ask(&hub, method, target, Some(&token), body)
            })
        };
        let query: String = (0..50).map(|at| format!("match=/{at}/x&")).collect();
        let (outcome, count) = compiled("GET", &format!("{PATH}?{query}"), "");
        let Outcome::Subscribe(found) = outcome else {
            panic!("refused: {outcome:?}");
        };
        assert_eq!(
            (found.private.len(), found.payloads.len(), count),
            (20, 50, 20)
        );
        assert!(found.payloads[19].is_object() && found.payloads[20].is_null());
        let (outcome, count) = compiled("POST", PATH, "topic=/1/a&topic=/19/b&data=1");
        assert_eq!((status(&outcome), count), ((200, ""), 20));
        let (outcome, count) = compiled("GET", &format!("{PATH}/subscriptions"), "");
        assert_eq!((status(&outcome).0, count), (403, 20));
    }

    #[test]
    fn rejects_updates_with_reserved_types_and_topics() {
        let hub = hub();
        let publish = |body: &str, claims: &Value| {
            let outcome = ask(&hub, "POST", PATH, Some(&sign(claims)), body);
            let (status, error) = status(&outcome);
            (status, error.to_owned())
        };
        let all = json!({
            "iss": ISSUER, "aud": HUB, "exp": NOW_S + 60,
            "authorization_details": [{"type": DETAIL, "actions": ["publish"], "topics": [{"match": "*"}]}],
        });
        let ok = (200, String::new());
        assert_eq!(publish("topic=a&data=1&retry=5&type=new", &all), ok);
        assert_eq!(publish("topic=http://[&data=1", &all), ok);
        assert_eq!(
            publish("topic=https://e.com/.well-known/mercurex", &all),
            ok
        );
        for wrong in [
            "topic=*",
            "topic=a&topic=*",
            "topic=a&type=mercure",
            "topic=a&retry=%2B5",
            "topic=a&retry=x",
            "data=1",
            "topic=/.well-known/mercure",
            "topic=/.well-known/mercure/subscriptions/exact/a/b",
            "topic=https://anywhere.example/.well-known/mercure/x",
            "topic=/.well-known/%256Dercure/x",
            "topic=/.well-known/mercure/../mercure/x",
            "topic=subscriptions/../mercure",
            "topic=a%E2%80%8Bb",
            "topic=",
        ] {
            assert_eq!(publish(wrong, &all), (400, String::new()), "{wrong}");
        }
        assert_eq!(publish(&"topic=a&".repeat(TOPICS_MAX + 1), &all).0, 413);
        assert_eq!(publish("topic=b&topic=https://e.com/1", &claims()), ok);
        assert_eq!(
            publish("topic=a", &claims()),
            (403, "insufficient_scope".to_owned())
        );
        assert_eq!(
            publish("topic=b&topic=c", &claims()),
            (403, "insufficient_scope".to_owned())
        );
        assert_eq!(status(&ask(&hub, "POST", PATH, None, "topic=a")), (401, ""));
    }

    #[test]
    fn subscriptions_have_types() {
        let hub = hub();
        let mut claims = claims();
        claims["authorization_details"][0]["topics"][0] = json!({"match": "/.well-known/mercure/subscriptions/:type/:match", "match_type": "urlpattern"});
        let token = sign(&claims);
        let list = |below: &str| {
            ask(
                &hub,
                "GET",
                &format!("{PATH}/subscriptions{below}"),
                Some(&token),
                "",
            )
        };
        let Outcome::Subscriptions(filter) = list("/urlpattern/https%3A%2F%2Fe.com%2F%3Aid") else {
            panic!("refused");
        };
        assert_eq!(
            filter.topic.as_deref(),
            Some("urlpattern:https://e.com/:id")
        );
        assert_eq!(status(&list("")), (403, "insufficient_scope"));
        assert_eq!(status(&list("/exact/a/b")), (403, "insufficient_scope"));
        for nowhere in ["/exact", "/regexp/a", "/exact/", "/exact/a/b/c"] {
            assert_eq!(status(&list(nowhere)), (404, ""), "{nowhere}");
        }
    }

    #[test]
    fn hub_requires_its_url_and_an_issuer() {
        for (resource, issuer) in [
            ("https://hub.example", ISSUER),
            ("hub.example/.well-known/mercure", ISSUER),
            ("https://hub.example/.well-known/mercure?a", ISSUER),
            (HUB, ""),
        ] {
            assert!(Draft::new(resource, issuer).is_none(), "{resource}");
        }
        let hub = hub();
        let draft = hub.draft.as_ref().expect("set");
        let document: Value =
            serde_json::from_str(&draft.metadata(&hub.cookie, true)).expect("JSON");
        assert_eq!(document["resource"], HUB);
        assert_eq!(document["mercure_subscriptions"], true);
        assert_eq!(
            draft.challenge("invalid_token"),
            "Bearer error=\"invalid_token\", resource_metadata=\
             \"https://hub.example/.well-known/oauth-protected-resource/.well-known/mercure\""
        );
    }
}
