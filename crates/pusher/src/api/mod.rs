//! The HTTP API for an application's backend: parsing, checks and responses.
//!
//! Every call is signed: [`read()`] refuses a call with an invalid signature, time or body.

mod read;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub use read::{Question, read};

/// A call of the API.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Publish events, in this order.
    Publish {
        /// The events.
        events: Vec<Event>,
        /// True if the events came as a batch. The response to a batch has one entry per event.
        is_batch: bool,
    },
    /// List the channels that have subscribers.
    Channels {
        /// Prefix of the channels' names.
        prefix: String,
        /// Requested attributes of each.
        wants: Wants,
    },
    /// Describe one channel.
    Channel {
        /// Its name.
        channel: String,
        /// Requested attributes.
        wants: Wants,
    },
    /// List the users in a presence channel.
    Users {
        /// Its name.
        channel: String,
    },
    /// Count the connections.
    Connections,
    /// Close all connections on which this user has signed in or is present in a channel.
    Terminate {
        /// Id of the user.
        user: String,
    },
}

/// An event to publish.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Data of the event. Subscribers receive it in a string.
    pub data: String,
    /// The channels to which the event is published.
    pub channels: Vec<String>,
    /// Socket id of the connection that must not receive the event.
    pub except: Option<String>,
    /// Requested attributes of the channels in the response.
    pub wants: Wants,
}

/// Attributes of channels in a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Number of present users.
    pub user_count: bool,
    /// Number of subscribed connections.
    pub subscription_count: bool,
    /// The newest event of a cache channel.
    pub cache: bool,
}

impl Wants {
    /// Returns true if any attribute is requested.
    pub fn any(self) -> bool {
        self.user_count || self.subscription_count || self.cache
    }
}

/// State of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelState {
    /// Number of subscribed connections.
    pub subscriptions: u64,
    /// Number of present users. `None`: the channel is not a presence channel.
    pub users: Option<u64>,
    /// Data of the newest event. `None`: the channel is not a cache channel, or its cache is empty.
    pub cache: Option<String>,
}

/// A refused call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {message}")]
pub struct ApiError {
    /// Status of the HTTP response.
    pub status: u16,
    /// Body of the HTTP response: a message that describes the fault.
    pub message: String,
}

impl ApiError {
    /// Creates an error with a status and a message.
    pub fn new(status: u16, message: impl Into<String>) -> ApiError {
        ApiError {
            status,
            message: message.into(),
        }
    }
}

/// Returns the requested attributes of a channel.
pub fn attributes(state: &ChannelState, wants: Wants) -> Map<String, Value> {
    let mut attributes = Map::new();
    if wants.user_count
        && let Some(users) = state.users
    {
        attributes.insert("user_count".to_owned(), json!(users));
    }
    if wants.subscription_count {
        attributes.insert("subscription_count".to_owned(), json!(state.subscriptions));
    }
    if wants.cache
        && let Some(data) = &state.cache
    {
        attributes.insert("cache".to_owned(), json!({"data": data}));
    }
    attributes
}

/// Returns the response to [`Call::Channel`].
pub fn channel_answer(state: &ChannelState, wants: Wants) -> String {
    let mut answer = attributes(state, wants);
    answer.insert("occupied".to_owned(), json!(state.subscriptions > 0));
    Value::Object(answer).to_string()
}

/// Returns the response to [`Call::Channels`], and to [`Call::Publish`] with requested attributes.
pub fn channels_answer(channels: &[(String, ChannelState)], wants: Wants) -> String {
    let channels: Map<String, Value> = channels
        .iter()
        .map(|(name, state)| (name.clone(), Value::Object(attributes(state, wants))))
        .collect();
    json!({"channels": channels}).to_string()
}

/// Returns the response to [`Call::Users`].
pub fn users_answer(users: &[String]) -> String {
    let users: Vec<Value> = users.iter().map(|id| json!({"id": id})).collect();
    json!({"users": users}).to_string()
}
