//! A held client that receives items individually, and its subscriptions.

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
    /// Channel name as published, with the route's prefix.
    pub channel: Vec<u8>,
    /// Channel name of the origin; `None` if the subscription is not from the origin.
    pub own: Option<Vec<u8>>,
    /// Id of the last item the client received, for reliable delivery.
    pub prev_id: Option<Vec<u8>>,
    /// Ids of missed items that were delivered from the ring. The engine may have these items queued for the client, too.
    pub ahead: Vec<Vec<u8>>,
    pub filters: Filters,
}

/// A held client that receives items individually.
pub(crate) struct Session {
    pub source: Source,
    pub subscriptions: Vec<Subscription>,
    pub meta: Meta,
    pub kind: Kind,
    /// Serial number, which distinguishes this hold from others of the same client.
    pub serial: u64,
}

/// Kind of a hold.
pub(crate) enum Kind {
    /// A long poll.
    Poll(Box<Poll>),
    /// An HTTP stream.
    Stream(Box<Stream>),
    /// A WebSocket.
    Socket(Box<Socket>),
}

/// State of a stream.
#[derive(Default)]
pub(crate) struct Stream {
    pub next: Option<NextLink>,
    /// Time at which the `next` link is requested if no other event causes a request; `u64::MAX` = never.
    pub link_due_ms: u64,
    /// Failed requests of the link in a row.
    pub retries: u32,
    /// Responses in a row that lacked items published during the request.
    pub lags: u32,
    /// Number of consecutive link responses with neither content nor a hold.
    pub empty_links: u32,
    /// The link is being requested.
    pub is_asking: bool,
    /// The client is queued to request the link.
    pub is_queued: bool,
    /// The link's response is being forwarded; new items wait in `held_back`.
    pub is_passing: bool,
    pub held_back: VecDeque<(Rc<[u8]>, Rc<Item>)>,
    /// `held_back` was full, and items were dropped.
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
    /// Returns the subscription to a channel.
    pub fn subscription(&mut self, channel: &[u8]) -> Option<&mut Subscription> {
        let mut subscriptions = self.subscriptions.iter_mut();
        subscriptions.find(|it| it.channel == channel)
    }

    /// Returns true if missed items can be requested from an origin.
    pub fn can_update(&self) -> bool {
        match &self.kind {
            Kind::Poll(_) => true,
            Kind::Stream(stream) => stream.next.is_some(),
            Kind::Socket(_) => false,
        }
    }

    /// Returns channels and ids for `Grip-Last`.
    pub fn last_ids(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.subscriptions
            .iter()
            .filter_map(|it| Some((it.own.clone()?, it.prev_id.clone()?)))
            .collect()
    }
}

/// Returns true if the engine has to pass items to the edge for each client. Other clients share one encoding per item.
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
    /// Returns the session of a stream with one channel, `a`.
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
