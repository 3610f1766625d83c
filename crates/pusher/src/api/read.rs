//! Parses and checks requests of the API.

use serde::Deserialize;
use serde_json::Value;

use super::{ApiError, Call, Event, Wants};
use crate::channel::{Access, ChannelName};
use crate::connection::{check_event_name, data_text};
use crate::frame::is_of_protocol;
use crate::socket_id::is_socket_id;
use crate::{App, auth};

/// Maximum number of parameters in a query; the API has eight.
const PARAMETERS_MAX: usize = 32;

/// A request of the HTTP API.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Method.
    pub method: &'a str,
    /// Path and query, as received.
    pub target: &'a str,
    /// Body.
    pub body: &'a [u8],
    /// The current time, in seconds since 1970.
    pub unix_s: u64,
}

#[derive(Deserialize)]
struct EventBody {
    name: Option<String>,
    #[serde(default)]
    data: Value,
    channel: Option<String>,
    channels: Option<Vec<String>>,
    socket_id: Option<String>,
    info: Option<String>,
}

#[derive(Deserialize)]
struct BatchBody {
    batch: Vec<EventBody>,
}

/// Parses a request and returns its application and its call. `None`: the path does not belong to the API.
///
/// # Errors
/// The status and message to respond with.
pub fn read<'a>(
    apps: &'a [App],
    question: &Question<'_>,
) -> Option<Result<(&'a App, Call), ApiError>> {
    let (path, query) = question
        .target
        .split_once('?')
        .unwrap_or((question.target, ""));
    let (id, rest) = path.strip_prefix("/apps/")?.split_once('/')?;
    Some(read_call(apps, id, rest, path, query, question))
}

fn read_call<'a>(
    apps: &'a [App],
    id: &str,
    rest: &str,
    path: &str,
    query: &str,
    question: &Question<'_>,
) -> Result<(&'a App, Call), ApiError> {
    let query = parse_query(query)?;
    let app = apps
        .iter()
        .find(|app| app.id == id)
        .ok_or_else(|| ApiError::new(404, format!("There is no application with the id {id}.")))?;
    check_signature(app, path, &query, question)?;
    if !app.is_enabled {
        return Err(ApiError::new(403, "The application is disabled."));
    }
    let parts: Vec<&str> = rest.split('/').collect();
    let call = match (question.method, &parts[..]) {
        ("POST", ["events"]) => {
            let body: EventBody = parse_body(question.body)?;
            Call::Publish {
                events: vec![read_event(app, body)?],
                is_batch: false,
            }
        }
        ("POST", ["batch_events"]) => {
            let body: BatchBody = parse_body(question.body)?;
            let max = app.limits.batch_events_max;
            if body.batch.len() > max {
                return Err(ApiError::new(
                    400,
                    format!(
                        "batch: it has {} events, and at most {max} are allowed.",
                        body.batch.len()
                    ),
                ));
            }
            let events = body.batch.into_iter().map(|event| read_event(app, event));
            Call::Publish {
                events: events.collect::<Result<_, _>>()?,
                is_batch: true,
            }
        }
        ("GET", ["channels"]) => {
            let prefix = parameter(&query, "filter_by_prefix")
                .unwrap_or_default()
                .to_owned();
            let wants = read_wants(parameter(&query, "info"))?;
            if wants.user_count && !prefix.starts_with("presence-") {
                return Err(ApiError::new(
                    400,
                    "info: user_count is available for presence channels only; use filter_by_prefix=presence-.",
                ));
            }
            Call::Channels { prefix, wants }
        }
        ("GET", ["channels", channel]) => {
            let channel = channel_name(channel)?;
            let wants = read_wants(parameter(&query, "info"))?;
            let is_presence =
                ChannelName::new(&channel).map(ChannelName::access) == Ok(Access::Presence);
            if wants.user_count && !is_presence {
                return Err(ApiError::new(
                    400,
                    "info: user_count is available for presence channels only.",
                ));
            }
            Call::Channel { channel, wants }
        }
        ("GET", ["channels", channel, "users"]) => {
            let channel = channel_name(channel)?;
            if ChannelName::new(&channel).map(ChannelName::access) != Ok(Access::Presence) {
                return Err(ApiError::new(
                    400,
                    "users are available for presence channels only.",
                ));
            }
            Call::Users { channel }
        }
        ("GET", ["connections"]) => Call::Connections,
        ("POST", ["users", user, "terminate_connections"]) => Call::Terminate {
            user: decode(user).ok_or_else(|| ApiError::new(400, "the user's id is malformed."))?,
        },
        (_, ["events" | "batch_events" | "channels" | "connections"] | ["channels", ..]) => {
            return Err(ApiError::new(405, "The path has no such method."));
        }
        _ => return Err(ApiError::new(404, "There is no such path.")),
    };
    Ok((app, call))
}

