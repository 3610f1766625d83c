//! What an embedder says that publishes in formats of its own, and what is remembered for it.

use std::collections::HashSet;
use std::rc::Rc;

use crate::embed::event::Left;
use crate::net::index::ExchangeIndex;

/// Different keep-alives before those that nobody uses any more are let go.
const KEEP_ALIVES_KEPT: usize = 1024;

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
            client: Left::Request(0),
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

/// What the worker remembers for such an embedder.
#[derive(Default)]
pub(crate) struct Relay {
    /// By index of the connection.
    pub held: Vec<Held>,
    pub keep_alives: HashSet<Rc<[u8]>>,
    pub keep_alives_kept: usize,
}

/// What is special about a connection with subscriptions.
#[derive(Clone, Default)]
pub(crate) struct Held {
    pub keep_alive: Option<Rc<[u8]>>,
    pub takes_items: bool,
    /// Something sent does not move its keep-alive.
    pub keeps_interval: bool,
}

impl Relay {
    pub fn entry(&mut self, index: ExchangeIndex) -> &mut Held {
        let at = index.0 as usize;
        if at >= self.held.len() {
            self.held.resize(at + 1, Held::default());
        }
        &mut self.held[at]
    }

    pub fn get(&self, index: ExchangeIndex) -> Option<&Held> {
        self.held.get(index.0 as usize)
    }

    pub fn forget(&mut self, index: ExchangeIndex) {
        if let Some(held) = self.held.get_mut(index.0 as usize) {
            *held = Held::default();
        }
    }

    /// One copy of each keep-alive, however many clients have it.
    pub fn intern(&mut self, data: &[u8]) -> Rc<[u8]> {
        if let Some(known) = self.keep_alives.get(data) {
            return Rc::clone(known);
        }
        if self.keep_alives.len() >= self.keep_alives_kept.max(KEEP_ALIVES_KEPT) {
            self.keep_alives.retain(|it| Rc::strong_count(it) > 1);
            self.keep_alives_kept = 2 * self.keep_alives.len();
        }
        let data: Rc<[u8]> = Rc::from(data);
        self.keep_alives.insert(Rc::clone(&data));
        data
    }
}
