//! Delivers items that clients missed, from the ring. The ring's records contain the ids of the items, so the edge needs no
//! separate table of ids.

use std::rc::Rc;

use fermata_engine::Left;
use fermata_engine::stats::Counter;
use fermata_grip::item::Item;
use fermata_grip::reliable::{OnHold, on_hold};

use crate::client::delivery;
use crate::client::missed::{ReplayState, after};
use crate::client::session::Subscription;
use crate::client::source::Engine;
use crate::server::holds::Holds;

/// Numbers of newest records that are searched for an id: the search continues with the next number if it found none.
const LOOKED_AT: [usize; 3] = [1, 16, 256];

/// Numbers of newest records that are searched for missed items: first the smaller number, then the maximum. If a client has missed
/// more, the edge sends a request to the client's origin.
const MISSED: [usize; 2] = [16, 1_000];
const MISSED_BYTES_MAX: usize = 1024 * 1024;

impl Holds<'_> {
    /// Delivers missed items from the ring. Returns false, without delivering any item, if some items are missing in the ring.
    ///
    /// `is_gap` is true if the client lost items of all its channels, including those without ids.
    pub(super) fn catch_up(&mut self, client: Left, is_gap: bool) -> bool {
        let handle = client.request();
        if !self.policy.recovers_from_history {
            return false;
        }
        let Some(session) = self.clients.sessions.get(&handle) else {
            // A shared stream has no session.
            return false;
        };
        let serial = session.serial;
        // The lost items of a channel without ids cannot be determined.
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
                // No recent item of the channel has an id, so it is unknown if the client has missed any. Assume that it has not.
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
                    // The poll received its response, or the client has left.
                    return true;
                }
                if self.on_item(client, &channel, &item) {
                    return true;
                }
                if let Some(session) = self.clients.sessions.get_mut(&handle)
                    && let Some(id) = &item.id
                    && let Some(subscription) = session.subscription(&channel)
                {
                    // The engine may still have these items queued for the client. Their ids identify them as duplicates.
                    subscription.ahead.push(id.clone());
                }
            }
        }
        true
    }
}

/// Returns the newest items of a channel that this worker has read, oldest first, and their size in bytes. The flag is true if the
/// ring has no older items of the channel.
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

/// Returns the id of the newest item in a channel's sequence. Hints, refreshes and items with `no-seq` are not part of the
/// sequence.
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

/// Compares the subscriptions' last ids, from the response of the origin, with the newest ids in the ring. Returns `Behind` if
/// items were published after the last id of any channel.
pub(super) fn replay_state(worker: &mut Engine, subscriptions: &[Subscription]) -> ReplayState {
    let mut replay_state = ReplayState::UpToDate;
    for it in subscriptions {
        let Some(prev_id) = &it.prev_id else {
            continue;
        };
        let last_id = last_id(worker, &it.channel);
        if on_hold(Some(prev_id), last_id.as_deref()) == OnHold::Behind {
            return ReplayState::Behind;
        }
        if last_id.is_none() {
            replay_state = ReplayState::Unknown;
        }
    }
    replay_state
}

/// Returns the items of a channel after the item with this id; `None` if some are missing.
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
