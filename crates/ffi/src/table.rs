//! Tables in memory that all processes of a server share.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicU64, Ordering};

use fermata_engine::stats::TableFigures;
use fermata_io::process;
use fermata_io::shm::Region;
use fermata_table::{Change, Column, Kind, Process, Schema, Table, TableError, Value};

use crate::abi::{
    FM_BACKPRESSURE, FM_CONFIGURATION, FM_INTERNAL, FM_MISUSE, Failure, FmError, FmStr, NOTHING,
    ask, guard, put,
};

/// An integer column: `number` of FmValue.
pub const FM_COLUMN_INT: u32 = 0;
/// A floating-point column: `real` of FmValue.
pub const FM_COLUMN_FLOAT: u32 = 1;
/// A string column: `text` of FmValue.
pub const FM_COLUMN_STRING: u32 = 2;

/// This process's handle of a table. Each forked process has its own handle.
pub struct FmTable {
    columns: Vec<Column>,
    made: Option<Made>,
}

struct Made {
    table: Table<Memory>,
    change: Change,
    memory: Memory,
}

/// Shared memory of a table, followed by two counters of rejected changes, summed over all processes.
#[derive(Clone)]
struct Memory(Rc<Region>);

const FULL: usize = 0;
const LOCKED: usize = 1;
const COUNTS: usize = 2;

impl Memory {
    fn counts(&self) -> &[AtomicU64] {
        &self.0[self.len()..]
    }

    fn count(&self, error: TableError) -> TableError {
        let place = match error {
            TableError::Full { .. } => FULL,
            TableError::Locked { .. } => LOCKED,
            _ => return error,
        };
        self.counts()[place].fetch_add(1, Ordering::Relaxed);
        error
    }
}

impl Deref for Memory {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        &self.0[..self.0.len() - COUNTS]
    }
}

/// Reference to a table for metrics; does not keep the table alive.
#[derive(Clone)]
struct Known {
    memory: Weak<Region>,
    schema: Schema,
    rows_max: u32,
}

thread_local! {
    /// Tables of this process, in the order of their creation.
    static KNOWN: RefCell<Vec<Known>> = const { RefCell::new(Vec::new()) };
}

/// Returns a function that reads the metrics of all existing tables. It is called when a worker starts, because no table is created
/// later.
pub(crate) fn figures() -> Box<dyn Fn() -> Vec<TableFigures>> {
    let known = KNOWN.with_borrow(Clone::clone);
    Box::new(move || known.iter().filter_map(Known::figures).collect())
}

impl Known {
    fn figures(&self) -> Option<TableFigures> {
        let memory = Memory(self.memory.upgrade()?);
        let count = |place: usize| memory.counts()[place].load(Ordering::Relaxed);
        let (full, locked) = (count(FULL), count(LOCKED));
        let bytes = memory.len() as u64 * 8;
        let table = Table::new(memory.clone(), self.schema.clone(), this_process());
        Some(TableFigures {
            rows: u64::from(table.len()),
            rows_max: u64::from(self.rows_max),
            bytes,
            full,
            locked,
        })
    }
}

/// Value of a column; `kind` selects the field.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FmValue {
    /// One of FM_COLUMN_*.
    pub kind: u32,
    /// Value of FM_COLUMN_INT.
    pub number: i64,
    /// Value of FM_COLUMN_FLOAT.
    pub real: f64,
    /// Value of FM_COLUMN_STRING.
    pub text: FmStr,
}

impl FmValue {
    fn new(value: Value) -> FmValue {
        let mut new = FmValue {
            kind: FM_COLUMN_INT,
            number: 0,
            real: 0.0,
            text: FmStr::ABSENT,
        };
        match value {
            Value::Int(number) => new.number = number,
            Value::Float(real) => (new.kind, new.real) = (FM_COLUMN_FLOAT, real),
            Value::String(text) => (new.kind, new.text) = (FM_COLUMN_STRING, FmStr::lend(text)),
        }
        new
    }

