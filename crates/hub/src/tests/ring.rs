//! Compares the ring with a vector.

use proptest::prelude::*;

use super::*;
use crate::Slots;
use crate::{IdRef, LockError, OpenError, PublishError};

const CHANNELS: [&[u8]; 5] = [
    b"a",
    b"room.1",
    b"room.22222",
    b"a-name-that-needs-more-than-one-word",
    b"x",
];

#[derive(Clone, Debug)]
enum Op {
    Publish {
        channel: usize,
        name: Option<Vec<u8>>,
        data: Vec<u8>,
    },
    Read {
        count: usize,
    },
    Replay {
        channels: Vec<usize>,
        after: prop::sample::Index,
        count_max: usize,
    },
    Reopen,
}

fn op() -> impl Strategy<Value = Op> {
    let bytes = |max| proptest::collection::vec(any::<u8>(), 0..max);
    prop_oneof![
        6 => (0..CHANNELS.len(), proptest::option::of(bytes(20)), bytes(45))
            .prop_map(|(channel, name, data)| Op::Publish { channel, name, data }),
        3 => (1..20usize).prop_map(|count| Op::Read { count }),
        2 => (proptest::collection::vec(0..CHANNELS.len(), 1..4), any::<prop::sample::Index>(), 0..10usize)
            .prop_map(|(channels, after, count_max)| Op::Replay { channels, after, count_max }),
        1 => Just(Op::Reopen),
    ]
}

fn same(record: &Record, model: &Record) -> bool {
    (record.seq, record.unix_ms, record.kind) == (model.seq, model.unix_ms, model.kind)
        && (record.channel(), record.name(), record.data())
            == (model.channel(), model.name(), model.data())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn behaves_like_a_vector(ops in proptest::collection::vec(op(), 1..120)) {
        let config = small();
        let words = memory(&config);
        let mut ring = Ring::create(words, &config, 7, 99).unwrap();
        let who = worker(1);
        let mut reader = ring.worker_started(&who, 0).unwrap();
        let mut model: Vec<Record> = Vec::new();
        let mut unread = 0;
        let mut record = Record::empty();
        for (time, op) in ops.into_iter().enumerate() {
            match op {
                Op::Publish { channel, name, data } => {
                    let message = Message { channel: CHANNELS[channel], kind: Kind::Join, name: name.as_deref(), data: &data };
                    match ring.publish(&who, &message, time as u64) {
                        Ok(seq) => {
                            prop_assert!(model.last().is_none_or(|last| last.seq < seq));
                            model.push(Record::new(seq, time as u64, &message).unwrap());
                        }
                        Err(PublishError::Behind { slot }) => {
                            // Only while the oldest remaining record is unread.
                            prop_assert_eq!(slot, 1);
                            prop_assert!(unread < model.len());
                        }
                        Err(other) => prop_assert!(false, "{}", other),
                    }
                }
                Op::Read { count } => {
                    for _ in 0..count {
                        match reader.read_next(&mut record) {
                            Read::Record => {
                                prop_assert!(same(&record, &model[unread]));
                                unread += 1;
                            }
                            Read::Empty => prop_assert_eq!(unread, model.len()),
                            other => prop_assert!(false, "{:?}", other),
                        }
                    }
                }
                Op::Replay { channels, after, count_max } => {
                    let after = if model.is_empty() { 0 } else { model[after.index(model.len())].seq };
                    let names: Vec<&[u8]> = channels.iter().map(|&channel| CHANNELS[channel]).collect();
                    let range = ReplayRange { after, unix_ms: time as u64, ..everything() };
                    let (outcome, given) = replay(&mut ring, &names, &range);
                    let wanted: Vec<&Record> =
                        model.iter().filter(|one| one.seq > after && names.contains(&one.channel())).collect();
                    // The result is the newest part of the wanted records. It is complete unless there is a gap, and always
                    // contains every record that the ring still has.
                    let missing = wanted.len() - given.len();
                    prop_assert!(given.iter().zip(&wanted[missing..]).all(|(one, other)| same(one, other)));
                    prop_assert!(missing == 0 || outcome == Replay::Gap);
                    prop_assert!(wanted[..missing].iter().all(|lost| !ring.copy_at(lost.seq, &mut record) || !ring.still_there(lost.seq)));
                    if names.len() == 1 {
                        let (outcome, few) = replay(&mut ring, &names, &ReplayRange { count_max, ..range });
                        prop_assert_eq!(few.len(), given.len().min(count_max));
                        prop_assert!(few.iter().rev().zip(given.iter().rev()).all(|(one, other)| same(one, other)));
                        prop_assert!(given.len() <= count_max || outcome == Replay::Gap);
                    }
                }
                Op::Reopen => {
                    let newest = ring.newest();
                    ring = Ring::open(words, &config).unwrap();
                    prop_assert_eq!(ring.newest(), newest);
                    reader = ring.worker_started(&who, 0).unwrap();
                    unread = model.len();
                }
            }
        }
    }
}

