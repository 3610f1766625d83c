//! Words of the presence table: entries, hash indexes, the queue of leaving users, and the free list.
//!
//! Links are entry numbers plus one; zero ends a list. Every link is checked before use, and the number of entries
//! bounds every walk. Damaged links therefore lead to missing members, not to panics or endless loops.

use crate::hash::ChannelHasher;
use crate::layout::{ENTRY_FIXED_WORDS, INFO_BYTES_MAX, PresenceLayout, USER_BYTES_MAX};
use crate::record::CHANNEL_BYTES_MAX;
use crate::words::{Sum, WORD_BYTES, Words, load_bytes, store_bytes, words_for};

// Header words of the table.
/// Entries `0..HIGH` were used at some time.
const HIGH: usize = 0;
/// First entry of the free list, linked by `E_KEY_NEXT`.
const FREE: usize = 1;
/// Number of leaving users, and both ends of their queue.
const LEAVING_COUNT: usize = 2;
const LEAVING_FIRST: usize = 3;
const LEAVING_LAST: usize = 4;

// Words of an entry. The store to `E_STATE` creates and ends an entry.
const E_STATE: usize = 0;
/// Hash of channel and user, and hash of the channel.
const E_KEY: usize = 1;
const E_CHANNEL: usize = 2;
/// Lengths of channel and user (8 bits each), number of the valid information area, and its length (16 bits each).
const E_LENGTHS: usize = 3;
/// Nonzero if joins were announced, so that the leave is announced too.
const E_ANNOUNCED: usize = 4;
/// Time at which the leave of a leaving user is announced, in wall-clock milliseconds.
const E_DUE: usize = 5;
/// Connections over all workers.
const E_TOTAL: usize = 6;
const E_KEY_NEXT: usize = 7;
/// Links between the entries of a channel or a source. The first entry of each list also contains the number of its entries.
const E_CHANNEL_NEXT: usize = 8;
const E_CHANNEL_PREV: usize = 9;
const E_CHANNEL_COUNT: usize = 12;
/// Hash of the source of the user's first connection; 0: unknown.
const E_SOURCE: usize = 13;
const E_SOURCE_NEXT: usize = 14;
const E_SOURCE_PREV: usize = 15;
const E_SOURCE_COUNT: usize = 16;
const E_LEAVING_NEXT: usize = 10;
const E_LEAVING_PREV: usize = 11;
/// One count per worker slot. The texts follow.
const E_COUNTS: usize = ENTRY_FIXED_WORDS;

const FREED: u64 = 0;
pub(super) const PRESENT: u64 = 1;
const LEAVING: u64 = 2;

/// Due time of a leaving user whose delay starts with the next sweep, because the time was unknown before.
pub(super) const DUE_UNSET: u64 = 0;

/// Entry number.
pub(super) type Entry = usize;

/// Entries with the same hash: doubly linked from a bucket. The first entry contains their number.
struct Group {
    /// Bucket heads.
    section: usize,
    hash: usize,
    next: usize,
    prev: usize,
    count: usize,
}

/// Hashes under which an entry is found.
pub(super) struct Keys {
    channel: u64,
    key: u64,
}

/// Copies of an entry's texts; reused.
#[derive(Default)]
pub(crate) struct Texts {
    pub(crate) channel: Vec<u8>,
    pub(crate) user: Vec<u8>,
    pub(crate) info: Vec<u8>,
    /// Data of an announcement.
    pub(crate) data: Vec<u8>,
}

struct Lengths {
    channel: usize,
    user: usize,
    /// 0 or 1.
    info_area: usize,
    info: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Table {
    words: Words,
    layout: PresenceLayout,
}

impl Table {
    pub(super) fn new(words: Words, layout: PresenceLayout) -> Table {
        Table { words, layout }
    }

    pub(super) fn keys(&self, hasher: &ChannelHasher, channel: &[u8], user: &[u8]) -> Keys {
        let hash = hasher.hash(channel);
        Keys {
            channel: hash,
            key: hasher.hash_with(hash, user),
        }
    }

