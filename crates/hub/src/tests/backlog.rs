//! Backlogs: missed records in pieces, while others publish and the ring advances.

use proptest::prelude::*;

use super::*;
use crate::{Backlog, Missed};

/// Reads at most `max` items up to `up_to`, or all items. Returns records by number, and gaps as
/// `None`.
fn take(
    ring: &mut Ring,
    backlog: &mut Backlog,
    up_to: Option<Seq>,
    max: usize,
) -> Vec<Option<u64>> {
    let up_to = up_to.unwrap_or_else(|| ring.newest());
    let mut taken = Vec::new();
    ring.next_missed(backlog, up_to, 0, &mut |missed| {
        taken.push(match missed {
            Missed::Record(record) => Some(number(record)),
            Missed::Gap { .. } => None,
        });
        taken.len() < max
    });
    taken
}

fn number(record: &Record) -> u64 {
    u64::from_le_bytes(record.data().try_into().unwrap())
}

fn publish(ring: &mut Ring, channel: &[u8], number: u64) -> Seq {
    ring.publish(&master(), &message(channel, &number.to_le_bytes()), 0)
        .unwrap()
}

fn large() -> Config {
    Config {
        ring_bytes: 1 << 20,
        history_count_max: 1 << 20,
        ..small()
    }
}

#[test]
fn pieces_together_are_the_missed_records_in_order() {
    let config = large();
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    let start = publish(&mut ring, b"a", 0);
    // Publishes more records than the ring stores, in the client's two channels and in an unrelated
    // channel.
    for number in 1..6000 {
        publish(
            &mut ring,
            [&b"a"[..], b"b", b"x"][number as usize % 3],
            number,
        );
    }
    let expected: Vec<_> = (1..6000).filter(|n| n % 3 != 2).map(Some).collect();
    for max in [1, 7, 1023, 1024, 1025, usize::MAX] {
        let mut backlog = Backlog::new(&[b"a", b"b"], start);
        let mut given = Vec::new();
        while !backlog.is_at(ring.newest()) {
            given.extend(take(&mut ring, &mut backlog, None, max));
        }
        assert_eq!(given, expected, "in pieces of {max}");
    }
}

#[test]
fn delivers_records_published_during_the_backlog_before_going_live() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    let mut backlog = Backlog::new(&[b"a"], ring.newest());
    assert!(backlog.is_at(ring.newest()), "nothing was missed");
    publish(&mut ring, b"a", 1);
    let up_to = ring.newest();
    publish(&mut ring, b"a", 2);
    assert_eq!(take(&mut ring, &mut backlog, Some(up_to), 9), [Some(1)]);
    assert!(backlog.is_at(up_to) && !backlog.is_at(ring.newest()));
    assert_eq!(take(&mut ring, &mut backlog, None, 9), [Some(2)]);
    assert!(backlog.is_at(ring.newest()));
    // The backlog waits for a position that the worker has not read yet.
    let mut ahead = Backlog::new(&[b"a"], ring.newest());
    assert_eq!(take(&mut ring, &mut ahead, Some(up_to), 9), []);
    assert!(!ahead.is_at(up_to));
}

#[test]
fn count_limits_the_start_and_not_slow_reading() {
    let config = Config {
        history_count_max: 3,
        ..large()
    };
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    let start = publish(&mut ring, b"a", 0);
    for number in 1..10 {
        publish(&mut ring, b"a", number);
    }
    let mut backlog = Backlog::new(&[b"a"], start);
    let mut given = take(&mut ring, &mut backlog, None, 2);
    for number in 10..20 {
        publish(&mut ring, b"a", number);
    }
    given.extend(take(&mut ring, &mut backlog, None, 99));
    let expected: Vec<_> = [None].into_iter().chain((7..20).map(Some)).collect();
    assert_eq!(given, expected);
}

#[test]
fn count_applies_to_the_newest_record_independent_of_the_worker() {
    let config = Config {
        history_count_max: 3,
        ..large()
    };
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    let start = publish(&mut ring, b"a", 0);
    let places: Vec<Seq> = (1..10).map(|n| publish(&mut ring, b"a", n)).collect();
    // The last three are 7, 8 and 9; the worker has read up to `read`.
    for read in 1..10 {
        let mut backlog = Backlog::new(&[b"a"], start);
        let up_to = Some(places[read - 1]);
        let mut given = take(&mut ring, &mut backlog, up_to, 99);
        given.extend(take(&mut ring, &mut backlog, None, 99));
        assert_eq!(
            given,
            [None, Some(7), Some(8), Some(9)],
            "read up to {read}"
        );
    }
}

#[test]
fn reports_records_beyond_the_limits_once() {
    let config = Config {
        history_count_max: 3,
        ..large()
    };
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    let start = publish(&mut ring, b"a", 0);
    let mut up_to = start;
    for number in 1..10 {
        publish(&mut ring, b"a", number);
        if number == 1 {
            up_to = publish(&mut ring, b"b", 100);
        }
    }
    let mut backlog = Backlog::new(&[b"a", b"b"], start);
    let mut given = take(&mut ring, &mut backlog, Some(up_to), 99);
    given.extend(take(&mut ring, &mut backlog, None, 99));
    assert_eq!(given, [None, Some(100), Some(7), Some(8), Some(9)]);
}

#[test]
fn overtaken_reader_gets_one_gap_and_the_rest() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    let start = publish(&mut ring, b"a", 0);
    for number in 1..10 {
        publish(&mut ring, b"a", number);
    }
    let mut backlog = Backlog::new(&[b"a"], start);
    assert_eq!(take(&mut ring, &mut backlog, None, 1), [Some(1)]);
    for number in 10..200 {
        publish(&mut ring, b"a", number);
    }
    let given = take(&mut ring, &mut backlog, None, usize::MAX);
    let (gap, rest) = given.split_first().unwrap();
    assert_eq!(*gap, None);
    let first = rest[0].unwrap();
    assert!(first > 10 && rest.len() > 10);
    let expected: Vec<_> = (first..200).map(Some).collect();
    assert_eq!(rest, expected);
    assert!(backlog.is_at(ring.newest()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// With random publishes and reads: ascending, no repetition, and no loss except at a gap.
    #[test]
    fn every_missing_record_is_reported_as_a_gap(
        steps in prop::collection::vec((0..40u64, 0..12usize, 0..2usize), 1..60)
    ) {
        let config = small();
        let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
        let mut backlog = Backlog::new(&[b"a", b"b"], ring.newest());
        let (mut next, mut last, mut in_gap) = (0, None, false);
        for (count, max, behind) in steps {
            let up_to = ring.newest();
            for _ in 0..count {
                publish(&mut ring, [&b"a"[..], b"b"][next as usize % 2], next);
                next += 1;
            }
            let up_to = if behind == 1 { up_to } else { ring.newest() };
            if max == 0 {
                continue;
            }
            for given in take(&mut ring, &mut backlog, Some(up_to), max) {
                match given {
                    None => {
                        prop_assert!(!in_gap, "two gaps in a row");
                        in_gap = true;
                    }
                    Some(number) => {
                        let expected = last.map_or(0, |last: u64| last + 1);
                        prop_assert!(number == expected || in_gap && number > expected);
                        (last, in_gap) = (Some(number), false);
                    }
                }
            }
        }
        let up_to = ring.newest();
        let rest = take(&mut ring, &mut backlog, Some(up_to), usize::MAX);
        prop_assert!(backlog.is_at(up_to));
        if let Some(newest) = next.checked_sub(1) {
            let newest = Some(newest);
            prop_assert!(rest.last().copied().unwrap_or(last) == newest);
        }
    }
}
