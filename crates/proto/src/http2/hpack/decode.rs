//! Decodes header blocks into fields (RFC 7541, sections 3 and 6).

use super::fixed::ENTRIES;
use super::table::Table;
use super::{Error, huffman, integer};
use crate::Span;

/// Initial size of the dynamic table (RFC 9113, section 6.5.2).
const SIZE_INITIAL: u32 = 4096;

/// One field, as positions in the text that it was appended to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// Name as sent.
    pub name: Span,
    /// Value as sent.
    pub value: Span,
    /// Index of the name in the static table, or 0. It is 0 too if the peer sent a static name as a literal.
    pub name_index: u8,
    /// True if the field must not be indexed when it is forwarded (RFC 7541, section 6.2.3).
    pub never_indexed: bool,
}

/// Decoder state of one connection. It uses little memory until the peer inserts an entry into the dynamic table.
#[derive(Debug)]
pub struct Decoder {
    table: Option<Box<Table>>,
    /// Current maximum size that the peer chose for the table.
    size: u32,
    /// Maximum value of `size`.
    size_max: u32,
    /// True if the limit fell below `size`: the next block must start with a size update.
    update_due: bool,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// Creates a decoder at the first block of a connection.
    #[must_use]
    pub fn new() -> Self {
        Self {
            table: None,
            size: SIZE_INITIAL,
            size_max: SIZE_INITIAL,
            update_due: false,
        }
    }

    /// Sets the limit after the peer acknowledged SETTINGS_HEADER_TABLE_SIZE; at most 65,535.
    pub fn set_size_max(&mut self, size_max: u16) {
        self.size_max = u32::from(size_max);
        self.update_due = self.size > self.size_max;
    }

    /// Handles the size updates at the start of a block; returns the position of the first field.
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

    /// Decodes the field at `at` and advances `at`. Returns `None` at the end of the block.
    ///
    /// Appends name and value to `text`. If `store` is false, strings from the tables are not appended and their spans are empty. A
    /// block above the limits then costs no more than its own bytes, but the table is still updated.
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
            // End of the block.
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
            // Append the name even if `store` is false, because the new table entry is copied from `text`.
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

    /// Returns the number of heap bytes.
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

    /// Decodes a field that refers to a complete table entry.
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

    /// Appends the name of an entry and returns its static index, or 0.
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

/// Decodes the string at `at` and appends it; advances `at` (RFC 7541, section 5.2).
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
