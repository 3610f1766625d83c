//! Who has missed something when it is held, and what everybody asks after a recovery.
//!
//! The last item of a channel is the newest of its records in the ring, which every worker can read; no table of ids has to be
//! kept beside it.

use fermata_grip::reliable::{OnHold, on_hold};

use super::edge::Edge;
use super::hold::{Kind, Subscription};
use super::items;

impl Edge {
    /// The id of the newest item of a channel, if it is known and has one.
    fn last_id(&mut self, channel: &[u8]) -> Option<Vec<u8>> {
        let newest = self.worker.history(channel, None, 1).ok()?.pop()?;
        items::read(&newest.data)?.id
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
