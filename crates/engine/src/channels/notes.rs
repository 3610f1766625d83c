//! What the workers of an embedder tell each other through the ring: notices to all of them, and notes that outlive the
//! worker that took them.
//!
//! Both are records like messages, on channels that no program can name, so they cost nothing while there are none and
//! need no socket of their own. A notice reaches the workers that run; a note stays as long as the ring keeps it.

use fermata_hub::{Kind, Message as Record};

use super::publish::Past;
use super::{Channels, private_channel};
use crate::admin::stats::Shared;
use crate::channels::memory::SLOTS;

/// Where notes are. Programs cannot name it: it begins with a control character.
const NOTES: &[u8] = &[0, b'n'];

/// Something that is kept for the worker that comes after this one.
pub(crate) fn note(data: &[u8]) -> Record<'_> {
    Record {
        channel: NOTES,
        kind: Kind::Message,
        name: None,
        data,
    }
}

impl Channels {
    /// The channels of all other workers that run.
    pub(crate) fn other_workers(&self, shared: &Shared) -> Vec<[u8; 4]> {
        let runs = |slot: &u16| *slot != self.slot && shared.worker(u32::from(*slot)).is_some();
        (0..SLOTS).filter(runs).map(private_channel).collect()
    }

    /// The newest notes, oldest first.
    pub(crate) fn notes(&mut self, count_max: usize, unix_ms: u64) -> Vec<Past> {
        let up_to = self.ring.newest();
        self.past(NOTES, 0, up_to, count_max, unix_ms)
    }
}
