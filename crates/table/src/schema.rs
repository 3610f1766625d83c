//! What a row consists of, and a row's bytes outside of the shared memory.

use thiserror::Error;

use crate::TableError;

/// Rows of a table.
pub const ROWS_MAX: u32 = 1 << 24;
/// Columns of a table.
pub const COLUMNS_MAX: usize = 256;
/// Bytes of a column's name. Names are the caller's: here columns have numbers.
pub const COLUMN_NAME_BYTES_MAX: usize = 64;
/// Bytes of a key, at most.
pub const KEY_BYTES_MAX: u32 = 1024;
/// Bytes of a row, at most.
pub const ROW_BYTES_MAX: u64 = 1 << 26;

pub(crate) const WORD_BYTES: usize = 8;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 64 bits with a sign.
    Int,
    /// A double.
    Float,
    /// Bytes, at most as many as the column says.
    String,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// What it holds.
    pub kind: Kind,
    /// How many bytes a string may have; of no meaning for others.
    pub bytes_max: u32,
}

/// What is in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Of [`Kind::Int`].
    Int(i64),
    /// Of [`Kind::Float`].
    Float(f64),
    /// Of [`Kind::String`].
    String(&'a [u8]),
}

/// A table that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// No rows, or too many.
    #[error("a table has 1 to {ROWS_MAX} rows")]
    Rows,
    /// No columns, or too many.
    #[error("a table has 1 to {COLUMNS_MAX} columns")]
    Columns,
    /// No key, or one that is too long.
    #[error("keys have at most 1 to {KEY_BYTES_MAX} bytes")]
    KeyBytes,
    /// A column for strings of no bytes, or a row that is too large.
    #[error("strings have at least 1 byte, and all columns of a row at most {ROW_BYTES_MAX}")]
    RowBytes,
}

/// Where a column is in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) column: Column,
    /// Its first byte, a multiple of a word's. A string begins with a word that has its length.
    pub(crate) at: usize,
}

/// What a table is declared with.
#[derive(Clone, Debug)]
pub struct Schema {
    pub(crate) rows: u32,
    pub(crate) key_bytes_max: u32,
    pub(crate) places: Vec<Place>,
    /// Of a row.
    pub(crate) bytes: usize,
}

impl Schema {
    /// Checks what a table is declared with.
    ///
    /// # Errors
    /// A number is out of its range.
    pub fn new(rows: u32, key_bytes_max: u32, columns: &[Column]) -> Result<Schema, SchemaError> {
        if rows == 0 || rows > ROWS_MAX {
            return Err(SchemaError::Rows);
        }
        if key_bytes_max == 0 || key_bytes_max > KEY_BYTES_MAX {
            return Err(SchemaError::KeyBytes);
        }
        if columns.is_empty() || columns.len() > COLUMNS_MAX {
            return Err(SchemaError::Columns);
        }
        let mut places = Vec::with_capacity(columns.len());
        let mut bytes: u64 = 0;
        for &column in columns {
            let at = bytes as usize;
            places.push(Place { column, at });
            bytes += WORD_BYTES as u64;
            if column.kind == Kind::String {
                bytes += u64::from(column.bytes_max).next_multiple_of(WORD_BYTES as u64);
            }
            if bytes > ROW_BYTES_MAX || (column.kind == Kind::String && column.bytes_max == 0) {
                return Err(SchemaError::RowBytes);
            }
        }
        Ok(Schema {
            rows,
            key_bytes_max,
            places,
            bytes: bytes as usize,
        })
    }

    /// How many columns a row has.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.places.len()
    }
}

/// A copy of a row.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    pub(crate) places: &'a [Place],
    pub(crate) bytes: &'a [u8],
}

impl<'a> Row<'a> {
    /// What a column holds; `None` when there is no such column.
    #[must_use]
    pub fn value(&self, column: usize) -> Option<Value<'a>> {
        let place = self.places.get(column)?;
        let word = word_at(self.bytes, place.at);
        Some(match place.column.kind {
            Kind::Int => Value::Int(word as i64),
            Kind::Float => Value::Float(f64::from_bits(word)),
            Kind::String => Value::String(text_at(self.bytes, place.at, word)),
        })
    }
}

/// Columns that are to get other values; those that are not named stay as they are.
#[derive(Clone, Debug)]
pub struct Change {
    places: Vec<Place>,
    bytes: Vec<u8>,
    given: Vec<bool>,
}

impl Change {
    /// A change of nothing.
    #[must_use]
    pub fn new(schema: &Schema) -> Change {
        Change {
            places: schema.places.clone(),
            bytes: vec![0; schema.bytes],
            given: vec![false; schema.places.len()],
        }
    }

    /// Forgets what it was to change.
    pub fn clear(&mut self) {
        self.given.fill(false);
    }

    /// Gives a column a value.
    ///
    /// # Errors
    /// Another type, or too long.
    pub fn put(&mut self, column: usize, value: Value) -> Result<(), TableError> {
        let (Some(place), Some(given)) = (self.places.get(column), self.given.get_mut(column))
        else {
            return Err(TableError::Type);
        };
        put_value(&mut self.bytes, place, value)?;
        *given = true;
        Ok(())
    }

    pub(crate) fn apply(&self, row: &mut [u8]) {
        for (place, _) in self
            .places
            .iter()
            .zip(&self.given)
            .filter(|(_, given)| **given)
        {
            let mut len = WORD_BYTES;
            if place.column.kind == Kind::String {
                len += text_at(&self.bytes, place.at, word_at(&self.bytes, place.at)).len();
            }
            let range = place.at..place.at + len;
            row[range.clone()].copy_from_slice(&self.bytes[range]);
        }
    }
}

/// Puts a value where it belongs in a row.
pub(crate) fn put_value(row: &mut [u8], place: &Place, value: Value) -> Result<(), TableError> {
    let (word, text): (u64, &[u8]) = match (place.column.kind, value) {
        (Kind::Int, Value::Int(value)) => (value as u64, b""),
        (Kind::Float, Value::Float(value)) => (value.to_bits(), b""),
        (Kind::String, Value::String(text)) => (text.len() as u64, text),
        _ => return Err(TableError::Type),
    };
    if text.len() > place.column.bytes_max as usize && place.column.kind == Kind::String {
        return Err(TableError::TooLong {
            bytes: text.len(),
            bytes_max: place.column.bytes_max,
        });
    }
    row[place.at..][..WORD_BYTES].copy_from_slice(&word.to_ne_bytes());
    row[place.at + WORD_BYTES..][..text.len()].copy_from_slice(text);
    Ok(())
}

pub(crate) fn word_at(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; WORD_BYTES];
    word.copy_from_slice(&bytes[at..at + WORD_BYTES]);
    u64::from_ne_bytes(word)
}

fn text_at(bytes: &[u8], at: usize, len: u64) -> &[u8] {
    &bytes[at + WORD_BYTES..][..len as usize]
}
