//! Dynamic table of the decoder (RFC 7541, sections 2.3.2 and 4).

use std::collections::VecDeque;

use super::ENTRY_OVERHEAD;

/// Entries that the peer inserted, oldest first.
///
/// Names and values are contiguous in one buffer. Evicted bytes stay at the front of the buffer until their number equals that of
/// the live bytes; then the live bytes move to the front. An insertion therefore copies its bytes at most twice, and the buffer
/// stays below twice the table's size.
#[derive(Debug, Default)]
pub(super) struct Table {
    bytes: Vec<u8>,
    entries: VecDeque<Entry>,
    /// Table size as defined in RFC 7541, section 4.1.
    size: usize,
}

/// Position of one name and value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    start: u32,
    name_len: u16,
    value_len: u16,
    /// Index of the name in the static table, or 0.
    pub name_index: u8,
}

impl Entry {
    fn len(self) -> usize {
        usize::from(self.name_len) + usize::from(self.value_len)
    }
}

impl Table {
    /// Returns the entry at `index`; 0 is the newest.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<(Entry, &[u8], &[u8])> {
        let place = self.entries.len().checked_sub(index + 1)?;
        let entry = *self.entries.get(place)?;
        let start = entry.start as usize;
        let bytes = &self.bytes[start..start + entry.len()];
        let (name, value) = bytes.split_at(usize::from(entry.name_len));
        Some((entry, name, value))
    }

    /// Inserts a field and evicts old entries until the size is at most `size_max`. A field larger than `size_max`
    /// empties the table.
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], name_index: u8, size_max: usize) {
        let size = name.len() + value.len() + ENTRY_OVERHEAD;
        if size > size_max {
            self.shrink(0);
            return;
        }
        self.shrink(size_max - size);
        let len = name.len() + value.len();
        let dead = self
            .entries
            .front()
            .map_or(self.bytes.len(), |entry| entry.start as usize);
        if self.bytes.len() + len > self.bytes.capacity() && dead * 2 >= self.bytes.len() {
            self.bytes.drain(..dead);
            for entry in &mut self.entries {
                entry.start -= dead as u32;
            }
        }
        let needed = self.bytes.len() + len;
        if needed > self.bytes.capacity() {
            let grown = (self.bytes.capacity() * 2).min(size_max * 2).max(needed);
            self.bytes.reserve_exact(grown - self.bytes.len());
        }
        self.entries.push_back(Entry {
            start: self.bytes.len() as u32,
            name_len: name.len() as u16,
            value_len: value.len() as u16,
            name_index,
        });
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.size += size;
    }

    /// Evicts the oldest entries until the size is at most `size_max`.
    pub(super) fn shrink(&mut self, size_max: usize) {
        while self.size > size_max {
            let Some(entry) = self.entries.pop_front() else {
                break;
            };
            self.size -= entry.len() + ENTRY_OVERHEAD;
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Returns the number of heap bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_stays_below_twice_the_size() {
        let mut table = Table::default();
        for i in 0..10_000u32 {
            let name = vec![b'n'; (i * 7 % 90) as usize + 1];
            let value = vec![i as u8; (i * i % 3000) as usize];
            table.insert(&name, &value, 0, 4096);
            assert!(table.size() <= 4096);
            assert!(table.bytes.capacity() <= 8192, "{}", table.bytes.capacity());
            let (entry, found_name, found_value) = table.get(0).expect("it fits");
            assert_eq!(
                (entry.name_index, found_name, found_value),
                (0, &name[..], &value[..])
            );
        }
    }

    #[test]
    fn a_field_larger_than_the_table_empties_it() {
        let mut table = Table::default();
        table.insert(b"a", b"b", 0, 100);
        assert_eq!(table.size(), 34);
        table.insert(b"a", &[0; 100], 0, 100);
        assert_eq!(table.size(), 0);
        assert!(table.get(0).is_none());
    }
}
