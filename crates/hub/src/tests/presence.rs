//! Compares presence with a map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Departure, Joined, Presence, PresenceError, PublishError};

#[derive(Clone, Debug)]
enum Op {
    Join {
        slot: u32,
        channel: usize,
        user: usize,
        info: u8,
    },
    Leave {
        slot: u32,
        channel: usize,
        user: usize,
        is_deliberate: bool,
    },
    WorkerEnds {
        slot: u32,
    },
    Pass {
        ms: u64,
    },
    Sweep,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3u32, 0..2usize, 0..6usize, any::<u8>())
            .prop_map(|(slot, channel, user, info)| Op::Join { slot, channel, user, info }),
        5 => (0..3u32, 0..2usize, 0..6usize, any::<bool>())
            .prop_map(|(slot, channel, user, is_deliberate)| Op::Leave { slot, channel, user, is_deliberate }),
        1 => (0..3u32).prop_map(|slot| Op::WorkerEnds { slot }),
        3 => (0..80u64).prop_map(|ms| Op::Pass { ms }),
        3 => Just(Op::Sweep),
    ]
}

const CHANNELS: [&[u8]; 2] = [b"room", b"a-second-room-with-a-longer-name"];
/// Sources of connections. The last source is unknown.
const SOURCES: [&[u8]; 3] = [b"192.0.2.1", b"192.0.2.2", b""];
const USERS: [&[u8]; 6] = [b"a", b"bo", b"carol-carol", b"d", b"e", b"f"];

#[derive(Default)]
struct Member {
    counts: [u32; 3],
    info: u8,
    /// Time at which the user left, if no client is connected.
    due: u64,
}

impl Member {
    fn total(&self) -> u32 {
        self.counts.iter().sum()
    }
}

