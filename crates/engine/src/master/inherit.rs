//! Connections handed to a worker that exited before it accepted them.

use std::collections::BTreeSet;

use fermata_io::Driver;
use fermata_io::handover::Taken;

use super::state::Master;
use crate::missed::missed;

impl Master {
    /// Hands the connections in an exited worker's inbox to other workers. If no other worker
    /// accepts, the connections stay for the next worker, or are closed if none will start.
    pub(super) fn pass_on(&mut self, slot: u16) {
        let mut left = vec![slot];
        while let Some(slot) = left.pop() {
            left.extend(self.empty(slot));
        }
    }

    /// Empties an inbox. Returns the receiving workers that have stopped accepting since, because
    /// they may have read their inboxes for the last time before.
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
            let (accepted, input) = match inbox.take() {
                Taken::Nothing => break,
                Taken::Connection(accepted, input) => (accepted, input),
                // The counters of the exited worker were already reset.
                Taken::Lost => continue,
            };
            if let Some((heir, _)) = heir
                && let Some(inbox) = self.inboxes.get(usize::from(heir))
            {
                // Count first: the receiver may close the connection before `put` returns.
                self.stats.add_settled(heir);
                if inbox.put(accepted.fd, accepted.peer, &input).is_err() {
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