#[test]
fn slow_worker_blocks_publishers_until_it_reads_exits_or_dies() {
    let config = small();
    let words = memory(&config);
    let mut ring = Ring::create(words, &config, 1, 2).unwrap();
    let mut slow = ring.worker_started(&worker(0), 0).unwrap();
    let mut quick = ring.worker_started(&worker(1), 0).unwrap();
    let fill = |ring: &mut Ring| {
        let error =
            (0..1000).find_map(|_| ring.publish(&worker(1), &message(b"c", &[7; 50]), 0).err());
        error.expect("a worker that never reads must stop publishes")
    };
    assert_eq!(fill(&mut ring), PublishError::Behind { slot: 0 });
    let count = read_all(&mut quick).len();
    assert_eq!(fill(&mut ring), PublishError::Behind { slot: 0 });
    let mut record = Record::empty();
    assert_eq!(slow.read_next(&mut record), Read::Record);
    ring.publish(&worker(1), &message(b"c", &[7; 50]), 0)
        .unwrap();
    assert_eq!(read_all(&mut slow).len(), count);
    read_all(&mut quick);

    // The worker has exited, so no publisher waits for its cursor.
    assert_eq!(fill(&mut ring), PublishError::Behind { slot: 0 });
    ring.worker_ended(&master(), 0, worker(0).pid, 0).unwrap();
    read_all(&mut quick);
    for _ in 0..100 {
        ring.publish(&worker(1), &message(b"c", &[7; 50]), 0)
            .unwrap();
        read_all(&mut quick);
    }
    // A reader whose slot was given up detects this, and continues with the oldest record.
    assert_eq!(slow.read_next(&mut record), Read::Lost);
    assert_eq!(slow.read_next(&mut record), Read::Record);

    // Dead without a report.
    ring.worker_started(&doomed(0), 0).unwrap();
    for _ in 0..100 {
        ring.publish(&worker(1), &message(b"c", &[7; 50]), 0)
            .unwrap();
        read_all(&mut quick);
    }
}

#[test]
fn accepts_the_largest_record_and_rejects_a_larger_one() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    let mut reader = ring.worker_started(&worker(0), 0).unwrap();
    let channel = [b'c'; 255];
    for round in 0..50 {
        let name_len = round % 65;
        let message = Message {
            name: Some(&[1; 64][..name_len]),
            ..message(&channel, &[2; 64][name_len..])
        };
        ring.publish(&worker(0), &message, 0).unwrap();
        let records = read_all(&mut reader);
        assert_eq!(
            (records[0].channel(), records[0].name(), records[0].data()),
            (&channel[..], message.name, message.data)
        );
    }
    let large = Message {
        name: Some(b"n"),
        ..message(b"c", &[0; 64])
    };
    assert_eq!(
        ring.publish(&worker(0), &large, 0),
        Err(PublishError::TooLarge { bytes: 65, max: 64 })
    );
    for bad in [&b""[..], &[b'c'; 256]] {
        let error = ring.publish(&worker(0), &message(bad, b""), 0);
        assert_eq!(error, Err(PublishError::ChannelName { bytes: bad.len() }));
    }
}

