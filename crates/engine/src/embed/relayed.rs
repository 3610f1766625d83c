//! What an embedder says that publishes in formats of its own.

use std::rc::Rc;

use crate::embed::event::Left;
use crate::id::RequestId;

/// The status line and headers of a response, as an origin gave them.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// 100 to 999.
    pub status: u16,
    /// The reason phrase; empty: the standard one.
    pub reason: &'a [u8],
    /// Valid names and values, none about framing or the connection.
    pub headers: &'a [(&'a [u8], &'a [u8])],
    /// What a HEAD is told of the body's length.
    pub length: Option<u64>,
}

/// What is written to a silent stream.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive<'a> {
    /// The bytes.
    pub data: &'a [u8],
    /// How long it may be silent.
    pub interval_ms: u32,
    /// Whether the interval begins anew with everything that is sent.
    pub restarts: bool,
}

/// How a client is held.
#[derive(Clone, Copy, Debug)]
pub struct Relayed<'a> {
    /// What it is subscribed to.
    pub channels: &'a [&'a [u8]],
    /// The embedder decides on each item; otherwise the client gets what [`Encoding`] makes of it.
    pub takes_items: bool,
    /// What keeps it open.
    pub keep_alive: Option<KeepAlive<'a>>,
}

/// What was published to one client.
#[derive(Clone, Debug)]
pub struct Items {
    /// The client.
    pub client: Left,
    /// It has lost some before these: it was too slow.
    pub gap: bool,
    pub(crate) frames: Rc<[u8]>,
}

impl Default for Items {
    fn default() -> Items {
        Items {
            client: Left::Request(RequestId::UNSET),
            gap: false,
            frames: Rc::from([]),
        }
    }
}

impl Items {
    /// Channel and data of each record, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.frames[..];
        std::iter::from_fn(move || {
            let (channel_len, after) = rest.split_first_chunk::<4>()?;
            let (data_len, after) = after.split_first_chunk::<4>()?;
            let (channel, after) =
                after.split_at_checked(u32::from_le_bytes(*channel_len) as usize)?;
            let (data, after) = after.split_at_checked(u32::from_le_bytes(*data_len) as usize)?;
            rest = after;
            Some((channel, data))
        })
    }
}
