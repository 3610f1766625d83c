//! The ring's atomics in every order that the memory model allows, on a ring of seven records.
//!
//! `make test-loom` runs it. `PREEMPTIONS` limits the forced switches between threads per execution; nearly all mistakes appear
//! within this limit. `LOOM_MAX_PREEMPTIONS` in the environment overrides it. A failure prints how to repeat it.

#![cfg(loom)]

use fermata_hub::{
    Config, Kind, Layout, Message, Owner, PublishError, Read, Reader, Record, Replay, ReplayRange,
    Ring,
};
use loom::sync::atomic::AtomicU64;
use loom::thread;

const PREEMPTIONS: usize = 2;

/// Number of records that the ring holds, each of 9 of the ring's 64 words.
const FULL: u64 = 7;

/// A killed process: its lock may be taken over, and no publisher waits for its cursor.
const DEAD: u32 = 1;

fn owner(slot: u32, pid: u32) -> Owner {
    let alive = |pid| pid != DEAD;
    Owner { slot, pid, alive }
}

fn publisher(pid: u32) -> Owner {
    owner(Owner::MASTER_SLOT, pid)
}

fn config() -> Config {
    Config {
        ring_bytes: 320,
        index_buckets: 1,
        record_bytes_max: 8,
        workers_max: 1,
        history_count_max: 100,
        history_age_ms_max: 1000,
        members_max: 1,
        leave_delay_ms: 1,
    }
}

/// Returns a new ring, seen by `N` processes.
fn rings<const N: usize>() -> [Ring; N] {
    let config = config();
    let words = Layout::new(&config).expect("sizes that fit").words();
    let words: &[AtomicU64] = Vec::leak((0..words).map(|_| AtomicU64::new(0)).collect());
    std::array::from_fn(|number| match number {
        0 => Ring::create(words, &config, 1, 2).expect("enough memory"),
        _ => Ring::open(words, &config).expect("it was just made"),
    })
}

fn publish(ring: &mut Ring, who: &Owner, number: u64) -> Result<u64, PublishError> {
    let data = number.to_le_bytes();
    let message = Message {
        channel: b"c",
        kind: Kind::Message,
        name: None,
        data: &data,
    };
    ring.publish(who, &message, number)
}

/// Returns the number in a record, and asserts that all its parts belong to one record.
fn number(record: &Record) -> u64 {
    let number = u64::from_le_bytes(record.data().try_into().expect("eight bytes"));
    assert_eq!(
        (record.channel(), record.unix_ms),
        (&b"c"[..], number),
        "a torn record"
    );
    number
}

fn read_all(reader: &mut Reader) -> Vec<u64> {
    let mut record = Record::empty();
    let mut numbers = Vec::new();
    while reader.read_next(&mut record) == Read::Record {
        numbers.push(number(&record));
    }
    numbers
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    builder.check(body);
}

/// Either the publisher wakes the reader, or the reader sees the record and does not sleep.
#[test]
fn reader_never_sleeps_with_an_unread_record() {
    model(|| {
        let [mut ring, mut other] = rings();
        let mut reader = ring.worker_started(&owner(0, 9), 0).expect("a free slot");
        let publishing = thread::spawn(move || {
            publish(&mut other, &publisher(8), 1).expect("room");
            other.wake_list()
        });
        let mut read = read_all(&mut reader);
        let sleeps = reader.set_sleeping();
        let woken = publishing.join().expect("no panic");
        if sleeps && read.is_empty() {
            assert!(
                woken.contains(0),
                "asleep with something to read, and nobody wakes it"
            );
        }
        reader.set_awake();
        read.extend(read_all(&mut reader));
        assert_eq!(read, [1]);
    });
}

/// Two publishers and a worker's reader: the reader gets each record once, in the same order in all executions.
#[test]
fn publishers_and_a_reader_agree() {
    model(|| {
        let [mut ring, mut first, mut second] = rings();
        let mut reader = ring.worker_started(&owner(0, 9), 0).expect("a free slot");
        let one = thread::spawn(move || publish(&mut first, &publisher(7), 1).expect("room"));
        let two = thread::spawn(move || publish(&mut second, &publisher(8), 2).expect("room"));
        let mut read = read_all(&mut reader);
        let (one, two) = (one.join().expect("no panic"), two.join().expect("no panic"));
        read.extend(read_all(&mut reader));
        assert_eq!(read, if one < two { [1, 2] } else { [2, 1] });
    });
}

