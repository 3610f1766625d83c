//! Reads every record in order without delaying publishers.
//!
//! A follower has neither a slot nor a wake-up bit. It may run in a separate thread, which the worker notifies of new records.
//! Publishers overwrite records that a slow follower has not read; the follower then gets [`Read::Lost`].

use crate::id::Ids;
use crate::reader::{Read, Reader};
use crate::record::{Record, Seq};
use crate::ring::Ring;

/// The predecessor of a record in the same channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Previous {
    /// The record at this position.
    At(Seq),
    /// No predecessor: the record is the channel's first.
    Beginning,
    /// Unknown: it may have been overwritten.
    Unknown,
}

/// Reads every record, starting with the oldest in the ring.
pub struct Follower {
    ring: Ring,
    reader: Reader<false>,
}

impl Follower {
    /// Continues with the record at `seq`. If it was overwritten, the next read returns [`Read::Lost`].
    pub fn go_to(&mut self, seq: Seq) {
        self.reader.go_to(seq);
    }

    /// Reads the next record into `record`, whose buffer is reused.
    pub fn read_next(&mut self, record: &mut Record) -> Read {
        self.reader.read_next(record)
    }

    /// Returns true if the log caused the last [`Read::Lost`]; false if the follower was too slow.
    pub fn is_log_lost(&self) -> bool {
        self.reader.is_log_lost()
    }

    /// Returns the position from which records of the log are live.
    pub fn live_from(&self) -> Seq {
        self.reader.live_from()
    }

    /// Returns true if there is a record to read.
    pub fn has_more(&self) -> bool {
        self.reader.has_more()
    }

    /// Returns the predecessor of `seq` in the channel.
    pub fn previous(&self, channel: &[u8], seq: Seq) -> Previous {
        self.ring.previous(channel, seq)
    }

    /// Returns the writer and parser of the ring's event ids.
    pub fn ids(&self) -> Ids {
        self.ring.ids()
    }

    /// Returns the id of the record at a position, see [`Ring::id_at`].
    pub fn id_at(&self, at: Seq) -> Option<(Ids, Seq)> {
        self.ring.id_at(at)
    }

    /// Returns the id that precedes all records, see [`Ring::id_of_beginning`].
    pub fn id_of_beginning(&self) -> (Ids, Seq) {
        self.ring.id_of_beginning()
    }
}

impl Ring {
    /// Creates a follower of the ring.
    pub fn follow(&self) -> Follower {
        Follower {
            ring: self.twin(),
            reader: Reader::apart(self.words, &self.layout),
        }
    }

    /// Returns the predecessor of `seq` in the channel; [`Previous::Unknown`] if the ring may have overwritten it.
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
