//! Reading along: every record in order, by somebody whom no publisher waits for.
//!
//! A follower has neither a slot nor a bit to be woken by. It may live in a thread beside the worker's own, which tells
//! it when the ring has moved on. One that is too slow is overtaken, and learns that it was.

use crate::id::Ids;
use crate::reader::{Read, Reader};
use crate::record::{Record, Seq};
use crate::ring::Ring;

/// What stands before a record in its channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Previous {
    /// The record at this place.
    At(Seq),
    /// Nothing: the channel begins there.
    Beginning,
    /// What there was is no longer kept.
    Unknown,
}

/// Reads every record from the oldest that is kept.
pub struct Follower {
    ring: Ring,
    reader: Reader<false>,
}

impl Follower {
    /// Goes on with a record that another has read: what is before it costs nothing. If the ring has it no more,
    /// the next read is [`Read::Lost`].
    pub fn go_to(&mut self, seq: Seq) {
        self.reader.go_to(seq);
    }

    /// Reads the next record into `record`, whose buffer is reused.
    pub fn read_next(&mut self, record: &mut Record) -> Read {
        self.reader.read_next(record)
    }

    /// Whether there is something to read.
    pub fn has_more(&self) -> bool {
        self.reader.has_more()
    }

    /// What stands before `seq` in the channel.
    pub fn previous(&self, channel: &[u8], seq: Seq) -> Previous {
        self.ring.previous(channel, seq)
    }

    /// Writer and reader of the ring's event ids.
    pub fn ids(&self) -> Ids {
        self.ring.ids()
    }

    /// See [`Ring::id_at`].
    pub fn id_at(&self, at: Seq) -> Option<(Ids, Seq)> {
        self.ring.id_at(at)
    }

    /// See [`Ring::id_of_beginning`].
    pub fn id_of_beginning(&self) -> (Ids, Seq) {
        self.ring.id_of_beginning()
    }
}

impl Ring {
    /// A reader of the ring.
    pub fn follow(&self) -> Follower {
        Follower {
            ring: self.twin(),
            reader: Reader::apart(self.words, &self.layout),
        }
    }

    /// What stands before `seq` in the channel, by what the ring still holds.
    pub fn previous(&self, channel: &[u8], seq: Seq) -> Previous {
        let mut found = None;
        let reached = self.walk(channel, 0, seq.saturating_sub(1), |at, _, _| {
            found = Some(at);
            false
        });
        match found {
            Some(at) => Previous::At(at),
            None if reached => Previous::Beginning,
            None => Previous::Unknown,
        }
    }
}
