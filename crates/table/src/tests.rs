//! Compares tables with a map, and crashes a process before each single store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use crate::schema::{Change, Column, Kind, Schema, SchemaError, Value};
use crate::table::Table;
use crate::{Process, TableError};
use fermata_shm::crash;

const INT: Column = Column {
    kind: Kind::Int,
    bytes_max: 0,
};
const FLOAT: Column = Column {
    kind: Kind::Float,
    bytes_max: 0,
};

const fn string(bytes_max: u32) -> Column {
    Column {
        kind: Kind::String,
        bytes_max,
    }
}

type Memory = Arc<[AtomicU64]>;

/// Processes with a lower number are reported as dead.
const DEAD_BELOW: u64 = 100;

fn process(identity: u64) -> Process {
    Process {
        identity,
        is_running: |identity| identity >= DEAD_BELOW,
    }
}

fn table(rows: u32, columns: &[Column]) -> Table<Memory> {
    let schema = Schema::new(rows, 20, columns).expect("sizes that fit");
    let words = Table::<Memory>::words(&schema);
    let memory: Memory = (0..words).map(|_| AtomicU64::new(0)).collect();
    Table::new(memory, schema, process(DEAD_BELOW))
}

fn set(table: &mut Table<Memory>, key: &[u8], values: &[(usize, Value)]) -> Result<(), TableError> {
    let mut change = Change::new(table.schema());
    for &(column, value) in values {
        change.put(column, value)?;
    }
    table.set(key, &change)
}

/// Returns all rows by iteration: number and text.
fn rows(table: &mut Table<Memory>) -> HashMap<Vec<u8>, (i64, Vec<u8>)> {
    let mut found = HashMap::new();
    let mut place = 0;
    while let Some(next) = table.next(place).expect("no lock is held") {
        let row = read(table);
        assert!(
            found.insert(table.key().to_vec(), row).is_none(),
            "a key comes twice"
        );
        place = next;
    }
    found
}

