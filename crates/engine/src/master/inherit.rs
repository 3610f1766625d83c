//! Connections that were handed to a worker which has ended before it took them.

use fermata_io::Driver;
use fermata_io::handover::Taken;

use super::state::Master;

impl Master {
    /// Hands what is in the inbox of an ended worker to the others. Without any it stays there for the next worker that
    /// starts; when there will be none, its clients are closed.
    pub(super) fn pass_on(&mut self, slot: u16) {
        let Some(inbox) = self.inboxes.get(usize::from(slot)) else {
            return;
        };
        let slots = self.inboxes.len() as u16;
        loop {
            let heir = self.stats.least_settled(slots, 0);
            if heir.is_none() && self.stopping_until_ms.is_none() {
                return;
            }
            let accepted = match inbox.take() {
                Taken::Nothing => return,
                Taken::Connection(accepted) => accepted,
                // Its worker has ended, and so has what it counted.
                Taken::Lost => continue,
            };
            if let Some((heir, _)) = heir
                && let Some(inbox) = self.inboxes.get(usize::from(heir))
            {
                // Counted first: the heir may have taken and closed it before `put` returns.
                self.stats.add_settled(heir);
                if inbox.put(accepted.fd, accepted.peer).is_err() {
                    self.stats.remove_settled(heir);
                }
            }
            self.driver.close(accepted.fd);
        }
    }
}