    /// Returns the hash of a source; 0: unknown.
    pub(super) fn source(&self, hasher: &ChannelHasher, source: &[u8]) -> u64 {
        if source.is_empty() {
            return 0;
        }
        hasher.hash(source).max(1)
    }

    pub(super) fn find(&self, keys: &Keys, channel: &[u8], user: &[u8]) -> Option<Entry> {
        self.list(self.words.load(self.key_bucket(keys.key)), E_KEY_NEXT)
            .find(|&entry| {
                self.get(entry, E_KEY) == keys.key
                    && self.is_channel(entry, keys.channel, channel)
                    && self.is_user(entry, user)
            })
    }

    /// Returns an unused entry. It stays free until [`Table::insert`].
    pub(super) fn free_entry(&self) -> Option<Entry> {
        let freed = self
            .entry_of(self.header(FREE))
            .filter(|&entry| self.state(entry) == FREED);
        let high = self.high();
        freed.or_else(|| (high < self.layout.members_max).then_some(high))
    }

    /// Makes a free entry a present user with one connection of `slot`.
    pub(super) fn insert(
        &self,
        entry: Entry,
        (keys, source): (&Keys, u64),
        (channel, user, info): (&[u8], &[u8], &[u8]),
        slot: u32,
    ) {
        if self.entry_of(self.header(FREE)) == Some(entry) {
            self.set_header(FREE, self.get(entry, E_KEY_NEXT));
        } else {
            // Mark the memory as free first, in case this process is killed before the entry is complete.
            self.set(entry, E_STATE, FREED);
            self.words
                .store_release(self.layout.header + HIGH, entry as u64 + 1);
        }
        self.set(entry, E_KEY, keys.key);
        self.set(entry, E_CHANNEL, keys.channel);
        self.set(entry, E_SOURCE, source);
        self.set_text(entry, 0, channel);
        self.set_text(entry, words_for(CHANNEL_BYTES_MAX), user);
        self.set_text(entry, info_at(0), info);
        let lengths = Lengths {
            channel: channel.len(),
            user: user.len(),
            info_area: 0,
            info: info.len(),
        };
        self.set(entry, E_LENGTHS, lengths.word());
        self.set(entry, E_ANNOUNCED, 0);
        self.set(entry, E_DUE, DUE_UNSET);
        for other in 0..self.layout.workers_max {
            self.set(entry, E_COUNTS + other, u64::from(other == slot as usize));
        }
        self.set(entry, E_TOTAL, 1);
        // Release: the entry is complete, and exists from here on.
        self.words.store_release(self.at(entry, E_STATE), PRESENT);
        self.link(entry);
    }

    /// Counts a further connection of `slot`. A leaving user becomes present again.
    pub(super) fn connect(&self, entry: Entry, info: &[u8], slot: u32) {
        self.set_info(entry, info);
        let count = self.get(entry, E_COUNTS + slot as usize);
        self.set(entry, E_COUNTS + slot as usize, count.saturating_add(1));
        self.set(entry, E_TOTAL, self.get(entry, E_TOTAL).saturating_add(1));
        if self.state(entry) == LEAVING {
            self.set(entry, E_STATE, PRESENT);
            self.unqueue(entry);
        }
    }

    /// Returns true if the user's information equals `info`.
    pub(super) fn has_info(&self, entry: Entry, info: &[u8]) -> bool {
        self.lengths(entry).is_some_and(|lengths| {
            lengths.info == info.len() && self.text_is(entry, info_at(lengths.info_area), info)
        })
    }

    /// Subtracts one connection of `slot`. Returns true if the user became leaving.
    pub(super) fn disconnect(&self, entry: Entry, slot: u32, due: u64) -> bool {
        self.take_counts(entry, slot, 1, due)
    }

    /// Like [`Table::disconnect`], but the leave is due immediately, before users whose delay has not passed.
    pub(super) fn disconnect_now(&self, entry: Entry, slot: u32, now: u64) -> bool {
        let is_leaving = self.take_counts(entry, slot, 1, now.max(1));
        if is_leaving {
            self.unqueue(entry);
            self.queue_first(entry);
        }
        is_leaving
    }

