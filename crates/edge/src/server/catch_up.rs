//! What clients have missed, from the ring: its records are there for every worker, so no table of ids has to be kept beside it.

use std::rc::Rc;

use fermata_engine::Left;
use fermata_engine::stats::Counter;
use fermata_grip::item::Item;
use fermata_grip::reliable::{OnHold, on_hold};

use crate::client::delivery;
use crate::client::missed::{Standing, after};
use crate::client::session::Subscription;
use crate::client::source::Engine;
use crate::server::holds::Holds;

/// Records of a channel that are looked at for an id: the newest, and more where that has none.
const LOOKED_AT: [usize; 3] = [1, 16, 256];

/// Records that are looked at for what a client misses, and bytes of them: who misses more asks its origin.
const MISSED: [usize; 2] = [16, 1_000];
const MISSED_BYTES_MAX: usize = 1024 * 1024;

impl Holds<'_> {
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
            let Some(items) = missed_items(self.worker, &channel, &prev_id) else {
                // Of a channel without ids nobody knows better.
                if !is_gap && last_id(self.worker, &channel).is_none() {
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
