//! The past of a log: messages that were stored before a server connected are used for replays and history, never sent to live
//! subscribers.

use super::*;
use crate::{
    Backlog, Encode, IdRef, Local, LocalConfig, LogBegin, LogPlace, Missed, PayloadSpan, SubId,
};

const EPOCH: u64 = 77;

/// A frame is the record's log position, as a byte.
struct Places;

impl Encode for Places {
    fn encode(&mut self, _: u8, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        let place = record.log_place().expect("it comes from the log");
        out.push(place.seq as u8);
        PayloadSpan { start: 0, end: 1 }
    }
}

struct Machine {
    ring: Ring,
    reader: Reader,
    local: Local,
    live: SubId,
}

fn place(epoch: u64, seq: u64) -> LogPlace {
    LogPlace { epoch, seq }
}

fn begin(epoch: u64, floor: u64, past_until: u64, is_told: bool) -> LogBegin {
    LogBegin {
        floor: place(epoch, floor),
        past_until,
        is_told,
    }
}

impl Machine {
    fn new() -> Machine {
        let config = Config {
            ring_bytes: 1 << 14,
            ..small()
        };
        let mut ring = Ring::create(memory(&config), &config, 1, 2).unwrap();
        let reader = ring.worker_started(&worker(0), 0).unwrap();
        let mut local = Local::new(LocalConfig {
            log_bytes_max: 1000,
            hasher: ring.hasher(),
        });
        let live = local.subscribe(1, SubId::NONE, b"c", 0);
        Machine {
            ring,
            reader,
            local,
            live,
        }
    }

    fn read(&mut self, epoch: u64, seqs: std::ops::RangeInclusive<u64>) {
        for seq in seqs {
            let record = message(b"c", b"data");
            self.ring
                .publish_logged(&worker(0), &record, None, place(epoch, seq), 0)
                .unwrap();
        }
        while self.local.pump(&mut self.reader, &mut Places, 1024) {}
    }

    /// Returns the gap and the log positions that a live subscriber receives.
    fn sent(&mut self) -> (Option<bool>, Vec<u8>) {
        let gap = self.local.has_gap(self.live);
        let is_of_log = self.local.is_log_lost(self.live);
        self.local.skip_gap(self.live);
        let bytes = self.local.contiguous(self.live, usize::MAX);
        let bytes = bytes.expect("one channel").to_vec();
        self.local
            .advance(self.live, false, bytes.len(), &mut Vec::new());
        (gap.then_some(is_of_log), bytes)
    }

    fn missed(&mut self, backlog: &mut Backlog) -> Vec<Result<u64, bool>> {
        let mut got = Vec::new();
        let up_to = self.reader.read_up_to();
        self.ring.next_missed(backlog, up_to, 0, &mut |missed| {
            got.push(match missed {
                Missed::Record(record) => Ok(record.log_place().expect("of the log").seq),
                Missed::Gap { is_of_log } => Err(is_of_log),
            });
            true
        });
        got
    }

    fn id(&mut self) -> String {
        let (newest, mut text) = (self.ring.newest(), [0; crate::ID_BYTES_MAX]);
        String::from_utf8(self.ring.id_text(newest, &mut text).to_vec()).unwrap()
    }
}

