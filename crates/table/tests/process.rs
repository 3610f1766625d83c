//! Tests with processes that are killed while they write. The tests run without the standard test harness, because its threads must
//! not exist when a process forks.

use std::time::{Duration, Instant};

use fermata_io::process::{self, Exit, Fork, Pid, identity, is_running};
use fermata_io::shm::Region;
use fermata_table::{Change, Column, Kind, Process, Schema, Table, TableError, Value};

const SIGKILL: i32 = 9;
const WRITERS: usize = 3;
const KILLS: u32 = 300;
const ROWS: u32 = 40;
/// Number of keys. It is larger than the number of rows, so that writers also find the table full.
const KEYS: u64 = 60;
const TEXT_BYTES: u32 = 600;

type Rows = Table<Region>;

fn main() {
    identities_are_never_reused();
    println!("test identities_are_never_reused ... ok");
    killed_writers_never_block_others_or_tear_rows();
    println!("test killed_writers_never_block_others_or_tear_rows ... ok");
}

fn this_process() -> Process {
    Process {
        identity: identity(),
        is_running,
    }
}

fn identities_are_never_reused() {
    assert!(is_running(identity()));
    let other_time = identity() ^ (1 << 40);
    assert!(
        !is_running(other_time),
        "a process that began at another time"
    );
    let pid = match process::fork().expect("fork") {
        Fork::Parent(pid) => pid,
        Fork::Child => process::exit_now(0),
    };
    // The process may be running at first, becomes a zombie, and finally does not exist.
    let name = loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("not reaped");
        if stat.contains(") Z ") {
            let began: u64 = stat
                .split(' ')
                .nth(21)
                .and_then(|it| it.parse().ok())
                .expect("a time");
            break began << 32 | u64::from(pid.unsigned_abs());
        }
        std::thread::yield_now();
    };
    assert!(!is_running(name), "a zombie runs no more");
    assert_eq!(process::reap_pid(pid), Some(Exit::Code(0)));
    assert!(!is_running(name));
}

fn table() -> Rows {
    let columns = [
        Column {
            kind: Kind::Int,
            bytes_max: 0,
        },
        Column {
            kind: Kind::String,
            bytes_max: TEXT_BYTES,
        },
        Column {
            kind: Kind::Int,
            bytes_max: 0,
        },
    ];
    let schema = Schema::new(ROWS, 20, &columns).expect("sizes that fit");
    let memory = Region::new(Rows::words(&schema)).expect("memory");
    Table::new(memory, schema, this_process())
}

/// Sets a row to one number in all columns. The text repeats one byte as often as the number says.
fn put(change: &mut Change, number: u64) {
    let len = number as usize % TEXT_BYTES as usize;
    let text = vec![number as u8; len];
    change.clear();
    change.put(0, Value::Int(number as i64)).expect("an int");
    change.put(1, Value::String(&text)).expect("short");
    change.put(2, Value::Int(number as i64)).expect("an int");
}

fn assert_is_whole(table: &Rows) {
    let row = table.row();
    let (Some(Value::Int(first)), Some(Value::String(text)), Some(Value::Int(last))) =
        (row.value(0), row.value(1), row.value(2))
    else {
        panic!("other types");
    };
    assert_eq!(first, last, "a torn row");
    assert_eq!(
        text.len(),
        first as usize % TEXT_BYTES as usize,
        "a torn row"
    );
    assert!(text.iter().all(|&byte| byte == first as u8), "a torn row");
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn start_writer(table: &mut Rows, seed: u64) -> Pid {
    let parent = process::pid();
    match process::fork().expect("fork") {
        Fork::Parent(pid) => pid,
        Fork::Child => {
            let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                process::end_with_parent(parent).expect("the kernel knows how");
                table.set_process(this_process());
                let mut state = seed | 1;
                let mut change = Change::new(table.schema());
                loop {
                    write(table, &mut change, random(&mut state));
                }
            }));
            process::exit_now(if written.is_err() { 101 } else { 0 })
        }
    }
}

fn write(table: &mut Rows, change: &mut Change, random: u64) {
    let key = (random % KEYS).to_le_bytes();
    let done = if random >> 60 < 5 {
        table.delete(&key).map(drop)
    } else {
        put(change, random >> 20 & 0xffff);
        table.set(&key, change)
    };
    match done {
        Ok(()) | Err(TableError::Full { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

fn killed_writers_never_block_others_or_tear_rows() {
    let mut table = table();
    let mut state = 88_172_645_463_325_252;
    let mut writers: Vec<Pid> = (0..WRITERS)
        .map(|_| start_writer(&mut table, random(&mut state)))
        .collect();
    let mut change = Change::new(table.schema());
    for kill in 0..KILLS {
        let until = Instant::now() + Duration::from_micros(random(&mut state) % 5000);
        while Instant::now() < until {
            let key = (random(&mut state) % KEYS).to_le_bytes();
            if table
                .get(&key)
                .expect("a reader waits for nobody")
                .is_some()
            {
                assert_is_whole(&table);
            }
        }
        let number = kill as usize % WRITERS;
        process::kill(writers[number], SIGKILL).expect("it runs");
        write(&mut table, &mut change, random(&mut state));
        // A zombie counts as a dead process.
        let exit = loop {
            if let Some(exit) = process::reap_pid(writers[number]) {
                break exit;
            }
        };
        assert_eq!(exit, Exit::Signal(SIGKILL), "it has found nothing wrong");
        writers[number] = start_writer(&mut table, random(&mut state));
    }
    for pid in writers {
        process::kill(pid, SIGKILL).expect("it runs");
        while process::reap_pid(pid).is_none() {}
    }
    let mut place = 0;
    let mut keys = Vec::new();
    while let Some(next) = table.next(place).expect("free") {
        assert_is_whole(&table);
        keys.push(table.key().to_vec());
        place = next;
    }
    for key in &keys {
        assert_eq!(table.delete(key), Ok(true));
    }
    assert_eq!(table.len(), 0);
    for number in 0..u64::from(ROWS) {
        put(&mut change, number);
        table
            .set(&number.to_le_bytes(), &change)
            .expect("no slot was lost");
    }
    assert!(matches!(
        table.set(b"more", &change),
        Err(TableError::Full { .. })
    ));
}
