//! Events and state of waiting handlers.

use std::collections::VecDeque;

use fermata_io::Deadline;
use fermata_io::watch::Ready;

use crate::embed::event::Left;
use crate::embed::relayed::Items;
use crate::embed::watch::WatchedDescriptors;
use crate::embed::wires::WireEvent;
use crate::id::{ReaderId, RequestId};
use crate::net::index::ConnectionIndex;

/// An event in the queue that `next_wait_event` returns.
#[derive(Clone, Debug)]
pub(crate) enum WaitEvent {
    Left(Left),
    Ready(Ready),
    Wire(WireEvent),
    Items(Items),
    PeerMessage(Box<[u8]>),
    Read(ReaderId),
    /// More of this request's body has arrived, or receiving it failed.
    Body(RequestId),
}

/// A worker's state for waiting handlers.
pub struct Waiting {
    /// Time at which the application wants to be woken.
    pub(crate) wake: Deadline,
    /// The loop does not sleep, because the embedder has other work when no event is pending.
    pub(crate) never_sleeps: bool,
    /// The next turn continues unfinished work of the previous turn.
    pub(crate) is_unfinished: bool,
    /// A wake-up is due and was not delivered.
    pub(crate) is_due: bool,
    /// The operator has requested a reload, which was not delivered.
    pub(crate) has_reload: bool,
    /// The application has started work that must finish before the worker stops.
    pub(crate) is_busy: bool,
    /// No new request or message can be handled.
    pub(crate) is_full: bool,
    /// Undelivered events. A disconnected client is listed once, a descriptor once per request.
    pub(crate) events: VecDeque<WaitEvent>,
    /// Watched descriptors of the application; `None` until the first.
    pub(crate) watched_descriptors: Option<Box<WatchedDescriptors>>,
    /// Data of the last event of each kind.
    pub(crate) ready: Option<Ready>,
    pub(crate) wire: Option<WireEvent>,
    pub(crate) items: Items,
    pub(crate) peer_message: Box<[u8]>,
    /// Connections with input, postponed while `is_full`.
    pub(crate) held_back: Vec<ConnectionIndex>,
}

impl Waiting {
    pub(crate) fn new() -> Waiting {
        Waiting {
            wake: Deadline::NEVER,
            never_sleeps: false,
            is_unfinished: false,
            is_due: false,
            has_reload: false,
            is_busy: false,
            is_full: false,
            events: VecDeque::new(),
            watched_descriptors: None,
            ready: None,
            wire: None,
            items: Items::default(),
            peer_message: Box::default(),
            held_back: Vec::new(),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Delivers the operator's request for a reload.
    pub(crate) fn reload(&mut self) {
        self.has_reload = true;
        self.wake_now();
    }

    /// Wakes the application before the loop sleeps, so that it sets its next wake-up.
    pub(crate) fn wake_now(&mut self) {
        self.wake = Deadline::NEVER;
        self.is_due = true;
    }

    /// Returns true if the application has started work that can still finish.
    pub(crate) fn can_finish(&self) -> bool {
        let watched = self.watched_descriptors.as_ref().map_or(0, |it| it.armed());
        self.is_busy && (!self.wake.is_never() || watched > 0 || !self.events.is_empty())
    }
}