#[test]
fn past_of_a_log_is_history_and_not_live() {
    let mut machine = Machine::new();
    machine
        .ring
        .begin_log(&worker(0), begin(EPOCH, 0, 9, false))
        .unwrap();
    machine.read(EPOCH, 1..=5);
    assert_eq!(machine.sent(), (None, vec![]));
    // A client that connects now has every message up to the end of the past, and resumes after it on another server.
    assert_eq!(machine.id(), "25-9");
    assert_eq!(machine.ring.parse_id(b"25-9"), IdRef::Ahead(9));
    // A client that resumes with an id receives the missed records, and becomes live only after the past ends.
    let at = machine.ring.parse_id(b"25-3");
    let mut backlog = Backlog::since(&[b"c"], at, Some(place(EPOCH, 3))).unwrap();
    assert_eq!(machine.missed(&mut backlog), [Ok(4), Ok(5)]);
    assert!(machine.ring.is_past(machine.reader.read_up_to()));
    machine.read(EPOCH, 6..=8);
    machine.ring.note_read(9);
    machine.ring.end_past(&worker(0)).unwrap();
    assert!(!machine.ring.is_past(machine.reader.read_up_to()));
    assert_eq!(machine.missed(&mut backlog), [Ok(6), Ok(7), Ok(8)]);
    assert!(backlog.is_at(machine.reader.read_up_to()));
    // The last message of the past has no record, but its position is known.
    assert!(matches!(machine.ring.parse_id(b"25-9"), IdRef::Seq(_)));
    assert_eq!(machine.id(), "25-9");
    let end_of_past = machine.ring.newest();
    machine.read(EPOCH, 10..=11);
    let mut buffer = [0; crate::ID_BYTES_MAX];
    let id = machine.ring.id_text(end_of_past, &mut buffer);
    assert_eq!(id, b"25-9", "positions of a client ascend");
    assert_eq!(machine.sent(), (None, vec![10, 11]));
    let (_, history) = replay(&mut machine.ring, &[b"c"], &everything());
    assert_eq!(history.len(), 10);
}

#[test]
fn log_that_lost_messages_is_one_gap_before_its_records() {
    let mut machine = Machine::new();
    machine.ring.begin_log(&worker(0), place(EPOCH, 0)).unwrap();
    machine.read(EPOCH, 1..=9);
    assert_eq!(machine.sent().1.len(), 9);
    let at = machine.ring.parse_id(b"25-2");
    let mut slow = Backlog::since(&[b"c"], at, Some(place(EPOCH, 2))).unwrap();
    // The ring accepts one record, then the log loses its end.
    let up_to = machine.reader.read_up_to();
    machine
        .ring
        .next_missed(&mut slow, up_to, 0, &mut |_| false);
    machine
        .ring
        .begin_log(&worker(0), begin(EPOCH + 1, 0, 7, true))
        .unwrap();
    machine.read(EPOCH + 1, 1..=6);
    assert_eq!(machine.sent(), (Some(true), vec![]));
    assert_eq!(machine.missed(&mut slow), [Err(true)]);
    machine.read(EPOCH + 1, 7..=7);
    assert_eq!(machine.missed(&mut slow), []);
    machine.ring.end_past(&worker(0)).unwrap();
    machine.read(EPOCH + 1, 8..=9);
    assert_eq!(machine.sent(), (None, vec![8, 9]));
    assert_eq!(machine.missed(&mut slow), [Ok(8), Ok(9)]);
    assert!(slow.is_at(machine.reader.read_up_to()));
}

#[test]
fn past_of_a_server_with_history_follows_its_history() {
    let mut machine = Machine::new();
    machine.ring.begin_log(&worker(0), place(EPOCH, 0)).unwrap();
    machine.read(EPOCH, 1..=2);
    assert_eq!(machine.sent().1, [1, 2]);
    machine
        .ring
        .begin_past(&worker(0), crate::PAST_UNKNOWN)
        .unwrap();
    // The end of the log is unknown: a new client needs no records, and a resuming client waits.
    assert_eq!(machine.id(), "25-2");
    let mut newcomer = Backlog::from_now(&[b"c"], machine.ring.newest());
    let at = machine.ring.parse_id(b"25-2");
    let mut back = Backlog::since(&[b"c"], at, Some(place(EPOCH, 2))).unwrap();
    assert_eq!(machine.missed(&mut newcomer), []);
    assert_eq!(machine.missed(&mut back), []);
    assert!(machine.ring.is_past(machine.reader.read_up_to()));
    machine.ring.begin_past(&worker(0), 4).unwrap();
    machine.read(EPOCH, 3..=4);
    assert_eq!(machine.ring.past_until(), Some(4));
    machine.ring.end_past(&worker(0)).unwrap();
    assert_eq!(machine.missed(&mut newcomer), [Err(true)]);
    assert_eq!(machine.missed(&mut back), [Ok(3), Ok(4)]);
    machine.read(EPOCH, 5..=5);
    assert_eq!(machine.sent(), (None, vec![5]));
    // The past is empty.
    machine.ring.begin_past(&worker(0), 5).unwrap();
    assert_eq!(machine.ring.past_until(), None);
}

