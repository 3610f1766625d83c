//! Who has missed something when it is held, and what everybody asks after a recovery.
//!
//! The last item of a channel is the newest of its records in the ring, which every worker can read; no table of ids has to be
//! kept beside it.

use fermata_grip::reliable::{OnHold, on_hold};

use super::edge::Edge;
use super::hold::{Kind, Subscription};
use super::items;

/// Records of a channel that are looked at for an id: the newest, and more where that has none.
const LOOKED_AT: [usize; 3] = [1, 16, 256];

impl Edge {
    /// The id of the newest item of a channel that has one: hints and refreshes have none, and what waits for nothing is no
    /// predecessor of anything.
    fn last_id(&mut self, channel: &[u8]) -> Option<Vec<u8>> {
        for count in LOOKED_AT {
            let records = self.worker.history(channel, None, count).ok()?;
            let is_all = records.len() < count;
            let ids = records
                .iter()
                .rev()
                .filter_map(|record| items::read(&record.data));
            let found = ids.filter(|item| !item.no_seq).find_map(|item| item.id);
            if found.is_some() || is_all {
                return found;
            }
        }
        None
    }

    /// Whether an item was published that the origin's response did not know of.
    pub(super) fn is_behind(&mut self, subscriptions: &[Subscription]) -> bool {
        subscriptions.iter().any(|it| {
            let Some(prev_id) = &it.prev_id else {
                return false;
            };
            let last_id = self.last_id(&it.channel);
            on_hold(Some(prev_id), last_id.as_deref()) == OnHold::Behind
        })
    }

    /// Every stream of this worker that could have missed something asks its next link.
    pub(super) fn recover_streams(&mut self) {
        let reliable: Vec<u64> = self
            .sessions
            .iter()
            .filter(|(_, it)| {
                let has_link = matches!(&it.kind, Kind::Stream(stream) if stream.next.is_some());
                has_link && it.subscriptions.iter().any(|it| it.prev_id.is_some())
            })
            .map(|(&handle, _)| handle)
            .collect();
        for handle in reliable {
            self.ask_link(handle);
        }
    }
}
