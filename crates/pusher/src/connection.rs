//! State machine of one client's connection: messages in, actions out.
//!
//! The machine applies the rules of the protocol and the application, and stores the connection's subscriptions. The
//! embedder performs the returned actions, and reports failures with [`Connection::forget`].

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::channel::{Access, ChannelName, USER_PREFIX};
use crate::frame::{self, Code, RingName};
use crate::socket_id::{SocketId, is_socket_id};
use crate::webhook::Kind;
use crate::{App, ClientEvents, Resume, auth};

/// The protocol version.
pub const PROTOCOL: &str = "7";

/// Maximum length of a user's id in bytes. The id is stored with the connection and becomes part of names.
const USER_ID_BYTES_MAX: usize = 255;

/// Action that a message requires.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// No action.
    Nothing,
    /// Send a reply.
    Reply(String),
    /// Subscribe the connection, and send [`frame::subscription_succeeded`].
    Subscribe(Subscribe),
    /// End the connection's subscription to this channel.
    Unsubscribe(String),
    /// Publish an event to all other subscribers of a channel.
    Publish(ClientEvent),
    /// Confirm that the user of [`Connection::user`] has signed in.
    SignedIn(SignedIn),
    /// Send an error and close the connection with this code.
    Close(Code, String),
}

/// A subscription that the application allows.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscribe {
    /// The channel.
    pub channel: String,
    /// The member that the subscription adds. `None`: the channel is not a presence channel.
    pub member: Option<Member>,
    /// Id of the last event the client has received.
    pub since: Option<String>,
    /// The earlier connection of the client. Events that excluded that connection also exclude this one.
    pub formerly: Option<SocketId>,
    /// True if the client asks to resume where the application does not allow it. The client then receives a gap instead of the
    /// missed events.
    pub has_gap: bool,
}

/// A member of a presence channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Id of the user.
    pub user_id: String,
    /// Public data about the user.
    pub user_info: Value,
}

/// A client's event for the other subscribers of a channel.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientEvent {
    /// The channel.
    pub channel: String,
    /// The name on the ring: [`RingName`].
    pub name: String,
    /// Data of the event. Subscribers receive it in a string.
    pub data: String,
}

/// A signed-in user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Id of the user.
    pub id: Box<str>,
}

/// A sign-in to confirm with [`frame::signin_success`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedIn {
    /// The user's data, as the client sent it.
    pub user_data: String,
    /// Users whose online state the client requests.
    pub watchlist: Vec<String>,
    /// True if the connection had no user before.
    pub is_first: bool,
}

/// A subscription of a connection.
#[derive(Debug)]
struct Subscription {
    channel: Box<str>,
    /// The member, in a presence channel.
    user_id: Option<Box<str>>,
}

/// A client's connection. This struct has 24 bytes, because a hub may have a hundred thousand idle connections subscribed to one
/// channel.
#[derive(Debug, Default)]
pub struct Connection {
    /// Subscriptions, without spare capacity, because a client subscribes only a few times and then stays subscribed.
    subscriptions: Box<[Subscription]>,
    /// State of a connection whose client has signed in or has sent client events. `None` for all others.
    active: Option<Box<Active>>,
}

#[derive(Debug, Default)]
struct Active {
    user: Option<User>,
    /// Client events sent in the current second.
    allowance: Allowance,
}

#[derive(Debug, Default)]
struct Allowance {
    second: u64,
    used: u32,
}

/// A message as clients send it. The data is parsed later, with the type that the event needs. An intermediate JSON value would
/// cost a dozen allocations per connecting client.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    channel: Option<String>,
}

/// The data of a message.
#[derive(Deserialize)]
struct Carried<T> {
    data: T,
}

/// The data of a client event, which is optional.
#[derive(Deserialize)]
struct CarriedValue {
    #[serde(default)]
    data: Value,
}

/// Data that clients send as an object, or as JSON in a string.
struct Object<T>(T);

#[derive(Default, Deserialize)]
struct SubscribeData {
    channel: Option<String>,
    auth: Option<String>,
    channel_data: Option<String>,
    #[serde(rename = "fermata:since")]
    since: Option<String>,
    #[serde(rename = "fermata:socket_id")]
    formerly: Option<String>,
}

