//! The table's atomics in every order that the memory model allows, with all rows in one chain.
//!
//! `make test-loom` runs the tests. Executions have at most `PREEMPTIONS` forced switches between threads, which suffices to find
//! nearly all errors. The environment variable `LOOM_MAX_PREEMPTIONS` overrides the limit. A failure prints how to repeat it.

#![cfg(loom)]

use fermata_table::{Change, Column, Kind, Process, Schema, Table, Value};
use loom::sync::atomic::AtomicU64;
use loom::thread;

const PREEMPTIONS: usize = 2;
const INT: Column = Column {
    kind: Kind::Int,
    bytes_max: 0,
};

type Rows = Table<&'static [AtomicU64]>;

fn process(identity: u64) -> Process {
    Process {
        identity,
        is_running: |_| true,
    }
}

/// Returns a new table of two columns, with a handle for each of `N` processes.
fn tables<const N: usize>(rows: u32) -> [Rows; N] {
    let schema = Schema::new(rows, 8, &[INT, INT]).expect("sizes that fit");
    let words = Rows::words(&schema);
    let words: &'static [AtomicU64] = Vec::leak((0..words).map(|_| AtomicU64::new(0)).collect());
    let first = Table::new(words, schema, process(1));
    std::array::from_fn(|number| first.another(process(number as u64 + 1)))
}

fn set(table: &mut Rows, key: &[u8], number: i64) {
    let mut change = Change::new(table.schema());
    change.put(0, Value::Int(number)).expect("an int");
    change.put(1, Value::Int(number)).expect("an int");
    table.set(key, &change).expect("room");
}

/// Returns the number in a row. Both columns of the row must come from the same change.
fn get(table: &mut Rows, key: &[u8]) -> Option<i64> {
    let row = table.get(key).expect("the lock becomes free")?;
    assert_eq!(row.value(0), row.value(1), "a torn row");
    match row.value(0) {
        Some(Value::Int(number)) => Some(number),
        other => panic!("{other:?}"),
    }
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    builder.check(body);
}

/// Two changes happen during a read. The second one writes into the copy that is being read.
#[test]
fn a_row_is_never_torn() {
    model(|| {
        let [mut table, mut other] = tables(1);
        set(&mut table, b"a", 1);
        let writing = thread::spawn(move || {
            set(&mut other, b"a", 2);
            set(&mut other, b"a", 3);
        });
        let read = get(&mut table, b"a").expect("it is there all the time");
        assert!((1..=3).contains(&read));
        writing.join().expect("no panic");
        assert_eq!(get(&mut table, b"a"), Some(3));
    });
}

/// The last row of a chain is found while a slot before it leaves the chain and is reused.
#[test]
fn an_unchanged_row_is_always_found() {
    model(|| {
        let [mut table, mut other] = tables(3);
        set(&mut table, b"stays", 1);
        set(&mut table, b"leaves", 2);
        let writing = thread::spawn(move || {
            other.delete(b"leaves").expect("the lock becomes free");
            set(&mut other, b"comes", 3);
        });
        assert_eq!(get(&mut table, b"stays"), Some(1));
        writing.join().expect("no panic");
    });
}

/// A reused slot is not mistaken for its previous row.
#[test]
fn a_reused_slot_is_not_mistaken() {
    model(|| {
        let [mut table, mut other] = tables(1);
        set(&mut table, b"a", 1);
        let writing = thread::spawn(move || {
            other.delete(b"a").expect("the lock becomes free");
            set(&mut other, b"b", 2);
        });
        assert!(matches!(get(&mut table, b"a"), None | Some(1)));
        assert!(matches!(get(&mut table, b"b"), None | Some(2)));
        writing.join().expect("no panic");
        assert_eq!(
            (get(&mut table, b"a"), get(&mut table, b"b")),
            (None, Some(2))
        );
    });
}

/// Two processes add to a row that does not exist. The result is one row with both sums.
#[test]
fn no_sum_is_lost() {
    model(|| {
        let [mut table, mut other] = tables(2);
        let adding = thread::spawn(move || {
            other.add(b"a", 0, Value::Int(1)).expect("room");
        });
        table.add(b"a", 0, Value::Int(2)).expect("room");
        adding.join().expect("no panic");
        let row = table.get(b"a").expect("free").expect("it is there");
        assert_eq!(row.value(0), Some(Value::Int(3)));
        assert_eq!(table.len(), 1);
    });
}

/// A change concurrent with the deletion of its row either precedes it or adds the row again.
#[test]
fn a_concurrent_change_precedes_or_follows_a_deletion() {
    model(|| {
        let [mut table, mut other] = tables(1);
        set(&mut table, b"a", 1);
        let writing = thread::spawn(move || set(&mut other, b"a", 2));
        table.delete(b"a").expect("the lock becomes free");
        writing.join().expect("no panic");
        assert!(matches!(get(&mut table, b"a"), None | Some(2)));
        assert_eq!(u32::from(get(&mut table, b"a").is_some()), table.len());
    });
}