    /// Removes all connections of `slot`.
    pub(super) fn disconnect_all(&self, entry: Entry, slot: u32, due: u64) {
        self.take_counts(entry, slot, u64::MAX, due);
    }

    fn take_counts(&self, entry: Entry, slot: u32, most: u64, due: u64) -> bool {
        let at = E_COUNTS + slot as usize;
        let count = self.get(entry, at);
        let taken = count.min(most);
        if taken == 0 || self.state(entry) != PRESENT {
            return false;
        }
        let total = self.get(entry, E_TOTAL).saturating_sub(taken);
        if total == 0 {
            self.set(entry, E_DUE, due);
        }
        self.set(entry, at, count - taken);
        self.set(entry, E_TOTAL, total);
        if total == 0 {
            self.set(entry, E_STATE, LEAVING);
            self.queue(entry);
        }
        total == 0
    }

    /// Returns the connections of `slot`.
    pub(super) fn connections_of(&self, entry: Entry, slot: u32) -> u32 {
        u32::try_from(self.get(entry, E_COUNTS + slot as usize)).unwrap_or(u32::MAX)
    }

    /// Sets the connections of `slot` for a user that stays present.
    pub(super) fn set_connections(&self, entry: Entry, info: Option<&[u8]>, slot: u32, count: u32) {
        if let Some(info) = info {
            self.set_info(entry, info);
        }
        let at = E_COUNTS + slot as usize;
        let others = self.get(entry, E_TOTAL).saturating_sub(self.get(entry, at));
        self.set(entry, at, u64::from(count));
        self.set(entry, E_TOTAL, others.saturating_add(u64::from(count)));
    }

    pub(super) fn set_announced(&self, entry: Entry) {
        self.set(entry, E_ANNOUNCED, 1);
    }

    pub(super) fn announced(&self, entry: Entry) -> bool {
        self.get(entry, E_ANNOUNCED) != 0
    }

    /// Removes a user.
    pub(super) fn remove(&self, entry: Entry) {
        let was_leaving = self.state(entry) == LEAVING;
        self.set(entry, E_STATE, FREED);
        if was_leaving {
            self.unqueue(entry);
        }
        self.unlink(entry);
        self.set(entry, E_KEY_NEXT, self.header(FREE));
        self.set_header(FREE, entry as u64 + 1);
    }

    /// Returns the user that leaves next, and the time in wall-clock milliseconds.
    pub(super) fn first_leaving(&self) -> Option<(Entry, u64)> {
        let entry = self.entry_of(self.header(LEAVING_FIRST))?;
        (self.state(entry) == LEAVING).then(|| (entry, self.get(entry, E_DUE)))
    }

    /// Sets the due time of all leaving users whose due time is unset.
    pub(super) fn set_unset_dues(&self, due: u64) {
        for entry in self.list(self.header(LEAVING_FIRST), E_LEAVING_NEXT) {
            if self.get(entry, E_DUE) == DUE_UNSET {
                self.set(entry, E_DUE, due.max(1));
            }
        }
    }

    pub(super) fn leaving(&self) -> usize {
        self.header(LEAVING_COUNT) as usize
    }

    /// Returns the entries of all channels in one bucket of the channel index.
    pub(super) fn channel_entries(&self, hash: u64) -> impl Iterator<Item = Entry> {
        self.list(self.words.load(self.channel_bucket(hash)), E_CHANNEL_NEXT)
    }

    /// Returns the number of users in a channel, including users who are leaving.
    pub(super) fn channel_count(&self, keys: &Keys) -> usize {
        self.group_count(&self.by_channel(), keys.channel)
    }

    /// Returns the number of users of a source, including users who are leaving.
    pub(super) fn source_count(&self, source: u64) -> usize {
        match source {
            0 => 0,
            source => self.group_count(&self.by_source(), source),
        }
    }

    fn by_channel(&self) -> Group {
        Group {
            section: self.layout.by_channel,
            hash: E_CHANNEL,
            next: E_CHANNEL_NEXT,
            prev: E_CHANNEL_PREV,
            count: E_CHANNEL_COUNT,
        }
    }

