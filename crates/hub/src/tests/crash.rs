//! `kill -9` before every single store to shared memory, including stores that repair an earlier crash.

use super::*;
use crate::{Departure, OpenError, Presence};
use fermata_shm::crash;

/// More steps than any operation here has.
const STEPS_MAX: u64 = 4000;

/// The way in which the other processes recover the lock.
#[derive(Clone, Copy, Debug)]
enum Rescue {
    /// A publisher finds the owner dead.
    TakeOver,
    /// The master reaps the killed process.
    Reap,
    /// The server restarts with the same file.
    Restart,
}

const RESCUES: [Rescue; 3] = [Rescue::TakeOver, Rescue::Reap, Rescue::Restart];

/// Returns a ring that has wrapped, with a reader that has read everything.
fn prepared(config: &Config) -> (&'static [AtomicU64], Ring, Reader) {
    let words = memory(config);
    let mut ring = Ring::create(words, config, 1, 2).unwrap();
    let mut reader = ring.worker_started(&worker(0), 0).unwrap();
    ring.worker_started(&doomed(1), 0).unwrap();
    for round in 0..40u8 {
        ring.publish(
            &worker(0),
            &message([&b"a"[..], b"b"][usize::from(round % 2)], &[round; 33]),
            0,
        )
        .unwrap();
        read_all(&mut reader);
    }
    (words, ring, reader)
}

fn rescue(how: Rescue, words: &'static [AtomicU64], config: &Config) -> Ring {
    match how {
        Rescue::TakeOver => attach(words, config),
        Rescue::Reap => {
            let mut ring = attach(words, config);
            ring.worker_ended(&master(), 1, doomed(1).pid, 0).unwrap();
            ring
        }
        Rescue::Restart => Ring::open(words, config).unwrap(),
    }
}

#[test]
fn a_publish_killed_at_any_step_happens_fully_or_not_at_all() {
    let config = small();
    for how in RESCUES {
        let mut outcomes = [0, 0];
        for step in 0..STEPS_MAX {
            let (words, mut ring, mut reader) = prepared(&config);
            let lost = Message {
                name: Some(b"lost"),
                ..message(b"a", &[0xaa; 50])
            };
            let done = crash::run(step, || ring.publish(&doomed(1), &lost, 77).unwrap());
            let mut ring = rescue(how, words, &config);
            ring.publish(&worker(0), &message(b"a", b"next"), 78)
                .unwrap();
            let read = read_all(&mut reader);
            let (last, before) = read.split_last().unwrap();
            assert_eq!(last.data(), b"next");
            assert!(
                before.len() <= 1 && (done.is_none() || before.len() == 1),
                "step {step}, {how:?}"
            );
            outcomes[before.len()] += 1;
            for record in before {
                assert_eq!(
                    (record.channel(), record.name(), record.data()),
                    (lost.channel, lost.name, lost.data)
                );
                assert_eq!(record.unix_ms, 77);
            }
            // The index agrees with the log, and the log is consistent.
            let (_, replayed) = replay(&mut ring, &[b"a"], &everything());
            let newest: Vec<Seq> = replayed
                .iter()
                .rev()
                .take(read.len())
                .map(|record| record.seq)
                .collect();
            assert!(
                newest
                    .iter()
                    .rev()
                    .eq(read.iter().map(|record| &record.seq)),
                "step {step}, {how:?}"
            );
            assert!(replayed.len() > 5);
            assert!(Ring::open(words, &config).is_ok(), "step {step}, {how:?}");
            if done.is_some() {
                assert!(outcomes[0] > 15 && outcomes[1] > 2, "{outcomes:?}");
                break;
            }
            assert!(step + 1 < STEPS_MAX);
        }
    }
}

#[test]
fn a_repair_killed_at_any_step_is_repaired() {
    let config = small();
    for step in 0..STEPS_MAX {
        let mut rescuer_done = false;
        for rescue_step in 0..STEPS_MAX {
            let (words, mut ring, mut reader) = prepared(&config);
            let done = crash::run(step, || {
                ring.publish(&doomed(1), &message(b"a", &[1; 9]), 0)
                    .unwrap()
            });
            if done.is_some() {
                return;
            }
            let mut second = attach(words, &config);
            let second_done = crash::run(rescue_step, || {
                second
                    .publish(&doomed(2), &message(b"b", &[2; 9]), 0)
                    .unwrap();
            });
            attach(words, &config)
                .publish(&worker(0), &message(b"a", &[3; 9]), 0)
                .unwrap();
            let data: Vec<u8> = read_all(&mut reader)
                .iter()
                .map(|record| record.data()[0])
                .collect();
            let allowed: [&[u8]; 4] = [&[3], &[1, 3], &[2, 3], &[1, 2, 3]];
            assert!(
                allowed.contains(&&data[..]),
                "{data:?} at {step}, {rescue_step}"
            );
            assert!(Ring::open(words, &config).is_ok());
            if second_done.is_some() {
                rescuer_done = true;
                break;
            }
        }
        assert!(rescuer_done);
    }
}