    fn value(&self) -> Value<'_> {
        match kind(self.kind) {
            Kind::Int => Value::Int(self.number),
            Kind::Float => Value::Float(self.real),
            Kind::String => Value::String(self.text.bytes()),
        }
    }
}

impl FmTable {
    fn made(&mut self) -> Result<&mut Made, Failure> {
        let cause = || (FM_MISUSE, "the table is not made yet".to_owned());
        self.made.as_mut().ok_or_else(cause)
    }
}

fn kind(number: u32) -> Kind {
    match number {
        FM_COLUMN_FLOAT => Kind::Float,
        FM_COLUMN_STRING => Kind::String,
        _ => Kind::Int,
    }
}

fn this_process() -> Process {
    Process {
        identity: process::identity(),
        is_running: process::is_running,
    }
}

fn failure(error: TableError) -> Failure {
    let code = match error {
        TableError::Full { .. } | TableError::Locked { .. } => FM_BACKPRESSURE,
        TableError::Corrupt => FM_INTERNAL,
        _ => FM_MISUSE,
    };
    (code, error.to_string())
}

/// Creates the description of a table without columns; `fm_table_make` allocates the table. NULL only after a panic.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_new() -> Option<Box<FmTable>> {
    ask(NOTHING, None, |()| {
        Some(Box::new(FmTable {
            columns: Vec::new(),
            made: None,
        }))
    })
}

/// Adds a column of type FM_COLUMN_*; `bytes_max` is the maximum length of a string.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_column(table: Option<&mut FmTable>, column: u32, bytes_max: u32) {
    ask(table, (), |table| {
        table.columns.push(Column {
            kind: kind(column),
            bytes_max,
        });
    })
}

/// Allocates the table in memory that is shared with processes forked later. Returns the maximum size of the table. FM_MISUSE,
/// FM_CONFIGURATION (no memory).
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_make(
    table: Option<&mut FmTable>,
    rows: u32,
    key_bytes_max: u32,
    bytes: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(table, error, |table| {
        let schema = Schema::new(rows, key_bytes_max, &table.columns)
            .map_err(|cause| (FM_MISUSE, cause.to_string()))?;
        let words = Table::<Memory>::words(&schema);
        let needed = words as u64 * 8;
        let memory = Region::new(words + COUNTS).map_err(|cause| {
            let cause = format!(
                "there are no {needed} bytes for a table of {rows} rows ({cause}); declare fewer, or shorter strings"
            );
            (FM_CONFIGURATION, cause)
        })?;
        let change = Change::new(&schema);
        let memory = Memory(Rc::new(memory));
        let known = Known {
            memory: Rc::downgrade(&memory.0),
            schema: schema.clone(),
            rows_max: rows,
        };
        KNOWN.with_borrow_mut(|all| {
            all.retain(|it| it.memory.strong_count() > 0);
            all.push(known);
        });
        let new = Table::new(memory.clone(), schema, this_process());
        table.made = Some(Made {
            table: new,
            change,
            memory,
        });
        put(bytes, needed);
        Ok(())
    })
}

/// Prepares the table in a forked process. Call it before any other function on the table there.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_forked(table: Option<&mut FmTable>) {
    ask(table, (), |table| {
        if let Ok(made) = table.made() {
            made.table.set_process(this_process());
        }
    })
}

/// Starts a change. `fm_table_put` sets its columns, and `fm_table_set` applies it to a row.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_begin(table: Option<&mut FmTable>) {
    ask(table, (), |table| {
        if let Ok(made) = table.made() {
            made.change.clear();
        }
    })
}

/// Sets a column of the change. FM_MISUSE if the type differs or the value is too long.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_put(
    table: Option<&mut FmTable>,
    column: u32,
    value: Option<&FmValue>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(table.zip(value), error, |(table, value)| {
        let change = &mut table.made()?.change;
        change.put(column as usize, value.value()).map_err(failure)
    })
}

/// Updates or inserts a row. FM_MISUSE (key), FM_BACKPRESSURE: the table is full, or another process holds its lock.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_set(
    table: Option<&mut FmTable>,
    key: FmStr,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(table, error, |table| {
        let Made {
            table,
            change,
            memory,
        } = table.made()?;
        table
            .set(key.bytes(), change)
            .map_err(|error| failure(memory.count(error)))
    })
}