    fn by_source(&self) -> Group {
        Group {
            section: self.layout.by_source,
            hash: E_SOURCE,
            next: E_SOURCE_NEXT,
            prev: E_SOURCE_PREV,
            count: E_SOURCE_COUNT,
        }
    }

    fn group_count(&self, group: &Group, hash: u64) -> usize {
        self.group_first(group, hash)
            .map_or(0, |first| self.get(first, group.count) as usize)
    }

    /// Returns the first entry with this hash in its bucket, which contains the count.
    fn group_first(&self, group: &Group, hash: u64) -> Option<Entry> {
        self.list(
            self.words.load(self.bucket(group.section, hash)),
            group.next,
        )
        .find(|&entry| self.get(entry, group.hash) == hash)
    }

    pub(super) fn is_channel(&self, entry: Entry, hash: u64, channel: &[u8]) -> bool {
        self.state(entry) != FREED
            && self.get(entry, E_CHANNEL) == hash
            && self
                .lengths(entry)
                .is_some_and(|lengths| lengths.channel == channel.len())
            && self.text_is(entry, 0, channel)
    }

    fn is_user(&self, entry: Entry, user: &[u8]) -> bool {
        self.lengths(entry)
            .is_some_and(|lengths| lengths.user == user.len())
            && self.text_is(entry, words_for(CHANNEL_BYTES_MAX), user)
    }

    pub(super) fn is_used(&self, entry: Entry) -> bool {
        self.state(entry) != FREED
    }

    pub(super) fn connections(&self, entry: Entry) -> u32 {
        u32::try_from(self.get(entry, E_TOTAL)).unwrap_or(u32::MAX)
    }

    /// Copies the texts; empty if the lengths are damaged.
    pub(super) fn texts(&self, entry: Entry, texts: &mut Texts) {
        let lengths = self.lengths(entry).unwrap_or(Lengths {
            channel: 0,
            user: 0,
            info_area: 0,
            info: 0,
        });
        self.text(entry, 0, lengths.channel, &mut texts.channel);
        self.text(
            entry,
            words_for(CHANNEL_BYTES_MAX),
            lengths.user,
            &mut texts.user,
        );
        self.text(
            entry,
            info_at(lengths.info_area),
            lengths.info,
            &mut texts.info,
        );
    }

    pub(super) fn state(&self, entry: Entry) -> u64 {
        self.get(entry, E_STATE)
    }

    /// Returns all entries that may be in use.
    pub(super) fn used_entries(&self) -> std::ops::Range<Entry> {
        0..self.high()
    }

    /// Empties the table, whatever its contents. Entries are written before use, so they need no reset.
    pub(super) fn reset(&self) {
        self.set_header(HIGH, 0);
        self.reset_derived();
    }

    /// Clears all data derived from the entries. Keeps `HIGH`, the number of entries, which cannot be derived: after a crash during
    /// a rebuild, the next rebuild needs it.
    fn reset_derived(&self) {
        let high = self.layout.header + HIGH;
        for at in (self.layout.header..self.layout.entries).filter(|&at| at != high) {
            self.words.store(at, 0);
        }
    }

    pub(super) fn clear_counts(&self) {
        for entry in self.used_entries() {
            for slot in 0..self.layout.workers_max {
                self.set(entry, E_COUNTS + slot, 0);
            }
        }
    }