#[derive(Default, Deserialize)]
struct SigninData {
    auth: Option<String>,
    user_data: Option<String>,
}

/// Checks the handshake's query and origin, before the connection is confirmed.
///
/// # Errors
/// The code and the text with which to close the connection.
pub fn check_handshake(
    app: &App,
    protocol: Option<&str>,
    origin: Option<&str>,
) -> Result<(), (Code, String)> {
    match protocol {
        Some(PROTOCOL) => {}
        None => {
            return Err((
                Code::NoProtocol,
                "the query has no protocol: use protocol=7".to_owned(),
            ));
        }
        Some(text) if text.parse::<u32>().is_err() => {
            return Err((
                Code::BadProtocol,
                "protocol is not a number: use protocol=7".to_owned(),
            ));
        }
        Some(_) => {
            return Err((
                Code::UnsupportedProtocol,
                "this server speaks protocol 7".to_owned(),
            ));
        }
    }
    if !app.is_enabled {
        return Err((Code::Disabled, "the application is disabled".to_owned()));
    }
    if !app.allows_origin(origin) {
        return Err((
            Code::Unauthorized,
            "pages of this origin may not connect".to_owned(),
        ));
    }
    Ok(())
}

impl Connection {
    /// Creates a connection without subscriptions.
    pub fn new() -> Connection {
        Connection::default()
    }

    /// Returns the signed-in user.
    pub fn user(&self) -> Option<&User> {
        self.active.as_ref()?.user.as_ref()
    }

    /// Returns true if this user has signed in, or is present in a channel through this connection.
    pub fn belongs_to(&self, user: &str) -> bool {
        let is_signed_in = self.user().is_some_and(|it| *it.id == *user);
        let mut members = self
            .subscriptions
            .iter()
            .filter_map(|it| it.user_id.as_deref());
        is_signed_in || members.any(|it| it == user)
    }

