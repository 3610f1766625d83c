//! The HTTP API: what an application's backend asks, checked, and how it is answered.
//!
//! Every call is signed: [`read`] lets nothing through whose signature, time or body does not fit.

mod read;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

pub use read::{Question, read};

/// What was asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Call {
    /// Publish events, in this order. `wants` is set when the answer tells of the channels.
    Publish {
        /// The events.
        events: Vec<Event>,
        /// Whether they came as a batch, which is answered event by event.
        is_batch: bool,
    },
    /// The channels that have subscribers.
    Channels {
        /// What their names begin with.
        prefix: String,
        /// What is told of each.
        wants: Wants,
    },
    /// One channel.
    Channel {
        /// Its name.
        channel: String,
        /// What is told of it.
        wants: Wants,
    },
    /// The users in a presence channel.
    Users {
        /// Its name.
        channel: String,
    },
    /// How many connections there are.
    Connections,
    /// End all connections on which this user has signed in or is present in a channel.
    Terminate {
        /// The user.
        user: String,
    },
}

/// An event to publish.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Its data, as subscribers get it in a string.
    pub data: String,
    /// The channels it goes to.
    pub channels: Vec<String>,
    /// The connection that does not get it.
    pub except: Option<String>,
    /// What is told of the channels in the answer.
    pub wants: Wants,
}

/// Attributes of channels that an answer tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// How many users are present.
    pub user_count: bool,
    /// How many connections are subscribed.
    pub subscription_count: bool,
    /// The newest event of a cache channel.
    pub cache: bool,
}

impl Wants {
    /// Whether anything is.
    pub fn any(self) -> bool {
        self.user_count || self.subscription_count || self.cache
    }
}

/// What is known of a channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelState {
    /// Connections that are subscribed.
    pub subscriptions: u64,
    /// Users that are present; `None`: it is no presence channel.
    pub users: Option<u64>,
    /// The data of its newest event, of a cache channel that has one.
    pub cache: Option<String>,
}

/// A call that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {message}")]
pub struct ApiError {
    /// Of the HTTP response.
    pub status: u16,
    /// Its body, which says what is wrong.
    pub message: String,
}

impl ApiError {
    /// An error with this status and sentence.
    pub fn new(status: u16, message: impl Into<String>) -> ApiError {
        ApiError {
            status,
            message: message.into(),
        }
    }
}

/// The attributes of a channel that were asked for.
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

/// The answer to [`Call::Channel`].
pub fn channel_answer(state: &ChannelState, wants: Wants) -> String {
    let mut answer = attributes(state, wants);
    answer.insert("occupied".to_owned(), json!(state.subscriptions > 0));
    Value::Object(answer).to_string()
}

/// The answer to [`Call::Channels`], and to [`Call::Publish`] where it tells of channels.
pub fn channels_answer(channels: &[(String, ChannelState)], wants: Wants) -> String {
    let channels: Map<String, Value> = channels
        .iter()
        .map(|(name, state)| (name.clone(), Value::Object(attributes(state, wants))))
        .collect();
    json!({"channels": channels}).to_string()
}

/// The answer to [`Call::Users`].
pub fn users_answer(users: &[String]) -> String {
    let users: Vec<Value> = users.iter().map(|id| json!({"id": id})).collect();
    json!({"users": users}).to_string()
}
