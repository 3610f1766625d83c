//! Simulates a server under a seed: publishers, workers that read, publish, join and sleep, and a master that reaps.
//! Each process dies at random stores and is replaced, and sometimes all die together.
//!
//! Each run verifies:
//!
//! - A living worker misses no record, and sees none twice or torn.
//! - All workers see one order.
//! - Acknowledged records are present.
//! - No worker sleeps while a record is unread.
//! - Presence is what living workers have joined.
//! - A new server can open the remaining memory.
//!
//! `FERMATA_SIMULATIONS` is the number of seeds, `FERMATA_TEST_SEED` the first one.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex};
use std::thread;

use super::schedule::{Dice, Schedule};
use super::*;
use crate::Slots;
use crate::{Departure, LockError, Presence, PresenceError, PublishError};

const RUNS: u64 = 150;
const PUBLISHERS: usize = 2;
const WORKERS: usize = 3;
const MASTER: usize = PUBLISHERS + WORKERS;
const ACTORS: usize = MASTER + 1;
/// Messages of one publisher and of one worker process.
const MESSAGES: u64 = 30;
const USERS: [&[u8]; 3] = [b"ann", b"bob", b"cyd"];

/// The master's process id.
const MASTER_PID: u32 = 5000;

thread_local! {
    static SCHEDULE: RefCell<Option<Schedule>> = const { RefCell::new(None) };
}

fn scheduled_alive(pid: u32) -> bool {
    SCHEDULE.with_borrow(|schedule| schedule.as_ref().is_none_or(|it| it.is_alive(pid)))
}

fn owner(slot: u32, pid: u32) -> Owner {
    Owner {
        slot,
        pid,
        alive: scheduled_alive,
    }
}

/// Kind, channel, data.
type Content = (Kind, Vec<u8>, Vec<u8>);

/// Observations of one worker process.
#[derive(Default)]
struct Life {
    /// Position up to which all records were published before the process started.
    start: Seq,
    read: Vec<(Seq, Content)>,
    /// Connections that the process has joined, by user. Empty after the process was killed.
    joined: HashMap<Vec<u8>, u32>,
    is_living: bool,
}

/// Events of the run, outside of the tested memory.
#[derive(Default)]
struct Log {
    acknowledged: BTreeMap<Seq, Content>,
    lives: Vec<Life>,
    /// Dead processes that the master has not reaped: slot and pid.
    to_reap: Vec<(u32, u32)>,
    reaped: HashMap<u32, u32>,
    pids: u32,
}

#[derive(Clone)]
struct World {
    words: &'static [AtomicU64],
    config: Config,
    schedule: Schedule,
    log: Arc<Mutex<Log>>,
}

impl World {
    fn with_log<T>(&self, body: impl FnOnce(&mut Log) -> T) -> T {
        body(
            &mut self
                .log
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        )
    }

    fn new_pid(&self) -> u32 {
        self.with_log(|log| {
            log.pids += 1;
            MASTER_PID + log.pids
        })
    }

    fn wake(&self, mut slept: Slots) {
        while let Some(slot) = slept.take() {
            self.schedule.wake(PUBLISHERS + slot as usize);
        }
    }

