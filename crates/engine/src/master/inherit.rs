//! Connections that were handed to a worker which has ended before it took them.

use std::collections::BTreeSet;

use fermata_io::Driver;
use fermata_io::handover::Taken;

use super::state::Master;
use crate::missed::missed;

impl Master {
    /// Hands what is in the inbox of an ended worker to the others. Without any it stays there for the next worker that
    /// starts; when there will be none, its clients are closed.
    pub(super) fn pass_on(&mut self, slot: u16) {
        let mut left = vec![slot];
        while let Some(slot) = left.pop() {
            left.extend(self.empty(slot));
        }
    }

    /// The workers that have got something and take nothing any more: they have looked into their inboxes for the last
    /// time, maybe before that was there.
    fn empty(&mut self, slot: u16) -> BTreeSet<u16> {
        let mut heirs = BTreeSet::new();
        let slots = self.inboxes.len() as u16;
        let Some(inbox) = self.inboxes.get(usize::from(slot)) else {
            return missed(heirs);
        };
        loop {
            let heir = self.stats.least_settled(slots, 0);
            if heir.is_none() && self.stopping_until.is_none() {
                break;
            }
            let accepted = match inbox.take() {
                Taken::Nothing => break,
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
                heirs.insert(heir);
            }
            self.driver.close(accepted.fd);
        }
        heirs.retain(|heir| !self.stats.takes(*heir));
        heirs
    }
}