    /// Derives indexes, totals, queue and free list from states, texts and counts.
    pub(super) fn rebuild(&self, hasher: &ChannelHasher) {
        let high = self.high();
        self.reset_derived();
        let mut texts = Texts::default();
        for entry in 0..high {
            let state = self.state(entry);
            self.texts(entry, &mut texts);
            let keys = self.keys(hasher, &texts.channel, &texts.user);
            let sound = (state == PRESENT || state == LEAVING)
                && self.lengths(entry).is_some()
                && self.get(entry, E_KEY) == keys.key
                && self.get(entry, E_CHANNEL) == keys.channel;
            if !sound {
                self.set(entry, E_STATE, FREED);
                self.set(entry, E_KEY_NEXT, self.header(FREE));
                self.set_header(FREE, entry as u64 + 1);
                continue;
            }
            self.link(entry);
            let counts = (0..self.layout.workers_max).map(|slot| self.get(entry, E_COUNTS + slot));
            let total = counts.fold(0u64, u64::saturating_add);
            self.set(entry, E_TOTAL, total);
            if total > 0 {
                self.set(entry, E_STATE, PRESENT);
            } else {
                // The queue is sorted by time, but this walk is not, so restart the delay of all users.
                self.set(entry, E_DUE, DUE_UNSET);
                self.set(entry, E_STATE, LEAVING);
                self.queue(entry);
            }
        }
    }

    /// Asserts that indexes, queue, totals and free list are consistent.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let used: Vec<Entry> = self
            .used_entries()
            .filter(|&entry| self.state(entry) != FREED)
            .collect();
        let mut texts = Texts::default();
        for &entry in &used {
            self.texts(entry, &mut texts);
            let keys = Keys {
                channel: self.get(entry, E_CHANNEL),
                key: self.get(entry, E_KEY),
            };
            assert_eq!(
                self.find(&keys, &texts.channel, &texts.user),
                Some(entry),
                "index by channel and user"
            );
            assert!(
                self.channel_entries(keys.channel)
                    .any(|other| other == entry),
                "index by channel"
            );
            let same = used
                .iter()
                .filter(|&&other| self.get(other, E_CHANNEL) == keys.channel);
            assert_eq!(
                self.channel_count(&keys),
                same.count(),
                "count of a channel"
            );
            let source = self.get(entry, E_SOURCE);
            let same = used
                .iter()
                .filter(|&&other| source != 0 && self.get(other, E_SOURCE) == source);
            assert_eq!(self.source_count(source), same.count(), "count of a source");
            let total: u64 = (0..self.layout.workers_max)
                .map(|slot| self.get(entry, E_COUNTS + slot))
                .sum();
            assert_eq!(self.get(entry, E_TOTAL), total, "total");
            assert_eq!(
                self.state(entry),
                if total > 0 { PRESENT } else { LEAVING },
                "state"
            );
        }
        for (section, next) in [
            (self.layout.by_channel, E_CHANNEL_NEXT),
            (self.layout.by_key, E_KEY_NEXT),
        ] {
            let buckets = section..section + self.layout.buckets_len;
            let linked: usize = buckets
                .map(|at| self.list(self.words.load(at), next).count())
                .sum();
            assert_eq!(linked, used.len(), "entries in an index");
        }
        let with_source = used.iter().filter(|&&entry| self.get(entry, E_SOURCE) != 0);
        let buckets = self.layout.by_source..self.layout.by_source + self.layout.buckets_len;
        let linked: usize = buckets
            .map(|at| {
                self.list(self.words.load(at), self.by_source().next)
                    .count()
            })
            .sum();
        assert_eq!(
            linked,
            with_source.count(),
            "entries in the index by source"
        );
        let leaving = used
            .iter()
            .filter(|&&entry| self.state(entry) == LEAVING)
            .count();
        assert_eq!(
            self.list(self.header(LEAVING_FIRST), E_LEAVING_NEXT)
                .count(),
            leaving,
            "queue"
        );
        assert_eq!(
            self.list(self.header(LEAVING_LAST), E_LEAVING_PREV).count(),
            leaving,
            "queue backwards"
        );
        assert_eq!(self.leaving(), leaving, "number of leaving users");
        let free = self.list(self.header(FREE), E_KEY_NEXT).count();
        assert_eq!(free + used.len(), self.high(), "free list");
    }

    /// Writes new information into the unused area, and switches to it with one store.
    fn set_info(&self, entry: Entry, info: &[u8]) {
        let Some(lengths) = self.lengths(entry) else {
            return;
        };
        if self.has_info(entry, info) {
            return;
        }
        let info_area = 1 - lengths.info_area;
        self.set_text(entry, info_at(info_area), info);
        let lengths = Lengths {
            info_area,
            info: info.len(),
            ..lengths
        };
        self.words
            .store_release(self.at(entry, E_LENGTHS), lengths.word());
    }

