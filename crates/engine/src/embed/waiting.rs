//! Events for handlers that wait, and what is remembered for them.

use std::collections::VecDeque;

use fermata_io::Deadline;
use fermata_io::watch::Ready;

use crate::embed::event::Left;
use crate::embed::relayed::Items;
use crate::embed::watch::Watching;
use crate::embed::wires::WireEvent;
use crate::id::RequestId;
use crate::net::index::ConnectionIndex;

/// What `next_wait_event` hands out.
#[derive(Clone, Debug)]
pub(crate) enum WaitEvent {
    Left(Left),
    Ready(Ready),
    Wire(WireEvent),
    Items(Items),
    PeerMessage(Box<[u8]>),
    /// More of this request's body has arrived, or will not.
    Body(RequestId),
}

/// What the worker remembers about waiting handlers.
pub struct Waiting {
    /// When the program wants to be woken.
    pub(crate) wake: Deadline,
    /// The loop does not sleep: its owner has something else to do when nothing is left to do at this time.
    pub(crate) never_sleeps: bool,
    /// What the last turn has left undone will be done in the next.
    pub(crate) is_unfinished: bool,
    /// The time has come, and the program has not been told.
    pub(crate) is_due: bool,
    /// The operator wants files to be read again, and the program has not been told.
    pub(crate) has_reload: bool,
    /// The program has begun something that the worker must not stop before.
    pub(crate) is_busy: bool,
    /// No new request or message can be handled.
    pub(crate) is_full: bool,
    /// What was not handed out yet. A client that has left is listed once, a descriptor once for each time
    /// that it was asked for.
    pub(crate) events: VecDeque<WaitEvent>,
    /// The descriptors of the program that it waits for; `None` until it does.
    pub(crate) watching: Option<Box<Watching>>,
    /// Of the last event of each kind.
    pub(crate) ready: Option<Ready>,
    pub(crate) wire: Option<WireEvent>,
    pub(crate) items: Items,
    pub(crate) peer_message: Box<[u8]>,
    /// Connections with something to read, held back while `is_full`.
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
            watching: None,
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

    /// The operator wants files to be read again.
    pub(crate) fn reload(&mut self) {
        self.has_reload = true;
        self.wake_now();
    }

    /// The program is woken before the loop sleeps, and then asks anew for the time it wants to be woken at.
    pub(crate) fn wake_now(&mut self) {
        self.wake = Deadline::NEVER;
        self.is_due = true;
    }

    /// Whether the program has begun something that can still come to its end.
    pub(crate) fn can_finish(&self) -> bool {
        let watched = self.watching.as_ref().map_or(0, |it| it.armed());
        self.is_busy && (!self.wake.is_never() || watched > 0 || !self.events.is_empty())
    }
}