fn disconnect(member: &mut Member, slot: u32, count: u32, due: u64) {
    let taken = member.counts[slot as usize].min(count);
    member.counts[slot as usize] -= taken;
    if taken > 0 && member.total() == 0 {
        member.due = due;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn behaves_like_a_map(ops in proptest::collection::vec(op(), 1..150), channel_max in 3..8usize, source_max in 2..7usize) {
        let config = Config { ring_bytes: 1 << 16, ..small() };
        let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
        ring.set_channel_members_max(channel_max);
        ring.set_source_members_max(source_max);
        let mut reader = ring.worker_started(&worker(0), 0).unwrap();
        for slot in 1..3 {
            ring.worker_started(&worker(slot), 0).unwrap();
        }
        let mut model: BTreeMap<(usize, usize), Member> = BTreeMap::new();
        let mut events: Vec<Expected> = Vec::new();
        let mut now = 1000;
        for op in ops {
            match op {
                Op::Join { slot, channel, user, info } => {
                    let presence = Presence {
                        channel: CHANNELS[channel],
                        user: USERS[user],
                        info: &vec![info; usize::from(info)],
                        source: SOURCES[user % 3], announce: Some(&[user as u8]),
                        announce_changed: Some(&[user as u8, b'*']),
                    };
                    let joined = ring.join(&worker(slot), &presence, now);
                    let first = !model.contains_key(&(channel, user));
                    let of_source = model.keys().filter(|(_, of)| of % 3 == user % 3).count();
                    if first && !SOURCES[user % 3].is_empty() && of_source == source_max {
                        prop_assert_eq!(joined, Err(PresenceError::SourceFull { max: source_max }));
                        continue;
                    }
                    if first && model.keys().filter(|(of, _)| *of == channel).count() == channel_max {
                        prop_assert_eq!(joined, Err(PresenceError::ChannelFull { max: channel_max }));
                        continue;
                    }
                    if first && model.len() == config.members_max as usize {
                        prop_assert_eq!(joined, Err(PresenceError::Full { max: config.members_max as usize }));
                        continue;
                    }
                    let Joined { first: was_first, changed, announced } = joined.unwrap();
                    prop_assert_eq!(was_first, first);
                    let has_other = !first && model[&(channel, user)].info != info;
                    prop_assert_eq!(changed, has_other);
                    prop_assert_eq!(announced.is_some(), first || has_other);
                    if first || has_other {
                        events.push((Kind::Join, channel, user, has_other));
                    }
                    let member = model.entry((channel, user)).or_default();
                    member.counts[slot as usize] += 1;
                    member.info = info;
                }
                Op::Leave { slot, channel, user, is_deliberate } => {
                    let (how, due) = if is_deliberate { (Departure::Deliberate, now) } else { (Departure::Lost, now + 100) };
                    let leaving = ring.leave(&worker(slot), CHANNELS[channel], USERS[user], how, now).unwrap();
                    let before = model.get(&(channel, user)).map_or(0, Member::total);
                    if let Some(member) = model.get_mut(&(channel, user)) {
                        disconnect(member, slot, 1, due);
                    }
                    let after = model.get(&(channel, user)).map_or(0, Member::total);
                    prop_assert_eq!(leaving, before > 0 && after == 0);
                }
                Op::WorkerEnds { slot } => {
                    ring.worker_ended(&master(), slot, worker(slot).pid, now).unwrap();
                    model.values_mut().for_each(|member| disconnect(member, slot, u32::MAX, now + 100));
                    let started = ring.worker_started(&worker(slot), now).unwrap();
                    if slot == 0 {
                        check_events(&mut reader, &mut events)?;
                        reader = started;
                    }
                }
                Op::Pass { ms } => now += ms,
                Op::Sweep => {
                    let swept = ring.sweep(&worker(0), now, &mut |channel, user, info, out| {
                        assert!(CHANNELS.contains(&channel) && info.iter().all(|&byte| usize::from(byte) == info.len()));
                        out.push(USERS.iter().position(|one| *one == user).unwrap() as u8);
                    });
                    let gone: Vec<_> = model.iter().filter(|(_, one)| one.total() == 0 && one.due <= now).map(|(key, _)| *key).collect();
                    prop_assert_eq!(swept.unwrap().left, gone.len());
                    for key in gone {
                        events.push((Kind::Leave, key.0, key.1, false));
                        model.remove(&key);
                    }
                }
            }
            ring.check_presence();
            prop_assert_eq!(ring.leaving_count(), model.values().filter(|one| one.total() == 0).count());
            for (channel, name) in CHANNELS.iter().enumerate() {
                let mut expected: Vec<_> = model
                    .iter()
                    .filter(|((of, _), _)| *of == channel)
                    .map(|((_, user), one)| (USERS[*user].to_vec(), vec![one.info; usize::from(one.info)], one.total()))
                    .collect();
                expected.sort();
                prop_assert_eq!(members(&mut ring, name), expected);
            }
            check_events(&mut reader, &mut events)?;
        }
    }
}

/// Kind, channel, user; true: the event is for changed information.
type Expected = (Kind, usize, usize, bool);

/// Asserts that exactly the expected events were published. Users that leave in one sweep may be in any order.
fn check_events(reader: &mut Reader, events: &mut Vec<Expected>) -> Result<(), TestCaseError> {
    let mut seen: Vec<_> = read_all(reader)
        .iter()
        .map(|record| {
            let channel = CHANNELS
                .iter()
                .position(|one| *one == record.channel())
                .unwrap();
            (
                record.kind,
                channel,
                usize::from(record.data()[0]),
                record.data().len() > 1,
            )
        })
        .collect();
    seen.sort_by_key(|event| (event.1, event.2));
    events.sort_by_key(|event| (event.1, event.2));
    prop_assert_eq!(&seen, &*events);
    events.clear();
    Ok(())
}

#[test]
fn a_deliberate_leave_does_not_wait_for_those_before_it() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
    let mut reader = ring.worker_started(&worker(0), 0).unwrap();
    for user in [&b"lost"[..], b"gone"] {
        let presence = Presence {
            channel: b"room",
            user,
            info: b"",
            source: b"",
            announce: Some(user),
            announce_changed: None,
        };
        ring.join(&worker(0), &presence, 1_000).unwrap();
    }
    let who = worker(0);
    ring.leave(&who, b"room", b"lost", Departure::Lost, 1_000)
        .unwrap();
    ring.leave(&who, b"room", b"gone", Departure::Deliberate, 1_001)
        .unwrap();
    ring.check_presence();
    let mut sweep = |now| {
        let swept = ring.sweep(&who, now, &mut |_, user, _, out| {
            out.extend_from_slice(user)
        });
        swept.unwrap().left
    };
    assert_eq!(sweep(1_001), 1);
    assert_eq!(sweep(1_001), 0);
    let left = read_all(&mut reader);
    let last = left.last().expect("two joins and a leave");
    assert_eq!((last.kind, last.data()), (Kind::Leave, &b"gone"[..]));
}

