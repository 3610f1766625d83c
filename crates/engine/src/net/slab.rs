//! Storage for connections: stable indexes with a generation, in chunks that never move.
//!
//! A chunk is allocated on first use and never freed. With an array that doubles, 100,001 clients
//! would need memory for 200,000 entries, and a client would wait for the copy. Freed entries are
//! reused last-in first-out, so that entries in the processor's cache are preferred.

/// Entries per chunk: a power of two, so that locating an entry is a shift and a mask.
const CHUNK: usize = 256;

/// A slab of `T` addressed by `(index, generation)`.
pub(crate) struct Slab<T> {
    chunks: Vec<Box<[Entry<T>; CHUNK]>>,
    free: Vec<u32>,
    len: usize,
}

struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

/// Location of a value. A key may outlive its value: after the entry is freed, the generation no
/// longer matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub index: u32,
    pub generation: u32,
}

impl Key {
    pub fn to_u64(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.index)
    }

    pub fn from_u64(raw: u64) -> Key {
        Key {
            index: raw as u32,
            generation: (raw >> 32) as u32,
        }
    }
}

impl<T> Slab<T> {
    /// Memory per entry, including its slot in the free list.
    #[cfg(test)]
    pub const ENTRY_BYTES: usize = size_of::<Entry<T>>() + size_of::<u32>();

    pub fn new() -> Slab<T> {
        Slab {
            chunks: Vec::new(),
            free: Vec::new(),
            len: 0,
        }
    }

    pub fn insert(&mut self, value: T) -> Key {
        if self.free.is_empty() {
            let first = (self.chunks.len() * CHUNK) as u32;
            let chunk: Box<[Entry<T>]> = (0..CHUNK)
                .map(|_| Entry {
                    // No key is zero.
                    generation: 1,
                    value: None,
                })
                .collect();
            // The length is part of the type, so that locating an entry reads only the list of
            // chunks.
            let Ok(chunk) = chunk.try_into() else {
                unreachable!("it has been made of so many");
            };
            self.chunks.push(chunk);
            self.free.extend((first..first + CHUNK as u32).rev());
        }
        let index = self
            .free
            .pop()
            .expect("a chunk was added above when the list was empty");
        let entry = self.entry_mut(index);
        entry.value = Some(value);
        let generation = entry.generation;
        self.len += 1;
        Key { index, generation }
    }

    pub fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self
            .chunks
            .get_mut(index as usize / CHUNK)?
            .get_mut(index as usize % CHUNK)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.checked_add(1).unwrap_or(1);
        self.free.push(index);
        self.len -= 1;
        Some(value)
    }

    /// Returns the value at `index` without checking its generation. Use it only for indexes from
    /// lists that are updated when a value is removed.
    #[inline]
    pub fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.chunks
            .get_mut(index as usize / CHUNK)?
            .get_mut(index as usize % CHUNK)?
            .value
            .as_mut()
    }

    #[inline]
    pub fn at(&self, index: u32) -> Option<&T> {
        self.chunks
            .get(index as usize / CHUNK)?
            .get(index as usize % CHUNK)?
            .value
            .as_ref()
    }

    /// Returns the value that `key` refers to, unless it was removed.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self
            .chunks
            .get_mut(key.index as usize / CHUNK)?
            .get_mut(key.index as usize % CHUNK)?;
        if entry.generation == key.generation {
            entry.value.as_mut()
        } else {
            None
        }
    }

    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let entry = self
            .chunks
            .get(key.index as usize / CHUNK)?
            .get(key.index as usize % CHUNK)?;
        if entry.generation == key.generation {
            entry.value.as_ref()
        } else {
            None
        }
    }

    /// Returns the key of the value at `index`.
    #[inline]
    pub fn key(&self, index: u32) -> Option<Key> {
        let entry = self
            .chunks
            .get(index as usize / CHUNK)?
            .get(index as usize % CHUNK)?;
        entry.value.as_ref()?;
        Some(Key {
            index,
            generation: entry.generation,
        })
    }

    /// Returns all values, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let entries = self.chunks.iter().flat_map(|chunk| chunk.iter());
        entries.filter_map(|entry| entry.value.as_ref())
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the indexes of all values, in order.
    pub fn indexes(&self) -> Vec<u32> {
        (0..(self.chunks.len() * CHUNK) as u32)
            .filter(|&index| self.at(index).is_some())
            .collect()
    }

    fn entry_mut(&mut self, index: u32) -> &mut Entry<T> {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalidates_a_key_with_its_value() {
        let mut slab = Slab::new();
        let first = slab.insert("a");
        assert_eq!(slab.get_mut(first), Some(&mut "a"));
        assert_eq!(slab.remove(first.index), Some("a"));
        let second = slab.insert("b");
        assert_eq!(second.index, first.index);
        assert_eq!(slab.get_mut(first), None);
        assert_eq!(slab.get_mut(second), Some(&mut "b"));
        assert_eq!(Key::from_u64(second.to_u64()), second);
    }

    #[test]
    fn lists_live_indexes_over_several_chunks() {
        let mut slab = Slab::new();
        let keys: Vec<Key> = (0..CHUNK * 2 + 3).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.len(), keys.len());
        for key in keys.iter().step_by(2) {
            slab.remove(key.index);
        }
        let odd: Vec<u32> = (0..keys.len() as u32).filter(|n| n % 2 == 1).collect();
        assert_eq!(slab.indexes(), odd);
        assert!(!slab.is_empty());
    }
}
