//! Tests of handlers that read a channel: complete, in order, one wake-up per wait, gaps.

use proptest::prelude::*;

use super::{Rig, cases, get, settings};
use crate::{READERS_MAX, ReadNext, ReaderId, Since};

/// Opens a reader of channel `a`.
fn open(rig: &mut Rig, since: Since<'_>) -> ReaderId {
    rig.worker.open_reader(b"a", since).expect("a name")
}

/// Reads until the reader waits: data of the events, gaps as `gap: REASON`.
fn read_all(rig: &mut Rig, reader: ReaderId) -> Vec<String> {
    let mut got = Vec::new();
    loop {
        match rig.worker.read_next(reader).expect("it is open") {
            ReadNext::Event(event) => got.push(String::from_utf8(event.data).expect("text")),
            ReadNext::Gap(reason) => got.push(format!("gap: {reason}")),
            ReadNext::Wait => return got,
        }
    }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[test]
fn reads_from_now_from_the_start_or_after_an_id() {
    let mut rig = Rig::new(1);
    rig.publish("a", "0");
    let id = rig.publish("a", "1");
    rig.publish("b", "elsewhere");
    rig.publish("a", "2");
    let now = open(&mut rig, Since::Now);
    let start = open(&mut rig, Since::Earliest);
    let after = open(&mut rig, Since::After(id.as_bytes()));
    rig.publish("a", "3");
    rig.run();
    assert_eq!(read_all(&mut rig, now), strings(&["3"]));
    assert_eq!(read_all(&mut rig, start), strings(&["0", "1", "2", "3"]));
    assert_eq!(read_all(&mut rig, after), strings(&["2", "3"]));
    assert_eq!(rig.woken, [], "none has waited");
}

#[test]
fn many_messages_wake_a_waiting_reader_once() {
    let mut rig = Rig::new(1);
    let readers = [0; 3].map(|_| open(&mut rig, Since::Now));
    for reader in readers {
        assert_eq!(read_all(&mut rig, reader), strings(&[]));
    }
    assert_eq!(rig.worker.channels.local.subscriptions(), 3);
    rig.publish("b", "elsewhere");
    rig.run();
    assert_eq!(rig.woken, []);
    for n in 0..50 {
        rig.publish("a", &n.to_string());
    }
    rig.run();
    let mut woken = std::mem::take(&mut rig.woken);
    woken.sort_by_key(|reader| reader.to_raw());
    assert_eq!(woken, readers);
    assert_eq!(rig.worker.channels.local.subscriptions(), 0);
    for reader in readers {
        assert_eq!(read_all(&mut rig, reader).len(), 50);
    }
}

#[test]
fn joins_and_leaves_wake_no_reader() {
    let mut rig = Rig::new(1);
    let reader = open(&mut rig, Since::Now);
    read_all(&mut rig, reader);
    drop(rig.peer(&get("/hold/a?user=u")));
    rig.advance(100);
    assert_eq!(rig.woken, []);
    assert_eq!(read_all(&mut rig, reader), strings(&[]));
    rig.publish("a", "1");
    rig.run();
    assert_eq!(rig.woken, [reader]);
    assert_eq!(read_all(&mut rig, reader), strings(&["1"]));
}

#[test]
fn a_closed_reader_is_not_woken_and_its_id_is_never_reused() {
    let mut rig = Rig::new(1);
    let closed = open(&mut rig, Since::Now);
    read_all(&mut rig, closed);
    rig.worker.close_reader(closed);
    assert_eq!(rig.worker.channels.local.subscriptions(), 0);
    let next = open(&mut rig, Since::Now);
    read_all(&mut rig, next);
    rig.publish("a", "1");
    rig.run();
    assert_eq!(rig.woken, [next]);
    assert_eq!(rig.worker.read_next(closed), None);
    rig.worker.close_reader(closed);
    assert_eq!(read_all(&mut rig, next), strings(&["1"]));
}

#[test]
fn a_slow_reader_and_an_old_id_receive_a_gap() {
    let mut rig = Rig::new(1);
    let first = rig.publish("a", "first");
    rig.run();
    let slow = open(&mut rig, Since::Earliest);
    let next = rig.worker.read_next(slow);
    assert!(matches!(next, Some(ReadNext::Event(_))), "{next:?}");
    for n in 0..1000 {
        rig.publish("a", &format!("{n:04000}"));
    }
    rig.run();
    let late = open(&mut rig, Since::After(first.as_bytes()));
    let unknown = open(&mut rig, Since::After(b"made-up"));
    let got = read_all(&mut rig, slow);
    assert_eq!((got[0].as_str(), got.len() > 10), ("gap: too slow", true));
    assert_eq!(
        got[1..].iter().filter(|it| it.starts_with("gap")).count(),
        0
    );
    assert_eq!(got.last(), Some(&format!("{:04000}", 999)));
    let got = read_all(&mut rig, late);
    assert_eq!((got[0].as_str(), got.len() > 10), ("gap: expired", true));
    assert_eq!(read_all(&mut rig, unknown), strings(&["gap: unknown id"]));
}

#[test]
fn the_limits_of_history_do_not_apply_to_later_events() {
    let mut settings = settings();
    settings.history_count_max = 5;
    let mut rig = Rig::with(1, settings);
    rig.publish("a", "before");
    let now = open(&mut rig, Since::Now);
    for n in 0..20 {
        rig.publish("a", &n.to_string());
    }
    rig.run();
    let all: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(read_all(&mut rig, now), all);
}

/// Regression: the records of other channels are linked with those of the reader's channel. When
/// the ring had overwritten one of them, a reader that had waited since then received a gap.
#[test]
fn a_reader_that_waits_misses_nothing_while_the_ring_is_overwritten() {
    for has_read in [false, true] {
        let mut rig = Rig::new(1);
        let reader = open(&mut rig, Since::Now);
        if has_read {
            rig.publish("a", "first");
            rig.run();
            assert_eq!(read_all(&mut rig, reader), strings(&["first"]));
        }
        assert_eq!(read_all(&mut rig, reader), strings(&[]));
        for n in 0..3_000 {
            rig.publish(&format!("other {n}"), &format!("{n:01000}"));
            if n == 1_500 {
                // The handler was cancelled, and reads again later.
                rig.run();
                assert_eq!(read_all(&mut rig, reader), strings(&[]));
            }
        }
        rig.run();
        assert_eq!(rig.woken, []);
        rig.publish("a", "second");
        rig.run();
        assert_eq!(rig.woken, [reader]);
        assert_eq!(read_all(&mut rig, reader), strings(&["second"]));
    }
}

#[test]
fn the_number_of_readers_is_bounded() {
    let mut rig = Rig::new(1);
    let readers: Vec<_> = (0..READERS_MAX)
        .map(|_| open(&mut rig, Since::Now))
        .collect();
    let refused = rig.worker.open_reader(b"a", Since::Now);
    let error = refused.expect_err("too many").to_string();
    assert!(error.contains("65536 open readers"), "{error}");
    rig.worker.close_reader(readers[7]);
    open(&mut rig, Since::Now);
}

#[derive(Clone, Debug)]
enum Step {
    /// Worker and channel.
    Publish(usize, bool),
    Open(bool),
    Read(usize),
    Close(usize),
    Run,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2usize, prop::bool::weighted(0.8)).prop_map(|(at, ours)| Step::Publish(at, ours)),
        1 => any::<bool>().prop_map(Step::Open),
        4 => (0..8usize).prop_map(Step::Read),
        1 => (0..8usize).prop_map(Step::Close),
        3 => Just(Step::Run),
    ]
}

