//! Instructions from an origin to the edge. An instruction makes the edge respond to the client, or hold the client and
//! subscribe it to channels.
//!
//! An instruction is in response headers ([`from_headers`]) or in a JSON body ([`from_json`]). Both yield an [`Instruct`].

mod headers;
mod json;
mod keep_alive;
mod meta;
#[cfg(test)]
mod tests;

pub use headers::{client_headers, from_headers, is_instruct};
pub use json::from_json;
pub(crate) use json::{is_header, is_header_byte};
pub use keep_alive::{KeepAlive, KeepAliveMode};
pub use meta::Meta;

use crate::filter::FILTERS_MAX;

/// The media type of an instruction as JSON.
pub const MEDIA_TYPE: &str = "application/grip-instruct";
/// Default timeout of a long poll, in seconds.
pub const TIMEOUT_DEFAULT_S: u32 = 55;
/// Minimum timeout of a long poll, in seconds.
pub const RESPONSE_TIMEOUT_MIN_S: u32 = 5;
/// Default time without items after which a stream requests its next link, in seconds.
pub const NEXT_TIMEOUT_DEFAULT_S: u32 = 120;
/// Maximum status in an instruction.
pub const STATUS_MAX: u16 = 999;

/// Action of the edge for the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Send the response and finish.
    #[default]
    Answered,
    /// Long polling: wait for one published response. After the timeout, send the origin's own response.
    Response,
    /// Send the response's head and body, followed by published items.
    Stream,
}

/// A subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// Name of the channel as the origin wrote it, without the route's prefix.
    pub name: Vec<u8>,
    /// Id of the last item in the origin's response: reliable delivery.
    pub prev_id: Option<Vec<u8>>,
    /// Names of filters, at most [`FILTERS_MAX`]. Unknown names are stored and have no effect.
    pub filters: Vec<Vec<u8>>,
}

/// The resource at which a stream continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextLink {
    /// Absolute, or relative to the URI of the request.
    pub uri: Vec<u8>,
    /// Time without items after which the edge requests the link, in seconds. 0: the edge requests the link as soon as the previous
    /// response has ended.
    pub timeout_s: u32,
}

/// Rule that finds the session in a later request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDetect {
    /// Prefix of the paths to which the rule applies.
    pub path_prefix: Vec<u8>,
    /// JSON pointer to the id.
    pub sid_pointer: Vec<u8>,
    /// Form parameter that contains the JSON. `None`: the body is the JSON.
    pub json_param: Option<Vec<u8>>,
}

/// The response to the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Status for the client.
    pub status: u16,
    /// Reason phrase. Empty: the standard phrase of the status.
    pub reason: Vec<u8>,
    /// Headers for the client, without GRIP headers.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Body given in the instruction. `None`: use the body of the origin's response.
    pub body: Option<Vec<u8>>,
}

/// An instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruct {
    /// Action of the edge for the client.
    pub hold: Hold,
    /// Subscriptions in order. Each name occurs once. If the origin repeats a name, the last subscription is used.
    pub channels: Vec<Channel>,
    /// Timeout of a long poll, in seconds.
    pub timeout_s: u32,
    /// Keep-alive data of a stream. `None`: the edge sends no keep-alive data.
    pub keep_alive: Option<KeepAlive>,
    /// Metadata for filters.
    pub meta: Meta,
    /// The resource at which a stream continues.
    pub next: Option<NextLink>,
    /// URI to notify when the client disconnects.
    pub gone: Option<Vec<u8>>,
    /// Ids of the last items that the session has received, by channel.
    pub last_ids: Vec<(Vec<u8>, Vec<u8>)>,
    /// Session id of this connection.
    pub session_id: Option<Vec<u8>>,
    /// Rules that find sessions.
    pub session_detect: Vec<SessionDetect>,
    /// The response for the client.
    pub answer: Answer,
}

impl Instruct {
    /// Adds a subscription. If there is one with the same name, replaces it in place.
    fn subscribe(&mut self, channel: Channel) {
        match self
            .channels
            .iter_mut()
            .find(|other| other.name == channel.name)
        {
            Some(other) => *other = channel,
            None => self.channels.push(channel),
        }
    }
}

/// Reason why an instruction is invalid. The client gets status 502, and the log gets this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstructError {
    /// A header with an invalid value.
    #[error("{header} is {value:?}: {fix}")]
    Header {
        /// Its name.
        header: &'static str,
        /// Value of the header, shortened.
        value: String,
        /// The accepted values.
        fix: &'static str,
    },
    /// A header list with an element that lacks a value.
    #[error("{header} has an element that is empty or malformed: {fix}")]
    Element {
        /// Its name.
        header: &'static str,
        /// The accepted values.
        fix: &'static str,
    },
    /// The channel has more than [`FILTERS_MAX`] filters.
    #[error("channel {channel:?} has more than {FILTERS_MAX} filters; leave some out")]
    FiltersTooMany {
        /// Its name.
        channel: String,
    },
    /// The body is not JSON.
    #[error(
        "the body is not valid JSON ({0}); send an object, or another Content-Type than {MEDIA_TYPE}"
    )]
    Json(String),
    /// A field of the JSON is invalid.
    #[error("{place} {problem}")]
    Field {
        /// Path of the field: `hold.channels[0].name`.
        place: String,
        /// The fault and the accepted values.
        problem: &'static str,
    },
    /// JSON in a response whose status is not 200.
    #[error(
        "an instruction as JSON came with status {0}; answer 200 and give the client's status in response.code"
    )]
    Status(u16),
}

/// Returns a value in a form for errors: printable and short.
fn shown(value: &[u8]) -> String {
    const BYTES_MAX: usize = 80;
    String::from_utf8_lossy(&value[..value.len().min(BYTES_MAX)]).into_owned()
}