#[test]
fn id_waits_for_an_unknown_log() {
    let mut machine = Machine::new();
    let mut backlog = Backlog::ahead(&[b"c"], place(EPOCH, 3));
    assert_eq!(machine.missed(&mut backlog), []);
    assert!(backlog.is_waiting());
    machine
        .ring
        .begin_log(&worker(0), begin(EPOCH, 0, 4, false))
        .unwrap();
    machine.read(EPOCH, 1..=4);
    machine.ring.end_past(&worker(0)).unwrap();
    assert_eq!(machine.missed(&mut backlog), [Ok(4)]);
    // An id of another log is reported as unknown immediately, unless the caller knows that this log is unavailable.
    for (is_away, expected) in [(true, vec![]), (false, vec![Err(false)])] {
        let mut backlog = Backlog::ahead(&[b"c"], place(EPOCH + 1, 3));
        if is_away {
            backlog.wait_anew();
        }
        assert_eq!(machine.missed(&mut backlog), expected);
    }
}

#[test]
fn past_ends_with_its_log() {
    let mut machine = Machine::new();
    let owner = worker(0);
    machine
        .ring
        .begin_log(&owner, begin(EPOCH, 0, 9, false))
        .unwrap();
    machine.ring.end_log();
    assert_eq!(machine.ring.past_until(), None);
    let newest = machine.ring.newest();
    assert!(!machine.ring.is_past(newest));
    let mut backlog = Backlog::from_now(&[b"c"], newest);
    let at = machine
        .ring
        .publish(&owner, &message(b"c", b"data"), 0)
        .unwrap();
    let mut records = 0;
    machine
        .ring
        .next_missed(&mut backlog, at, 0, &mut |missed| {
            records += usize::from(matches!(missed, Missed::Record(_)));
            true
        });
    assert_eq!(records, 1);
}

#[test]
fn start_of_a_log_waits_for_it_and_has_all_its_records() {
    let mut machine = Machine::new();
    let mut early = Backlog::from_start_of_log(&[b"c"]);
    assert_eq!(machine.missed(&mut early), []);
    assert!(early.is_waiting());
    machine
        .ring
        .begin_log(&worker(0), begin(EPOCH, 0, 3, false))
        .unwrap();
    machine.read(EPOCH, 1..=2);
    assert_eq!(machine.missed(&mut early), [Ok(1), Ok(2)]);
    machine.read(EPOCH, 3..=3);
    machine.ring.end_past(&worker(0)).unwrap();
    let mut late = Backlog::from_start_of_log(&[b"c"]);
    assert_eq!(machine.missed(&mut late), [Ok(1), Ok(2), Ok(3)]);
    assert_eq!(machine.missed(&mut early), [Ok(3)]);
    assert!(late.is_at(machine.reader.read_up_to()));
    // This ring does not have the log's first records, and nobody reads them from the log.
    machine
        .ring
        .begin_log(&worker(0), begin(EPOCH + 1, 7, 0, true))
        .unwrap();
    machine.read(EPOCH + 1, 8..=8);
    let mut cut = Backlog::from_start_of_log(&[b"c"]);
    assert_eq!(machine.missed(&mut cut), [Err(false), Ok(8)]);
}

/// Regression: such a client received nothing about the change, and missed the end of the old log.
#[test]
fn client_that_waits_for_the_present_learns_that_the_log_was_lost() {
    let mut machine = Machine::new();
    machine.ring.begin_log(&worker(0), place(EPOCH, 0)).unwrap();
    machine.read(EPOCH, 1..=2);
    let mut waiting = Backlog::from_now(&[b"c"], machine.ring.newest());
    machine
        .ring
        .begin_log(&worker(0), begin(EPOCH + 1, 0, 3, true))
        .unwrap();
    machine.read(EPOCH + 1, 1..=3);
    assert_eq!(machine.missed(&mut waiting), [Err(true)]);
    machine.ring.end_past(&worker(0)).unwrap();
    machine.read(EPOCH + 1, 4..=4);
    assert_eq!(machine.missed(&mut waiting), [Ok(4)]);
}
