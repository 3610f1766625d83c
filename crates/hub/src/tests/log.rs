//! Records that come from a log: their ids are log positions, on every server and after every crash.

use super::*;
use crate::{Backlog, FromLog, IdRef, LogPlace, Missed, Past, PastRange};
use fermata_shm::crash;
use proptest::prelude::*;

const EPOCH: u64 = 77;

fn place(seq: u64) -> LogPlace {
    LogPlace { epoch: EPOCH, seq }
}

fn id(text: &str) -> Vec<u8> {
    crate::Ids::new(EPOCH)
        .text(
            text.parse().expect("a number"),
            &mut [0; crate::ID_BYTES_MAX],
        )
        .to_vec()
}

/// Returns the items for a client of channel `c` that has every record up to a log position; `None` = a gap.
fn resumed(ring: &mut Ring, seq: u64, up_to: Seq) -> Vec<Option<u64>> {
    let at = ring.parse_id(&id(&seq.to_string()));
    let Some(mut backlog) = Backlog::since(&[b"c"], at, Some(place(seq))) else {
        panic!("the id is of this log: {at:?}");
    };
    let mut got = Vec::new();
    ring.next_missed(&mut backlog, up_to, 0, &mut |missed| {
        got.push(match missed {
            Missed::Record(record) => Some(record.log_place().expect("it comes from the log").seq),
            Missed::Gap { .. } => None,
        });
        true
    });
    assert_eq!(backlog.is_waiting(), !backlog.is_at(up_to));
    got
}

#[test]
fn returns_the_time_of_the_reached_position_while_its_record_exists() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    assert_eq!(ring.log_reached_unix_ms(), None);
    ring.begin_log(&worker(0), place(4)).unwrap();
    assert_eq!(ring.log_reached_unix_ms(), None);
    for seq in 5..300 {
        let record = message(b"c", b"1");
        ring.publish_logged(&worker(0), &record, None, place(seq), seq * 10)
            .unwrap();
        // Records of this server itself are between the log's records.
        ring.publish(&worker(0), &message(b"own", b"2"), 1).unwrap();
        assert_eq!(ring.log_reached_unix_ms(), Some(seq * 10));
    }
    ring.begin_log(&worker(0), place(300)).unwrap();
    assert_eq!(ring.log_reached_unix_ms(), None);
}

proptest! {
    /// The log has two channels. Records of this server itself are between its records, and the ring overwrites old records.
    #[test]
    fn every_position_resumes_with_its_successors_or_a_gap(
        steps in proptest::collection::vec((0..3u8, 1..4u64, 0..40usize), 1..300),
        floor in 0..5u64,
        asks_early: bool,
    ) {
        let config = small();
        let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
        let mut reader = ring.worker_started(&worker(0), 0).unwrap();
        ring.begin_log(&worker(0), place(floor)).unwrap();
        let mut last = floor;
        let mut published = Vec::new();
        for (what, ahead, len) in steps {
            let data = vec![7; len];
            if what == 2 {
                ring.publish(&worker(0), &message(b"own", &data), 0).unwrap();
            } else {
                last += ahead;
                let channel = [&b"c"[..], b"d"][usize::from(what)];
                let at = ring.publish_logged(&worker(0), &message(channel, &data), None, place(last), 0).unwrap();
                published.push((at.unwrap(), last, what == 0));
                let again = ring.publish_logged(&worker(0), &message(channel, &data), None, place(last), 0).unwrap();
                prop_assert_eq!(again, None);
            }
            read_all(&mut reader);
            if asks_early {
                prop_assert_eq!(ring.place_at(ring.newest()), Some(place(last)));
            }
        }
        prop_assert_eq!(ring.log_reached(), Some(place(last)));
        let up_to = ring.newest();
        for &(at, seq, _) in published.iter().rev().take(8) {
            let mut buffer = [0; crate::ID_BYTES_MAX];
            if ring.place_at(at) == Some(place(seq)) {
                prop_assert_eq!(ring.id_text(at, &mut buffer), &id(&seq.to_string())[..]);
            }
        }
        prop_assert_eq!(ring.place_at(up_to), Some(place(last)));
        for seq in 0..=last {
            let got = resumed(&mut ring, seq, up_to);
            let all: Vec<u64> = published.iter().filter(|it| it.2 && it.1 > seq).map(|it| it.1).collect();
            let given: Vec<u64> = got.iter().flatten().copied().collect();
            prop_assert!(all.ends_with(&given), "{seq}: {got:?} of {all:?}");
            // A record of another channel in the same bucket may also cause a gap.
            let is_whole = given.len() == all.len() && seq >= floor;
            prop_assert!(is_whole || got.first() == Some(&None), "{seq}: {got:?} of {all:?}");
            prop_assert!(got.iter().filter(|it| it.is_none()).count() <= 1, "{got:?}");
            prop_assert!(seq >= floor || given == resumed(&mut ring, floor, up_to).into_iter().flatten().collect::<Vec<_>>());
            prop_assert!(seq != last || got.is_empty(), "{got:?}");
        }
    }
}