    fn link(&self, entry: Entry) {
        let bucket = self.key_bucket(self.get(entry, E_KEY));
        self.set(entry, E_KEY_NEXT, self.words.load(bucket));
        self.words.store(bucket, entry as u64 + 1);
        self.join_group(&self.by_channel(), entry);
        if self.get(entry, E_SOURCE) != 0 {
            self.join_group(&self.by_source(), entry);
        }
    }

    fn join_group(&self, group: &Group, entry: Entry) {
        let hash = self.get(entry, group.hash);
        let before = self.group_count(group, hash) as u64;
        self.set(entry, group.count, before + 1);
        let bucket = self.bucket(group.section, hash);
        let next = self.words.load(bucket);
        self.set(entry, group.next, next);
        self.set(entry, group.prev, 0);
        if let Some(next) = self.entry_of(next) {
            self.set(next, group.prev, entry as u64 + 1);
        }
        self.words.store(bucket, entry as u64 + 1);
    }

    fn unlink(&self, entry: Entry) {
        // Lists by key are short, so they are singly linked.
        let bucket = self.key_bucket(self.get(entry, E_KEY));
        let next = self.get(entry, E_KEY_NEXT);
        let first = self.words.load(bucket);
        if self.entry_of(first) == Some(entry) {
            self.words.store(bucket, next);
        } else if let Some(before) = self
            .list(first, E_KEY_NEXT)
            .find(|&before| self.entry_of(self.get(before, E_KEY_NEXT)) == Some(entry))
        {
            self.set(before, E_KEY_NEXT, next);
        }
        self.leave_group(&self.by_channel(), entry);
        if self.get(entry, E_SOURCE) != 0 {
            self.leave_group(&self.by_source(), entry);
        }
    }

    fn leave_group(&self, group: &Group, entry: Entry) {
        let (next, prev) = (self.get(entry, group.next), self.get(entry, group.prev));
        let hash = self.get(entry, group.hash);
        let count = self.group_count(group, hash) as u64;
        match self.entry_of(prev) {
            Some(prev) => self.set(prev, group.next, next),
            None => self.words.store(self.bucket(group.section, hash), next),
        }
        if let Some(next) = self.entry_of(next) {
            self.set(next, group.prev, prev);
        }
        if let Some(first) = self.group_first(group, hash) {
            self.set(first, group.count, count.saturating_sub(1));
        }
    }

    fn queue(&self, entry: Entry) {
        let last = self.header(LEAVING_LAST);
        self.set(entry, E_LEAVING_NEXT, 0);
        self.set(entry, E_LEAVING_PREV, last);
        match self.entry_of(last) {
            Some(last) => self.set(last, E_LEAVING_NEXT, entry as u64 + 1),
            None => self.set_header(LEAVING_FIRST, entry as u64 + 1),
        }
        self.set_header(LEAVING_LAST, entry as u64 + 1);
        self.set_header(LEAVING_COUNT, self.header(LEAVING_COUNT).saturating_add(1));
    }

    fn queue_first(&self, entry: Entry) {
        let first = self.header(LEAVING_FIRST);
        self.set(entry, E_LEAVING_PREV, 0);
        self.set(entry, E_LEAVING_NEXT, first);
        match self.entry_of(first) {
            Some(first) => self.set(first, E_LEAVING_PREV, entry as u64 + 1),
            None => self.set_header(LEAVING_LAST, entry as u64 + 1),
        }
        self.set_header(LEAVING_FIRST, entry as u64 + 1);
        self.set_header(LEAVING_COUNT, self.header(LEAVING_COUNT).saturating_add(1));
    }

