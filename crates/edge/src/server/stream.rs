//! Delivery to held streams.

use fermata_engine::RequestId;
use fermata_engine::stats::Counter;
use fermata_grip::item::StreamAction;

use crate::client::delivery::{Delivery, WAITING_BYTES_MAX, drop_item};
use crate::server::holds::Holds;

impl Holds<'_> {
    /// Delivers an item to a held client. Returns true if the client is no longer held.
    pub(super) fn give_stream(&mut self, handle: RequestId, delivery: Delivery) -> bool {
        match delivery {
            Delivery::Nothing => {}
            Delivery::Filtered(counter) => self.worker.net.count(counter, 1),
            Delivery::Content(content) => {
                // 0 if the client has left.
                let unsent = self.worker.write_held(handle, &content).unwrap_or(0);
                self.clients.touch_link(self.worker, handle);
                if unsent > WAITING_BYTES_MAX {
                    // The engine limits the queue of a client, but not for rate-limited items and bodies of link responses.
                    self.worker.net.count(Counter::DroppedSlow, 1);
                    self.cut_stream_of(handle);
                    return true;
                }
            }
            Delivery::Act(StreamAction::Close) => {
                self.end_stream_of(handle);
                return true;
            }
            // The response of the link contains the item.
            Delivery::Act(StreamAction::Hint) if self.clients.has_link(handle) => {
                self.ask_link(handle);
            }
            Delivery::Behind => self.on_missed(handle),
            Delivery::Act(StreamAction::Send(_) | StreamAction::Hint | StreamAction::Refresh) => {}
            Delivery::Failed(reason) => drop_item(self.worker, &reason),
        }
        false
    }
}