fn check_signature(
    app: &App,
    path: &str,
    query: &[(String, String)],
    question: &Question<'_>,
) -> Result<(), ApiError> {
    let unauthorized = |message: &str| ApiError::new(401, message);
    let signature = parameter(query, "auth_signature")
        .ok_or_else(|| unauthorized("auth_signature is missing."))?;
    if parameter(query, "auth_key") != Some(&app.key) {
        return Err(unauthorized("auth_key does not match the application."));
    }
    let text = auth::request_text(question.method, path, query);
    if !auth::is_signed(app, text.as_bytes(), signature) {
        return Err(unauthorized(
            "auth_signature does not match the method, path, query and the application's secret.",
        ));
    }
    // The time bounds how long a recorded request can be sent again.
    let timestamp = parameter(query, "auth_timestamp").and_then(|it| it.parse::<u64>().ok());
    let is_near =
        timestamp.is_some_and(|it| it.abs_diff(question.unix_s) <= app.limits.clock_window_s);
    if !is_near {
        return Err(unauthorized(&format!(
            "auth_timestamp is not within {} seconds of the server's time, {}.",
            app.limits.clock_window_s, question.unix_s
        )));
    }
    let md5 = parameter(query, "body_md5");
    let is_same = match md5 {
        Some(md5) => md5.eq_ignore_ascii_case(&auth::body_md5(question.body)),
        // An unsigned body is not accepted.
        None => question.body.is_empty(),
    };
    if !is_same {
        return Err(unauthorized("body_md5 does not match the body."));
    }
    Ok(())
}

fn read_event(app: &App, body: EventBody) -> Result<Event, ApiError> {
    let limits = &app.limits;
    let bad = |message: String| ApiError::new(400, message);
    let name = body
        .name
        .ok_or_else(|| bad("name is missing.".to_owned()))?;
    check_event_name(&name, limits.event_name_chars_max)
        .map_err(|error| bad(format!("name: {error}.")))?;
    // Clients would treat such an event as a message of the server.
    if is_of_protocol(&name) {
        return Err(bad(
            "name: its prefix is of the protocol's own events.".to_owned()
        ));
    }
    if body.data.is_null() {
        return Err(bad("data is missing.".to_owned()));
    }
    let data = data_text(&body.data);
    if data.len() > limits.event_data_bytes_max {
        return Err(ApiError::new(
            413,
            format!(
                "data has {} bytes, and at most {} are allowed.",
                data.len(),
                limits.event_data_bytes_max
            ),
        ));
    }
    let channels = match (body.channels, body.channel) {
        (Some(channels), None) => channels,
        (None, Some(channel)) => vec![channel],
        _ => return Err(bad("Give either channel or channels.".to_owned())),
    };
    let max = limits.channels_per_event_max;
    if channels.is_empty() || channels.len() > max {
        return Err(bad(format!("channels: give 1 to {max}.")));
    }
    for channel in &channels {
        ChannelName::new(channel).map_err(|error| bad(format!("{error}.")))?;
    }
    if let Some(id) = &body.socket_id
        && !is_socket_id(id)
    {
        return Err(bad(
            "socket_id: give the id of a connection, such as 1234.5678.".to_owned(),
        ));
    }
    Ok(Event {
        name,
        data,
        channels,
        except: body.socket_id,
        wants: read_wants(body.info.as_deref())?,
    })
}

fn read_wants(info: Option<&str>) -> Result<Wants, ApiError> {
    let mut wants = Wants::default();
    for attribute in info.unwrap_or_default().split(',').map(str::trim) {
        match attribute {
            "" => {}
            "user_count" => wants.user_count = true,
            "subscription_count" => wants.subscription_count = true,
            "cache" => wants.cache = true,
            other => {
                return Err(ApiError::new(
                    400,
                    format!(
                        "info: \"{}\" is not user_count, subscription_count or cache.",
                        other.escape_debug()
                    ),
                ));
            }
        }
    }
    Ok(wants)
}

fn parse_body<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::new(
            400,
            format!("The body is not valid JSON for this request: {error}."),
        )
    })
}

fn channel_name(part: &str) -> Result<String, ApiError> {
    let name =
        decode(part).ok_or_else(|| ApiError::new(400, "the channel's name is malformed."))?;
    ChannelName::new(&name).map_err(|error| ApiError::new(400, format!("{error}.")))?;
    Ok(name)
}

/// Decodes names and values, in the form in which they are signed. Refuses a repeated name, because the signature check and the
/// call could otherwise read different values.
fn parse_query(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        // The number is limited, because each parameter is compared with those before it, and the signature is not checked yet.
        if pairs.len() == PARAMETERS_MAX {
            return Err(ApiError::new(
                400,
                format!("The query has more than {PARAMETERS_MAX} parameters."),
            ));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let plain = |text: &str| decode(&text.replace('+', " "));
        let (Some(name), Some(value)) = (plain(name), plain(value)) else {
            return Err(ApiError::new(400, "The query is malformed."));
        };
        let is_known = |(other, _): &(String, String)| other.eq_ignore_ascii_case(&name);
        if pairs.iter().any(is_known) {
            return Err(ApiError::new(
                400,
                format!("The query has {} twice.", name.escape_debug()),
            ));
        }
        pairs.push((name, value));
    }
    Ok(pairs)
}

fn parameter<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    query
        .iter()
        .find(|(other, _)| other == name)
        .map(|(_, value)| value.as_str())
}

/// Decodes percent escapes (RFC 3986, section 2.1).
fn decode(text: &str) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|it| it as u8);
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => digit(bytes.next()?)? << 4 | digit(bytes.next()?)?,
            other => other,
        });
    }
    String::from_utf8(out).ok()
}
