//! A client that takes items one by one, and its subscriptions.

use std::collections::VecDeque;
use std::rc::Rc;

use fermata_engine::KeepAlive;
use fermata_grip::filter::{Filters, Subscriber};
use fermata_grip::instruct::{Instruct, KeepAliveMode, Meta, NextLink};
use fermata_grip::item::Item;

use crate::client::poll::Poll;
use crate::client::socket::Socket;
use crate::client::source::Source;

/// A subscription of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscription {
    /// As publishers name the channel.
    pub channel: Vec<u8>,
    /// As the origin names it; `None`: it has not asked for it.
    pub own: Option<Vec<u8>>,
    /// The last item the client has, where delivery is reliable.
    pub prev_id: Option<Vec<u8>>,
    /// Ids of items that it has got from the ring, and which its log may bring once more.
    pub ahead: Vec<Vec<u8>>,
    pub filters: Filters,
}

/// A client that takes items one by one.
pub(crate) struct Session {
    pub source: Source,
    pub subscriptions: Vec<Subscription>,
    pub meta: Meta,
    pub kind: Kind,
    /// Tells this hold from others of the same client.
    pub serial: u64,
}

/// What a session waits for.
pub(crate) enum Kind {
    /// One answer.
    Poll(Box<Poll>),
    /// Whatever comes.
    Stream(Box<Stream>),
    /// Messages of a WebSocket.
    Socket(Box<Socket>),
}

/// The part of a session that only streams have.
#[derive(Default)]
pub(crate) struct Stream {
    pub next: Option<NextLink>,
    /// When the next link is asked without anything else; `u64::MAX`: it is not.
    pub link_due_ms: u64,
    /// How often it has failed in a row.
    pub retries: u32,
    /// How often in a row its answer did not have what was published meanwhile.
    pub lags: u32,
    /// It is being asked.
    pub is_asking: bool,
    /// It will be asked when it is this client's turn.
    pub is_queued: bool,
    /// Its answer is being passed on, and what is published meanwhile comes behind it.
    pub is_passing: bool,
    pub held_back: VecDeque<(Rc<[u8]>, Rc<Item>)>,
    /// Some of that did not fit.
    pub has_lost: bool,
}

impl Subscriber for Session {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn is_subscribed(&self, channel: &[u8]) -> bool {
        self.subscriptions
            .iter()
            .any(|it| it.own.as_deref() == Some(channel) || it.channel == channel)
    }

    fn last_id(&self, channel: &[u8]) -> Option<&[u8]> {
        let own = |it: &&Subscription| it.own.as_deref() == Some(channel);
        self.subscriptions
            .iter()
            .find(own)
            .and_then(|it| it.prev_id.as_deref())
    }
}

impl Session {
    /// Its subscription to a channel.
    pub fn subscription(&mut self, channel: &[u8]) -> Option<&mut Subscription> {
        let mut subscriptions = self.subscriptions.iter_mut();
        subscriptions.find(|it| it.channel == channel)
    }

    /// Whether there is somebody to ask for what it has missed.
    pub fn can_update(&self) -> bool {
        match &self.kind {
            Kind::Poll(_) => true,
            Kind::Stream(stream) => stream.next.is_some(),
            Kind::Socket(_) => false,
        }
    }

    /// Channels and ids for `Grip-Last`.
    pub fn last_ids(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.subscriptions
            .iter()
            .filter_map(|it| Some((it.own.clone()?, it.prev_id.clone()?)))
            .collect()
    }
}

/// Whether a client needs more than what everybody gets.
pub(crate) fn takes_items(subscriptions: &[Subscription], instruct: &Instruct) -> bool {
    let is_special = |it: &Subscription| !it.filters.is_empty() || it.prev_id.is_some();
    instruct.next.is_some() || instruct.session_id.is_some() || subscriptions.iter().any(is_special)
}

pub(crate) fn keep_alive(instruct: &Instruct) -> Option<KeepAlive<'_>> {
    instruct.keep_alive.as_ref().map(|it| KeepAlive {
        data: &it.data,
        interval_ms: it.timeout_s.saturating_mul(1_000),
        restarts: it.mode == KeepAliveMode::Idle,
    })
}

#[cfg(test)]
impl Session {
    /// A stream of one channel, `a`.
    pub fn of_stream(next: Option<NextLink>, prev_id: Option<&str>) -> Box<Self> {
        Box::new(Self {
            source: Source::of_get("/"),
            subscriptions: vec![Subscription {
                channel: b"a".to_vec(),
                own: Some(b"a".to_vec()),
                prev_id: prev_id.map(|id| id.as_bytes().to_vec()),
                ahead: Vec::new(),
                filters: Filters::default(),
            }],
            meta: Meta::default(),
            kind: Kind::Stream(Box::new(Stream {
                next,
                ..Stream::default()
            })),
            serial: 1,
        })
    }
}
