//! Argument types for an embedder that publishes in its own formats.

use std::rc::Rc;

use crate::embed::event::Left;
use crate::id::RequestId;

/// Status line and headers of a forwarded response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// Status, 100 to 999.
    pub status: u16,
    /// Reason phrase. Empty means the standard one.
    pub reason: &'a [u8],
    /// Valid names and values, without framing and connection fields.
    pub headers: &'a [(&'a [u8], &'a [u8])],
    /// Body length for the response to a HEAD request.
    pub length: Option<u64>,
}

/// Keep-alive of a silent stream.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive<'a> {
    /// Bytes to write.
    pub data: &'a [u8],
    /// Maximum silence in milliseconds.
    pub interval_ms: u32,
    /// Restart the interval whenever something is sent.
    pub restarts: bool,
}

/// The way in which a client is held.
#[derive(Clone, Copy, Debug)]
pub struct Relayed<'a> {
    /// Channels that the client is subscribed to.
    pub channels: &'a [&'a [u8]],
    /// Pass each item to the embedder; otherwise the client receives the output of [`Encoding`].
    pub takes_items: bool,
    /// Keep-alive, if any.
    pub keep_alive: Option<KeepAlive<'a>>,
}

/// Records for one client.
#[derive(Clone, Debug)]
pub struct Items {
    /// The client.
    pub client: Left,
    /// Earlier records were lost because the client was too slow.
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
    /// Returns channel and data of each record, in order.
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
