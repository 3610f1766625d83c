//! Parses and authorizes requests to the hub.

use std::sync::Arc;

use crate::form::{self, Form};
use crate::origin::{Allowed, Origins, of_referer};
use crate::resource::Draft;
use crate::selector::{Selector, Syntax};
use crate::subscription::Filter;
use crate::token::{Claims, TokenError, Verifier};
use crate::topic::Topic;
use crate::update::{Update, is_topic};
use crate::{PATH, TOPICS_MAX};

/// Maximum length of a last event id in bytes. Longer ids are ignored.
const ID_BYTES_MAX: usize = 1024;

const LINK: &str = "</.well-known/mercure>; rel=\"mercure\"";

/// Settings of a hub.
#[derive(Clone, Debug, Default)]
pub struct Hub {
    /// Verifier of publishers' tokens. `None`: no client may publish.
    pub publisher: Option<Verifier>,
    /// Verifier of subscribers' tokens.
    pub subscriber: Option<Verifier>,
    /// True if clients without a token may subscribe to public updates.
    pub is_anonymous: bool,
    /// True if the hub announces subscriptions and serves the subscription API.
    pub has_subscriptions: bool,
    /// Name of the cookie that may hold the token.
    pub cookie: String,
    /// Pages that may read.
    pub cors_origins: Origins,
    /// Pages that may publish with the cookie.
    pub publish_origins: Origins,
    /// Settings of the draft of version 1.0. `None`: the hub uses version 0.x.
    pub draft: Option<Draft>,
}

impl Hub {
    /// Returns the syntax of selectors.
    pub fn syntax(&self) -> Syntax {
        match &self.draft {
            Some(draft) => Syntax::Matchers(Arc::clone(&draft.base)),
            None => Syntax::Templates,
        }
    }

    /// Returns the name of the response header with the id of the event before the first one that
    /// is sent.
    pub fn answer_id_name(&self) -> &'static str {
        if self.draft.is_some() {
            "Mercure-Last-Event-ID"
        } else {
            "Last-Event-ID"
        }
    }

    /// Returns the id of an update for which the publisher chose no id. The id is made from the
    /// position of the update.
    pub fn id_of(&self, place: &str) -> String {
        if self.draft.is_some() {
            format!("#{place}")
        } else {
            place.to_owned()
        }
    }
}

/// The parts of a request that the protocol uses.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// Method.
    pub method: &'a str,
    /// Path and query, not decoded.
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
    /// The current time, in seconds since 1970.
    pub unix_s: u64,
}

impl<'a> Request<'a> {
    /// Returns path and query.
    pub(crate) fn split(&self) -> (&'a str, &'a str) {
        self.target.split_once('?').unwrap_or((self.target, ""))
    }
}

/// An authorized subscriber.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscribe {
    /// Selectors of topics, in the given order.
    pub topics: Vec<String>,
    /// Selectors of topics whose private updates the subscriber receives.
    pub private: Vec<String>,
    /// Payload of the announcements of this subscriber.
    pub payload: Option<serde_json::Value>,
    /// Payloads per topic, in the draft; empty if all are null.
    pub payloads: Vec<serde_json::Value>,
    /// Id of the last event that the subscriber received, or `earliest`. Empty if the given id is empty or too long. `None` if
    /// there is no id.
    pub last_event_id: Option<String>,
    /// Time at which the response ends, in seconds since 1970.
    pub expires_s: Option<u64>,
}

/// Result of parsing a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Subscribe. The request is held.
    Subscribe(Subscribe),
    /// Publish.
    Publish(Update),
    /// List subscriptions.
    Subscriptions(Filter),
    /// Refuse with a status and a message.
    Refused(u16, &'static str),
    /// Refuse with a challenge of the draft: status, OAuth error code (may be empty) and message.
    Challenged(u16, &'static str, &'static str),
    /// Respond with the resource metadata of the draft.
    Metadata(String),
    /// Respond to a CORS preflight request.
    Preflight,
    /// The path is not the hub's.
    Elsewhere,
}

