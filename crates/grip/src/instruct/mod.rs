//! What an origin tells the edge to do with a client: answer, or hold and subscribe it.
//!
//! The same instruction comes as response headers ([`from_headers`]) or as a body of JSON
//! ([`from_json`]); both give an [`Instruct`].

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
/// How long a client is held where the instruction does not say.
pub const TIMEOUT_DEFAULT_S: u32 = 55;
/// A long poll waits at least this long.
pub const RESPONSE_TIMEOUT_MIN_S: u32 = 5;
/// When a stream without news asks its next link where the link does not say.
pub const NEXT_TIMEOUT_DEFAULT_S: u32 = 120;
/// The highest status that can be asked for.
pub const STATUS_MAX: u16 = 999;

/// What becomes of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// It gets the response and is done.
    #[default]
    Answered,
    /// It waits for one published response, or gets the origin's after a time: long polling.
    Response,
    /// It gets the response's head and body, and then what is published.
    Stream,
}

/// A subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// The name as the origin wrote it, without the route's prefix.
    pub name: Vec<u8>,
    /// The id of the last item the origin included: reliable delivery.
    pub prev_id: Option<Vec<u8>>,
    /// Names of filters, at most [`FILTERS_MAX`]; unknown ones are kept, and have no effect.
    pub filters: Vec<Vec<u8>>,
}

/// Where a stream continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextLink {
    /// Absolute, or relative to the URI of the request.
    pub uri: Vec<u8>,
    /// Seconds without news until it is asked; 0: as soon as the answer before has ended.
    pub timeout_s: u32,
}

/// How the session of a later request is found in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDetect {
    /// Paths that begin so.
    pub path_prefix: Vec<u8>,
    /// JSON pointer to the id.
    pub sid_pointer: Vec<u8>,
    /// The parameter that holds the JSON; without it the body is.
    pub json_param: Option<Vec<u8>>,
}

/// What the client's response is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Status for the client.
    pub status: u16,
    /// Reason phrase; empty: the standard one.
    pub reason: Vec<u8>,
    /// Headers for the client, without those of GRIP.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// The body, where the instruction has one of its own; `None`: that of the origin's response.
    pub body: Option<Vec<u8>>,
}

/// An instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruct {
    /// What becomes of the client.
    pub hold: Hold,
    /// Subscriptions, in order, each name once: of equal names the last counts.
    pub channels: Vec<Channel>,
    /// How long a long poll waits.
    pub timeout_s: u32,
    /// What is written to a stream now and then.
    pub keep_alive: Option<KeepAlive>,
    /// What filters know of the client.
    pub meta: Meta,
    /// Where a stream continues.
    pub next: Option<NextLink>,
    /// What is told when the client is gone.
    pub gone: Option<Vec<u8>>,
    /// Ids of items the session has had, by channel.
    pub last_ids: Vec<(Vec<u8>, Vec<u8>)>,
    /// The session this connection belongs to.
    pub session_id: Option<Vec<u8>>,
    /// Rules for finding sessions.
    pub session_detect: Vec<SessionDetect>,
    /// The response for the client.
    pub answer: Answer,
}

impl Instruct {
    /// Adds a subscription; one of the same name is replaced where it stands.
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

/// Why an instruction cannot be followed: 502 for the client, and this for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstructError {
    /// A header whose value has no meaning.
    #[error("{header} is {value:?}: {fix}")]
    Header {
        /// Its name.
        header: &'static str,
        /// Its value, shortened.
        value: String,
        /// What would be accepted.
        fix: &'static str,
    },
    /// A header list that needs a value.
    #[error("{header} has an element that is empty or malformed: {fix}")]
    Element {
        /// Its name.
        header: &'static str,
        /// What would be accepted.
        fix: &'static str,
    },
    /// More than [`FILTERS_MAX`].
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
    /// A field of the JSON.
    #[error("{place} {problem}")]
    Field {
        /// Where it stands: `hold.channels[0].name`.
        place: String,
        /// What is wrong and what would be accepted.
        problem: &'static str,
    },
    /// JSON in a response that is not 200.
    #[error(
        "an instruction as JSON came with status {0}; answer 200 and give the client's status in response.code"
    )]
    Status(u16),
}

/// A value fit for an error: printable and short.
fn shown(value: &[u8]) -> String {
    const BYTES_MAX: usize = 80;
    String::from_utf8_lossy(&value[..value.len().min(BYTES_MAX)]).into_owned()
}
