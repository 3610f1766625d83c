//! Published items. An item belongs to one channel and has up to three formats.
//!
//! A subscriber receives only the format of its transport: a long poll `http_response`, a stream `http_stream`, a
//! WebSocket `ws_message`.

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
    /// Channel of the item, including the route's prefix.
    pub channel: Vec<u8>,
    /// Id of the item, for reliable delivery.
    pub id: Option<Vec<u8>>,
    /// Id of the channel's preceding item.
    pub prev_id: Option<Vec<u8>>,
    /// Metadata for filters.
    pub meta: Meta,
    /// Size for counting blocks. `None`: the size of the content counts.
    pub size: Option<u32>,
    /// True if the item is delivered without waiting for its predecessor.
    pub no_seq: bool,
    /// Format for long polls.
    pub http_response: Option<Format<ResponseAction>>,
    /// For streams.
    pub http_stream: Option<Format<StreamAction>>,
    /// Format for WebSockets.
    pub ws_message: Option<Format<MessageAction>>,
}

/// Estimated size of an item without the publisher's data, in bytes.
const OVERHEAD_BYTES: usize = 256;

impl Item {
    /// Returns the estimated memory size of the item while it waits, in bytes.
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

    /// Returns the number of blocks for a content of `bytes` bytes, or for the size that the publisher gave instead. A block
    /// has `block_bytes` bytes. The result is at least 1, and 1 if `block_bytes` is 0.
    pub fn blocks(&self, bytes: usize, block_bytes: u64) -> u64 {
        let bytes = self.size.map_or(bytes as u64, u64::from);
        match block_bytes {
            0 => 1,
            _ => bytes.div_ceil(block_bytes).max(1),
        }
    }
}

impl ResponseAction {
    /// Returns the size of the content in bytes.
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
    /// Returns the size of the content in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Send(content) => content.len(),
            Self::Hint | Self::Close | Self::Refresh => 0,
        }
    }
}

impl MessageAction {
    /// Returns the size of the content in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Send { content, .. } => content.len(),
            Self::Close { reason, .. } => reason.len(),
            Self::Hint | Self::Refresh => 0,
        }
    }
}

/// An action, with the content filters that the publisher expects.
#[derive(Clone, Debug, PartialEq)]
pub struct Format<T> {
    /// The action.
    pub action: T,
    /// Content filters that the subscription must have, exactly. `None`: the subscription may have any.
    pub content_filters: Option<Vec<Vec<u8>>>,
}

impl<T> Format<T> {
    /// Creates a format for any subscription.
    pub fn new(action: T) -> Self {
        Self {
            action,
            content_filters: None,
        }
    }
}

/// Action for a long poll.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseAction {
    /// Send a response.
    Send(Response),
    /// Repeat the client's request to the origin.
    Hint,
    /// Not defined for long polls: no action.
    Close,
    /// Not defined for long polls: no action.
    Refresh,
}

/// Response to a long poll.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    /// Status.
    pub code: u16,
    /// Reason phrase. Empty: the standard phrase of the status.
    pub reason: Vec<u8>,
    /// Headers of the response. They replace headers with the same names in the instruction.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// The body.
    pub body: Body,
}

/// The body of a response.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Use the body of the instruction, changed by these operations (RFC 6902).
    Patch(serde_json::Value),
}

/// Action for a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamAction {
    /// Send these bytes unchanged.
    Send(Vec<u8>),
    /// Request the next link of the stream.
    Hint,
    /// End the stream.
    Close,
    /// Not defined for streams: no action.
    Refresh,
}

/// Type of a WebSocket message.
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
    /// Returns the kind with this name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"text" => Some(Self::Text),
            b"binary" => Some(Self::Binary),
            b"ping" => Some(Self::Ping),
            b"pong" => Some(Self::Pong),
            _ => None,
        }
    }

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Binary => "binary",
            Self::Ping => "ping",
            Self::Pong => "pong",
        }
    }
}

/// Action for a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageAction {
    /// Send a message.
    Send {
        /// Its type.
        kind: MessageKind,
        /// Its content.
        content: Vec<u8>,
    },
    /// Not defined for WebSockets: no action.
    Hint,
    /// Close the connection to the client and the connection to the origin.
    Close {
        /// Close code. `None`: the Close frame has no code.
        code: Option<u16>,
        /// The reason, in UTF-8.
        reason: Vec<u8>,
    },
    /// If the connection is a WebSocket over HTTP, poll its origin now.
    Refresh,
}

impl Item {
    /// Returns the size for counting blocks. This is the given size, or else the size of the largest content.
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
