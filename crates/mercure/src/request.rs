//! Requests to the hub: what they ask for, and whether they may.

use crate::form::{self, Form};
use crate::origin::{Allowed, Origins, of_referer};
use crate::selector::Selector;
use crate::subscription::Filter;
use crate::token::{Claims, TokenError, Verifier};
use crate::update::{Update, is_topic};
use crate::{PATH, TOPICS_MAX};

/// Longest last event id that is looked at.
const ID_BYTES_MAX: usize = 1024;

const LINK: &str = "</.well-known/mercure>; rel=\"mercure\"";

/// How a hub is set.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    /// What checks tokens of publishers; without it, nobody publishes.
    pub publisher: Option<Verifier>,
    /// What checks tokens of subscribers.
    pub subscriber: Option<Verifier>,
    /// Clients without a token may subscribe, to public updates.
    pub is_anonymous: bool,
    /// Subscriptions are told, and can be asked for.
    pub has_subscriptions: bool,
    /// The cookie that may have the token.
    pub cookie: String,
    /// Pages that may read.
    pub cors_origins: Origins,
    /// Pages that may publish by the cookie.
    pub publish_origins: Origins,
}

/// A request, as far as the protocol looks at it.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// Its method.
    pub method: &'a str,
    /// Path and query, as they came.
    pub target: &'a str,
    /// All `Authorization` fields.
    pub authorization: Vec<&'a str>,
    /// All `Cookie` fields.
    pub cookies: Vec<&'a str>,
    /// `Origin`.
    pub origin: Option<&'a str>,
    /// `Referer`.
    pub referer: Option<&'a str>,
    /// `Last-Event-ID`.
    pub last_event_id: Option<&'a str>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a str>,
    /// `Content-Type`.
    pub content_type: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
    /// Now.
    pub unix_s: u64,
}

/// A subscriber that may.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscribe {
    /// Selectors of topics, in the order they were given.
    pub topics: Vec<String>,
    /// Selectors of topics whose private updates it gets.
    pub private: Vec<String>,
    /// What is told about it.
    pub payload: Option<serde_json::Value>,
    /// The id of the last event that it has seen, or `earliest`; an empty one is none.
    pub last_event_id: Option<String>,
    /// The second in which it has to leave.
    pub expires_s: Option<u64>,
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// To be held.
    Subscribe(Subscribe),
    /// To publish.
    Publish(Update),
    /// Who subscribes.
    Subscriptions(Filter),
    /// Nothing that it may: a status and a sentence.
    Refused(u16, &'static str),
    /// Whether a page may ask.
    Preflight,
    /// Something that is not the hub's.
    Elsewhere,
}

/// Tells what a request asks for.
pub fn read(hub: &Hub, request: &Request<'_>) -> Outcome {
    let (path, query) = request
        .target
        .split_once('?')
        .unwrap_or((request.target, ""));
    let Some(rest) = path.strip_prefix(PATH) else {
        return Outcome::Elsewhere;
    };
    let subscriptions = rest.strip_prefix("/subscriptions");
    if !rest.is_empty() && (subscriptions.is_none() || !hub.has_subscriptions) {
        return Outcome::Elsewhere;
    }
    if request.method == "OPTIONS" {
        return Outcome::Preflight;
    }
    let Some(query) = Form::parse(query.as_bytes()) else {
        return Outcome::Refused(400, "Invalid query");
    };
    let outcome = match (request.method, subscriptions) {
        ("GET" | "HEAD", None) => subscribe(hub, request, &query),
        ("POST", None) => publish(hub, request, &query),
        ("GET" | "HEAD", Some(rest)) => list(hub, request, &query, (path, rest)),
        _ => Err((405, "Method Not Allowed")),
    };
    outcome.unwrap_or_else(|(status, text)| Outcome::Refused(status, text))
}

/// Header fields that answers to a page of another site have, and those that every answer of the hub has.
pub fn headers(hub: &Hub, request: &Request<'_>) -> Vec<(&'static str, String)> {
    let mut headers = vec![("Link", LINK.to_owned())];
    if hub.cors_origins.is_empty() {
        return headers;
    }
    headers.push(("Vary", "Origin".to_owned()));
    let Some(origin) = request.origin else {
        return headers;
    };
    match hub.cors_origins.allow(origin) {
        Allowed::Refused => return headers,
        Allowed::Anybody => headers.push(("Access-Control-Allow-Origin", "*".to_owned())),
        Allowed::This => {
            headers.push(("Access-Control-Allow-Origin", origin.to_owned()));
            headers.push(("Access-Control-Allow-Credentials", "true".to_owned()));
        }
    }
    if request.method == "OPTIONS" {
        let more = [
            ("Access-Control-Allow-Methods", "GET, HEAD, POST"),
            (
                "Access-Control-Allow-Headers",
                "Authorization, Cache-Control, Content-Type, Last-Event-ID",
            ),
            ("Access-Control-Max-Age", "3600"),
        ];
        headers.extend(more.map(|(name, value)| (name, value.to_owned())));
    } else {
        headers.push((
            "Access-Control-Expose-Headers",
            "Link, Last-Event-ID".to_owned(),
        ));
    }
    headers
}