#[test]
fn a_join_that_cannot_be_announced_does_not_happen() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
    let mut reader = ring.worker_started(&worker(0), 0).unwrap();
    while ring
        .publish(&worker(1), &message(b"c", &[0; 60]), 0)
        .is_ok()
    {}
    let presence = Presence {
        channel: b"room",
        user: b"alice",
        info: b"",
        source: b"",
        announce: Some(b"a much longer one than that"),
        announce_changed: None,
    };
    let behind = PresenceError::Publish(PublishError::Behind { slot: 0 });
    assert_eq!(ring.join(&worker(0), &presence, 0), Err(behind));
    assert!(members(&mut ring, b"room").is_empty());
    let silent = Presence {
        source: b"",
        announce: None,
        announce_changed: None,
        ..presence
    };
    assert_eq!(
        ring.join(&worker(0), &silent, 0),
        Ok(Joined {
            first: true,
            changed: false,
            announced: None
        })
    );
    read_all(&mut reader);

    // A leave that cannot be announced does not happen either: it waits for the next sweep.
    let bob = Presence {
        user: b"bob",
        ..presence
    };
    ring.join(&worker(0), &bob, 0).unwrap();
    ring.leave(&worker(0), b"room", b"bob", Departure::Lost, 0)
        .unwrap();
    ring.leave(&worker(0), b"room", b"alice", Departure::Lost, 0)
        .unwrap();
    while ring
        .publish(&worker(1), &message(b"c", &[0; 60]), 0)
        .is_ok()
    {}
    let mut data =
        |_: &[u8], _: &[u8], _: &[u8], out: &mut Vec<u8>| out.extend_from_slice(&[1; 60]);
    assert_eq!(
        ring.sweep(&worker(0), 500, &mut data),
        Err(PublishError::Behind { slot: 0 })
    );
    assert_eq!(members(&mut ring, b"room").len(), 2);
    read_all(&mut reader);
    let swept = ring.sweep(&worker(0), 500, &mut data).unwrap();
    assert_eq!((swept.left, swept.published, swept.more), (2, true, false));
    assert_eq!(
        read_all(&mut reader).len(),
        1,
        "alice joined silently and leaves silently"
    );
}

#[test]
fn a_leave_event_that_is_too_large_does_not_stop_the_others() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
    for user in USERS {
        let presence = Presence {
            channel: b"room",
            user,
            info: b"",
            source: b"",
            announce: Some(b""),
            announce_changed: None,
        };
        ring.join(&worker(0), &presence, 0).unwrap();
        ring.leave(&worker(0), b"room", user, Departure::Lost, 0)
            .unwrap();
    }
    let swept = ring
        .sweep(&worker(0), 500, &mut |_, _, _, out| {
            out.extend_from_slice(&[1; 65])
        })
        .unwrap();
    assert_eq!((swept.left, swept.published), (USERS.len(), false));
}

#[test]
fn a_clock_set_back_does_not_keep_users_present() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
    let presence = Presence {
        channel: b"room",
        user: b"a",
        info: b"",
        source: b"",
        announce: None,
        announce_changed: None,
    };
    ring.join(&worker(0), &presence, 1_000_000).unwrap();
    ring.leave(&worker(0), b"room", b"a", Departure::Lost, 1_000_000)
        .unwrap();
    let mut data = |_: &[u8], _: &[u8], _: &[u8], _: &mut Vec<u8>| {};
    assert_eq!(
        ring.sweep(&worker(0), 1_000_050, &mut data).unwrap().left,
        0
    );
    assert_eq!(ring.sweep(&worker(0), 5_000, &mut data).unwrap().left, 1);
}

#[test]
fn rejects_texts_that_are_too_long() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 7, 99).unwrap();
    let fine = Presence {
        channel: &[1; 255],
        user: &[2; 255],
        info: &[3; 1024],
        source: b"",
        announce: None,
        announce_changed: None,
    };
    let join = |ring: &mut Ring, presence| ring.join(&worker(0), &presence, 0).err();
    assert_eq!(
        join(&mut ring, Presence { user: b"", ..fine }),
        Some(PresenceError::User { bytes: 0 })
    );
    assert_eq!(
        join(
            &mut ring,
            Presence {
                user: &[2; 256],
                ..fine
            }
        ),
        Some(PresenceError::User { bytes: 256 })
    );
    assert_eq!(
        join(
            &mut ring,
            Presence {
                info: &[3; 1025],
                ..fine
            }
        ),
        Some(PresenceError::Info { bytes: 1025 })
    );
    assert!(matches!(
        join(
            &mut ring,
            Presence {
                channel: b"",
                ..fine
            }
        ),
        Some(PresenceError::Publish(_))
    ));
    assert!(matches!(
        ring.join(&master(), &fine, 0),
        Err(PresenceError::Slot { .. })
    ));
    assert_eq!(join(&mut ring, fine), None);
    assert_eq!(
        members(&mut ring, &[1; 255]),
        [(vec![2; 255], vec![3; 1024], 1)]
    );
    let (_, size) = crate::tests::presence_sizes();
    assert!(size < 3000, "words of an entry grow quietly");
}