    /// Returns the channels to which the connection is subscribed.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.subscriptions.iter().map(|it| &*it.channel)
    }

    /// Removes a subscription that could not be made.
    pub fn forget(&mut self, channel: &str) {
        let mut subscriptions = std::mem::take(&mut self.subscriptions).into_vec();
        subscriptions.retain(|it| &*it.channel != channel);
        self.subscriptions = subscriptions.into_boxed_slice();
    }

    /// Handles a message. `now_ms` never decreases.
    pub fn on_message(
        &mut self,
        app: &App,
        socket_id: impl Display,
        text: &[u8],
        now_ms: u64,
    ) -> Outcome {
        if text.len() > app.limits.message_bytes_max {
            return refuse(
                Code::Malformed,
                &format!(
                    "a message has more than {} bytes",
                    app.limits.message_bytes_max
                ),
            );
        }
        let Ok(message) = serde_json::from_slice::<Message>(text) else {
            return refuse(
                Code::Malformed,
                "a message is not a JSON object with an event",
            );
        };
        match &*message.event {
            "pusher:ping" => Outcome::Reply(frame::pong()),
            "pusher:pong" => Outcome::Nothing,
            "pusher:subscribe" => self.on_subscribe(app, socket_id, object(text)),
            "pusher:unsubscribe" => self.on_unsubscribe(object(text)),
            "pusher:signin" => self.on_signin(app, socket_id, object(text)),
            event if event.starts_with("client-") => {
                // `Message` skips the data without validating them, for example their numbers.
                let Ok(carried) = serde_json::from_slice::<CarriedValue>(text) else {
                    return refuse(Code::Malformed, "the data of a message is not JSON");
                };
                self.on_client_event(app, socket_id, &message, &carried.data, now_ms)
            }
            // Events of later protocol versions are ignored.
            event if event.starts_with("pusher:") => Outcome::Nothing,
            _ => refuse(
                Code::ClientEvent,
                "names of client events start with client-",
            ),
        }
    }

    fn on_subscribe(
        &mut self,
        app: &App,
        socket_id: impl Display,
        data: Option<SubscribeData>,
    ) -> Outcome {
        let Some(data) = data else {
            return refuse(
                Code::Malformed,
                "pusher:subscribe: its data is not an object with a channel",
            );
        };
        if !data.formerly.as_deref().is_none_or(is_socket_id) {
            return refuse(
                Code::Malformed,
                "pusher:subscribe: fermata:socket_id is not the id of a connection",
            );
        }
        let name = data.channel.unwrap_or_default();
        let channel = match ChannelName::new(&name) {
            Ok(channel) => channel,
            Err(error) => return refuse(Code::Unauthorized, &error.to_string()),
        };
        if self.subscription(&name).is_some() {
            let text = format!("the connection is subscribed to {name} already");
            return Outcome::Reply(frame::error(None, &text));
        }
        let max = app.limits.channels_per_connection_max;
        if self.subscriptions.len() >= max {
            let text = format!("the connection is subscribed to its maximum of {max} channels");
            return refuse(Code::OverQuota, &text);
        }
        let auth = data.auth.unwrap_or_default();
        let signed = data.channel_data.as_deref();
        let is_allowed = match channel.access() {
            Access::Public => true,
            Access::User => self.user().map(|it| &*it.id) == channel.user(),
            Access::Private | Access::Encrypted | Access::Presence => {
                auth::allows_subscription(app, &auth, &socket_id.to_string(), &name, signed)
            }
        };
        if !is_allowed {
            let text = match channel.access() {
                Access::User => {
                    format!("{name} is the channel of a user who is not signed in here")
                }
                _ => format!("the signature of the subscription to {name} is invalid"),
            };
            return refuse(Code::Unauthorized, &text);
        }
        let member = match channel.access() {
            Access::Presence => match read_member(app, signed) {
                Ok(member) => Some(member),
                Err(error) => return refuse(Code::Unauthorized, &error.to_string()),
            },
            _ => None,
        };
        let mut subscriptions = std::mem::take(&mut self.subscriptions).into_vec();
        subscriptions.reserve_exact(1);
        subscriptions.push(Subscription {
            channel: name.as_str().into(),
            user_id: member.as_ref().map(|it| it.user_id.as_str().into()),
        });
        self.subscriptions = subscriptions.into_boxed_slice();
        let resumes = match app.resume {
            Resume::All => true,
            Resume::Public => channel.access() == Access::Public,
            Resume::None => false,
        };
        let has_gap = data.since.is_some() && !resumes;
        Outcome::Subscribe(Subscribe {
            channel: name,
            member,
            since: data.since.filter(|_| resumes),
            has_gap,
            // If the id is from another server, no record on this server excludes that connection.
            formerly: data.formerly.as_deref().and_then(SocketId::parse),
        })
    }

    fn on_unsubscribe(&mut self, data: Option<SubscribeData>) -> Outcome {
        let name = data.and_then(|it| it.channel);
        let Some(name) = name else {
            return refuse(
                Code::Malformed,
                "pusher:unsubscribe: its data is not an object with a channel",
            );
        };
        match self.subscription(&name) {
            Some(_) => {
                self.forget(&name);
                Outcome::Unsubscribe(name)
            }
            None => Outcome::Nothing,
        }
    }

    fn on_signin(
        &mut self,
        app: &App,
        socket_id: impl Display,
        data: Option<SigninData>,
    ) -> Outcome {
        let Some(data) = data else {
            return refuse(Code::Malformed, "pusher:signin: its data is not an object");
        };
        let (auth, user_data) = (
            data.auth.unwrap_or_default(),
            data.user_data.unwrap_or_default(),
        );
        if !auth::allows_user(app, &auth, &socket_id.to_string(), &user_data) {
            return close(Code::Unauthorized, "the signature of the user is invalid");
        }
        let user: SignedUser<'_> = serde_json::from_str(&user_data).unwrap_or_default();
        let id = user
            .id
            .and_then(|id| read_user_id(id, app.limits.user_id_bytes_max));
        let Some(id) = id else {
            return close(
                Code::Unauthorized,
                "the data of the user is not a JSON object with an id",
            );
        };
        let watchlist = match read_watchlist(user.watchlist, app) {
            Ok(watchlist) => watchlist,
            Err(error) => return close(Code::Unauthorized, &error.to_string()),
        };
        if self.user().is_some_and(|user| *user.id != *id) {
            return refuse(
                Code::Unauthorized,
                "another user has signed in on this connection",
            );
        }
        let active = self.active.get_or_insert_default();
        let before = active.user.replace(User { id: id.into() });
        Outcome::SignedIn(SignedIn {
            user_data,
            watchlist,
            is_first: before.is_none(),
        })
    }

    fn on_client_event(
        &mut self,
        app: &App,
        socket_id: impl Display,
        message: &Message<'_>,
        data: &Value,
        now_ms: u64,
    ) -> Outcome {
        let limits = &app.limits;
        let refuse = |text: &str| refuse(Code::ClientEvent, text);
        if app.client_events == ClientEvents::Refused {
            return refuse("the application accepts no client events");
        }
        let name = message.channel.as_deref().unwrap_or_default();
        let Some(subscription) = self.subscription(name) else {
            return refuse(
                "an event was sent to a channel that the connection is not subscribed to",
            );
        };
        // The connection is subscribed to this channel, so its name is valid.
        let access = ChannelName::new(name).map(ChannelName::access);
        if !matches!(access, Ok(Access::Private | Access::Presence)) {
            return refuse("client events are for private and presence channels only");
        }
        if let Err(error) = check_event_name(&message.event, limits.event_name_chars_max) {
            return refuse(&error.to_string());
        }
        let data = data_text(data);
        if data.len() > limits.event_data_bytes_max {
            return refuse(&format!(
                "the data of an event has more than {} bytes",
                limits.event_data_bytes_max
            ));
        }
        let socket_id = app
            .reports(Kind::ClientEvent)
            .then(|| socket_id.to_string());
        let ring_name = RingName {
            event: &message.event,
            user_id: subscription.user_id.as_deref(),
            socket_id: socket_id.as_deref(),
        };
        let event = ClientEvent {
            channel: name.to_owned(),
            name: ring_name.text(),
            data,
        };
        // Only events that pass all other checks count toward the rate.
        let allowance = &mut self.active.get_or_insert_default().allowance;
        if !allowance.take(limits.client_events_per_second, now_ms) {
            return refuse(&format!(
                "more than {} client events in a second",
                limits.client_events_per_second
            ));
        }
        Outcome::Publish(event)
    }

    fn subscription(&self, channel: &str) -> Option<&Subscription> {
        self.subscriptions.iter().find(|it| &*it.channel == channel)
    }
}

