//! Copies rows between shared memory and private memory.

use crate::layout::{HASH, KEY, Layout, META, Meta};
use crate::schema::{Kind, Place, Schema, WORD_BYTES, word_at};
use fermata_shm::{AtomicU64, Ordering, fence, put};

/// Words of a slot.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    pub(crate) words: &'a [AtomicU64],
    pub(crate) layout: &'a Layout,
}

impl Slot<'_> {
    /// Returns the row's state. Content read afterwards belongs to this state if [`Slot::meta_after`] then returns the same state.
    pub(crate) fn meta(&self) -> Meta {
        Meta(self.words[META].load(Ordering::Acquire))
    }

    /// Returns the row's state after its content was read. The content is consistent if the state equals that of
    /// [`Slot::meta`].
    pub(crate) fn meta_after(&self) -> Meta {
        fence(Ordering::Acquire);
        Meta(self.words[META].load(Ordering::Relaxed))
    }

    /// Issues a release fence between the change of a row's state and the stores of its content. A reader that loads new
    /// content therefore finds the changed state in [`Slot::meta_after`], and reads the row again.
    pub(crate) fn begin_change(&self) {
        fence(Ordering::Release);
    }

    pub(crate) fn set_meta(&self, meta: Meta) {
        put(&self.words[META], meta.0, Ordering::Release);
    }

    pub(crate) fn hash(&self) -> u64 {
        self.words[HASH].load(Ordering::Relaxed)
    }

    pub(crate) fn has_key(&self, key: &[u8]) -> bool {
        if self.words[KEY].load(Ordering::Relaxed) != key.len() as u64 {
            return false;
        }
        let words = &self.words[KEY + 1..][..self.layout.key_words];
        key.chunks(WORD_BYTES)
            .zip(words)
            .all(|(chunk, word)| word.load(Ordering::Relaxed) == padded(chunk))
    }

    pub(crate) fn set_key(&self, hash: u64, key: &[u8]) {
        put(&self.words[HASH], hash, Ordering::Relaxed);
        put(&self.words[KEY], key.len() as u64, Ordering::Relaxed);
        store_bytes(&self.words[KEY + 1..][..self.layout.key_words], key);
    }

    pub(crate) fn load_key(&self, key: &mut Vec<u8>) {
        let len = self.words[KEY].load(Ordering::Relaxed) as usize;
        let words = &self.words[KEY + 1..][..self.layout.key_words];
        key.clear();
        key.resize(words.len() * WORD_BYTES, 0);
        load_bytes(words, key);
        key.truncate(len);
    }

    /// Copies the used parts of a row. The copy is invalid if the row changes meanwhile.
    pub(crate) fn load_row(&self, copy: usize, places: &[Place], row: &mut [u8]) {
        let words = &self.words[self.layout.copy(copy)..][..self.layout.row_words];
        for place in places {
            let at = place.at / WORD_BYTES;
            let mut value = words[at].load(Ordering::Relaxed);
            if place.column.kind == Kind::String {
                value = value.min(u64::from(place.column.bytes_max));
                let len = (value as usize).next_multiple_of(WORD_BYTES);
                let text = &mut row[place.at + WORD_BYTES..][..len];
                load_bytes(&words[at + 1..], text);
            }
            row[place.at..][..WORD_BYTES].copy_from_slice(&value.to_ne_bytes());
        }
    }

    pub(crate) fn store_row(&self, copy: usize, places: &[Place], row: &[u8]) {
        let words = &self.words[self.layout.copy(copy)..][..self.layout.row_words];
        for place in places {
            let at = place.at / WORD_BYTES;
            let value = word_at(row, place.at);
            put(&words[at], value, Ordering::Relaxed);
            if place.column.kind == Kind::String {
                let text = &row[place.at + WORD_BYTES..][..value as usize];
                store_bytes(&words[at + 1..], text);
            }
        }
    }
}

/// Fills a row with empty values.
pub(crate) fn blank(schema: &Schema, row: &mut [u8]) {
    for place in &schema.places {
        row[place.at..][..WORD_BYTES].fill(0);
    }
}

fn padded(chunk: &[u8]) -> u64 {
    let mut word = [0; WORD_BYTES];
    word[..chunk.len()].copy_from_slice(chunk);
    u64::from_ne_bytes(word)
}

fn store_bytes(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<WORD_BYTES>();
    for (word, chunk) in words.iter().zip(whole) {
        put(word, u64::from_ne_bytes(*chunk), Ordering::Relaxed);
    }
    if !rest.is_empty() {
        put(&words[whole.len()], padded(rest), Ordering::Relaxed);
    }
}

/// Loads words into `bytes`, whose length must be a multiple of the word size.
fn load_bytes(words: &[AtomicU64], bytes: &mut [u8]) {
    let (whole, _) = bytes.as_chunks_mut::<WORD_BYTES>();
    for (word, chunk) in words.iter().zip(whole) {
        *chunk = word.load(Ordering::Relaxed).to_ne_bytes();
    }
}
