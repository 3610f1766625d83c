//! What the workers of an embedder tell each other through the ring: notices to all of them, and notes that outlive the
//! worker that took them.
//!
//! Both are records like messages, on channels that no program can name, so they cost nothing while there are none and
//! need no socket of their own. A notice reaches the workers that run; a note stays as long as the ring keeps it.

use fermata_hub::{Kind, Message as Record, Subscriber};
use fermata_io::Driver;

use crate::channels::memory::SLOTS;
use crate::channels::private_channel;
use crate::channels::publish::{Past, PublishFailure};
use crate::worker::Worker;

/// Where notes are. Programs cannot name it: it begins with a control character.
const NOTES: &[u8] = &[0, b'n'];

impl<D: Driver> Worker<D> {
    /// Tells all other workers something: each has it as [`Event::Told`](crate::Event::Told). Returns how many they are.
    ///
    /// # Errors
    /// The ring has no room; those before may have been told.
    pub fn tell_workers(&mut self, data: &[u8]) -> Result<usize, PublishFailure> {
        let unix_ms = self.net.driver.unix_ms();
        let mut told = 0;
        for slot in 0..SLOTS {
            if slot == self.slot || self.reporter.shared.worker(u32::from(slot)).is_none() {
                continue;
            }
            let channel = private_channel(slot);
            let record = Record {
                channel: &channel,
                kind: Kind::Direct,
                name: None,
                data,
            };
            let to = Some(Subscriber::WORKER);
            self.with_room(|ring, owner| ring.publish_about(owner, &record, to, unix_ms))?;
            told += 1;
        }
        Ok(told)
    }

    /// What another worker has told, of the last `Event::Told`.
    pub fn told(&self) -> &[u8] {
        &self.waiting.told
    }

    /// Keeps something for the worker that comes after this one.
    ///
    /// # Errors
    /// The ring has no room, or the note is larger than `event_bytes_max`.
    pub fn keep_note(&mut self, data: &[u8]) -> Result<(), PublishFailure> {
        let unix_ms = self.net.driver.unix_ms();
        let record = Record {
            channel: NOTES,
            kind: Kind::Message,
            name: None,
            data,
        };
        self.with_room(|ring, owner| ring.publish_about(owner, &record, None, unix_ms))?;
        Ok(())
    }

    /// The newest notes, oldest first.
    pub fn notes(&mut self, count_max: usize) -> Vec<Past> {
        let up_to = self.channels.ring.newest();
        self.past(NOTES, 0, up_to, count_max)
    }
}