/// If two processes wait, only one at a time takes over the lock of a killed process.
#[test]
fn lock_of_a_dead_owner_has_one_successor() {
    model(|| {
        let [mut ring, mut first, mut second] = rings();
        let mut reader = ring.worker_started(&owner(0, 9), 0).expect("a free slot");
        ring.die_with_lock(&publisher(DEAD));
        let one = thread::spawn(move || publish(&mut first, &publisher(7), 1).expect("room"));
        let two = publish(&mut second, &publisher(8), 2).expect("room");
        let one = one.join().expect("no panic");
        assert_eq!(
            read_all(&mut reader),
            if one < two { [1, 2] } else { [2, 1] }
        );
    });
}

/// Publishers overwrite the records of a reader that they do not wait for. Its records are complete and in ascending order, or it
/// gets `Lost`.
#[test]
fn overrun_reader_never_sees_a_partial_record() {
    model(|| {
        let [mut ring, mut other] = rings();
        let mut reader = ring
            .worker_started(&owner(0, DEAD), 0)
            .expect("a free slot");
        for number in 1..=FULL {
            publish(&mut ring, &publisher(8), number).expect("room");
        }
        let publishing = thread::spawn(move || {
            publish(&mut other, &publisher(8), FULL + 1).expect("the reader is dead");
            publish(&mut other, &publisher(8), FULL + 2).expect("the reader is dead");
        });
        let mut record = Record::empty();
        let mut last = 0;
        for _ in 0..2 {
            match reader.read_next(&mut record) {
                Read::Record => {
                    let number = number(&record);
                    assert!(number > last);
                    last = number;
                }
                Read::Lost | Read::Empty | Read::Skipped => {}
            }
        }
        publishing.join().expect("no panic");
    });
}

/// The publisher gets an error, and does not overwrite records that a live worker has not read.
#[test]
fn live_reader_is_never_overrun() {
    model(|| {
        let [mut ring, mut other] = rings();
        let mut reader = ring.worker_started(&owner(0, 9), 0).expect("a free slot");
        for number in 1..=FULL {
            publish(&mut ring, &publisher(8), number).expect("room");
        }
        let publishing = thread::spawn(move || publish(&mut other, &publisher(8), FULL + 1));
        let mut record = Record::empty();
        let mut read = Vec::new();
        assert_eq!(reader.read_next(&mut record), Read::Record);
        read.push(number(&record));
        let published = publishing.join().expect("no panic");
        read.extend(read_all(&mut reader));
        match published {
            Ok(_) => assert!(read.into_iter().eq(1..=FULL + 1)),
            Err(PublishError::Behind { slot: 0 }) => assert!(read.into_iter().eq(1..=FULL)),
            Err(other) => panic!("{other}"),
        }
    });
}

/// A replay without a lock, during an overwriting publish, returns whole records or a gap.
#[test]
fn replay_during_an_overrun_is_complete_or_a_gap() {
    model(|| {
        let [mut ring, mut other] = rings();
        for number in 1..=FULL {
            publish(&mut ring, &publisher(8), number).expect("room");
        }
        let up_to = ring.newest();
        let publishing = thread::spawn(move || publish(&mut other, &publisher(8), FULL + 1));
        let range = ReplayRange {
            after: 0,
            up_to,
            count_max: 2,
            bytes_max: usize::MAX,
            unix_ms: 0,
        };
        let mut numbers = Vec::new();
        ring.replay(&[b"c"], &range, &mut |record| numbers.push(number(record)));
        publishing.join().expect("no panic").expect("no worker");
        // The publish does not overwrite the two newest records.
        assert_eq!(numbers, [FULL - 1, FULL]);
        let range = ReplayRange {
            after: 0,
            up_to,
            count_max: 100,
            ..range
        };
        let outcome = ring.replay(&[b"c"], &range, &mut |_| {});
        assert_eq!(outcome, Replay::Gap, "the first one is gone by now");
    });
}
