//! What is published: one item, for one channel, in up to three formats.
//!
//! A subscriber gets the format of its transport only: a long poll `http_response`, a stream
//! `http_stream`, a WebSocket `ws_message`.

mod error;
mod fields;
mod parse;
#[cfg(test)]
mod tests;
mod write;

pub use error::ItemError;
pub use parse::{parse, parse_list};

use crate::instruct::Meta;

/// A published item.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Item {
    /// Where to; with the route's prefix in front where it has one.
    pub channel: Vec<u8>,
    /// Names the item, for reliable delivery.
    pub id: Option<Vec<u8>>,
    /// The id of the channel's item before it.
    pub prev_id: Option<Vec<u8>>,
    /// What filters know of the item.
    pub meta: Meta,
    /// Size for counting blocks, where it is not that of the content.
    pub size: Option<u32>,
    /// Whether it overtakes items that wait for their predecessors.
    pub no_seq: bool,
    /// For long polls.
    pub http_response: Option<Format<ResponseAction>>,
    /// For streams.
    pub http_stream: Option<Format<StreamAction>>,
    /// For WebSockets.
    pub ws_message: Option<Format<MessageAction>>,
}

/// What an item takes besides what publishers give, roughly.
const OVERHEAD_BYTES: usize = 256;

impl Item {
    /// What it takes while it waits, roughly.
    pub fn bytes(&self) -> usize {
        let of = |text: &Option<Vec<u8>>| text.as_ref().map_or(0, Vec::len);
        let meta: usize = self
            .meta
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum();
        let response = self
            .http_response
            .as_ref()
            .map_or(0, |it| it.action.bytes());
        let stream = self.http_stream.as_ref().map_or(0, |it| it.action.bytes());
        let message = self.ws_message.as_ref().map_or(0, |it| it.action.bytes());
        let names = self.channel.len() + of(&self.id) + of(&self.prev_id);
        OVERHEAD_BYTES + names + meta + response + stream + message
    }

    /// How many blocks of `block_bytes` a content of `bytes` counts for; 0: everything is one.
    pub fn blocks(&self, bytes: usize, block_bytes: u64) -> u64 {
        let bytes = self.size.map_or(bytes as u64, u64::from);
        match block_bytes {
            0 => 1,
            _ => bytes.div_ceil(block_bytes).max(1),
        }
    }
}

impl ResponseAction {
    /// Bytes of its content.
    pub fn bytes(&self) -> usize {
        let Self::Send(response) = self else {
            return 0;
        };
        let headers = response.headers.iter();
        let headers: usize = headers.map(|(name, value)| name.len() + value.len()).sum();
        let body = match &response.body {
            Body::Bytes(bytes) => bytes.len(),
            Body::Patch(patch) => patch.to_string().len(),
        };
        headers + response.reason.len() + body
    }
}

impl StreamAction {
    /// Bytes of its content.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Send(content) => content.len(),
            Self::Hint | Self::Close | Self::Refresh => 0,
        }
    }
}

impl MessageAction {
    /// Bytes of its content.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Send { content, .. } => content.len(),
            Self::Close { reason, .. } => reason.len(),
            Self::Hint | Self::Refresh => 0,
        }
    }
}

/// An action, and the content filters it was written for.
#[derive(Clone, Debug, PartialEq)]
pub struct Format<T> {
    /// What to do.
    pub action: T,
    /// The subscription must have exactly these content filters; `None`: any.
    pub content_filters: Option<Vec<Vec<u8>>>,
}

impl<T> Format<T> {
    /// For any subscription.
    pub fn new(action: T) -> Self {
        Self {
            action,
            content_filters: None,
        }
    }
}

/// What a long poll does.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseAction {
    /// It is answered.
    Send(Response),
    /// Its request is asked again.
    Hint,
    /// Nothing: it has no meaning here.
    Close,
    /// Nothing: it has no meaning here.
    Refresh,
}

/// The answer to a long poll.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Status.
    pub code: u16,
    /// Reason; empty: the standard one.
    pub reason: Vec<u8>,
    /// Headers, which replace those of the instruction of the same names.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// The body.
    pub body: Body,
}

/// The body of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The instruction's body, changed by these operations of RFC 6902.
    Patch(serde_json::Value),
}

/// What a stream does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamAction {
    /// It gets these bytes, as they are.
    Send(Vec<u8>),
    /// Its next link is asked.
    Hint,
    /// It ends.
    Close,
    /// Nothing: it has no meaning here.
    Refresh,
}

/// The type of a WebSocket's message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageKind {
    /// UTF-8.
    #[default]
    Text,
    /// Bytes.
    Binary,
    /// A ping frame.
    Ping,
    /// A pong frame.
    Pong,
}

impl MessageKind {
    /// The type of this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"text" => Some(Self::Text),
            b"binary" => Some(Self::Binary),
            b"ping" => Some(Self::Ping),
            b"pong" => Some(Self::Pong),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Binary => "binary",
            Self::Ping => "ping",
            Self::Pong => "pong",
        }
    }
}

/// What a WebSocket does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageAction {
    /// It gets a message.
    Send {
        /// Its type.
        kind: MessageKind,
        /// Its content.
        content: Vec<u8>,
    },
    /// Nothing: it has no meaning here.
    Hint,
    /// It is closed, towards its origin too.
    Close {
        /// The close code, if there is one.
        code: Option<u16>,
        /// The reason, in UTF-8.
        reason: Vec<u8>,
    },
    /// Where it is served over HTTP, its origin is asked now.
    Refresh,
}

impl Item {
    /// How much it counts where blocks are counted: what it says, or its largest content.
    pub fn size(&self) -> usize {
        if let Some(size) = self.size {
            return size as usize;
        }
        let response = self
            .http_response
            .as_ref()
            .map(|format| match &format.action {
                ResponseAction::Send(Response {
                    body: Body::Bytes(body),
                    ..
                }) => body.len(),
                _ => 0,
            });
        let stream = self
            .http_stream
            .as_ref()
            .map(|format| match &format.action {
                StreamAction::Send(content) => content.len(),
                _ => 0,
            });
        let message = self.ws_message.as_ref().map(|format| match &format.action {
            MessageAction::Send { content, .. } => content.len(),
            _ => 0,
        });
        response.max(stream).max(message).unwrap_or(0)
    }
}
