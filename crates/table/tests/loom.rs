//! The table's atomics in every order that the memory model allows, with all rows in one chain.
//!
//! `make test-loom` runs it. Executions are cut off at `PREEMPTIONS` forced switches between threads, which is where nearly
//! all mistakes show; `LOOM_MAX_PREEMPTIONS` in the environment overrides it. A failure prints how to repeat it.

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

/// A new table of two columns, seen by `N` processes.
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

/// The number in a row, whose two columns must be of one change.
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

/// A reader beside two changes, the second of which writes into the copy that the reader may be at.
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

/// What is at the chain's end is found while a slot in front of it leaves the chain and is used again.
#[test]
fn what_stays_is_found() {
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

/// A slot that is another row's by now is not taken for the one it had before.
#[test]
fn a_row_is_its_own_keys() {
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

/// Two that add to a row that is not there yet: one row, and both are in it.
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

/// A change that meets the deletion of its row either comes before it, or adds the row anew.
#[test]
fn a_change_beside_a_deletion_is_before_or_after_it() {
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