/// Adds to a column, and inserts the row if it does not exist. FM_MISUSE: key, type or overflow; FM_BACKPRESSURE as
/// for `fm_table_set`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_add(
    table: Option<&mut FmTable>,
    key: FmStr,
    column: u32,
    by: Option<&FmValue>,
    sum: Option<&mut MaybeUninit<FmValue>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(table.zip(by), error, |(table, by)| {
        let Made { table, memory, .. } = table.made()?;
        let new = table
            .add(key.bytes(), column as usize, by.value())
            .map_err(|error| failure(memory.count(error)))?;
        put(sum, FmValue::new(new));
        Ok(())
    })
}

/// Deletes a row and reports whether the row existed. FM_MISUSE (key), FM_BACKPRESSURE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_delete(
    table: Option<&mut FmTable>,
    key: FmStr,
    was_there: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(table, error, |table| {
        let Made { table, memory, .. } = table.made()?;
        let deleted = table.delete(key.bytes());
        put(
            was_there,
            deleted.map_err(|error| failure(memory.count(error)))?,
        );
        Ok(())
    })
}

/// Deletes all rows. FM_BACKPRESSURE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_clear(
    table: Option<&mut FmTable>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(table, error, |table| {
        let Made { table, memory, .. } = table.made()?;
        table.clear().map_err(|error| failure(memory.count(error)))
    })
}

/// Copies a row for `fm_table_value` and reports whether the row exists. FM_MISUSE (key), FM_BACKPRESSURE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_get(
    table: Option<&mut FmTable>,
    key: FmStr,
    is_there: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(table, error, |table| {
        let row = table.made()?.table.get(key.bytes()).map_err(failure)?;
        put(is_there, row.is_some());
        Ok(())
    })
}

/// Reports if a row exists. FM_MISUSE (key), FM_BACKPRESSURE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_contains(
    table: Option<&mut FmTable>,
    key: FmStr,
    is_there: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(table, error, |table| {
        let table = &table.made()?.table;
        put(is_there, table.contains(key.bytes()).map_err(failure)?);
        Ok(())
    })
}

/// Copies the next row from `place` (initially 0) on for `fm_table_key` and `fm_table_value`, and advances `place`.
/// `is_there` is false at the end. FM_BACKPRESSURE.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_next(
    table: Option<&mut FmTable>,
    place: Option<&mut u32>,
    is_there: Option<&mut MaybeUninit<bool>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(table.zip(place), error, |(table, place)| {
        let next = table.made()?.table.next(*place).map_err(failure)?;
        put(is_there, next.is_some());
        *place = next.unwrap_or(*place);
        Ok(())
    })
}

/// Returns the key of the row that `fm_table_next` copied. Valid until the next call with the table.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_key(table: Option<&FmTable>) -> FmStr {
    ask(table, FmStr::ABSENT, |table| {
        let key = table.made.as_ref().map(|made| made.table.key());
        FmStr::lend_option(key)
    })
}

/// Returns a column of the copied row. False if there is no such column. Valid as for `fm_table_key`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_value(
    table: Option<&FmTable>,
    column: u32,
    value: Option<&mut MaybeUninit<FmValue>>,
) -> bool {
    ask(table.zip(value), false, |(table, place)| {
        let made = table.made.as_ref();
        let value = made.and_then(|made| made.table.row().value(column as usize));
        if let Some(value) = value {
            place.write(FmValue::new(value));
        }
        value.is_some()
    })
}

/// Returns the number of rows.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_len(table: Option<&FmTable>) -> u32 {
    ask(table, 0, |table| {
        table.made.as_ref().map_or(0, |made| made.table.len())
    })
}

/// Frees this process's handle. Other processes keep theirs.
#[unsafe(no_mangle)]
pub extern "C" fn fm_table_free(table: Option<Box<FmTable>>) {
    ask(table, (), |table| {
        drop(table);
    })
}
