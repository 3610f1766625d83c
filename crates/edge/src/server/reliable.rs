//! Clients that missed items when they were held, and what all clients ask for after a recovery.
//!
//! The last item of a channel is the newest of its records in the ring, which every worker can read; no table of ids has to be
//! kept beside it. Where the ring has the items that a client misses, it gets them from there and its origin is not asked.

use std::rc::Rc;

use fermata_engine::missed;
use fermata_engine::stats::Counter;
use fermata_engine::{Left, RequestId};
use fermata_grip::item::Item;
use fermata_grip::reliable::{OnHold, on_hold};

use crate::client::clients::Clients;
use crate::client::delivery;
use crate::client::missed::{Standing, after};
use crate::client::session::{Kind, Subscription};
use crate::client::source::Engine;
use crate::server::edge::Edge;
use crate::timers::{Timer, Timers};

/// Records of a channel that are looked at for an id: the newest, and more where that has none.
const LOOKED_AT: [usize; 3] = [1, 16, 256];

/// Records that are looked at for what a client misses, and bytes of them: who misses more asks its origin.
const MISSED: [usize; 2] = [16, 1_000];
const MISSED_BYTES_MAX: usize = 1024 * 1024;

impl Edge {
    /// Gives a client what it has missed, from the ring. False: that has not all of it, and nothing was given.
    ///
    /// `is_gap`: the client has lost items of all its channels, also of those where no ids tell which.
    pub(super) fn catch_up(&mut self, client: Left, is_gap: bool) -> bool {
        let handle = client.request();
        if !self.policy.recovers_from_history {
            return false;
        }
        let Some(session) = self.clients.sessions.get(&handle) else {
            // A stream without wishes has none.
            return false;
        };
        let serial = session.serial;
        if is_gap && session.subscriptions.iter().any(|it| it.prev_id.is_none()) {
            return false;
        }
        let reliable = session.subscriptions.iter();
        let reliable: Vec<(Vec<u8>, Vec<u8>)> = reliable
            .filter_map(|it| Some((it.channel.clone(), it.prev_id.clone()?)))
            .collect();
        let mut missed = Vec::new();
        for (channel, prev_id) in reliable {
            let Some(items) = missed_items(&mut self.worker, &channel, &prev_id) else {
                // Of a channel without ids nobody knows better.
                if !is_gap && last_id(&mut self.worker, &channel).is_none() {
                    continue;
                }
                return false;
            };
            missed.push((channel, items));
        }
        let is_anything = missed.iter().any(|(_, items)| !items.is_empty());
        if is_anything {
            self.worker.net.count(Counter::EdgeCaughtUpHistory, 1);
        }
        for (channel, items) in missed {
            for item in items {
                let still = self.clients.sessions.get_mut(&handle);
                if still.is_none_or(|it| it.serial != serial) {
                    // It is answered, or has ended.
                    return true;
                }
                if self.on_item(client, &channel, &item) {
                    return true;
                }
                if let Some(session) = self.clients.sessions.get_mut(&handle)
                    && let Some(id) = &item.id
                    && let Some(subscription) = session.subscription(&channel)
                {
                    // What its log still has of these comes once more.
                    subscription.ahead.push(id.clone());
                }
            }
        }
        true
    }

    /// Has a client ask its origin again, when it is its turn: by its next link, or its whole request.
    pub(super) fn update(&mut self, handle: RequestId) {
        if self.clients.queue_update(handle) {
            self.on_updates_due();
        }
    }

    /// Lets those ask whose turn it is.
    pub(super) fn on_updates_due(&mut self) {
        let now_ms = self.worker.net.now_ms();
        self.clients.updates.begin_turn(now_ms);
        while let Some((handle, is_poll)) = self.clients.next_update() {
            let counter = match is_poll {
                true => Counter::EdgeCaughtUpRequest,
                false => Counter::EdgeCaughtUpLink,
            };
            self.worker.net.count(counter, 1);
            match is_poll {
                true => self.ask_again(handle),
                false => self.ask_link(handle),
            }
        }
        if let Some(due_ms) = self.clients.updates.due_ms() {
            self.timers.at(due_ms, Timer::Updates);
        }
    }

    /// Those who were first catch up.
    pub(super) fn on_first_subscriptions_due(&mut self) {
        let now_ms = self.worker.net.now_ms();
        while let Some((handle, serial)) = self.clients.first_subscriptions.take(now_ms) {
            let session = self.clients.sessions.get(&handle);
            if session.is_some_and(|it| it.serial == serial && it.can_update()) {
                self.update(handle);
            }
        }
        if let Some(due_ms) = self.clients.first_subscriptions.due_ms() {
            self.timers.at(due_ms, Timer::FirstSubscriptions);
        }
    }

    /// Every client of this worker that could have missed something asks its origin.
    pub(super) fn recover_clients(&mut self) {
        let reliable: Vec<RequestId> = self
            .clients
            .sessions
            .iter()
            .filter(|(_, it)| {
                it.can_update() && it.subscriptions.iter().any(|it| it.prev_id.is_some())
            })
            .map(|(&handle, _)| handle)
            .collect();
        for handle in reliable {
            self.update(handle);
        }
    }
}

/// The newest items of a channel that this worker has read, oldest first. True: there are no others.
fn newest_items(
    worker: &mut Engine,
    channel: &[u8],
    count: usize,
) -> Option<(Vec<Item>, bool, usize)> {
    let records = worker.history_read(channel, count).ok()?;
    let is_all = records.len() < count;
    let bytes = records.iter().map(|it| it.data.len()).sum();
    let items = records.iter().filter_map(|it| delivery::read(&it.data));
    Some((items.collect(), is_all, bytes))
}

