//! Messages between an embedder's workers through the ring: notices to all running workers, and
//! notes that survive the worker that wrote them.
//!
//! Both are records on internal channels, so they have no overhead when unused and need no socket.
//! A notice reaches running workers. A note stays as long as the ring retains it.

use fermata_hub::{Kind, Message as Record};

use super::publish::Past;
use super::{Channels, private_channel};
use crate::admin::stats::Shared;
use crate::channels::memory::SLOTS;

/// Channel of notes. It starts with a control character, so applications cannot use it.
const NOTES: &[u8] = &[0, b'n'];

/// Builds the record of a note.
pub(crate) fn note(data: &[u8]) -> Record<'_> {
    Record {
        channel: NOTES,
        kind: Kind::Message,
        name: None,
        data,
    }
}

impl Channels {
    /// Returns the channels of all other running workers.
    pub(crate) fn other_workers(&self, shared: &Shared) -> Vec<[u8; 4]> {
        let runs = |slot: &u16| *slot != self.slot && shared.worker(u32::from(*slot)).is_some();
        (0..SLOTS).filter(runs).map(private_channel).collect()
    }

    /// Returns the newest notes, oldest first.
    pub(crate) fn notes(&mut self, count_max: usize, unix_ms: u64) -> Vec<Past> {
        let up_to = self.ring.newest();
        self.past(NOTES, 0, up_to, count_max, unix_ms)
    }
}
