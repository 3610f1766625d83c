//! Journal of the channels that were reported to a backend as occupied. The process that replaces this one continues with the
//! journal.
//!
//! The journal is a file in memory with appended lines. `?CHANNEL` precedes the delivery of an occupied event,
//! `+CHANNEL` records that the backend acknowledged it, `-CHANNEL` that the backend acknowledged the vacated event. A
//! word in shared memory holds start and length of the valid part. It is updated after each write, because the process
//! may be killed at any instruction. When most lines are outdated, the current state is written elsewhere in the file,
//! and the word is switched.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size below which a journal is never rewritten.
const BYTES_MIN: u64 = 64 * 1024;
/// Maximum ratio of the journal's size to the size of the current state.
const TIMES_MAX: u64 = 3;
/// The start of the valid part is a multiple of this number of bytes. The shared word contains the start in this unit.
const PAGE_BYTES: u64 = 4096;

pub(super) struct Journal {
    file: File,
    /// Start and length of the valid part.
    word: &'static AtomicU64,
    /// Channels that may have been reported as occupied.
    occupancies: HashMap<String, OccupancyState>,
    /// Bytes of the lines for `occupancies`.
    occupancies_bytes: u64,
}

/// Delivery state of a channel's occupancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OccupancyState {
    /// The occupied event is being sent.
    Doubtful,
    /// The backend acknowledged the occupied event.
    Occupied,
    /// The channel was never reported as occupied, or the backend acknowledged the vacated event.
    Vacant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    start: u64,
    len: u64,
}

impl Part {
    fn read(word: u64) -> Part {
        Part {
            start: (word >> 32) * PAGE_BYTES,
            len: word & u64::from(u32::MAX),
        }
    }

    fn word(self) -> u64 {
        (self.start / PAGE_BYTES) << 32 | self.len
    }
}

impl Journal {
    /// Reads the journal of the predecessor. An unreadable journal is treated as empty.
    pub fn open(file: File, word: &'static AtomicU64) -> Journal {
        let part = Part::read(word.load(Ordering::Acquire));
        let mut bytes = vec![0; part.len as usize];
        if file.read_exact_at(&mut bytes, part.start).is_err() {
            bytes.clear();
        }
        let mut journal = Journal {
            file,
            word,
            occupancies: HashMap::new(),
            occupancies_bytes: 0,
        };
        for line in String::from_utf8_lossy(&bytes).lines() {
            match line.split_at_checked(1) {
                Some(("?", channel)) => journal.note(channel, OccupancyState::Doubtful),
                Some(("+", channel)) => journal.note(channel, OccupancyState::Occupied),
                Some(("-", channel)) => journal.note(channel, OccupancyState::Vacant),
                _ => false,
            };
        }
        journal
    }

    /// Returns the channels that may have been reported as occupied, each with true if the backend acknowledged the report.
    pub fn occupied(&self) -> impl Iterator<Item = (String, bool)> {
        let all = self.occupancies.iter();
        all.map(|(channel, occupancy)| (channel.clone(), *occupancy == OccupancyState::Occupied))
    }

    /// Returns the state of a channel.
    pub fn occupancy(&self, channel: &str) -> OccupancyState {
        self.occupancies
            .get(channel)
            .copied()
            .unwrap_or(OccupancyState::Vacant)
    }

    /// Records the new state of a channel.
    ///
    /// # Errors
    /// There is no memory, or another process has taken over the journal.
    pub fn set(&mut self, channel: &str, occupancy: OccupancyState) -> io::Result<()> {
        if !self.note(channel, occupancy) {
            return Ok(());
        }
        let part = self.part();
        if part.len > BYTES_MIN.max(self.occupancies_bytes * TIMES_MAX) {
            return self.rewrite(part);
        }
        let line = line(channel, occupancy);
        self.file
            .write_all_at(line.as_bytes(), part.start + part.len)?;
        let len = part.len + line.len() as u64;
        self.change(part, Part { len, ..part })
    }

