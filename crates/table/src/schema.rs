//! Columns of a table, and rows outside of the shared memory.

use thiserror::Error;

use crate::TableError;

/// Maximum number of rows of a table.
pub const ROWS_MAX: u32 = 1 << 24;
/// Maximum number of columns of a table.
pub const COLUMNS_MAX: usize = 256;
/// Maximum length of a column's name in bytes. Only callers use names, because this crate refers to columns by number.
pub const COLUMN_NAME_BYTES_MAX: usize = 64;
/// Maximum length of a key in bytes.
pub const KEY_BYTES_MAX: u32 = 1024;
/// Maximum size of a row in bytes.
pub const ROW_BYTES_MAX: u64 = 1 << 26;

pub(crate) const WORD_BYTES: usize = 8;

/// Type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Signed 64-bit integer.
    Int,
    /// Double-precision float.
    Float,
    /// Bytes, up to the column's maximum.
    String,
}

/// Declaration of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Type.
    pub kind: Kind,
    /// Maximum length of a string in bytes. Other types ignore it.
    pub bytes_max: u32,
}

/// Value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Value of a [`Kind::Int`] column.
    Int(i64),
    /// Value of a [`Kind::Float`] column.
    Float(f64),
    /// Value of a [`Kind::String`] column.
    String(&'a [u8]),
}

/// Error: the declaration of a table is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// The number of rows is 0 or too large.
    #[error("a table has 1 to {ROWS_MAX} rows")]
    Rows,
    /// The number of columns is 0 or too large.
    #[error("a table has 1 to {COLUMNS_MAX} columns")]
    Columns,
    /// The maximum key length is 0 or too large.
    #[error("the maximum length of keys is 1 to {KEY_BYTES_MAX} bytes")]
    KeyBytes,
    /// A string column has a maximum of 0 bytes, or a row is too large.
    #[error("strings have at least 1 byte, and all columns of a row at most {ROW_BYTES_MAX}")]
    RowBytes,
}

/// Position of a column in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) column: Column,
    /// Offset of the first byte, a multiple of the word size. A string starts with a word that contains the length of the string.
    pub(crate) at: usize,
}

/// Declaration of a table.
#[derive(Clone, Debug)]
pub struct Schema {
    pub(crate) rows: u32,
    pub(crate) key_bytes_max: u32,
    pub(crate) places: Vec<Place>,
    /// Size of a row in bytes.
    pub(crate) bytes: usize,
}

impl Schema {
    /// Checks and stores the declaration of a table.
    ///
    /// # Errors
    /// A number is out of range.
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

    /// Returns the number of columns of a row.
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
    /// Returns the value of a column. Returns `None` if there is no such column.
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

/// New values for some columns of a row. All other columns keep their values.
#[derive(Clone, Debug)]
pub struct Change {
    places: Vec<Place>,
    bytes: Vec<u8>,
    given: Vec<bool>,
}

impl Change {
    /// Creates an empty change.
    #[must_use]
    pub fn new(schema: &Schema) -> Change {
        Change {
            places: schema.places.clone(),
            bytes: vec![0; schema.bytes],
            given: vec![false; schema.places.len()],
        }
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.given.fill(false);
    }

    /// Sets the new value of a column.
    ///
    /// # Errors
    /// The type differs, or the value is too long.
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

/// Stores a value at its position in a row.
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