/// The id of the newest item of a channel that has one: hints and refreshes have none, and what waits for nothing is no
/// predecessor of anything.
fn last_id(worker: &mut Engine, channel: &[u8]) -> Option<Vec<u8>> {
    for count in LOOKED_AT {
        let (items, is_all, _) = newest_items(worker, channel, count)?;
        let ids = items.into_iter().rev().filter(|item| !item.no_seq);
        let found = ids.filter_map(|item| item.id).next();
        if found.is_some() || is_all {
            return found;
        }
    }
    None
}

/// Whether an item was published that the origin's response did not know of.
pub(super) fn standing(worker: &mut Engine, subscriptions: &[Subscription]) -> Standing {
    let mut standing = Standing::UpToDate;
    for it in subscriptions {
        let Some(prev_id) = &it.prev_id else {
            continue;
        };
        let last_id = last_id(worker, &it.channel);
        if on_hold(Some(prev_id), last_id.as_deref()) == OnHold::Behind {
            return Standing::Behind;
        }
        if last_id.is_none() {
            standing = Standing::Unknown;
        }
    }
    standing
}

/// What the ring has of a channel behind an item; `None`: not all of it.
fn missed_items(worker: &mut Engine, channel: &[u8], prev_id: &[u8]) -> Option<Vec<Rc<Item>>> {
    for count in MISSED {
        let (items, is_all, bytes) = newest_items(worker, channel, count)?;
        if bytes > MISSED_BYTES_MAX {
            return None;
        }
        let missed = after(items, prev_id);
        if missed.is_some() || is_all {
            return missed;
        }
    }
    None
}

impl Clients {
    /// Queues a client that is to ask its origin again. False: it waits already, is being asked, or cannot ask.
    fn queue_update(&mut self, handle: RequestId) -> bool {
        let Some(session) = self.sessions.get_mut(&handle) else {
            // It has left, or is a stream without wishes.
            return false;
        };
        let serial = session.serial;
        let is_queued = match &mut session.kind {
            Kind::Stream(stream) if stream.is_asking => true,
            Kind::Stream(stream) => std::mem::replace(&mut stream.is_queued, true),
            Kind::Poll(poll) => std::mem::replace(&mut poll.is_queued, true),
            Kind::Socket(_) => true,
        };
        if !is_queued {
            let sessions = &self.sessions;
            let is_held = |handle, serial| {
                let session = sessions.get(&handle);
                session.is_some_and(|it| it.serial == serial)
            };
            self.updates.add((handle, serial), sessions.len(), is_held);
        }
        !is_queued
    }

    /// The next client that asks in this turn, and whether it is a long poll; otherwise it is a stream.
    fn next_update(&mut self) -> Option<(RequestId, bool)> {
        loop {
            let sessions = &self.sessions;
            let is_there = |handle, serial| {
                let session = sessions.get(&handle);
                session.is_some_and(|it| it.serial == serial)
            };
            let handle = self.updates.take(is_there)?;
            match self.sessions.get(&handle).map(|it| &it.kind) {
                Some(Kind::Poll(_)) => return Some((handle, true)),
                Some(Kind::Stream(_)) => return Some((handle, false)),
                Some(Kind::Socket(_)) | None => {}
            }
        }
    }

    /// A client is held whose channels the ring knows no ids of: it catches up once, for it may be the first one there, and
    /// what was published on its way here nobody has seen.
    pub(super) fn on_first_subscription(
        &mut self,
        timers: &mut Timers,
        worker: &mut Engine,
        handle: RequestId,
    ) {
        let now_ms = worker.net.now_ms();
        let Some(session) = self.sessions.get(&handle) else {
            return missed(());
        };
        let reliable = session.subscriptions.iter();
        let reliable = reliable.filter(|it| it.prev_id.is_some());
        let channels = reliable.map(|it| it.channel.as_slice());
        let client = (handle, session.serial);
        if let Some(due_ms) = self.first_subscriptions.begin(now_ms, client, channels) {
            timers.at(due_ms, Timer::FirstSubscriptions);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::session::Session;
    use crate::ids::request;
    use crate::settings::Settings;

    #[test]
    fn a_stream_waits_once_for_its_turn_and_not_while_it_is_asked() {
        let mut clients = Clients::new(&Settings::default());
        clients
            .sessions
            .insert(request(7), Session::of_stream(None, None));
        assert!(!clients.queue_update(request(8)));
        assert!(clients.queue_update(request(7)));
        assert!(!clients.queue_update(request(7)));
        assert_eq!(clients.next_update(), None);
        clients.updates.begin_turn(1_000);
        assert_eq!(clients.next_update(), Some((request(7), false)));
        assert_eq!(clients.next_update(), None);
        let stream = clients.stream(request(7)).expect("it is there");
        (stream.is_queued, stream.is_asking) = (false, true);
        assert!(!clients.queue_update(request(7)));
    }

    #[test]
    fn a_client_that_was_held_anew_has_no_turn_of_the_time_before() {
        let mut clients = Clients::new(&Settings::default());
        clients
            .sessions
            .insert(request(7), Session::of_stream(None, None));
        assert!(clients.queue_update(request(7)));
        let mut again = Session::of_stream(None, None);
        again.serial += 1;
        clients.sessions.insert(request(7), again);
        clients.updates.begin_turn(1_000);
        assert_eq!(clients.next_update(), None);
    }
}