type Refusal = (u16, &'static str);

fn subscribe(hub: &Hub, request: &Request<'_>, query: &Form) -> Result<Outcome, Refusal> {
    let claims = match &hub.subscriber {
        Some(verifier) => authorize(hub, verifier, request, query)?,
        None => None,
    };
    if claims.is_none() && !hub.is_anonymous {
        return Err((401, "Unauthorized"));
    }
    let topics: Vec<String> = query.all("topic").map(str::to_owned).collect();
    if topics.is_empty() {
        return Err((400, "Missing \"topic\" parameter."));
    }
    if topics.len() > TOPICS_MAX {
        return Err((400, "Too many \"topic\" parameters."));
    }
    if topics.iter().any(|topic| !is_topic(topic)) {
        return Err((400, "Invalid \"topic\" parameter."));
    }
    let claims = claims.unwrap_or_default();
    Ok(Outcome::Subscribe(Subscribe {
        topics,
        private: claims.subscribe.unwrap_or_default(),
        payload: claims.payload,
        last_event_id: last_event_id(request, query),
        expires_s: claims.expires_s,
    }))
}

/// The header goes first: browsers send it when they reconnect to an URL that may have an older one.
fn last_event_id(request: &Request<'_>, query: &Form) -> Option<String> {
    let header = request.last_event_id.filter(|id| !id.is_empty());
    let names = ["lastEventID", "Last-Event-ID", "last-event-id"];
    let given = header.or_else(|| names.iter().find_map(|name| query.get(name)));
    let is_asked = request.last_event_id.is_some() || given.is_some();
    let id = given.unwrap_or_default();
    is_asked.then(|| match id.len() <= ID_BYTES_MAX {
        true => id.to_owned(),
        false => String::new(),
    })
}

fn publish(hub: &Hub, request: &Request<'_>, query: &Form) -> Result<Outcome, Refusal> {
    let unauthorized = (401, "Unauthorized");
    let verifier = hub.publisher.as_ref().ok_or(unauthorized)?;
    let claims = authorize(hub, verifier, request, query)?.ok_or(unauthorized)?;
    let grants = claims.publish.ok_or(unauthorized)?;
    let kind = request.content_type.unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err((415, "Unsupported Media Type"));
    }
    let form = Form::parse(request.body).ok_or((400, "Bad Request"))?;
    let update = Update::from_form(&form).map_err(|text| (400, text))?;
    let grants = compile(&grants)?;
    if !update
        .topics
        .iter()
        .all(|topic| grants.iter().any(|it| it.matches(topic)))
    {
        return Err((403, "Forbidden"));
    }
    Ok(Outcome::Publish(update))
}

fn list(
    hub: &Hub,
    request: &Request<'_>,
    query: &Form,
    (path, rest): (&str, &str),
) -> Result<Outcome, Refusal> {
    let filter = Filter::parse(rest).ok_or((404, "Not Found"))?;
    let unauthorized = (401, "Unauthorized");
    if let Some(verifier) = &hub.subscriber {
        let claims = authorize(hub, verifier, request, query)?.ok_or(unauthorized)?;
        let grants = compile(&claims.subscribe.unwrap_or_default())?;
        if !grants.iter().any(|it| it.matches(path)) {
            return Err((403, "Forbidden"));
        }
    }
    Ok(Outcome::Subscriptions(filter))
}

fn compile(selectors: &[String]) -> Result<Vec<Selector>, Refusal> {
    let compiled = selectors.iter().map(|text| Selector::parse(text));
    compiled
        .collect::<Result<_, _>>()
        .map_err(|_| (403, "Forbidden"))
}

/// What the token says that a request brings. `None`: it brings none.
fn authorize(
    hub: &Hub,
    verifier: &Verifier,
    request: &Request<'_>,
    query: &Form,
) -> Result<Option<Claims>, Refusal> {
    let verify = |token: &str| {
        verifier
            .verify(token, request.unix_s)
            .map(Some)
            .map_err(|error| (401, refusal(error)))
    };
    match request.authorization[..] {
        [] => {}
        [field] => {
            return match field.split_once(' ') {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case("Bearer") => {
                    verify(token.trim())
                }
                _ => Err((
                    401,
                    "Unauthorized: the Authorization header is none of a bearer",
                )),
            };
        }
        _ => return Err((401, "Unauthorized: more than one Authorization header")),
    }
    if let Some(token) = query.get("authorization") {
        return verify(token);
    }
    let pairs = request.cookies.iter().flat_map(|field| field.split(';'));
    let mut tokens = pairs.filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == hub.cookie).then_some(value)
    });
    let Some(token) = tokens.next() else {
        return Ok(None);
    };
    // A page of any site can have a browser send its cookies.
    if request.method == "POST" {
        let origin = request
            .origin
            .or_else(|| request.referer.and_then(of_referer));
        let origin = origin.ok_or((
            401,
            "Unauthorized: publishing by a cookie needs an Origin or Referer header",
        ))?;
        if hub.publish_origins.allow(origin) == Allowed::Refused {
            return Err((
                401,
                "Unauthorized: pages of this origin may not publish by a cookie",
            ));
        }
    }
    let token = form::decode(token.trim_matches('"').as_bytes(), false);
    verify(&token.unwrap_or_default())
}

fn refusal(error: TokenError) -> &'static str {
    match error {
        TokenError::Malformed => "Unauthorized: the token is malformed",
        TokenError::Key => "Unauthorized: the token's algorithm or key is not configured",
        TokenError::Signature => "Unauthorized: the token's signature is wrong",
        TokenError::Expired => "Unauthorized: the token has expired",
        TokenError::NotYet => "Unauthorized: the token is not yet valid",
    }
}

#[cfg(test)]
mod tests;
