//! Which channels a backend believes occupied, for the process that takes the place of this one.
//!
//! A file in memory, of lines that are appended: `?CHANNEL` before it is told that a channel is occupied, `+CHANNEL` when
//! it has taken that, `-CHANNEL` when it has taken that the channel is vacated. A word in shared memory says which part of
//! the file counts, and is changed when the part is written: a process may be killed at any instruction. When most lines
//! are of the past, those that count are written to another place and the word changed to it.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// A journal this small is left as it is.
const BYTES_MIN: u64 = 64 * 1024;
/// How many times as large as what counts it may become.
const TIMES_MAX: u64 = 3;
/// The place in the word is counted in these.
const PAGE_BYTES: u64 = 4096;

pub(super) struct Journal {
    file: File,
    /// The place of the part that counts, and its length.
    word: &'static AtomicU64,
    /// Channels that the backend may believe occupied, and whether it certainly does.
    beliefs: HashMap<String, Belief>,
    /// Bytes of the lines of those.
    beliefs_bytes: u64,
}

/// What a backend believes of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belief {
    /// It is being told that the channel is occupied.
    Doubtful,
    /// It has taken that.
    Occupied,
    /// It does not believe it occupied.
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
    /// Reads what the process before this one has written. What cannot be read is empty.
    pub fn open(file: File, word: &'static AtomicU64) -> Journal {
        let part = Part::read(word.load(Ordering::Acquire));
        let mut bytes = vec![0; part.len as usize];
        if file.read_exact_at(&mut bytes, part.start).is_err() {
            bytes.clear();
        }
        let mut journal = Journal {
            file,
            word,
            beliefs: HashMap::new(),
            beliefs_bytes: 0,
        };
        for line in String::from_utf8_lossy(&bytes).lines() {
            match line.split_at_checked(1) {
                Some(("?", channel)) => journal.note(channel, Belief::Doubtful),
                Some(("+", channel)) => journal.note(channel, Belief::Occupied),
                Some(("-", channel)) => journal.note(channel, Belief::Vacant),
                _ => false,
            };
        }
        journal
    }

    /// Channels that may be believed occupied, and whether that is certain.
    pub fn occupied(&self) -> impl Iterator<Item = (String, bool)> {
        let all = self.beliefs.iter();
        all.map(|(channel, belief)| (channel.clone(), *belief == Belief::Occupied))
    }

    /// What may be believed of a channel.
    pub fn belief(&self, channel: &str) -> Belief {
        self.beliefs.get(channel).copied().unwrap_or(Belief::Vacant)
    }

    /// What the backend believes of a channel has changed.
    ///
    /// # Errors
    /// There is no memory, or another process has the journal.
    pub fn set(&mut self, channel: &str, belief: Belief) -> io::Result<()> {
        if !self.note(channel, belief) {
            return Ok(());
        }
        let part = self.part();
        if part.len > BYTES_MIN.max(self.beliefs_bytes * TIMES_MAX) {
            return self.rewrite(part);
        }
        let line = line(channel, belief);
        self.file
            .write_all_at(line.as_bytes(), part.start + part.len)?;
        let len = part.len + line.len() as u64;
        self.change(part, Part { len, ..part })
    }

    /// False: that was known.
    fn note(&mut self, channel: &str, belief: Belief) -> bool {
        let bytes = channel.len() as u64 + 2;
        if belief == Belief::Vacant {
            let was_there = self.beliefs.remove(channel).is_some();
            self.beliefs_bytes -= if was_there { bytes } else { 0 };
            return was_there;
        }
        match self.beliefs.get_mut(channel) {
            Some(known) => std::mem::replace(known, belief) != belief,
            None => {
                self.beliefs.insert(channel.to_owned(), belief);
                self.beliefs_bytes += bytes;
                true
            }
        }
    }

    /// Writes what counts alone, where nothing counts yet.
    fn rewrite(&mut self, part: Part) -> io::Result<()> {
        let all = self.beliefs.iter();
        let lines: String = all
            .map(|(channel, belief)| line(channel, *belief))
            .collect();
        let len = lines.len() as u64;
        let start = match len <= part.start {
            true => 0,
            false => (part.start + part.len).next_multiple_of(PAGE_BYTES),
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

fn line(channel: &str, belief: Belief) -> String {
    let sign = match belief {
        Belief::Doubtful => '?',
        Belief::Occupied => '+',
        Belief::Vacant => '-',
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
    fn the_next_process_reads_what_counts() {
        let words = Shared::anonymous(1).expect("memory").words();
        let file = anonymous_file().expect("memory");
        let twin = || file.try_clone().expect("a descriptor");
        let mut journal = Journal::open(twin(), &words[0]);
        for channel in ["a", "b", "presence-c"] {
            journal.set(channel, Belief::Doubtful).expect("memory");
        }
        journal.set("a", Belief::Occupied).expect("memory");
        journal.set("b", Belief::Occupied).expect("memory");
        journal.set("b", Belief::Vacant).expect("memory");
        // A line that was being written when the process was killed.
        let part = journal.part();
        file.write_all_at(b"+half", part.start + part.len)
            .expect("memory");
        let next = Journal::open(twin(), &words[0]);
        let expected = [("a".to_owned(), true), ("presence-c".to_owned(), false)];
        assert_eq!(sorted(&next), expected);
    }

    #[test]
    fn it_does_not_grow_with_what_is_past() {
        let words = Shared::anonymous(1).expect("memory").words();
        let file = anonymous_file().expect("memory");
        let twin = || file.try_clone().expect("a descriptor");
        let mut journal = Journal::open(twin(), &words[0]);
        journal.set("stays", Belief::Occupied).expect("memory");
        for at in 0..40_000 {
            let channel = format!("channel-{at}");
            journal.set(&channel, Belief::Occupied).expect("memory");
            journal.set(&channel, Belief::Vacant).expect("memory");
        }
        assert!(journal.part().len <= 2 * BYTES_MIN);
        let bytes = file.metadata().expect("a file").len();
        assert!(bytes <= 4 * BYTES_MIN, "{bytes}");
        let next = Journal::open(twin(), &words[0]);
        assert_eq!(sorted(&next), [("stays".to_owned(), true)]);
    }
}