/// A log that has everything after a position, and responds late.
struct SlowLog {
    /// Log position; true: of channel `c`.
    records: Vec<(u64, bool)>,
    oldest: u64,
    /// Number of calls until [`Past::Waiting`] is returned again.
    answers: usize,
    asked: usize,
}

impl FromLog for SlowLog {
    fn next(&mut self, channels: &[Box<[u8]>], range: &PastRange, record: &mut Record) -> Past {
        assert_eq!(channels, [Box::from(&b"c"[..])]);
        assert!(range.after.seq < range.up_to);
        if self.answers == 0 {
            self.asked += 1;
            self.answers = self.asked % 4;
            return Past::Waiting;
        }
        self.answers -= 1;
        if range.after.seq < self.oldest {
            return Past::Gap {
                up_to: self.oldest.min(range.up_to),
            };
        }
        let next = self
            .records
            .iter()
            .find(|(seq, is_c)| *is_c && *seq > range.after.seq && *seq <= range.up_to);
        let Some((seq, _)) = next else {
            let part = range.after.seq + 1 + range.up_to % 5;
            return Past::End {
                up_to: part.min(range.up_to),
            };
        };
        assert!(record.become_logged(place(*seq), *seq, &message(b"c", &seq.to_le_bytes()), None));
        Past::Record
    }
}

proptest! {
    /// The ring overwrites records constantly, also during the delivery to a slow client. The log still has the overwritten
    /// records.
    #[test]
    fn reads_overwritten_records_from_the_log_in_order(
        steps in proptest::collection::vec((0..3u8, 1..4u64, 0..40usize), 1..200),
        quiet in 0..200usize,
        floor in 0..50u64,
        oldest in 0..100u64,
        since in 0..100u64,
        pieces in proptest::collection::vec((1..4usize, 0..30u64), 1..100),
    ) {
        let config = Config { history_count_max: 10_000, ..small() };
        let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
        let mut reader = ring.worker_started(&worker(0), 0).unwrap();
        ring.begin_log(&worker(0), place(floor)).unwrap();
        let mut log = SlowLog { records: (1..=floor).map(|seq| (seq, seq % 3 == 0)).collect(), oldest, answers: 0, asked: 0 };
        let mut last = floor;
        for (at, (what, ahead, len)) in steps.into_iter().enumerate() {
            last += ahead;
            // At the end, only other channels receive messages.
            let what = if at < quiet { what } else { what.max(1) };
            let channel = [&b"c"[..], b"d", b"e"][usize::from(what)];
            ring.publish_logged(&worker(0), &message(channel, &vec![7; len]), None, place(last), 0).unwrap();
            log.records.push((last, what == 0));
            read_all(&mut reader);
        }
        let since = since.min(last);
        let at = ring.parse_id(&id(&since.to_string()));
        let mut backlog = Backlog::since(&[b"c"], at, Some(place(since))).unwrap();
        let mut got = Vec::new();
        let mut pieces = pieces.into_iter();
        for _ in 0..10_000 {
            let (room, more) = pieces.next().unwrap_or((100, 0));
            for _ in 0..more {
                last += 1;
                ring.publish_logged(&worker(0), &message(b"c", &[7; 20]), None, place(last), 0).unwrap();
                log.records.push((last, true));
                read_all(&mut reader);
            }
            let up_to = reader.read_up_to();
            let mut given = 0;
            ring.next_missed_of_log(&mut backlog, Some(&mut log), (up_to, 0), &mut |missed| {
                got.push(match missed {
                    Missed::Record(record) => Some(record.log_place().unwrap().seq),
                    Missed::Gap { .. } => None,
                });
                given += 1;
                given < room
            });
            if backlog.is_at(up_to) {
                break;
            }
        }
        prop_assert!(backlog.is_at(ring.newest()));
        let given: Vec<u64> = got.iter().flatten().copied().collect();
        let all: Vec<u64> = log.records.iter().filter(|it| it.1 && it.0 > since).map(|it| it.0).collect();
        prop_assert!(given.is_sorted_by(|a, b| a < b), "{got:?}");
        let missing: Vec<&u64> = all.iter().filter(|seq| !given.contains(seq)).collect();
        prop_assert!(missing.iter().all(|seq| **seq <= oldest), "{got:?} of {all:?}");
        let gaps = got.iter().filter(|it| it.is_none()).count();
        prop_assert!(gaps > 0 || missing.is_empty(), "{got:?} of {all:?}");
        prop_assert!(gaps == 0 || since < oldest, "a gap although the log has everything");
        let is_twice = got.windows(2).any(|two| two == [None, None]);
        prop_assert!(!is_twice, "{got:?}");
    }
}

