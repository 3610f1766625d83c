//! Invalid tokens, and the rights that valid ones grant.

use fermata_testkit::sse::{Item, Stream, StreamEnd};
use fermata_testkit::{Directory, wait_until, workspace_root};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::json;

use crate::hub::{Hub, PATH, SECRET, now_s, publisher, reader, sign};

/// `{"alg":"none","typ":"JWT"}` and `{"mercure":{"publish":["*"],"subscribe":["*"]}}`.
const NONE: &str = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.\
    eyJtZXJjdXJlIjp7InB1Ymxpc2giOlsiKiJdLCJzdWJzY3JpYmUiOlsiKiJdfX0.";

fn bad_tokens() -> Vec<String> {
    let grants = json!({"mercure": {"publish": ["*"], "subscribe": ["*"]}});
    let with = |algorithm: Algorithm, secret: &str| {
        let key = EncodingKey::from_secret(secret.as_bytes());
        encode(&Header::new(algorithm), &grants, &key).expect("a token")
    };
    let timed = |name: &str, at_s: u64| {
        let mut claims = grants.clone();
        claims[name] = at_s.into();
        sign(&claims)
    };
    let good = sign(&grants);
    let (signed, signature) = good.rsplit_once('.').expect("three parts");
    vec![
        NONE.to_owned(),
        format!("{signed}."),
        format!("{NONE}{signature}"),
        with(Algorithm::HS256, "another secret"),
        with(Algorithm::HS512, SECRET),
        timed("exp", now_s() - 1),
        timed("nbf", now_s() + 3600),
        "x".to_owned(),
        "..".to_owned(),
    ]
}

#[test]
fn tokens_that_are_not_good_are_refused() {
    let hub = Hub::start("anonymous");
    let anonymous = Hub::path(&["a"], None);
    for token in bad_tokens() {
        let mut connection = hub.connect();
        let by_query = connection.get(&Hub::path(&["a"], Some(&token)));
        let bearer = format!("Bearer {token}");
        let header = [("Authorization", bearer.as_str())];
        let by_header = connection.request("GET", &anonymous, &header, b"");
        let cookie = format!("mercureAuthorization={token}");
        let by_cookie = connection.request("GET", &anonymous, &[("Cookie", &cookie)], b"");
        for response in [by_query, by_header, by_cookie] {
            assert_eq!(response.status(), 401, "{token}");
            assert!(response.header("www-authenticate").is_some());
        }
        let published = hub.try_publish(&token, &[("topic", "a")]);
        assert_eq!(published.status(), 401, "{token}");
    }
}

#[test]
fn tokens_are_for_their_topics() {
    let hub = Hub::start("");
    assert_eq!(hub.connect().get(&Hub::path(&["a"], None)).status(), 401);
    let status = |grants: &[&str], topics: &[&str]| {
        let fields: Vec<(&str, &str)> = topics.iter().map(|topic| ("topic", *topic)).collect();
        hub.try_publish(&publisher(grants), &fields).status()
    };
    assert_eq!(status(&["a", "b/{c}"], &["a", "b/1"]), 200);
    assert_eq!(status(&["a", "b/{c}"], &["a", "c"]), 403);
    assert_eq!(status(&[], &["a"]), 403);
    assert_eq!(status(&["*"], &[]), 400);
    // A reader cannot publish, and a publisher can read only public updates.
    assert_eq!(
        hub.try_publish(&reader(&["*"]), &[("topic", "a")]).status(),
        401
    );
    let mut stream = hub.subscribe(&["a"], Some(&publisher(&["*"])));
    hub.publish(&[("topic", "a"), ("data", "secret"), ("private", "on")]);
    hub.publish(&[("topic", "a"), ("data", "public")]);
    assert_eq!(stream.next_event().data, "public");
    // With a cookie, a page can read but not publish, unless its origin is allowed.
    let cookie = format!("mercureAuthorization={}", publisher(&["*"]));
    let headers = [
        ("Cookie", cookie.as_str()),
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Origin", "https://evil.example"),
    ];
    let forged = hub.connect().request("POST", PATH, &headers, b"topic=a");
    assert_eq!(forged.status(), 401);
}

#[test]
fn keys_are_public_ones_and_sets() {
    let keys = workspace_root().join("crates/mercure/src/token");
    let read = |name: &str| std::fs::read_to_string(keys.join(name)).expect("a key of the tests");
    let folder = Directory::new();
    // SECRET as base64url.
    let secret = "IUNoYW5nZVRoaXNNZXJjdXJlSHViSldUU2VjcmV0S2V5IQ";
    let set = json!({"keys": [{"kty": "oct", "k": secret, "alg": "HS256", "kid": "one"}]});
    let set = folder.write("set.json", set.to_string());
    let hub = Hub::configured(&format!(
        "publisher_key = \"\"\"\n{}\"\"\"\npublisher_algorithm = \"ES256\"\nsubscriber_jwks_file = '{}'\n",
        read("ec.pub.pem"),
        set.display(),
    ));
    let private = EncodingKey::from_ec_pem(read("ec.pem").as_bytes()).expect("a key");
    let grants = json!({"mercure": {"publish": ["*"]}});
    let token = encode(&Header::new(Algorithm::ES256), &grants, &private).expect("a token");
    let with_kid = |kid: &str| {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some(kid.to_owned());
        let claims = json!({"mercure": {"subscribe": ["*"]}});
        encode(
            &header,
            &claims,
            &EncodingKey::from_secret(SECRET.as_bytes()),
        )
        .expect("a token")
    };
    let mut stream = hub.subscribe(&["a"], Some(&with_kid("one")));
    let fields = [("topic", "a"), ("data", "secret"), ("private", "on")];
    assert_eq!(hub.try_publish(&token, &fields).status(), 200);
    assert_eq!(stream.next_event().data, "secret");
    // Tokens with another key are rejected: another key of the set, and the public key used as a
    // secret.
    let other = Hub::path(&["a"], Some(&with_kid("two")));
    assert_eq!(hub.connect().get(&other).status(), 401);
    let key = EncodingKey::from_secret(read("ec.pub.pem").as_bytes());
    let confused = encode(&Header::new(Algorithm::HS256), &grants, &key).expect("a token");
    assert_eq!(hub.try_publish(&confused, &fields).status(), 401);
    assert_eq!(hub.try_publish(&publisher(&["*"]), &fields).status(), 401);
}

#[test]
fn a_stream_ends_with_its_token() {
    let hub = Hub::start("");
    let expires_s = now_s() + 2;
    let token = sign(&json!({"mercure": {"subscribe": ["*"]}, "exp": expires_s}));
    let path = Hub::path(&["a"], Some(&token));
    // If the machine stalls for longer than the token's lifetime, there is nothing to test.
    let Ok(mut stream) = Stream::try_open(hub.connect(), &path, None) else {
        assert!(now_s() >= expires_s);
        return;
    };
    let items = stream.read_to_end();
    // The server times the expiry with another clock, which differs by some milliseconds.
    assert!(now_s() + 1 >= expires_s);
    assert_eq!(items.last(), Some(&Item::End(StreamEnd::Clean)));
    wait_until("nobody is let in by it any more", || {
        let outcome = Stream::try_open(hub.connect(), &path, None);
        outcome.is_err().then_some(())
    });
    assert_eq!(hub.connect().get(&path).status(), 401);
}