#[test]
fn a_replay_ends_at_its_bounds_with_a_gap() {
    let config = Config {
        history_count_max: 5,
        history_age_ms_max: 100,
        ring_bytes: 8192,
        ..small()
    };
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    let seqs: Vec<Seq> = (0..8)
        .map(|i| {
            ring.publish(
                &worker(0),
                &message(b"c", &[i; 8]),
                1000 + u64::from(i) * 10,
            )
            .unwrap()
        })
        .collect();
    let mut seqs_of = |range: ReplayRange| {
        let (outcome, records) = replay(&mut ring, &[b"c"], &range);
        (
            outcome,
            records.iter().map(|record| record.seq).collect::<Vec<_>>(),
        )
    };
    assert_eq!(
        seqs_of(everything()),
        (Replay::Gap, seqs[3..].to_vec()),
        "count of the configuration"
    );
    let after = |index: usize| ReplayRange {
        after: seqs[index],
        ..everything()
    };
    assert_eq!(seqs_of(after(2)), (Replay::Complete, seqs[3..].to_vec()));
    assert_eq!(seqs_of(after(7)), (Replay::Complete, vec![]));
    assert_eq!(
        seqs_of(ReplayRange {
            up_to: seqs[5],
            ..after(2)
        }),
        (Replay::Complete, seqs[3..6].to_vec())
    );
    assert_eq!(
        seqs_of(ReplayRange {
            count_max: 2,
            ..after(4)
        }),
        (Replay::Gap, seqs[6..].to_vec())
    );
    assert_eq!(
        seqs_of(ReplayRange {
            unix_ms: 1160,
            ..after(3)
        }),
        (Replay::Gap, seqs[6..].to_vec()),
        "age"
    );
    assert_eq!(
        seqs_of(ReplayRange {
            unix_ms: 1160,
            ..after(5)
        }),
        (Replay::Complete, seqs[6..].to_vec())
    );
    let bytes_max = 2 * 9 * 8;
    assert_eq!(
        seqs_of(ReplayRange {
            bytes_max,
            ..after(3)
        }),
        (Replay::Gap, seqs[6..].to_vec()),
        "bytes"
    );
    let (outcome, records) = replay(&mut ring, &[b"never used"], &everything());
    assert_eq!((outcome, records.len()), (Replay::Complete, 0));
}

#[test]
fn wakes_each_sleeper_once_and_misses_no_record() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    let mut first = ring.worker_started(&worker(0), 0).unwrap();
    let second = ring.worker_started(&worker(2), 0).unwrap();
    assert!(first.set_sleeping() && second.set_sleeping());
    second.set_awake();
    ring.publish(&worker(1), &message(b"c", b""), 0).unwrap();
    let mut slept = ring.wake_list();
    assert_eq!((slept.take(), slept.take()), (Some(0), None));
    assert_eq!(ring.wake_list(), Slots::default());
    assert!(!first.set_sleeping());
    assert_eq!(ring.wake_list(), Slots::default());
    read_all(&mut first);
    assert!(first.set_sleeping());
    ring.worker_ended(&master(), 0, worker(0).pid, 0).unwrap();
    assert_eq!(ring.wake_list(), Slots::default());
}

