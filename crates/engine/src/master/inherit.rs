//! Connections that were handed to a worker which has ended before it took them.

use fermata_io::Driver;
use fermata_io::handover::Taken;

use super::Master;

impl Master {
    /// Hands what is in the inbox of an ended worker to the others; without any, its clients are
    /// closed and come again.
    pub(super) fn pass_on(&mut self, slot: u16) {
        let Some(inbox) = self.inboxes.get(usize::from(slot)) else {
            return;
        };
        loop {
            let accepted = match inbox.take() {
                Taken::Nothing => return,
                Taken::Connection(accepted) => accepted,
                // Its worker has ended, and so has what it counted.
                Taken::Lost => continue,
            };
            let slots = self.inboxes.len() as u16;
            if let Some((heir, _)) = self.stats.least_settled(slots, 0)
                && let Some(inbox) = self.inboxes.get(usize::from(heir))
                && inbox.put(accepted.fd, accepted.peer).is_ok()
            {
                self.stats.add_settled(heir);
            }
            self.driver.close(accepted.fd);
        }
    }
}