proptest! {
    #![proptest_config(cases(64))]

    /// A reader receives every message after it was opened, in order and once; one that waits is
    /// woken.
    #[test]
    fn no_message_is_missed(steps in prop::collection::vec(step(), 1..200)) {
        let mut rigs = Rig::pair(1, &settings());
        let mut published = Vec::new();
        // Reader, its first message, what it has read, and true if it waits.
        let mut readers: Vec<(ReaderId, usize, Vec<String>, bool)> = Vec::new();
        let read = |rig: &mut Rig, readers: &mut Vec<(ReaderId, usize, Vec<String>, bool)>| {
            for woken in std::mem::take(&mut rig.woken) {
                if let Some(reader) = readers.iter_mut().find(|reader| reader.0 == woken) {
                    assert!(std::mem::take(&mut reader.3), "woken without a wait");
                }
            }
        };
        for step in steps {
            match step {
                Step::Publish(at, is_ours) => {
                    let text = published.len().to_string();
                    rigs[at].publish(if is_ours { "a" } else { "b" }, &text);
                    if is_ours {
                        published.push(text);
                    }
                }
                Step::Open(from_start) => {
                    let from = if from_start { 0 } else { published.len() };
                    let since = Since::of(None, from_start);
                    let reader = open(&mut rigs[0], since);
                    readers.push((reader, from, Vec::new(), false));
                }
                Step::Read(at) if at < readers.len() => {
                    let got = read_all(&mut rigs[0], readers[at].0);
                    readers[at].2.extend(got);
                    readers[at].3 = true;
                }
                Step::Close(at) if at < readers.len() => {
                    rigs[0].worker.close_reader(readers.remove(at).0);
                }
                Step::Read(_) | Step::Close(_) => {}
                Step::Run => {
                    rigs.iter_mut().for_each(Rig::run);
                    read(&mut rigs[0], &mut readers);
                }
            }
        }
        rigs.iter_mut().for_each(Rig::run);
        read(&mut rigs[0], &mut readers);
        for (reader, from, mut got, waits) in readers {
            if !waits {
                got.extend(read_all(&mut rigs[0], reader));
            }
            prop_assert_eq!(got, &published[from..]);
        }
    }
}