impl Allowance {
    fn take(&mut self, per_second: u32, now_ms: u64) -> bool {
        if per_second == 0 {
            return true;
        }
        let second = now_ms / 1000;
        if self.second != second {
            *self = Allowance { second, used: 0 };
        }
        if self.used >= per_second {
            return false;
        }
        self.used += 1;
        true
    }
}

/// Fault in a client's or publisher's message; the text is sent to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum InvalidField {
    /// An event without a name.
    #[error("an event has no name")]
    NoEventName,
    /// The event's name exceeds the limit.
    #[error("the name of an event has more than {0} characters")]
    EventNameLong(usize),
    /// A control character in the name could break log lines.
    #[error("the name of an event has a control character")]
    EventNameControl,
    /// The member's data does not contain a user.
    #[error("the channel_data of a presence channel is not a JSON object with a user_id")]
    ChannelData,
    /// The user's id exceeds the limit.
    #[error("the user_id of a presence channel has to be 1 to {0} bytes of text or a number")]
    UserId(usize),
    /// The member's public data exceeds the limit.
    #[error("the user_info of a presence channel has more than {0} bytes")]
    UserInfoLong(usize),
    /// The watchlist has another type.
    #[error("the watchlist of the user is not a list of ids")]
    Watchlist,
    /// The watchlist exceeds the limit.
    #[error("the watchlist of the user has more than {0} users")]
    WatchlistLong(usize),
    /// The watchlist contains an invalid id.
    #[error("the watchlist of the user has an invalid id")]
    WatchlistId,
}