#[test]
fn a_start_killed_at_any_step_is_repaired() {
    let config = small();
    for step in 0..STEPS_MAX {
        let words = memory(&config);
        let created = crash::run(step, || {
            Ring::create(words, &config, 1, 2).map(|_| ()).unwrap()
        });
        if created.is_some() {
            break;
        }
        assert_eq!(
            Ring::open(words, &config).err(),
            Some(OpenError::Damaged),
            "step {step}"
        );
    }
    for step in 0..STEPS_MAX {
        let (words, mut ring, _) = prepared(&config);
        crash::run(60, || ring.publish(&doomed(1), &message(b"a", &[1; 9]), 0));
        let opened = crash::run(step, || Ring::open(words, &config).map(|_| ()).unwrap());
        let mut ring = Ring::open(words, &config).unwrap();
        assert!(replay(&mut ring, &[b"a"], &everything()).1.len() > 5);
        if opened.is_some() {
            return;
        }
    }
    panic!("more steps than expected");
}

type Change = fn(&mut Ring);

/// Changes of a table in which alice has two connections (slots 0 and 1), bob one (slot 1), and carol is leaving.
const CHANGES: [(&str, Change); 9] = [
    ("join of a new user", |ring| {
        ring.join(&doomed(1), &presence(b"dora", b"new"), 1000)
            .unwrap();
    }),
    ("join of a present user", |ring| {
        ring.join(&doomed(1), &presence(b"alice", b"other"), 1000)
            .unwrap();
    }),
    ("join of a leaving user", |ring| {
        ring.join(&doomed(1), &presence(b"carol", b"back"), 1000)
            .unwrap();
    }),
    ("leave of one connection", |ring| {
        ring.leave(&doomed(1), b"room", b"alice", Departure::Lost, 1000)
            .unwrap();
    }),
    ("leave of the last connection", |ring| {
        ring.leave(&doomed(1), b"room", b"bob", Departure::Lost, 1000)
            .unwrap();
    }),
    ("sweep", |ring| {
        ring.sweep(&doomed(1), 5000, &mut |_, user, _, out| {
            out.extend_from_slice(user)
        })
        .unwrap();
    }),
    ("end of a worker", |ring| {
        ring.worker_ended(&doomed(1), 1, doomed(1).pid, 1000)
            .unwrap();
    }),
    ("start of a worker", |ring| {
        ring.worker_started(&doomed(1), 1000).unwrap();
    }),
    ("join that has no room", |ring| {
        for user in [&b"e"[..], b"f", b"g", b"h", b"i", b"j"] {
            let _ = ring.join(&doomed(1), &presence(user, b""), 1000);
        }
    }),
];

/// Distributes users over two addresses and an unknown source.
fn source_of(user: &[u8]) -> &'static [u8] {
    let sources: [&[u8]; 3] = [b"", b"192.0.2.1", b"192.0.2.2"];
    sources[usize::from(user.first().copied().unwrap_or(0)) % sources.len()]
}

fn presence<'a>(user: &'a [u8], info: &'a [u8]) -> Presence<'a> {
    Presence {
        channel: b"room",
        user,
        info,
        source: source_of(user),
        announce: Some(user),
        announce_changed: None,
    }
}