    fn unqueue(&self, entry: Entry) {
        let (next, prev) = (
            self.get(entry, E_LEAVING_NEXT),
            self.get(entry, E_LEAVING_PREV),
        );
        match self.entry_of(prev) {
            Some(prev) => self.set(prev, E_LEAVING_NEXT, next),
            None => self.set_header(LEAVING_FIRST, next),
        }
        match self.entry_of(next) {
            Some(next) => self.set(next, E_LEAVING_PREV, prev),
            None => self.set_header(LEAVING_LAST, prev),
        }
        self.set_header(LEAVING_COUNT, self.header(LEAVING_COUNT).saturating_sub(1));
    }

    /// Returns the entries of a list from its first link, at most as many as the table has.
    fn list(&self, first: u64, next: usize) -> impl Iterator<Item = Entry> {
        let table = *self;
        std::iter::successors(table.entry_of(first), move |&entry| {
            table.entry_of(table.get(entry, next))
        })
        .take(table.layout.members_max)
    }

    fn entry_of(&self, link: u64) -> Option<Entry> {
        let entry = usize::try_from(link).ok()?.checked_sub(1)?;
        (entry < self.layout.members_max).then_some(entry)
    }

    fn high(&self) -> usize {
        usize::try_from(self.header(HIGH))
            .unwrap_or(usize::MAX)
            .min(self.layout.members_max)
    }

    fn lengths(&self, entry: Entry) -> Option<Lengths> {
        let word = self.get(entry, E_LENGTHS);
        let lengths = Lengths {
            channel: (word & 0xff) as usize,
            user: (word >> 8 & 0xff) as usize,
            info_area: (word >> 16 & 0xffff) as usize,
            info: (word >> 32) as usize,
        };
        let sound = lengths.channel > 0
            && lengths.user > 0
            && lengths.info_area < 2
            && lengths.info <= INFO_BYTES_MAX;
        sound.then_some(lengths)
    }

    fn text(&self, entry: Entry, at: usize, len: usize, out: &mut Vec<u8>) {
        let words = words_for(len);
        out.clear();
        out.resize(words * WORD_BYTES, 0);
        load_bytes(self.words.slice(self.text_at(entry) + at, words), out);
        out.truncate(len);
    }

    fn text_is(&self, entry: Entry, at: usize, text: &[u8]) -> bool {
        let start = self.text_at(entry) + at;
        text.chunks(WORD_BYTES).enumerate().all(|(index, chunk)| {
            self.words.load(start + index).to_le_bytes()[..chunk.len()] == *chunk
        })
    }

    fn set_text(&self, entry: Entry, at: usize, text: &[u8]) {
        let words = self
            .words
            .slice(self.text_at(entry) + at, words_for(text.len()));
        store_bytes(words, text, &mut Sum::default());
    }

    fn text_at(&self, entry: Entry) -> usize {
        self.at(entry, E_COUNTS + self.layout.workers_max)
    }

    fn key_bucket(&self, hash: u64) -> usize {
        self.bucket(self.layout.by_key, hash)
    }

    fn channel_bucket(&self, hash: u64) -> usize {
        self.bucket(self.layout.by_channel, hash)
    }

    fn bucket(&self, section: usize, hash: u64) -> usize {
        section + (hash as usize & (self.layout.buckets_len - 1))
    }

    fn get(&self, entry: Entry, word: usize) -> u64 {
        self.words.load(self.at(entry, word))
    }

    fn set(&self, entry: Entry, word: usize, value: u64) {
        self.words.store(self.at(entry, word), value);
    }

    fn at(&self, entry: Entry, word: usize) -> usize {
        self.layout.entries + entry * self.layout.entry_words + word
    }

    fn header(&self, word: usize) -> u64 {
        self.words.load(self.layout.header + word)
    }

    fn set_header(&self, word: usize, value: u64) {
        self.words.store(self.layout.header + word, value);
    }
}

impl Lengths {
    fn word(&self) -> u64 {
        self.channel as u64
            | (self.user as u64) << 8
            | (self.info_area as u64) << 16
            | (self.info as u64) << 32
    }
}

/// Returns the start of information area 0 or 1, in words from the start of the texts.
fn info_at(area: usize) -> usize {
    words_for(CHANNEL_BYTES_MAX) + words_for(USER_BYTES_MAX) + area * words_for(INFO_BYTES_MAX)
}