    /// Returns false if the state is unchanged.
    fn note(&mut self, channel: &str, occupancy: OccupancyState) -> bool {
        let bytes = channel.len() as u64 + 2;
        if occupancy == OccupancyState::Vacant {
            let was_there = self.occupancies.remove(channel).is_some();
            self.occupancies_bytes -= if was_there { bytes } else { 0 };
            return was_there;
        }
        match self.occupancies.get_mut(channel) {
            Some(known) => std::mem::replace(known, occupancy) != occupancy,
            None => {
                self.occupancies.insert(channel.to_owned(), occupancy);
                self.occupancies_bytes += bytes;
                true
            }
        }
    }

    /// Writes the current state outside the valid part, and switches to it.
    fn rewrite(&mut self, part: Part) -> io::Result<()> {
        let all = self.occupancies.iter();
        let lines: String = all
            .map(|(channel, occupancy)| line(channel, *occupancy))
            .collect();
        let len = lines.len() as u64;
        let start = if len <= part.start {
            0
        } else {
            (part.start + part.len).next_multiple_of(PAGE_BYTES)
        };
        self.file.write_all_at(lines.as_bytes(), start)?;
        self.change(part, Part { start, len })?;
        self.file.set_len(start + len)
    }

    fn change(&self, from: Part, to: Part) -> io::Result<()> {
        self.word
            .compare_exchange(from.word(), to.word(), Ordering::AcqRel, Ordering::Acquire)
            .map(|_| ())
            .map_err(|_| io::Error::other("another process writes it"))
    }

    fn part(&self) -> Part {
        Part::read(self.word.load(Ordering::Acquire))
    }
}

fn line(channel: &str, occupancy: OccupancyState) -> String {
    let sign = match occupancy {
        OccupancyState::Doubtful => '?',
        OccupancyState::Occupied => '+',
        OccupancyState::Vacant => '-',
    };
    format!("{sign}{channel}\n")
}

#[cfg(test)]
mod tests {
    use fermata_io::shm::{Shared, anonymous_file};

    use super::*;

    fn sorted(journal: &Journal) -> Vec<(String, bool)> {
        let mut channels: Vec<(String, bool)> = journal.occupied().collect();
        channels.sort();
        channels
    }

    #[test]
    fn next_process_reads_the_valid_part() {
        let words = Shared::anonymous(1).expect("memory").words();
        let file = anonymous_file().expect("memory");
        let twin = || file.try_clone().expect("a descriptor");
        let mut journal = Journal::open(twin(), &words[0]);
        for channel in ["a", "b", "presence-c"] {
            journal
                .set(channel, OccupancyState::Doubtful)
                .expect("memory");
        }
        journal.set("a", OccupancyState::Occupied).expect("memory");
        journal.set("b", OccupancyState::Occupied).expect("memory");
        journal.set("b", OccupancyState::Vacant).expect("memory");
        // A line whose write was interrupted by a kill.
        let part = journal.part();
        file.write_all_at(b"+half", part.start + part.len)
            .expect("memory");
        let next = Journal::open(twin(), &words[0]);
        let expected = [("a".to_owned(), true), ("presence-c".to_owned(), false)];
        assert_eq!(sorted(&next), expected);
    }

    #[test]
    fn does_not_grow_with_outdated_lines() {
        let words = Shared::anonymous(1).expect("memory").words();
        let file = anonymous_file().expect("memory");
        let twin = || file.try_clone().expect("a descriptor");
        let mut journal = Journal::open(twin(), &words[0]);
        journal
            .set("stays", OccupancyState::Occupied)
            .expect("memory");
        for at in 0..40_000 {
            let channel = format!("channel-{at}");
            journal
                .set(&channel, OccupancyState::Occupied)
                .expect("memory");
            journal
                .set(&channel, OccupancyState::Vacant)
                .expect("memory");
        }
        assert!(journal.part().len <= 2 * BYTES_MIN);
        let bytes = file.metadata().expect("a file").len();
        assert!(bytes <= 4 * BYTES_MIN, "{bytes}");
        let next = Journal::open(twin(), &words[0]);
        assert_eq!(sorted(&next), [("stays".to_owned(), true)]);
    }
}