/// Parses a request in version 0.x.
pub fn read(hub: &Hub, request: &Request<'_>) -> Outcome {
    let (path, _) = request.split();
    let (rest, query) = match place(hub, request) {
        Ok(place) => place,
        Err(outcome) => return *outcome,
    };
    let subscriptions = rest.strip_prefix("/subscriptions");
    let outcome = match (request.method, subscriptions) {
        ("GET" | "HEAD", None) => subscribe(hub, request, &query),
        ("POST", None) => publish(hub, request, &query),
        ("GET" | "HEAD", Some(rest)) => list(hub, request, &query, (path, rest)),
        _ => Err((405, "Method Not Allowed")),
    };
    outcome.unwrap_or_else(|(status, text)| Outcome::Refused(status, text))
}

/// Returns the path below the hub's and the query, or the outcome to respond with.
pub(crate) fn place<'a>(hub: &Hub, request: &Request<'a>) -> Result<(&'a str, Form), Box<Outcome>> {
    let (path, query) = request.split();
    let rest = path.strip_prefix(PATH).ok_or(Outcome::Elsewhere)?;
    let is_list = rest.starts_with("/subscriptions") && hub.has_subscriptions;
    if !rest.is_empty() && !is_list {
        return Err(Box::new(Outcome::Elsewhere));
    }
    if request.method == "OPTIONS" {
        return Err(Box::new(Outcome::Preflight));
    }
    let query = Form::parse(query.as_bytes());
    let query = query.ok_or(Outcome::Refused(400, "Invalid query"))?;
    Ok((rest, query))
}

/// Returns the header fields of every response of the hub, including those for CORS.
pub fn headers(hub: &Hub, request: &Request<'_>) -> Vec<(&'static str, String)> {
    let mut headers = vec![("Link", LINK.to_owned())];
    if hub.cors_origins.is_empty() {
        return headers;
    }
    // A cache must not return a response for one origin to a page of another.
    headers.push(("Vary", "Origin".to_owned()));
    let Some(origin) = request.origin else {
        return headers;
    };
    match hub.cors_origins.allow(origin) {
        Allowed::Refused => return headers,
        Allowed::AnyOrigin => headers.push(("Access-Control-Allow-Origin", "*".to_owned())),
        Allowed::This => {
            headers.push(("Access-Control-Allow-Origin", origin.to_owned()));
            headers.push(("Access-Control-Allow-Credentials", "true".to_owned()));
        }
    }
    if request.method == "OPTIONS" {
        let more = [
            (
                "Access-Control-Allow-Methods",
                if hub.draft.is_some() {
                    "GET, HEAD, POST, QUERY"
                } else {
                    "GET, HEAD, POST"
                },
            ),
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
            format!("Link, {}", hub.answer_id_name()),
        ));
    }
    headers
}

type Refusal = (u16, &'static str);

const NO_TOKEN: Refusal = (401, "Unauthorized: the request has no token");

fn subscribe(hub: &Hub, request: &Request<'_>, query: &Form) -> Result<Outcome, Refusal> {
    let claims = match &hub.subscriber {
        Some(verifier) => authorize(hub, verifier, request, query)?,
        None => None,
    };
    if claims.is_none() && !hub.is_anonymous {
        return Err((
            401,
            "Unauthorized: the request has no token, and anonymous subscribers are not allowed",
        ));
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
        payloads: Vec::new(),
        last_event_id: last_event_id(
            request,
            query,
            &["lastEventID", "Last-Event-ID", "last-event-id"],
        ),
        expires_s: claims.expires_s,
    }))
}

/// Returns the last event id. The header takes precedence, because browsers send the header on
/// reconnect, when the URL may have an older id.
pub(crate) fn last_event_id(request: &Request<'_>, query: &Form, names: &[&str]) -> Option<String> {
    let header = request.last_event_id.filter(|id| !id.is_empty());
    let given = header.or_else(|| names.iter().find_map(|name| query.get(name)));
    let is_asked = request.last_event_id.is_some() || given.is_some();
    let id = given.unwrap_or_default();
    is_asked.then(|| {
        if id.len() <= ID_BYTES_MAX {
            id.to_owned()
        } else {
            String::new()
        }
    })
}

