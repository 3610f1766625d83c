//! Header blocks to fields (RFC 7541, 3 and 6).

use super::fixed::ENTRIES;
use super::table::Table;
use super::{Error, huffman, integer};
use crate::Span;

/// The table's size without a word from either side (RFC 9113, 6.5.2).
const SIZE_INITIAL: u32 = 4096;

/// One field, by position in the text it was appended to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// The name as sent.
    pub name: Span,
    /// The value as sent.
    pub value: Span,
    /// Index in the static table that stands for this name, or 0: not every name of that table comes by it.
    pub name_index: u8,
    /// Whether it must not be compressed on the way on either (RFC 7541, 6.2.3).
    pub never_indexed: bool,
}

/// The state of one direction of a connection. Small until the peer inserts something into the dynamic table.
#[derive(Debug)]
pub struct Decoder {
    table: Option<Box<Table>>,
    /// What the peer makes of the table.
    size: u32,
    /// What it may make of it.
    size_max: u32,
    /// The limit went below `size`; the next block has to begin with a smaller one.
    update_due: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// At the first block of a connection.
    #[must_use]
    pub fn new() -> Self {
        Self {
            table: None,
            size: SIZE_INITIAL,
            size_max: SIZE_INITIAL,
            update_due: false,
        }
    }

    /// The peer has acknowledged this SETTINGS_HEADER_TABLE_SIZE, which is at most 65,535.
    pub fn set_size_max(&mut self, size_max: u16) {
        self.size_max = u32::from(size_max);
        self.update_due = self.size > self.size_max;
    }

    /// Takes the changes of size with which a block may begin, and gives where its fields begin.
    ///
    /// # Errors
    /// See [`Error`].
    #[inline]
    pub fn begin(&mut self, block: &[u8]) -> Result<usize, Error> {
        let mut at = 0;
        while let Some(&first) = block.get(at)
            && first & 0xe0 == 0x20
        {
            at += 1;
            let size = integer::read(block, &mut at, first, 5)?;
            if size > self.size_max as usize {
                return Err(Error::SizeUpdateTooLarge);
            }
            self.size = size as u32;
            self.update_due = false;
            match &mut self.table {
                Some(_) if size == 0 => self.table = None,
                Some(table) => table.shrink(size),
                None => {}
            }
        }
        if self.update_due {
            return Err(Error::SizeUpdateMissing);
        }
        Ok(at)
    }

    /// Reads the field at `at`, which moves behind it; `None` at the end of the block.
    ///
    /// Name and value are appended to `text`. With `store` off what the tables hold is not, and its spans are empty: a
    /// block above the limits is only followed, for the table's sake, without a cost beyond its own bytes.
    ///
    /// # Errors
    /// See [`Error`].
    #[inline]
    pub fn next(
        &mut self,
        block: &[u8],
        at: &mut usize,
        text: &mut Vec<u8>,
        store: bool,
    ) -> Result<Option<Field>, Error> {
        let Some(&first) = block.get(*at) else {
            // The block has ended.
            return Ok(None);
        };
        *at += 1;
        if first & 0x80 != 0 {
            let index = integer::read(block, at, first, 7)?;
            return self.indexed(index, text, store).map(Some);
        }
        let (prefix, inserts) = match first {
            0x40.. => (6, true),
            0x20.. => return Err(Error::SizeUpdateLate),
            _ => (4, false),
        };
        let index = integer::read(block, at, first, prefix)?;
        let start = text.len();
        let name_index = if index == 0 {
            string(block, at, text)?;
            0
        } else {
            // The name goes into the new entry, so it is needed even when nothing is stored.
            self.name(index, text, store || inserts)?
        };
        let middle = text.len();
        string(block, at, text)?;
        if inserts {
            let table = self.table.get_or_insert_default();
            let (name, value) = text[start..].split_at(middle - start);
            table.insert(name, value, name_index, self.size as usize);
        }
        Ok(Some(Field {
            name: Span::new(start, middle),
            value: Span::new(middle, text.len()),
            name_index,
            never_indexed: first & 0xf0 == 0x10,
        }))
    }

    /// Bytes on the heap.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.table
            .as_ref()
            .map_or(0, |table| size_of::<Table>() + table.kept_bytes())
    }

    #[cfg(test)]
    pub(super) fn table_size(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.size())
    }

    /// A field that stands whole in one of the tables.
    #[inline]
    fn indexed(&self, index: usize, text: &mut Vec<u8>, store: bool) -> Result<Field, Error> {
        let (name, value, name_index) = match index.checked_sub(1) {
            None => return Err(Error::Index),
            Some(place) if place < ENTRIES.len() => {
                let (name, value) = ENTRIES[place];
                (name, value, index as u8)
            }
            Some(place) => {
                let table = self.table.as_ref().ok_or(Error::Index)?;
                let (entry, name, value) = table.get(place - ENTRIES.len()).ok_or(Error::Index)?;
                (name, value, entry.name_index)
            }
        };
        let start = text.len();
        let (mut middle, mut end) = (start, start);
        if store {
            text.reserve(name.len() + value.len());
            text.extend_from_slice(name);
            text.extend_from_slice(value);
            middle += name.len();
            end = text.len();
        }
        Ok(Field {
            name: Span::new(start, middle),
            value: Span::new(middle, end),
            name_index,
            never_indexed: false,
        })
    }

    /// Appends the name of an entry and gives its static index, or 0.
    fn name(&self, index: usize, text: &mut Vec<u8>, store: bool) -> Result<u8, Error> {
        let (name, name_index) = match ENTRIES.get(index - 1) {
            Some((name, _)) => (*name, index as u8),
            None => {
                let table = self.table.as_ref().ok_or(Error::Index)?;
                let place = index - 1 - ENTRIES.len();
                let (entry, name, _) = table.get(place).ok_or(Error::Index)?;
                (name, entry.name_index)
            }
        };
        if store {
            text.extend_from_slice(name);
        }
        Ok(name_index)
    }
}

/// Appends the string at `at`, which moves behind it (RFC 7541, 5.2).
#[inline]
fn string(block: &[u8], at: &mut usize, text: &mut Vec<u8>) -> Result<(), Error> {
    let first = *block.get(*at).ok_or(Error::Truncated)?;
    *at += 1;
    let len = integer::read(block, at, first, 7)?;
    let bytes = block.get(*at..*at + len).ok_or(Error::Truncated)?;
    *at += len;
    if first & 0x80 == 0 {
        text.extend_from_slice(bytes);
        Ok(())
    } else {
        huffman::decode(bytes, text)
    }
}