#[test]
fn silent_log_becomes_a_gap_at_the_deadline() {
    let config = Config {
        history_age_ms_max: 60_000,
        ..small()
    };
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    ring.begin_log(&worker(0), place(9)).unwrap();
    ring.publish_logged(&worker(0), &message(b"c", b""), None, place(10), 0)
        .unwrap();
    let at = ring.parse_id(&id("3"));
    assert_eq!(at, IdRef::Past(3));
    let mut backlog = Backlog::since(&[b"c"], at, Some(place(3))).unwrap();
    let mut log = SlowLog {
        records: Vec::new(),
        oldest: 0,
        answers: 0,
        asked: 3,
    };
    let mut got = Vec::new();
    let up_to = ring.newest();
    for unix_ms in [10, 5_000, 5_010, 5_011] {
        log.answers = 0;
        log.asked = 3;
        ring.next_missed_of_log(
            &mut backlog,
            Some(&mut log),
            (up_to, unix_ms),
            &mut |missed| {
                got.push(match missed {
                    Missed::Record(record) => record.log_place().map(|place| place.seq),
                    Missed::Gap { .. } => None,
                });
                true
            },
        );
        assert_eq!(backlog.is_waiting(), unix_ms < 5_010);
    }
    assert_eq!(got, [None, Some(10)]);
    assert!(backlog.is_at(up_to));
}

#[test]
fn client_ahead_waits_and_receives_nothing_twice() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    ring.begin_log(&worker(0), place(0)).unwrap();
    let publish = |ring: &mut Ring, seq| {
        ring.publish_logged(&worker(0), &message(b"c", b""), None, place(seq), 0)
            .unwrap();
    };
    publish(&mut ring, 1);
    assert_eq!(ring.parse_id(&id("3")), IdRef::Ahead(3));
    let mut backlog = Backlog::ahead(&[b"c"], place(3));
    let mut got = Vec::new();
    let mut give = |ring: &mut Ring, unix_ms: u64| {
        let up_to = ring.newest();
        ring.next_missed(&mut backlog, up_to, unix_ms, &mut |missed| {
            got.push(match missed {
                Missed::Record(record) => record.log_place().map(|place| place.seq),
                Missed::Gap { .. } => None,
            });
            true
        });
        backlog.is_at(up_to)
    };
    assert!(!give(&mut ring, 10));
    publish(&mut ring, 2);
    assert!(!give(&mut ring, 11));
    publish(&mut ring, 3);
    publish(&mut ring, 4);
    assert!(give(&mut ring, 12));
    assert_eq!(got, [Some(4)]);
    // A position that is never reached finally becomes a gap.
    let mut backlog = Backlog::ahead(&[b"c"], place(1000));
    let up_to = ring.newest();
    let mut gaps = 0;
    for unix_ms in [0, 1_999, 2_000, 3_999, 4_000] {
        assert_eq!(gaps, 0);
        if unix_ms == 2_000 {
            backlog.wait_anew();
        }
        ring.next_missed(&mut backlog, up_to, unix_ms, &mut |_| {
            gaps += 1;
            true
        });
    }
    assert!(gaps == 1 && backlog.is_at(up_to));
}

/// The server had no record to lose, but its clients must receive a gap.
#[test]
fn idle_reader_is_notified_of_a_gap_in_the_log() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    let mut reader = ring.worker_started(&worker(0), 0).unwrap();
    let mut record = Record::empty();
    ring.begin_log(&worker(0), place(9)).unwrap();
    assert_eq!(reader.read_next(&mut record), Read::Empty);
    let mut seq = 9;
    for _ in 0..200 {
        // The loop stores a record at every position of the ring.
        seq += 1;
        ring.publish_logged(&worker(0), &message(b"c", b"data"), None, place(seq), 0)
            .unwrap();
        assert_eq!(reader.read_next(&mut record), Read::Record);
        seq += 5;
        ring.begin_log(&worker(0), place(seq)).unwrap();
        assert!(reader.has_more());
        assert_eq!(reader.read_next(&mut record), Read::Lost);
        assert_eq!(reader.read_next(&mut record), Read::Empty);
    }
}