/// Checks the name of an event to publish.
///
/// # Errors
/// The name is invalid.
pub fn check_event_name(name: &str, chars_max: usize) -> Result<(), InvalidField> {
    if name.is_empty() {
        return Err(InvalidField::NoEventName);
    }
    if name.chars().count() > chars_max {
        return Err(InvalidField::EventNameLong(chars_max));
    }
    if name.chars().any(char::is_control) {
        return Err(InvalidField::EventNameControl);
    }
    Ok(())
}

/// Returns the data of an event as subscribers receive it. Text stays unchanged, and any other value becomes JSON.
pub fn data_text(data: &Value) -> String {
    match data {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Parses the data of a message. Returns `None` if the data does not have the required form.
fn object<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    let carried = serde_json::from_slice::<Carried<Object<T>>>(text);
    carried.ok().map(|it| it.data.0)
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: DeserializeOwned> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object, or one in a string")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Object<T>, E> {
        serde_json::from_str(text).map(Object).map_err(E::custom)
    }
}

/// The data that an application has signed for a presence channel.
#[derive(Deserialize)]
struct SignedMember<'d> {
    #[serde(borrow)]
    user_id: Option<&'d RawValue>,
    #[serde(default)]
    user_info: Value,
}

/// The data that an application has signed for a sign-in.
#[derive(Default, Deserialize)]
struct SignedUser<'d> {
    #[serde(borrow)]
    id: Option<&'d RawValue>,
    #[serde(borrow)]
    watchlist: Option<&'d RawValue>,
}

fn read_member(app: &App, data: Option<&str>) -> Result<Member, InvalidField> {
    let limits = &app.limits;
    let SignedMember { user_id, user_info } = data
        .and_then(|it| serde_json::from_str(it).ok())
        .ok_or(InvalidField::ChannelData)?;
    let user_id = user_id
        .and_then(|id| read_user_id(id, limits.user_id_bytes_max))
        .ok_or(InvalidField::UserId(limits.user_id_bytes_max))?;
    if user_info.to_string().len() > limits.user_info_bytes_max {
        return Err(InvalidField::UserInfoLong(limits.user_info_bytes_max));
    }
    Ok(Member { user_id, user_info })
}

/// Parses a watchlist; duplicates are removed.
fn read_watchlist(value: Option<&RawValue>, app: &App) -> Result<Vec<String>, InvalidField> {
    let (max, bytes_max) = (app.limits.watchlist_users_max, app.limits.user_id_bytes_max);
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    let users: Vec<&RawValue> =
        serde_json::from_str(value.get()).map_err(|_| InvalidField::Watchlist)?;
    if users.len() > max {
        return Err(InvalidField::WatchlistLong(max));
    }
    let mut watchlist: Vec<String> = users
        .iter()
        .map(|user| read_user_id(user, bytes_max))
        .collect::<Option<_>>()
        .ok_or(InvalidField::WatchlistId)?;
    watchlist.sort();
    watchlist.dedup();
    Ok(watchlist)
}

/// Parses an id that is a text or a number. An integer keeps all its digits. If it were converted to a 64-bit or floating-point
/// number, different ids could become equal.
fn read_user_id(value: &RawValue, bytes_max: usize) -> Option<String> {
    let text = value.get();
    let is_integer = text
        .strip_prefix('-')
        .unwrap_or(text)
        .bytes()
        .all(|byte| byte.is_ascii_digit());
    let id = match serde_json::from_str(text).ok()? {
        Value::String(text) => text,
        Value::Number(_) if is_integer => text.to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let is_valid = !id.is_empty()
        && id.len() <= bytes_max.min(USER_ID_BYTES_MAX)
        && !id.chars().any(char::is_control);
    is_valid.then_some(id)
}

/// Returns the channel of a user.
pub fn user_channel(user: &str) -> String {
    format!("{USER_PREFIX}{user}")
}

fn refuse(code: Code, text: &str) -> Outcome {
    Outcome::Reply(frame::error(Some(code), text))
}

fn close(code: Code, text: &str) -> Outcome {
    Outcome::Close(code, text.to_owned())
}

#[cfg(test)]
mod tests;
