//! Tests with as many workers and publishers as a large machine has.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;

use super::*;
use crate::{Departure, LockError, Presence, PublishError};

const WORKERS: u32 = 70;
const PUBLISHERS: u64 = 200;
const MESSAGES: u64 = 20;
const CHANNELS: u64 = 7;

fn config() -> Config {
    Config {
        // The records together are several times as large as the ring, so publishers wait for
        // readers.
        ring_bytes: 1 << 16,
        index_buckets: 16,
        record_bytes_max: 128,
        workers_max: 128,
        members_max: 256,
        ..small()
    }
}

/// Repeats an attempt while other threads hold the lock for long, as with 250 threads on few cores.
fn insist<T>(mut attempt: impl FnMut() -> Result<T, LockError>) -> T {
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(LockError::Locked { .. }) => thread::yield_now(),
            Err(corrupt) => panic!("{corrupt}"),
        }
    }
}

fn publish_all(ring: &mut Ring, publisher: u64) {
    let who = Owner {
        pid: 100_000 + publisher as u32,
        ..master()
    };
    let mut number = 0;
    while number < MESSAGES {
        let mut data = [0; 100];
        data[..8].copy_from_slice(&publisher.to_le_bytes());
        data[8..16].copy_from_slice(&number.to_le_bytes());
        let channel = [b'c', (number % CHANNELS) as u8];
        match ring.publish(&who, &message(&channel, &data), 0) {
            Ok(_) => number += 1,
            Err(PublishError::Behind { .. } | PublishError::Lock(LockError::Locked { .. })) => {
                thread::yield_now();
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Returns everything a worker reads, in order.
fn read_everything(reader: &mut Reader) -> Vec<(Seq, u64, u64)> {
    let mut read = Vec::new();
    let mut record = Record::empty();
    while (read.len() as u64) < PUBLISHERS * MESSAGES {
        match reader.read_next(&mut record) {
            Read::Record if record.kind == Kind::Message => {
                let word =
                    |at: usize| u64::from_le_bytes(record.data()[at..at + 8].try_into().unwrap());
                read.push((record.seq, word(0), word(8)));
            }
            Read::Record => {}
            Read::Empty => thread::yield_now(),
            other => panic!("{other:?}"),
        }
    }
    read
}

#[test]
fn seventy_workers_agree_on_events_of_two_hundred_publishers() {
    let config = config();
    let words = memory(&config);
    drop(Ring::create(words, &config, 1, 2).unwrap());
    let started = Barrier::new(WORKERS as usize + PUBLISHERS as usize);
    let orders: Vec<Vec<(Seq, u64, u64)>> = thread::scope(|scope| {
        let (started, config) = (&started, &config);
        let workers: Vec<_> = (0..WORKERS)
            .map(|slot| {
                scope.spawn(move || {
                    let mut ring = attach(words, config);
                    let mut reader = insist(|| ring.worker_started(&worker(slot), 0));
                    started.wait();
                    read_everything(&mut reader)
                })
            })
            .collect();
        for publisher in 0..PUBLISHERS {
            scope.spawn(move || {
                let mut ring = attach(words, config);
                started.wait();
                publish_all(&mut ring, publisher);
            });
        }
        let ended = workers.into_iter().map(|worker| worker.join().unwrap());
        ended.collect()
    });
    let first = &orders[0];
    assert!(first.is_sorted_by(|a, b| a.0 < b.0));
    assert!(
        orders.iter().all(|order| order == first),
        "one order for all"
    );
    let mut next = BTreeMap::new();
    for (_, publisher, number) in first {
        let expected = next.entry(publisher).or_insert(0);
        assert_eq!(number, expected);
        *expected += 1;
    }
    assert!(next.len() as u64 == PUBLISHERS && next.values().all(|count| *count == MESSAGES));
    // The ring's records of each channel are the end of that order.
    let mut ring = attach(words, &config);
    for channel in 0..CHANNELS {
        let (_, records) = replay(&mut ring, &[&[b'c', channel as u8]], &everything());
        let order: Vec<Seq> = first
            .iter()
            .filter(|(_, _, number)| number % CHANNELS == channel)
            .map(|(seq, _, _)| *seq)
            .collect();
        let kept: Vec<Seq> = records.iter().map(|record| record.seq).collect();
        assert!(kept.len() > 10 && order.ends_with(&kept));
    }
    assert!(Ring::open(words, &config).is_ok());
}

fn presence(user: &[u8]) -> Presence<'_> {
    Presence {
        channel: b"room",
        user,
        info: b"",
        source: b"",
        announce: None,
        announce_changed: None,
    }
}

#[test]
fn presence_is_exact_over_seventy_workers() {
    let config = config();
    let words = memory(&config);
    let mut ring = Ring::create(words, &config, 1, 2).unwrap();
    thread::scope(|scope| {
        for slot in 0..WORKERS {
            let config = &config;
            scope.spawn(move || {
                let mut ring = attach(words, config);
                insist(|| ring.worker_started(&worker(slot), 0));
                // Each user has a tab on every worker. Some users join and leave.
                for round in 0..20u8 {
                    for user in [&b"ann"[..], b"bob", &[b'u', slot as u8]] {
                        while ring.join(&worker(slot), &presence(user), 0).is_err() {
                            thread::yield_now();
                        }
                    }
                    if round % 2 == 0 {
                        insist(|| ring.leave(&worker(slot), b"room", b"bob", Departure::Lost, 0));
                    }
                }
            });
        }
    });
    let count = |ring: &mut Ring, user: &[u8]| {
        let found = members(ring, b"room").into_iter().find(|it| it.0 == user);
        found.map(|(_, _, connections)| connections)
    };
    assert_eq!(count(&mut ring, b"ann"), Some(WORKERS * 20));
    assert_eq!(count(&mut ring, b"bob"), Some(WORKERS * 10));
    assert_eq!(members(&mut ring, b"room").len(), 2 + WORKERS as usize);
    // Half of the workers exit.
    for slot in (0..WORKERS).step_by(2) {
        ring.worker_ended(&master(), slot, worker(slot).pid, 0)
            .unwrap();
    }
    assert_eq!(count(&mut ring, b"ann"), Some(WORKERS / 2 * 20));
    assert_eq!(count(&mut ring, b"bob"), Some(WORKERS / 2 * 10));
    assert_eq!(ring.leaving_count(), WORKERS as usize / 2);
    ring.check_presence();
}
