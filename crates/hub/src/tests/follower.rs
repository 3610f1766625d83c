//! Tests of followers.

use super::*;
use crate::Previous;

fn ring_of(config: &Config) -> (Ring, Owner) {
    let ring = Ring::create(memory(config), config, 7, 99).unwrap();
    (ring, worker(0))
}

#[test]
fn follower_reads_from_the_oldest_record() {
    let (mut ring, who) = ring_of(&small());
    let early = ring.publish(&who, &message(b"a", b"0"), 1).unwrap();
    let mut follower = ring.follow();
    let late = ring.publish(&who, &message(b"b", b"1"), 2).unwrap();
    let mut record = Record::empty();
    for (seq, channel) in [(early, b"a"), (late, b"b")] {
        assert_eq!(follower.read_next(&mut record), Read::Record);
        assert_eq!((record.seq, record.channel()), (seq, &channel[..]));
    }
    assert!(!follower.has_more());
    assert_eq!(follower.read_next(&mut record), Read::Empty);
    ring.publish(&who, &message(b"a", b"2"), 3).unwrap();
    assert!(follower.has_more());
}

#[test]
fn follower_continues_at_a_given_record() {
    let (mut ring, who) = ring_of(&small());
    let mut publish = || {
        ring.publish(&who, &message(b"a", b"some bytes"), 1)
            .unwrap()
    };
    let (_, known, next) = (publish(), publish(), publish());
    let mut record = Record::empty();
    let mut follower = ring.follow();
    follower.go_to(known);
    for seq in [known, next] {
        assert_eq!(follower.read_next(&mut record), Read::Record);
        assert_eq!(record.seq, seq);
    }
    assert_eq!(follower.read_next(&mut record), Read::Empty);
    for _ in 0..200 {
        ring.publish(&who, &message(b"a", b"some bytes"), 1)
            .unwrap();
    }
    let mut late = ring.follow();
    late.go_to(known);
    assert_eq!(late.read_next(&mut record), Read::Lost);
    assert_eq!(late.read_next(&mut record), Read::Record);
}

#[test]
fn publishers_do_not_wait_for_a_follower() {
    let (mut ring, who) = ring_of(&small());
    let mut follower = ring.follow();
    for _ in 0..200 {
        ring.publish(&who, &message(b"a", b"some bytes"), 1)
            .expect("no worker reads");
    }
    let mut record = Record::empty();
    assert_eq!(follower.read_next(&mut record), Read::Lost);
    let mut count = 0;
    while follower.read_next(&mut record) == Read::Record {
        count += 1;
    }
    assert!(count > 0 && count < 200, "{count}");
    assert_eq!(record.seq, {
        let (_, records) = replay(&mut ring, &[b"a"], &everything());
        records.last().unwrap().seq
    });
}

#[test]
fn returns_the_predecessor_in_a_channel() {
    let (mut ring, who) = ring_of(&small());
    let publish =
        |ring: &mut Ring, channel: &[u8]| ring.publish(&who, &message(channel, b"x"), 1).unwrap();
    let first = publish(&mut ring, b"a");
    let other = publish(&mut ring, b"b");
    let second = publish(&mut ring, b"a");
    let follower = ring.follow();
    assert_eq!(follower.previous(b"a", first), Previous::Beginning);
    assert_eq!(follower.previous(b"b", other), Previous::Beginning);
    assert_eq!(follower.previous(b"a", second), Previous::At(first));
    assert_eq!(ring.previous(b"a", Seq::MAX), Previous::At(second));
    assert_eq!(ring.previous(b"c", Seq::MAX), Previous::Beginning);
    for _ in 0..200 {
        publish(&mut ring, b"b");
    }
    assert_eq!(ring.previous(b"a", Seq::MAX), Previous::Unknown);
}