#[test]
fn a_presence_change_killed_at_any_step_leaves_a_sound_table() {
    let config = small();
    for how in RESCUES {
        for (name, change) in CHANGES {
            for step in 0..STEPS_MAX {
                let words = memory(&config);
                let mut ring = Ring::create(words, &config, 1, 2).unwrap();
                let mut reader = ring.worker_started(&worker(0), 0).unwrap();
                ring.worker_started(&doomed(1), 0).unwrap();
                for (user, slots) in [
                    (&b"alice"[..], &[0, 1][..]),
                    (b"bob", &[1]),
                    (b"carol", &[1]),
                ] {
                    for &slot in slots {
                        let who = if slot == 0 { worker(0) } else { doomed(slot) };
                        ring.join(&who, &presence(user, b"info"), 0).unwrap();
                    }
                }
                ring.leave(&doomed(1), b"room", b"carol", Departure::Lost, 900)
                    .unwrap();
                read_all(&mut reader);
                let done = crash::run(step, || change(&mut ring));
                let mut ring = rescue(how, words, &config);
                let context = format!("{name}, step {step}, {how:?}");

                // Acquiring the lock repairs the table.
                let seen = members(&mut ring, b"room");
                ring.check_presence();
                let alice = seen
                    .iter()
                    .find(|member| member.0 == b"alice")
                    .expect(&context);
                assert!(matches!(how, Rescue::Restart) || alice.2 >= 1, "{context}");
                assert!(
                    alice.1 == b"info" || alice.1 == b"other",
                    "torn information, {context}"
                );
                for (_, info, _) in &seen {
                    assert!(
                        [&b"info"[..], b"other", b"new", b"back", b""].contains(&&info[..]),
                        "{context}"
                    );
                }

                // After the dead worker was reaped and time has passed, exactly alice's tab on worker 0 remains.
                ring.worker_ended(&master(), 1, doomed(1).pid, 5000)
                    .unwrap();
                for time in [6000, 7000, 8000] {
                    ring.sweep(&worker(0), time, &mut |_, user, _, out| {
                        out.extend_from_slice(user)
                    })
                    .unwrap();
                }
                ring.check_presence();
                let seen = members(&mut ring, b"room");
                if matches!(how, Rescue::Restart) {
                    assert!(seen.is_empty(), "{context}");
                } else {
                    assert_eq!(seen.len(), 1, "{context}");
                    assert_eq!((&seen[0].0[..], seen[0].2), (&b"alice"[..], 1), "{context}");
                }
                assert_eq!(ring.leaving_count(), 0, "{context}");
                // The last event of every user who left is a leave.
                let records = read_all(&mut reader);
                for user in [&b"bob"[..], b"carol"] {
                    let last = records
                        .iter()
                        .rfind(|record| record.data() == user)
                        .expect(&context);
                    assert_eq!(last.kind, Kind::Leave, "{context}");
                }
                // No entry was lost.
                for user in 0..config.members_max as u8 - seen.len() as u8 {
                    let presence = Presence {
                        channel: b"other",
                        user: &[user],
                        info: b"",
                        source: source_of(&[user]),
                        announce: None,
                        announce_changed: None,
                    };
                    ring.join(&worker(0), &presence, 9000).unwrap();
                }
                ring.check_presence();
                if done.is_some() {
                    break;
                }
                assert!(step + 1 < STEPS_MAX, "{context}");
            }
        }
    }
}

/// Found by the simulation: a crash while the table was rebuilt lost the number of entries.
#[test]
fn a_repair_of_the_table_killed_at_any_step_is_repaired() {
    let config = small();
    for (name, change) in [CHANGES[0], CHANGES[2], CHANGES[4]] {
        for step in 0..STEPS_MAX {
            let mut rescuer_done = false;
            let mut change_done = false;
            for rescue_step in 0..STEPS_MAX {
                let words = memory(&config);
                let mut ring = Ring::create(words, &config, 1, 2).unwrap();
                for user in [&b"alice"[..], b"bob"] {
                    ring.join(&worker(0), &presence(user, b"info"), 0).unwrap();
                }
                ring.join(&doomed(1), &presence(b"bob", b"info"), 0)
                    .unwrap();
                change_done = crash::run(step, || change(&mut ring)).is_some();
                // Acquiring the lock repairs the table, unless the process is killed during the repair.
                let mut second = attach(words, &config);
                let done = crash::run(rescue_step, || {
                    second
                        .leave(&doomed(2), b"nobody", b"nobody", Departure::Lost, 0)
                        .unwrap()
                });
                let mut third = attach(words, &config);
                let seen = members(&mut third, b"room");
                third.check_presence();
                let context = format!("{name}, steps {step} and {rescue_step}: {seen:?}");
                for user in [&b"alice"[..], b"bob"] {
                    let member = seen.iter().find(|member| member.0 == user);
                    assert!(member.is_some_and(|member| member.2 >= 1), "{context}");
                }
                if done.is_some() {
                    rescuer_done = true;
                    break;
                }
            }
            assert!(rescuer_done);
            if change_done {
                break;
            }
        }
    }
}
