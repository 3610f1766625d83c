//! Several "processes" as threads, some of which are repeatedly killed in the middle of a publish.

use std::sync::atomic::{AtomicBool, AtomicU64 as Counter, Ordering};
use std::thread;

use super::*;
use crate::PublishError;
use fermata_shm::crash;

const PIDS: usize = 4096;
/// A process that is dead from the start.
const UNKNOWN: u32 = PIDS as u32 - 1;
static DEAD: [AtomicBool; PIDS] = [const { AtomicBool::new(false) }; PIDS];

fn listed_alive(pid: u32) -> bool {
    pid != UNKNOWN && !DEAD[pid as usize % PIDS].load(Ordering::SeqCst)
}

/// Returns data that proves its own integrity: publisher, number, and a length that both determine.
fn data_of(publisher: u64, number: u64) -> Vec<u8> {
    let mut data = vec![(publisher * 31 + number) as u8; 16 + (number % 40) as usize];
    data[..8].copy_from_slice(&publisher.to_le_bytes());
    data[8..16].copy_from_slice(&number.to_le_bytes());
    data
}

fn check(record: &Record) -> (u64, u64) {
    let word = |at: usize| u64::from_le_bytes(record.data()[at..at + 8].try_into().unwrap());
    let (publisher, number) = (word(0), word(8));
    assert_eq!(record.data(), data_of(publisher, number));
    assert_eq!(record.channel(), [b'c', publisher as u8]);
    assert_eq!(record.unix_ms, number);
    (publisher, number)
}

/// Publishes until done, waits for slow readers, and is occasionally killed if `may_crash`.
fn publish_all(
    words: &'static [AtomicU64],
    config: &Config,
    publisher: u64,
    count: u64,
    may_crash: bool,
) {
    let mut pid = 1 + publisher as u32;
    let mut ring = attach(words, config);
    let mut number = 0;
    while number < count {
        let who = Owner {
            slot: Owner::MASTER_SLOT,
            pid,
            alive: listed_alive,
        };
        let step = if may_crash && number % 7 == 3 {
            number % 41
        } else {
            u64::MAX
        };
        let data = data_of(publisher, number);
        let channel = [b'c', publisher as u8];
        let message = message(&channel, &data);
        match crash::run(step, || ring.publish(&who, &message, number)) {
            Some(Ok(_)) => number += 1,
            Some(Err(PublishError::Behind { .. })) => thread::yield_now(),
            Some(Err(other)) => panic!("{other}"),
            None => {
                // Restart under a new pid. The interrupted publish may or may not have happened, so its number is not reused.
                DEAD[pid as usize % PIDS].store(true, Ordering::SeqCst);
                pid += 8;
                number += 1;
            }
        }
    }
}

#[test]
fn no_reader_sees_a_torn_lost_or_repeated_record() {
    const PUBLISHERS: u64 = 3;
    const COUNT: u64 = 3000;
    let config = small();
    let words = memory(&config);
    drop(Ring::create(words, &config, 1, 2).unwrap());
    let done = AtomicBool::new(false);
    let replayed = Counter::new(0);
    let readers: Vec<Reader> = (0..2)
        .map(|slot| {
            attach(words, &config)
                .worker_started(&worker(slot), 0)
                .unwrap()
        })
        .collect();
    let read = |mut reader: Reader| {
        let mut next = [0; PUBLISHERS as usize];
        let mut record = Record::empty();
        loop {
            let last_round = done.load(Ordering::SeqCst);
            match reader.read_next(&mut record) {
                Read::Record => {
                    let (publisher, number) = check(&record);
                    let expected = &mut next[publisher as usize];
                    // Publisher 2 is killed: its numbers may be missing, but never repeat.
                    assert!(number == *expected || (publisher == 2 && number > *expected));
                    *expected = number + 1;
                }
                Read::Empty if last_round => return next,
                Read::Empty => thread::yield_now(),
                other => panic!("{other:?}"),
            }
        }
    };
    thread::scope(|scope| {
        let readers: Vec<_> = readers
            .into_iter()
            .map(|reader| scope.spawn(|| read(reader)))
            .collect();
        // Publishers do not wait for this reader, so its records are overwritten repeatedly. The records that it reads must be
        // complete.
        scope.spawn(|| {
            let who = Owner {
                slot: 2,
                pid: UNKNOWN,
                alive: listed_alive,
            };
            let mut reader = attach(words, &config).worker_started(&who, 0).unwrap();
            let mut record = Record::empty();
            let mut last = 0;
            while !done.load(Ordering::SeqCst) {
                if reader.read_next(&mut record) == Read::Record {
                    check(&record);
                    assert!(record.seq > last);
                    last = record.seq;
                }
            }
        });
        scope.spawn(|| {
            let mut ring = attach(words, &config);
            while !done.load(Ordering::SeqCst) {
                for publisher in 0..PUBLISHERS {
                    let mut last = None;
                    let channel = [b'c', publisher as u8];
                    ring.replay(&[&channel], &everything(), &mut |record| {
                        let (of, number) = check(record);
                        assert!(of == publisher && last.is_none_or(|last| number > last));
                        last = Some(number);
                        replayed.fetch_add(1, Ordering::Relaxed);
                    });
                }
            }
        });
        let publishers: Vec<_> = (0..PUBLISHERS)
            .map(|publisher| {
                let config = &config;
                scope.spawn(move || publish_all(words, config, publisher, COUNT, publisher == 2))
            })
            .collect();
        for publisher in publishers {
            publisher.join().unwrap();
        }
        done.store(true, Ordering::SeqCst);
        for reader in readers {
            let next = reader.join().unwrap();
            assert_eq!(next[..2], [COUNT; 2]);
        }
    });
    assert!(replayed.load(Ordering::Relaxed) > 0);
    assert!(Ring::open(words, &config).is_ok());
}
