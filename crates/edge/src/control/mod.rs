//! The HTTP control port: requests of publishers, their responses, and the resulting actions.
//!
//! Texts and statuses are the same as Pushpin's ([`fermata_grip::control`]), so Pushpin's client libraries work unmodified. In
//! addition, connections are persistent, bodies may be chunked, and web pages cannot publish through a visitor's browser.

mod intake;

pub use intake::{Counts, Intake, Limits};

use fermata_grip::control::{self, Reply};
use fermata_grip::item::Item;
use fermata_grip::sig::{self, Key};

/// A request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// Method.
    pub method: &'a [u8],
    /// Path with an optional query.
    pub target: &'a [u8],
    /// Values of `Accept`, joined by commas.
    pub accept: Option<&'a [u8]>,
    /// `Origin`, which browsers add to requests of pages.
    pub origin: Option<&'a [u8]>,
    /// Complete body.
    pub body: &'a [u8],
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Header fields except `Content-Length`.
    pub headers: Vec<(&'static str, &'static str)>,
    /// Body.
    pub body: Vec<u8>,
}

/// Action to perform before the response is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Nothing.
    None,
    /// Publish these items in this order.
    Publish(Vec<Item>),
    /// Remove the last ids of all channels, and request missed items from the origins of all clients with reliable delivery.
    Recover,
}

/// Handles a request.
pub fn answer(request: &Request<'_>) -> (Answer, Action) {
    if request.origin.is_some() && request.method != b"GET" && request.method != b"HEAD" {
        // Without control_key, the port is protected only by its local address, which pages in a local browser can reach.
        return (refusal(403, "Web pages may not publish.\n"), Action::None);
    }
    let accept = request.accept;
    match control::read(request.method, request.target, accept, request.body) {
        control::Request::Answer(reply) => (reply.into(), Action::None),
        control::Request::Publish(items, reply) => (reply.into(), Action::Publish(items)),
        control::Request::Recover(reply) => (reply.into(), Action::Recover),
    }
}

/// Returns true if a request proves the key: by a valid bearer token signed with it or, for a secret, by the secret itself.
pub fn is_authorized(key: &Key, authorization: Option<&[u8]>, now_s: u64) -> bool {
    const SCHEME: &[u8] = b"bearer ";
    let Some((scheme, token)) = authorization.and_then(|it| it.split_at_checked(SCHEME.len()))
    else {
        return false;
    };
    let token = token.trim_ascii();
    scheme.eq_ignore_ascii_case(SCHEME)
        && (sig::verify(key, token, now_s, None).is_ok() || key.is_secret_of(token))
}

/// Returns the response to a request without the key.
pub fn unauthorized() -> Answer {
    let mut answer = refusal(
        401,
        "This port is for those that have its key (control_key). Send Authorization: Bearer with a token made of it, as \
         fermata publish --key and GRIP_URL with ?key= do, or the key itself.\n",
    );
    answer.headers.push(("WWW-Authenticate", "Bearer"));
    answer
}

fn refusal(status: u16, text: &str) -> Answer {
    Answer {
        status,
        headers: vec![("Content-Type", "text/plain")],
        body: text.as_bytes().to_vec(),
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        let mut headers = vec![("Content-Type", reply.media)];
        headers.extend(reply.allow.map(|methods| ("Allow", methods)));
        Self {
            status: reply.status,
            headers,
            body: reply.body.into_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEMS: &[u8] = br#"{"items":[
        {"channel":"a","formats":{"http-stream":{"content":"1"}}},
        {"channel":"b","id":"2","formats":{"ws-message":{"content":"2"}}}]}"#;

    fn post<'a>(target: &'a str, body: &'a [u8]) -> Request<'a> {
        Request {
            method: b"POST",
            target: target.as_bytes(),
            body,
            ..Request::default()
        }
    }

    #[test]
    fn items_are_published_in_their_order() {
        let (reply, action) = answer(&post("/publish/", ITEMS));
        assert_eq!((reply.status, &reply.body[..]), (200, &b"Published\n"[..]));
        assert_eq!(reply.headers, [("Content-Type", "text/plain")]);
        let Action::Publish(items) = action else {
            panic!("{action:?}");
        };
        let channels: Vec<_> = items.iter().map(|item| &item.channel[..]).collect();
        assert_eq!(channels, [b"a", b"b"]);
    }

    #[test]
    fn one_bad_item_publishes_none() {
        let body = br#"{"items":[{"channel":"a","http-stream":{"content":"1"}},{"channel":"b"}]}"#;
        let (reply, action) = answer(&post("/publish/", body));
        assert_eq!((reply.status, action), (400, Action::None));
        assert_eq!(reply.body, b"Invalid format: no formats specified\n");
    }

    #[test]
    fn recovering_is_asked_by_its_own_path() {
        let (reply, action) = answer(&post("/recover", b""));
        assert_eq!(
            (&reply.body[..], action),
            (&b"Updated\n"[..], Action::Recover)
        );
    }

    #[test]
    fn answers_a_wrong_method_with_allow() {
        let get = Request {
            method: b"GET",
            ..post("/publish/", b"")
        };
        let (reply, action) = answer(&get);
        assert_eq!((reply.status, action), (405, Action::None));
        assert!(
            reply.headers.contains(&("Allow", "POST")),
            "{:?}",
            reply.headers
        );
    }

    #[test]
    fn a_key_is_shown_by_a_token_or_by_itself() {
        const NOW_S: u64 = 1_800_000_000;
        let key = Key::secret(b"of the port");
        let token = |secret: &[u8], expires_s| {
            let claims = sig::Claims {
                expires_s: Some(expires_s),
                ..sig::Claims::default()
            };
            let token = sig::sign(&Key::secret(secret), &claims).expect("a secret");
            format!("Bearer {token}")
        };
        for (authorization, is_good) in [
            (token(b"of the port", NOW_S + 60), true),
            (token(b"of the port", NOW_S - 600), false),
            (token(b"of a port", NOW_S + 60), false),
            ("Bearer of the port".to_owned(), true),
            ("bearer of the port".to_owned(), true),
            ("Bearer of the por".to_owned(), false),
            ("Bearer of the portx".to_owned(), false),
            ("Bearer ".to_owned(), false),
            ("Basic of the port".to_owned(), false),
            ("of the port".to_owned(), false),
            (String::new(), false),
        ] {
            let shown = Some(authorization.as_bytes());
            assert_eq!(
                is_authorized(&key, shown, NOW_S),
                is_good,
                "{authorization}"
            );
        }
        assert!(!is_authorized(&key, None, NOW_S));
        let public = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../grip/tests/keys/ec-public.pem"
        );
        let pem = std::fs::read(public).expect("a key");
        let public = Key::from_pem(&pem).expect("a key");
        let header = [b"Bearer ", &pem[..]].concat();
        assert!(
            !is_authorized(&public, Some(&header), NOW_S),
            "it is no secret"
        );
    }

    #[test]
    fn a_web_page_publishes_nothing() {
        for origin in ["https://evil.example", "null", "http://localhost:5561"] {
            let page = Request {
                origin: Some(origin.as_bytes()),
                ..post("/publish/", ITEMS)
            };
            let (reply, action) = answer(&page);
            assert_eq!((reply.status, action), (403, Action::None), "{origin}");
        }
        let looking = Request {
            method: b"GET",
            origin: Some(b"null"),
            ..post("/", b"")
        };
        assert_eq!(answer(&looking).0.body, b"Pushpin API\n");
    }
}
