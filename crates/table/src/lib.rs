//! Tables in shared memory: rows of fixed columns by key, for all processes of a server.
//!
//! [`Table`] is the entry. Its memory is made before the processes are forked, and each process has a handle of its own.
//!
//! # Decisions and their price
//!
//! **Chains in an array.** The memory is an array of slots, one per row, and an array of buckets with the number of the first
//! slot of a chain. A table takes exactly as many rows as it was declared with, and nothing has to be moved or collected.
//! Price: a lock for the whole table, held while a row is added or deleted.
//!
//! **Two copies of each row.** A change is written into the copy that is not read, and one store makes it the row. So a
//! reader waits for nobody, a row is never seen half changed, and a process that is killed in a change has changed nothing.
//! Price: twice the memory, of which untouched pages cost nothing.
//!
//! **Locks that name their owner.** A row has one for changes of what it holds, the table one for its chains. A process
//! that finds the owner dead takes the lock over. A row needs no repair then; the table's list of free slots is made anew
//! from the chains, which every single store leaves whole. Price: a look at each slot, after a death in the middle of an
//! insertion or deletion.

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

/// A row could not be read or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TableError {
    /// There is no room for another row.
    #[error(
        "the table has all of its {rows} rows; delete some, or declare it with more before the server runs"
    )]
    Full {
        /// How many it was declared with.
        rows: u32,
    },
    /// A living process has held a lock for longer than 200 ms.
    #[error("the table is locked by process {pid} for too long; is it stopped?")]
    Locked {
        /// The owner's process id.
        pid: u32,
    },
    /// The key does not fit.
    #[error("a key of this table has 1 to {bytes_max} bytes, not {bytes}")]
    Key {
        /// What it has.
        bytes: usize,
        /// What it may have.
        bytes_max: u32,
    },
    /// The value does not fit into its column.
    #[error("it takes at most {bytes_max} bytes, not {bytes}")]
    TooLong {
        /// What the value has.
        bytes: usize,
        /// What the column may have.
        bytes_max: u32,
    },
    /// A column of this type does not take the value.
    #[error("it takes another type")]
    Type,
    /// The sum is none that the column can hold.
    #[error("the sum is beyond what 64 bits hold")]
    Overflow,
    /// The shared words contradict each other.
    #[error("the table is damaged; restart the server")]
    Corrupt,
}
