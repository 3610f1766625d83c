//! Tables in shared memory: rows of fixed columns by key, for all processes of a server.
//!
//! The entry point is [`Table`]. The memory of a table is created before the processes are forked. Each process has a separate
//! handle.
//!
//! # Decisions and their price
//!
//! **Chains in an array.** The memory is an array of slots, one per row, and an array of buckets, each with the number
//! of a chain's first slot. A table holds exactly as many rows as declared, and nothing is ever moved or collected.
//! Price: one lock for the whole table, held while a row is added or deleted.
//!
//! **Two copies of each row.** A change is written into the unused copy, and one store makes it the current row. A
//! reader therefore never waits, never sees a half-changed row, and a process killed during a change has changed
//! nothing. Price: twice the memory, though untouched pages use none.
//!
//! **Locks that name their owner.** Each row has a lock for changes of its content, and the table has a lock for its
//! chains. If the owner of a lock has crashed, another process takes the lock over. A row then needs no repair. The
//! list of unused slots is rebuilt from the chains, which every single store leaves intact. Price: after a crash during
//! an insertion or deletion, each slot is visited once.

#![forbid(unsafe_code)]

mod layout;
mod lock;
mod schema;
mod store;
mod table;
#[cfg(test)]
mod tests;

use thiserror::Error;

pub use lock::Process;
pub use schema::{
    COLUMN_NAME_BYTES_MAX, COLUMNS_MAX, Change, Column, KEY_BYTES_MAX, Kind, ROW_BYTES_MAX,
    ROWS_MAX, Row, Schema, SchemaError, Value,
};
pub use table::Table;

/// Error of reading or changing a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// The table has no space for another row.
    #[error(
        "the table has all of its {rows} rows; delete some, or declare it with more before the server runs"
    )]
    Full {
        /// Declared number of rows.
        rows: u32,
    },
    /// A living process has held a lock for more than 200 ms.
    #[error("the table is locked by process {pid} for too long; is it stopped?")]
    Locked {
        /// Process ID of the owner.
        pid: u32,
    },
    /// The key is empty or too long.
    #[error("a key of this table has 1 to {bytes_max} bytes, not {bytes}")]
    Key {
        /// Length of the key.
        bytes: usize,
        /// Maximum length of a key.
        bytes_max: u32,
    },
    /// The value is longer than its column allows.
    #[error("it takes at most {bytes_max} bytes, not {bytes}")]
    TooLong {
        /// Length of the value.
        bytes: usize,
        /// Maximum length in the column.
        bytes_max: u32,
    },
    /// The column has another type.
    #[error("it takes another type")]
    Type,
    /// The sum is out of range.
    #[error("the sum does not fit into 64 bits")]
    Overflow,
    /// The shared words are inconsistent.
    #[error("the table is damaged; restart the server")]
    Corrupt,
}