fn read(table: &Table<Memory>) -> (i64, Vec<u8>) {
    match (table.row().value(0), table.row().value(1)) {
        (Some(Value::Int(number)), Some(Value::String(text))) => (number, text.to_vec()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn reads_back_what_was_set() {
    let mut table = table(4, &[INT, FLOAT, string(10)]);
    assert!(table.get(b"a").expect("free").is_none());
    set(&mut table, b"a", &[(2, Value::String(b"text"))]).expect("room");
    set(
        &mut table,
        b"a",
        &[(0, Value::Int(-7)), (1, Value::Float(0.5))],
    )
    .expect("room");
    let row = table.get(b"a").expect("free").expect("it was set");
    assert_eq!(row.value(0), Some(Value::Int(-7)));
    assert_eq!(row.value(1), Some(Value::Float(0.5)));
    assert_eq!(row.value(2), Some(Value::String(b"text")));
    assert_eq!(row.value(3), None);
    set(&mut table, b"a", &[(2, Value::String(b""))]).expect("room");
    let row = table.get(b"a").expect("free").expect("it was set");
    assert_eq!(row.value(2), Some(Value::String(b"")));
    assert_eq!((table.len(), table.contains(b"a")), (1, Ok(true)));
    assert_eq!(table.delete(b"a"), Ok(true));
    assert_eq!(table.delete(b"a"), Ok(false));
    assert_eq!((table.len(), table.contains(b"a")), (0, Ok(false)));
    // A reused slot contains no values of its previous row.
    set(&mut table, b"b", &[]).expect("room");
    let row = table.get(b"b").expect("free").expect("it was set");
    assert_eq!(row.value(0), Some(Value::Int(0)));
    assert_eq!(row.value(2), Some(Value::String(b"")));
}

#[test]
fn sums_begin_with_zero_and_stay_in_range() {
    let mut table = table(2, &[INT, FLOAT, string(1)]);
    assert_eq!(table.add(b"a", 0, Value::Int(3)), Ok(Value::Int(3)));
    assert_eq!(table.add(b"a", 0, Value::Int(-5)), Ok(Value::Int(-2)));
    assert_eq!(
        table.add(b"a", 1, Value::Float(0.25)),
        Ok(Value::Float(0.25))
    );
    assert_eq!(
        table.add(b"a", 0, Value::Int(i64::MIN)),
        Err(TableError::Overflow)
    );
    assert_eq!(
        table.add(b"new", 0, Value::Float(1.0)),
        Err(TableError::Type)
    );
    assert_eq!(table.add(b"a", 2, Value::Int(1)), Err(TableError::Type));
    assert_eq!(table.len(), 1, "what fails adds no row");
}

#[test]
fn rejects_values_that_do_not_fit() {
    let mut table = table(2, &[string(3)]);
    let too_long = TableError::TooLong {
        bytes: 4,
        bytes_max: 3,
    };
    assert_eq!(
        set(&mut table, b"a", &[(0, Value::String(b"four"))]),
        Err(too_long)
    );
    let key = [b'k'; 21];
    for key in [&key[..], b""] {
        assert!(matches!(
            set(&mut table, key, &[]),
            Err(TableError::Key { .. })
        ));
        assert!(table.get(key).is_err() && table.delete(key).is_err());
    }
    for columns in [&[][..], &[string(0)], &[INT; 257], &[string(u32::MAX)]] {
        assert!(Schema::new(1, 1, columns).is_err());
    }
    assert_eq!(Schema::new(0, 1, &[INT]).err(), Some(SchemaError::Rows));
    assert_eq!(Schema::new(1, 0, &[INT]).err(), Some(SchemaError::KeyBytes));
}

#[test]
fn exactly_as_many_rows_fit_as_were_declared() {
    for count in [1, 2, 3, 100] {
        let mut table = table(count, &[INT, string(8)]);
        assert_takes_all(&mut table, count);
    }
}

/// Fills the emptied table twice.
fn assert_takes_all(table: &mut Table<Memory>, count: u32) {
    for _ in 0..2 {
        assert_eq!(table.clear(), Ok(()));
        assert_eq!(table.len(), 0);
        for number in 0..count {
            let key = number.to_string();
            set(
                table,
                key.as_bytes(),
                &[(0, Value::Int(number.into())), (1, Value::String(b"full"))],
            )
            .expect("room");
        }
        let full = TableError::Full { rows: count };
        assert_eq!(set(table, b"more", &[]), Err(full));
        assert_eq!(set(table, b"0", &[]), Ok(()), "it is there already");
        assert_eq!((table.len(), rows(table).len()), (count, count as usize));
    }
}

/// The operation during which the process crashes.
type Work = fn(&mut Table<Memory>);

const WORKS: [Work; 4] = [
    |table| {
        let values = [(0, Value::Int(9)), (1, Value::String(b"a long new text"))];
        set(table, b"worked on", &values).expect("room");
    },
    |table| {
        table.delete(b"worked on").expect("no lock is held");
    },
    |table| {
        table
            .add(b"worked on", 0, Value::Int(1))
            .expect("no lock is held");
    },
    // The slot of this row held another row before.
    |table| {
        table.delete(b"other").expect("no lock is held");
        set(table, b"second", &[(1, Value::String(b"text"))]).expect("room");
    },
];

const ROWS: u32 = 6;

/// Returns a table with some rows; `is_there` adds the row that the operation works on.
fn prepared(is_there: bool) -> Table<Memory> {
    let mut table = table(ROWS, &[INT, string(20)]);
    let mut keys = vec![&b"first"[..], b"gone", b"other"];
    if is_there {
        keys.push(b"worked on");
    }
    for key in keys {
        set(
            &mut table,
            key,
            &[(0, Value::Int(1)), (1, Value::String(b"before"))],
        )
        .expect("room");
    }
    table.delete(b"gone").expect("it is there");
    table
}

fn assert_is_before_or_after(table: &mut Table<Memory>, is_there: bool, work: Work) {
    let before = rows(&mut prepared(is_there));
    let mut worked = prepared(is_there);
    work(&mut worked);
    let after = rows(&mut worked);
    let now = rows(table);
    for key in [&b"first"[..], b"other", b"worked on", b"second"] {
        let found = table
            .get(key)
            .expect("dead locks are taken over")
            .is_some()
            .then(|| read(table));
        assert!(
            found.as_ref() == before.get(key) || found.as_ref() == after.get(key),
            "{key:?} is {found:?}"
        );
        assert_eq!(found.as_ref(), now.get(key), "iterating finds the same");
    }
}

#[test]
fn a_crash_before_any_store_leaves_consistent_rows_and_all_slots() {
    let mut deaths = 0;
    for work in WORKS {
        for is_there in [false, true] {
            for at in 0.. {
                let mut table = prepared(is_there);
                let mut dying = table.another(process(1));
                if crash::run(at, || work(&mut dying)).is_some() {
                    break;
                }
                deaths += 1;
                assert_is_before_or_after(&mut table, is_there, work);
                set(&mut table, b"worked on", &[(0, Value::Int(5))]).expect("room");
                set(&mut table, b"first", &[(0, Value::Int(6))]).expect("room");
                assert_eq!(table.add(b"first", 0, Value::Int(1)), Ok(Value::Int(7)));
                assert_takes_all(&mut table, ROWS);
            }
        }
    }
    assert!(deaths > 60, "{deaths}");
}

#[test]
fn a_crash_during_repair_is_repaired() {
    for work in WORKS {
        for at in 0.. {
            let first = prepared(true);
            if crash::run(at, || work(&mut first.another(process(1)))).is_some() {
                break;
            }
            for second_at in 0.. {
                let mut table = prepared(true);
                let _ = crash::run(at, || work(&mut table.another(process(1))));
                let mut heir = table.another(process(2));
                let is_done = crash::run(second_at, || {
                    let _ = heir.delete(b"none");
                });
                assert_takes_all(&mut table, ROWS);
                if is_done.is_some() {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_living_owner_is_named() {
    let mut table = table(2, &[INT]);
    table.set(b"a", &Change::new(table.schema())).expect("room");
    let mut stopped = table.another(process(DEAD_BELOW + 1));
    assert!(crash::run(1, || stopped.add(b"a", 0, Value::Int(1))).is_none());
    let locked = TableError::Locked {
        pid: DEAD_BELOW as u32 + 1,
    };
    assert_eq!(table.add(b"a", 0, Value::Int(1)), Err(locked));
    assert!(
        table.get(b"a").expect("no lock is needed").is_some(),
        "readers wait for nobody"
    );
}

#[derive(Clone, Debug)]
enum Operation {
    Set(u8, Option<i64>, Option<Vec<u8>>),
    Add(u8, i64),
    Delete(u8),
    Get(u8),
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = 0..12_u8;
    let text = proptest::collection::vec(any::<u8>(), 0..=9);
    prop_oneof![
        (
            key.clone(),
            proptest::option::of(any::<i64>()),
            proptest::option::of(text)
        )
            .prop_map(|(key, number, text)| Operation::Set(key, number, text)),
        (key.clone(), any::<i64>()).prop_map(|(key, by)| Operation::Add(key, by)),
        key.clone().prop_map(Operation::Delete),
        key.prop_map(Operation::Get),
    ]
}

proptest! {
    #[test]
    fn behaves_like_a_map(
        operations in proptest::collection::vec((0..2_usize, operation()), 1..200),
        size in 1..10_u32,
    ) {
        let first = table(size, &[INT, string(9)]);
        let second = first.another(process(DEAD_BELOW + 1));
        let mut handles = [first, second];
        let mut model: HashMap<Vec<u8>, (i64, Vec<u8>)> = HashMap::new();
        for (by, operation) in operations {
            let table = &mut handles[by];
            let has_room = model.len() < size as usize;
            match operation {
                Operation::Set(key, number, text) => {
                    let key = vec![b'k'; usize::from(key) + 1];
                    let mut values = Vec::new();
                    values.extend(number.map(|number| (0, Value::Int(number))));
                    values.extend(text.as_ref().map(|text| (1, Value::String(text))));
                    let done = set(table, &key, &values);
                    prop_assert_eq!(done.is_ok(), has_room || model.contains_key(&key));
                    if done.is_ok() {
                        let row = model.entry(key).or_default();
                        row.0 = number.unwrap_or(row.0);
                        row.1 = text.unwrap_or(std::mem::take(&mut row.1));
                    }
                }
                Operation::Add(key, by) => {
                    let key = vec![b'k'; usize::from(key) + 1];
                    let before = model.get(&key).map_or(0, |row| row.0);
                    let sum = table.add(&key, 0, Value::Int(by));
                    match before.checked_add(by) {
                        None => prop_assert_eq!(sum, Err(TableError::Overflow)),
                        Some(_) if !has_room && !model.contains_key(&key) => {
                            prop_assert_eq!(sum, Err(TableError::Full { rows: size }));
                        }
                        Some(expected) => {
                            prop_assert_eq!(sum, Ok(Value::Int(expected)));
                            model.entry(key).or_default().0 = expected;
                        }
                    }
                }
                Operation::Delete(key) => {
                    let key = vec![b'k'; usize::from(key) + 1];
                    prop_assert_eq!(table.delete(&key), Ok(model.remove(&key).is_some()));
                }
                Operation::Get(key) => {
                    let key = vec![b'k'; usize::from(key) + 1];
                    let is_there = table.get(&key).expect("no lock is held").is_some();
                    let found = is_there.then(|| read(table));
                    prop_assert_eq!(found.as_ref(), model.get(&key));
                    prop_assert_eq!(table.contains(&key), Ok(is_there));
                }
            }
            prop_assert_eq!(table.len() as usize, model.len());
        }
        prop_assert_eq!(rows(&mut handles[0]), model);
    }
}