fn publish(hub: &Hub, request: &Request<'_>, query: &Form) -> Result<Outcome, Refusal> {
    let verifier = hub.publisher.as_ref();
    let verifier = verifier.ok_or((401, "Unauthorized: no key of publishers is configured"))?;
    let claims = authorize(hub, verifier, request, query)?.ok_or(NO_TOKEN)?;
    let grants = claims.publish;
    let grants = grants.ok_or((401, "Unauthorized: the token has no mercure.publish"))?;
    let form = form_of(request)?;
    let update = Update::from_form(&form).map_err(|text| (400, text))?;
    let grants = compile(&grants)?;
    let mut topics = update.topics.iter().map(|it| Topic::new(it.as_str()));
    if !topics.all(|topic| grants.iter().any(|it| it.matches(&topic))) {
        return Err((
            403,
            "Forbidden: the token's mercure.publish does not have every topic of the update",
        ));
    }
    Ok(Outcome::Publish(update))
}

/// Parses a form in a request's body.
pub(crate) fn form_of(request: &Request<'_>) -> Result<Form, Refusal> {
    let kind = request.content_type.unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err((415, "Unsupported Media Type"));
    }
    Form::parse(request.body).ok_or((400, "Bad Request"))
}

fn list(
    hub: &Hub,
    request: &Request<'_>,
    query: &Form,
    (path, rest): (&str, &str),
) -> Result<Outcome, Refusal> {
    let filter = Filter::parse(rest).ok_or((404, "Not Found"))?;
    if let Some(verifier) = &hub.subscriber {
        let claims = authorize(hub, verifier, request, query)?.ok_or(NO_TOKEN)?;
        let grants = compile(&claims.subscribe.unwrap_or_default())?;
        let path = Topic::new(path);
        if !grants.iter().any(|it| it.matches(&path)) {
            return Err((
                403,
                "Forbidden: the token's mercure.subscribe does not have this path",
            ));
        }
    }
    Ok(Outcome::Subscriptions(filter))
}

fn compile(selectors: &[String]) -> Result<Vec<Selector>, Refusal> {
    let compiled = selectors.iter().map(|text| Selector::parse(text));
    compiled
        .collect::<Result<_, _>>()
        .map_err(|_| (403, "Forbidden: the token has a topic that is too large"))
}

/// Returns the claims of the request's token. `None`: the request has no token.
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
    // The first of these decides: the header, the parameter of the query, the cookie.
    match request.authorization[..] {
        [] => {}
        [field] => {
            return match field.split_once(' ') {
                Some((scheme, token)) if scheme.eq_ignore_ascii_case("Bearer") => {
                    verify(token.trim())
                }
                _ => Err((
                    401,
                    "Unauthorized: the Authorization header has no bearer token",
                )),
            };
        }
        _ => return Err((401, "Unauthorized: more than one Authorization header")),
    }
    if let Some(token) = query.get("authorization") {
        return verify(token);
    }
    let Some(token) = cookie(hub, request) else {
        return Ok(None);
    };
    if request.method == "POST" {
        may_publish_by_cookie(hub, request)?;
    }
    verify(&token)
}

/// Returns the token in the hub's cookie.
pub(crate) fn cookie(hub: &Hub, request: &Request<'_>) -> Option<String> {
    let pairs = request.cookies.iter().flat_map(|field| field.split(';'));
    let mut tokens = pairs.filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        (name == hub.cookie).then_some(value)
    });
    let token = tokens.next()?.trim_matches('"');
    Some(form::decode(token.as_bytes(), false).unwrap_or_default())
}

/// Returns true if the origin may publish with a cookie. The check is necessary because a page of
/// any site can make a browser send its cookies.
pub(crate) fn may_publish_by_cookie(hub: &Hub, request: &Request<'_>) -> Result<(), Refusal> {
    let origin = request
        .origin
        .or_else(|| request.referer.and_then(of_referer));
    let origin = origin.ok_or((
        401,
        "Unauthorized: publishing by a cookie needs an Origin or Referer header",
    ))?;
    match hub.publish_origins.allow(origin) {
        Allowed::Refused => Err((
            401,
            "Unauthorized: pages of this origin may not publish by a cookie",
        )),
        _ => Ok(()),
    }
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