    /// Publishes and wakes workers, as a server does. Returns false if there is no room now.
    fn publish(&self, ring: &mut Ring, who: &Owner, from: u64, number: u64) -> bool {
        let channel = [b'c', (number % 3) as u8];
        let data = data_of(from, number);
        match ring.publish(who, &message(&channel, &data), number) {
            Ok(seq) => {
                let content = (Kind::Message, channel.to_vec(), data);
                self.with_log(|log| log.acknowledged.insert(seq, content));
                self.wake(ring.wake_list());
                true
            }
            Err(PublishError::Behind { .. } | PublishError::Lock(LockError::Locked { .. })) => {
                // The server wakes the workers while it waits.
                self.wake(ring.wake_list());
                false
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// Returns data that contains its author and number; its length follows from both.
fn data_of(from: u64, number: u64) -> Vec<u8> {
    let mut data = vec![(from * 31 + number) as u8; 16 + (number % 30) as usize];
    data[..8].copy_from_slice(&from.to_le_bytes());
    data[8..16].copy_from_slice(&number.to_le_bytes());
    data
}

fn author(data: &[u8]) -> (u64, u64) {
    let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
    let (from, number) = (word(0), word(8));
    assert_eq!(data, data_of(from, number), "a torn record");
    (from, number)
}

/// Runs one actor over all its processes. `life` returns when it has nothing left to do.
fn live(world: &World, me: usize, mut life: impl FnMut(u32, &mut u64), mut died: impl FnMut(u32)) {
    let mut number = 0;
    loop {
        let pid = world.new_pid();
        let ended = fermata_shm::crash::run(u64::MAX, || life(pid, &mut number));
        if ended.is_some() || world.schedule.is_cut() {
            return;
        }
        world.schedule.bury(pid);
        died(pid);
        // The interrupted publish may or may not have happened: do not reuse its number.
        number += 1;
        world.schedule.yield_now(me);
    }
}

fn publisher(world: &World, me: usize) {
    let life = |pid: u32, number: &mut u64| {
        let mut ring = attach(world.words, &world.config);
        let who = owner(Owner::MASTER_SLOT, pid);
        while *number < MESSAGES {
            if world.publish(&mut ring, &who, me as u64, *number) {
                *number += 1;
            } else {
                world.schedule.yield_now(me);
            }
        }
    };
    // Recovers the lock, as the master does after the exit of the process that connects to other servers.
    live(world, me, life, |pid| {
        world.with_log(|log| log.to_reap.push((Owner::MASTER_SLOT, pid)));
        world.schedule.wake(MASTER);
    });
}

fn worker(world: &World, me: usize, seed: u64) {
    let slot = (me - PUBLISHERS) as u32;
    let mut dice = Dice(seed ^ (me as u64) << 32);
    let life = |pid: u32, number: &mut u64| work(world, me, &owner(slot, pid), &mut dice, number);
    let died = |pid| {
        world.with_log(|log| {
            log.to_reap.push((slot, pid));
            for life in &mut log.lives {
                // The worker may have been killed before the join was recorded.
                if life.is_living && life.joined.contains_key(&pid.to_le_bytes()[..]) {
                    life.is_living = false;
                }
            }
        });
        world.schedule.wake(MASTER);
        // The master forks the next worker after it has reaped this worker.
        while !world.schedule.is_cut() && world.with_log(|log| log.reaped.get(&slot) != Some(&pid))
        {
            world.schedule.yield_now(me);
        }
    };
    live(world, me, life, died);
}

fn work(world: &World, me: usize, who: &Owner, dice: &mut Dice, number: &mut u64) {
    let mut ring = attach(world.words, &world.config);
    let mut reader = loop {
        match ring.worker_started(who, *number) {
            Ok(reader) => break reader,
            Err(LockError::Locked { .. }) => world.schedule.yield_now(me),
            Err(corrupt) => panic!("{corrupt}"),
        }
    };
    let mark = who.pid.to_le_bytes().to_vec();
    let place = world.with_log(|log| {
        log.lives.push(Life {
            start: reader.read_up_to(),
            // Marks the owner of this record; no user has this name.
            joined: HashMap::from([(mark, 0)]),
            is_living: true,
            ..Life::default()
        });
        log.lives.len() - 1
    });
    let read = |reader: &mut Reader| {
        let mut record = Record::empty();
        match reader.read_next(&mut record) {
            Read::Record => {
                let content = (
                    record.kind,
                    record.channel().to_vec(),
                    record.data().to_vec(),
                );
                world.with_log(|log| log.lives[place].read.push((record.seq, content)));
                true
            }
            Read::Empty => false,
            Read::Lost | Read::Skipped => panic!("a live worker has lost a record"),
        }
    };
    let until = *number + MESSAGES / 3;
    loop {
        match dice.roll(8) {
            0..4 => {
                read(&mut reader);
            }
            4 if *number < until => {
                *number += u64::from(world.publish(&mut ring, who, me as u64, *number));
            }
            5 if *number < until => {
                let user = USERS[dice.roll(3) as usize];
                let presence = Presence {
                    channel: b"room",
                    user,
                    info: &user[..dice.roll(4) as usize],
                    source: [&b""[..], b"192.0.2.1", b"192.0.2.2"][dice.roll(3) as usize],
                    announce: (dice.roll(2) == 0).then_some(user),
                    announce_changed: None,
                };
                match ring.join(who, &presence, *number) {
                    Ok(_) => world.with_log(|log| {
                        *log.lives[place].joined.entry(user.to_vec()).or_default() += 1;
                    }),
                    Err(PresenceError::Publish(_)) => {}
                    Err(other) => panic!("{other}"),
                }
                world.wake(ring.wake_list());
            }
            6 => {
                let user = USERS[dice.roll(3) as usize];
                let has = |log: &mut Log| log.lives[place].joined.get(user).copied().unwrap_or(0);
                let how = [Departure::Lost, Departure::Deliberate][dice.roll(2) as usize];
                if world.with_log(has) > 0 && ring.leave(who, b"room", user, how, *number).is_ok() {
                    world.with_log(|log| {
                        *log.lives[place].joined.entry(user.to_vec()).or_default() -= 1;
                    });
                }
            }
            7 => {
                let time = *number + dice.roll(300);
                let swept = ring.sweep(who, time, &mut |_, user, _, out| {
                    out.extend_from_slice(user)
                });
                if swept.is_ok_and(|swept| swept.published) {
                    world.wake(ring.wake_list());
                }
            }
            _ => {}
        }
        if *number >= until || dice.roll(6) == 0 {
            while read(&mut reader) {}
            if reader.set_sleeping() {
                let goes_on = world.schedule.sleep(me);
                if !goes_on {
                    assert!(
                        world.schedule.is_cut() || !reader.has_more(),
                        "everybody sleeps, and this one over a record"
                    );
                    return;
                }
                reader.set_awake();
            }
        }
    }
}

fn master(world: &World) {
    let mut ring = attach(world.words, &world.config);
    let who = owner(Owner::MASTER_SLOT, MASTER_PID);
    loop {
        while let Some((slot, pid)) = world.with_log(|log| log.to_reap.first().copied()) {
            match ring.worker_ended(&who, slot, pid, 0) {
                Ok(()) => {}
                Err(LockError::Locked { .. }) => {
                    world.schedule.yield_now(MASTER);
                    continue;
                }
                Err(corrupt) => panic!("{corrupt}"),
            }
            world.with_log(|log| {
                log.to_reap.remove(0);
                log.reaped.insert(slot, pid);
            });
            // The killed process may have fetched a wake list.
            let mut all = Slots::default();
            (0..WORKERS as u32).for_each(|slot| all.insert(slot));
            world.wake(all);
        }
        if !world.schedule.sleep(MASTER) {
            return;
        }
    }
}

/// Runs one seed and checks all properties. Returns a hash of the schedule, and the number of single processes that crashed.
fn simulate(seed: u64) -> (u64, u64) {
    let mut dice = Dice(seed);
    let config = small();
    let words = memory(&config);
    let mut ring = Ring::create(words, &config, 1, 2).unwrap();
    let deaths = dice.roll(12) as u32;
    let death = 100 + dice.roll(600);
    let cut_at = if dice.roll(3) == 0 {
        500 + dice.roll(12_000)
    } else {
        u64::MAX
    };
    let world = World {
        words,
        config: config.clone(),
        schedule: Schedule::new(seed, ACTORS, deaths, death, cut_at),
        log: Arc::default(),
    };
    thread::scope(|scope| {
        for me in 0..ACTORS {
            let world = &world;
            scope.spawn(move || {
                SCHEDULE.set(Some(world.schedule.clone()));
                world.schedule.act(me, me != MASTER, || match me {
                    MASTER => master(world),
                    _ if me < PUBLISHERS => publisher(world, me),
                    _ => worker(world, me, seed),
                });
            });
        }
    });
    if let Some(failure) = world.schedule.failure() {
        panic!("{failure}");
    }
    let is_cut = world.schedule.is_cut();
    let log = std::mem::take(&mut *world.log.lock().unwrap());
    let all = check_reads(&log, is_cut);
    if !is_cut {
        check_presence(&mut ring, &log);
        check_history(&mut ring, &all);
    }
    let mut ring = Ring::open(words, &config).expect("what is left can be opened");
    check_history(&mut ring, &log.acknowledged);
    ring.check_presence();
    world.schedule.trace()
}

/// Returns all records that any process saw or published.
fn check_reads(log: &Log, is_cut: bool) -> BTreeMap<Seq, Content> {
    let mut all = log.acknowledged.clone();
    for (seq, content) in log.lives.iter().flat_map(|life| &life.read) {
        let known = all.entry(*seq).or_insert_with(|| content.clone());
        assert_eq!(known, content, "two contents at {seq}");
    }
    let mut last = HashMap::new();
    for (_, _, data) in all.values().filter(|content| content.0 == Kind::Message) {
        let (from, number) = author(data);
        let before = last.insert(from, number);
        assert!(
            before.is_none_or(|before| before < number),
            "{number} of {from} after {before:?}"
        );
    }
    let newest = all.keys().next_back().copied().unwrap_or(0);
    for life in &log.lives {
        let read: Vec<Seq> = life.read.iter().map(|(seq, _)| *seq).collect();
        let up_to = match read.last() {
            // Each living process has read everything.
            _ if life.is_living && !is_cut => newest.max(life.start),
            Some(&last) => last,
            None => continue,
        };
        let range = (Bound::Excluded(life.start), Bound::Included(up_to));
        let expected: Vec<Seq> = all.range(range).map(|(seq, _)| *seq).collect();
        assert_eq!(read, expected, "a worker missed or doubled records");
    }
    all
}

fn check_presence(ring: &mut Ring, log: &Log) {
    let mut expected: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
    for life in log.lives.iter().filter(|life| life.is_living) {
        for (user, count) in &life.joined {
            *expected.entry(user.clone()).or_default() += count;
        }
    }
    expected.retain(|_, count| *count > 0);
    // All processes have exited by now. A process that was killed while it held the lock, and needed no reaping, still holds it.
    let after_all = Owner {
        alive: |_| false,
        ..owner(Owner::MASTER_SLOT, MASTER_PID)
    };
    let present = members_for(ring, &after_all, b"room").into_iter();
    let present: BTreeMap<Vec<u8>, u32> = present
        .filter(|(_, _, count)| *count > 0)
        .map(|(user, _, count)| (user, count))
        .collect();
    assert_eq!(
        present, expected,
        "presence is not what the living have joined"
    );
    ring.check_presence();
}

/// Asserts that the ring's records of each channel are complete and ordered, and skip no record of `known` in between.
fn check_history(ring: &mut Ring, known: &BTreeMap<Seq, Content>) {
    for channel in 0..3u8 {
        let channel = [b'c', channel];
        let (_, records) = replay(ring, &[&channel], &everything());
        assert!(records.is_sorted_by(|a, b| a.seq < b.seq));
        let Some(first) = records.first() else {
            continue;
        };
        for record in &records {
            author(record.data());
        }
        let here: Vec<Seq> = records.iter().map(|record| record.seq).collect();
        for (seq, content) in known.range(first.seq..) {
            let is_there = here.binary_search(seq).is_ok();
            assert_eq!(
                is_there,
                content.1 == channel,
                "{seq} in the history of {channel:?}"
            );
        }
    }
}

#[test]
fn server_with_crashing_processes_keeps_its_guarantees() {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(
            text.parse::<u64>()
                .unwrap_or_else(|_| panic!("{name} is a number")),
        )
    };
    let first = number("FERMATA_TEST_SEED").unwrap_or(0);
    let runs = number("FERMATA_SIMULATIONS").unwrap_or(RUNS);
    let mut deaths = 0;
    for seed in (0..runs).map(|run| first.wrapping_add(run)) {
        match std::panic::catch_unwind(|| simulate(seed)) {
            Ok((_, died)) => deaths += died,
            Err(cause) => {
                eprintln!(
                    "repeat this by FERMATA_TEST_SEED={seed} FERMATA_SIMULATIONS=1 cargo test -p fermata-hub simulation"
                );
                std::panic::resume_unwind(cause);
            }
        }
    }
    assert!(deaths > 100 || runs < RUNS, "only {deaths} deaths");
}

#[test]
fn seed_determines_the_run() {
    for seed in [3, 14, 15] {
        assert_eq!(simulate(seed), simulate(seed));
    }
    assert_ne!(simulate(3).0, simulate(14).0);
}