/// A reader that is behind loses its unread records, and is notified of this once.
#[test]
fn slow_reader_is_notified_once_of_a_gap_in_the_log() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    let mut reader = ring.worker_started(&worker(0), 0).unwrap();
    ring.begin_log(&worker(0), place(9)).unwrap();
    // Make the reader as far behind as possible.
    let mut seq = 10;
    while ring
        .publish_logged(&worker(0), &message(b"c", b"data"), None, place(seq), 0)
        .is_ok()
    {
        seq += 1;
    }
    ring.begin_log(&worker(0), place(seq + 1)).unwrap();
    let mut record = Record::empty();
    assert_eq!(reader.read_next(&mut record), Read::Lost);
    assert_eq!(reader.read_next(&mut record), Read::Empty);
}

#[test]
fn start_and_end_of_a_log_are_gaps() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
    let mut reader = ring.worker_started(&worker(0), 0).unwrap();
    ring.begin_log(&worker(0), place(9)).unwrap();
    ring.publish_logged(&worker(0), &message(b"c", b""), None, place(10), 0)
        .unwrap();
    let other = LogPlace { epoch: 5, seq: 0 };
    ring.begin_log(&worker(0), other).unwrap();
    let mut record = Record::empty();
    assert_eq!(reader.read_next(&mut record), Read::Lost);
    assert_eq!(ring.parse_id(&id("10")), IdRef::Foreign);
    assert_eq!(
        ring.publish_logged(&worker(0), &message(b"c", b""), None, place(11), 0),
        Ok(None)
    );
    ring.end_log();
    assert_eq!(ring.log_reached(), None);
    assert_eq!(ring.parse_id(b"5-0"), IdRef::Foreign);
}

#[test]
fn log_record_killed_at_any_step_is_in_the_ring_once() {
    let config = small();
    for step in 0.. {
        let words = memory(&config);
        let mut ring = Ring::create(words, &config, 1, 2).unwrap();
        let mut reader = ring.worker_started(&worker(0), 0).unwrap();
        ring.begin_log(&worker(0), place(0)).unwrap();
        let mut seq = 0;
        let publish = |ring: &mut Ring, who: &Owner, seq| {
            ring.publish_logged(who, &message(b"c", &[1; 30]), None, place(seq), 0)
                .unwrap();
        };
        while seq < 20 {
            seq += 1;
            publish(&mut ring, &worker(0), seq);
            read_all(&mut reader);
        }
        let done = crash::run(step, || publish(&mut ring, &doomed(1), 21));
        // The next process continues at the ring's log position, whether or not it acquires the lock first.
        let mut ring = attach(words, &config);
        ring.worker_ended(&master(), 1, doomed(1).pid, 0).unwrap();
        let reached = ring.log_reached().unwrap().seq;
        assert!(reached == 20 || reached == 21, "{reached}");
        publish(&mut ring, &worker(0), 21);
        publish(&mut ring, &worker(0), 22);
        let mut record = Record::empty();
        let mut places = Vec::new();
        while reader.read_next(&mut record) == Read::Record {
            places.push(record.log_place().unwrap().seq);
        }
        assert_eq!(places, [21, 22], "killed before step {step}");
        if done.is_some() {
            return;
        }
    }
}

#[test]
fn queue_retains_unreleased_records() {
    let config = small();
    let words = memory(&config);
    let mut ring = Ring::create(words, &config, 1, 2).unwrap();
    ring.worker_started(&worker(0), 0).unwrap();
    let mut seqs = Vec::new();
    let error = loop {
        match ring.publish(&worker(1), &message(b"q", &[1; 30]), 0) {
            Ok(seq) => seqs.push(seq),
            Err(error) => break error,
        }
    };
    assert_eq!(error, crate::PublishError::Behind { slot: 0 });
    let mut record = Record::empty();
    let mut first = ring.consume(0);
    assert!(!first.set_sleeping() && !first.is_empty());
    for _ in 0..3 {
        assert_eq!(first.read_next(&mut record), Read::Record);
    }
    first.release(seqs[1]);
    // Releasing a record twice changes nothing.
    first.release(seqs[0]);
    // The reader is killed here. Its replacement starts after the released records.
    let mut second = attach(words, &config).consume(0);
    for &seq in &seqs[2..] {
        assert_eq!(second.read_next(&mut record), Read::Record);
        assert_eq!(record.seq, seq);
    }
    assert_eq!(second.read_next(&mut record), Read::Empty);
    second.rewind();
    assert_eq!(second.read_next(&mut record), Read::Record);
    assert_eq!(record.seq, seqs[2]);
    ring.publish(&worker(1), &message(b"q", &[1; 30]), 0)
        .unwrap();
}