#[test]
fn shared_table_sets_counts() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 7, 11).unwrap();
    ring.leave_announcements_to_caller();
    let who = master();
    let set = |ring: &mut Ring, slot: u32, user: &[u8], count: u32| {
        let presence = Presence {
            channel: b"room",
            user,
            info: b"1",
            source: b"",
            announce: Some(b""),
            announce_changed: None,
        };
        // A repetition has no effect.
        for _ in 0..2 {
            ring.set_present(&who, slot, &presence, count).unwrap();
            ring.check_presence();
        }
    };
    let known = |ring: &mut Ring, user: &[u8], slot: u32| {
        let mut known = None;
        ring.present(&who, (b"room", user), slot, &mut |it| {
            known = Some((it.connections, it.of_slot, it.is_announced));
        })
        .unwrap();
        known
    };
    set(&mut ring, 0, b"ann", 2);
    set(&mut ring, 1, b"ann", 3);
    set(&mut ring, 1, b"bob", 1);
    assert_eq!(known(&mut ring, b"ann", 1), Some((5, 3, true)));
    // An invalid slot.
    assert_eq!(known(&mut ring, b"ann", 99), Some((5, 0, true)));
    set(&mut ring, 0, b"ann", 0);
    assert_eq!(known(&mut ring, b"ann", 1), Some((3, 3, true)));
    set(&mut ring, 1, b"ann", 0);
    assert_eq!(known(&mut ring, b"ann", 1), None);
    set(&mut ring, 2, b"nobody", 0);
    assert_eq!(ring.member_count(&who, b"room").unwrap(), 1);
    // A walk in pieces returns all users.
    set(&mut ring, 0, b"carol", 1);
    let (mut from, mut users) = (Some(0), Vec::new());
    while let Some(at) = from {
        let mut each = |it: &crate::Present<'_>| users.push(it.user.to_vec());
        from = ring.present_from(&who, at, 1, 0, &mut each).unwrap();
    }
    users.sort();
    assert_eq!(users, [b"bob".to_vec(), b"carol".to_vec()]);
    // A present user has room, whatever the limit.
    let room =
        |ring: &mut Ring, channel: &[u8], user: &[u8]| ring.check_room(&who, (channel, user));
    assert_eq!(room(&mut ring, b"room", b"dan"), Ok(()));
    ring.set_channel_members_max(2);
    let full = Err(PresenceError::ChannelFull { max: 2 });
    assert_eq!(room(&mut ring, b"room", b"dan"), full);
    assert_eq!(room(&mut ring, b"room", b"bob"), Ok(()));
    assert_eq!(room(&mut ring, b"hall", b"dan"), Ok(()));
    ring.set_channel_members_max(usize::MAX);
    let max = ring.members_max();
    for user in 2..max {
        set(&mut ring, 0, user.to_string().as_bytes(), 1);
    }
    let full = Err(PresenceError::Full { max });
    assert_eq!(room(&mut ring, b"hall", b"dan"), full);
    assert_eq!(room(&mut ring, b"room", b"bob"), Ok(()));
    ring.clear_present(&who).unwrap();
    assert_eq!(known(&mut ring, b"bob", 1), None);
    ring.check_presence();
}

#[test]
fn sweep_returns_all_departed_users_without_announcements() {
    let config = small();
    let mut ring = Ring::create(memory(&config), &config, 7, 11).unwrap();
    ring.leave_announcements_to_caller();
    let who = worker(0);
    let mut reader = ring.worker_started(&who, 0).unwrap();
    for (user, announce) in [(&b"ann"[..], Some(&b"joined"[..])), (b"bob", None)] {
        let presence = Presence {
            channel: b"room",
            user,
            info: b"",
            source: b"",
            announce,
            announce_changed: None,
        };
        ring.join(&who, &presence, 0).unwrap();
        ring.leave(&who, b"room", user, Departure::Lost, 0).unwrap();
    }
    let mut left = Vec::new();
    let swept = ring
        .sweep(&who, 1_000, &mut |_, user, _, _| left.push(user.to_vec()))
        .unwrap();
    assert_eq!(left, [b"ann".to_vec(), b"bob".to_vec()]);
    assert_eq!((swept.left, swept.published), (2, false));
    assert!(read_all(&mut reader).is_empty());
    ring.check_presence();
}