#[test]
fn opening_refuses_other_memory() {
    let config = small();
    let words = memory(&config);
    assert_eq!(Ring::open(words, &config).err(), Some(OpenError::Damaged));
    words[0].store(
        u64::from_le_bytes(*b"%PDF-1.7"),
        std::sync::atomic::Ordering::Relaxed,
    );
    assert_eq!(Ring::open(words, &config).err(), Some(OpenError::NotARing));
    let mut ring = Ring::create(words, &config, 5, 2).unwrap();
    for round in 0..30 {
        ring.publish(&worker(0), &message(b"c", &[round; 40]), 0)
            .unwrap();
    }
    let mut record = Record::empty();
    let seq = ring.newest();
    assert!(Ring::open(words, &config).is_ok());
    let other = Config {
        members_max: 4,
        ..config.clone()
    };
    assert_eq!(Ring::open(words, &other).err(), Some(OpenError::OtherSizes));
    let larger = Config {
        ring_bytes: 1 << 20,
        ..config.clone()
    };
    assert!(matches!(
        Ring::open(words, &larger).err(),
        Some(OpenError::TooSmall { .. })
    ));
    let at = (1..=seq)
        .rev()
        .find(|&at| ring.copy_at(at, &mut record))
        .unwrap();
    ring.segments(at + 9, 1).0[0].fetch_xor(1 << 40, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(Ring::open(words, &config).err(), Some(OpenError::Damaged));
}

#[test]
fn an_unclean_reboot_changes_the_epoch() {
    let config = small();
    let words = memory(&config);
    let mut ring = Ring::create(words, &config, 5, 2).unwrap();
    assert!(!ring.adopt(100, 6));
    let seq = ring.publish(&worker(0), &message(b"c", b"x"), 0).unwrap();
    let mut buffer = [0; crate::ID_BYTES_MAX];
    let id = ring.id_text(seq, &mut buffer).to_vec();
    let reopened = |boot, epoch| {
        let mut ring = Ring::open(words, &config).unwrap();
        let changed = ring.adopt(boot, epoch);
        (changed, ring)
    };
    let (changed, mut ring) = reopened(100, 6);
    assert!(!changed);
    assert_eq!(ring.parse_id(&id), IdRef::Seq(seq));
    let (changed, mut ring) = reopened(101, 6);
    assert!(changed);
    assert_eq!(ring.parse_id(&id), IdRef::Foreign);
    assert_eq!(replay(&mut ring, &[b"c"], &everything()).1.len(), 1);
    ring.close();
    assert!(!reopened(102, 7).0);
}

#[test]
fn ids_from_the_future_are_foreign() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 35, 2).unwrap();
    let seq = ring.publish(&worker(0), &message(b"c", b"x"), 0).unwrap();
    assert_eq!(seq, 1);
    assert_eq!(ring.parse_id(b"z-1"), IdRef::Seq(1));
    assert_eq!(ring.parse_id(b"z-zz"), IdRef::Foreign);
    assert_eq!(ring.parse_id(b"y-1"), IdRef::Foreign);
}

#[test]
fn a_live_owner_keeps_the_lock() {
    let config = small();
    let words = memory(&config);
    let mut ring = Ring::create(words, &config, 1, 2).unwrap();
    let guard = attach(words, &config).lock(&worker(2), None).unwrap();
    let error = ring.publish(&worker(0), &message(b"c", b""), 0);
    assert_eq!(
        error,
        Err(PublishError::Lock(LockError::Locked { pid: worker(2).pid }))
    );
    drop(guard);
    ring.publish(&worker(0), &message(b"c", b""), 0).unwrap();
}

#[test]
fn the_lock_of_a_worker_that_was_reaped_is_free_even_if_its_pid_seems_alive() {
    let config = small();
    let words = memory(&config);
    let mut ring = Ring::create(words, &config, 1, 2).unwrap();
    ring.worker_started(&worker(1), 0).unwrap();
    std::mem::forget(attach(words, &config).lock(&worker(1), None).unwrap());
    ring.worker_ended(&master(), 1, worker(1).pid, 0).unwrap();
    ring.publish(&worker(0), &message(b"c", b""), 0).unwrap();
}

#[test]
fn record_overwritten_during_its_copy_is_lost_and_not_torn() {
    let config = small();
    let words = memory(&config);
    let mut ring = Ring::create(words, &config, 1, 2).unwrap();
    let mut reader = ring.worker_started(&doomed(0), 0).unwrap();
    ring.publish(&worker(1), &message(b"c", &[1; 40]), 0)
        .unwrap();
    let mut record = Record::empty();
    // The reader has read the header, but not the body, when it checks if the record is wanted.
    let read = reader.read_next_if(&mut record, |_| {
        for _ in 0..60 {
            ring.publish(&worker(1), &message(b"c", &[2; 40]), 0)
                .unwrap();
        }
        true
    });
    assert_eq!(read, Read::Lost);
    assert_eq!(reader.read_next(&mut record), Read::Record);
    assert_eq!(record.data(), [2; 40]);
}
