//! Tests of the crate: models, crashes at every step, threads, damage.

mod backlog;
mod crash;
mod damage;
mod fanout;
mod follower;
mod log;
mod log_past;
mod many;
mod presence;
mod ring;
mod schedule;
mod simulation;
mod threads;
mod traffic;
mod views;

use std::sync::atomic::AtomicU64;

use crate::words::Words;
use crate::{
    Config, Kind, Layout, Message, Owner, Read, Reader, Record, Replay, ReplayRange, Ring, Seq,
};

/// Processes below this id are dead.
const DEAD_BELOW: u32 = 1000;

fn alive(pid: u32) -> bool {
    pid >= DEAD_BELOW
}

/// Returns a live process in `slot`.
fn worker(slot: u32) -> Owner {
    Owner {
        slot,
        pid: DEAD_BELOW + slot,
        alive,
    }
}

/// Returns an owner in `slot` that other processes consider dead.
fn doomed(slot: u32) -> Owner {
    Owner {
        slot,
        pid: 1 + slot,
        alive,
    }
}

fn master() -> Owner {
    Owner {
        slot: Owner::MASTER_SLOT,
        pid: DEAD_BELOW,
        alive,
    }
}

fn small() -> Config {
    Config {
        ring_bytes: 2048,
        index_buckets: 4,
        record_bytes_max: 64,
        workers_max: 3,
        history_count_max: 1000,
        history_age_ms_max: 1_000_000,
        members_max: 8,
        leave_delay_ms: 100,
    }
}

fn memory(config: &Config) -> &'static [AtomicU64] {
    let words = Layout::new(config).unwrap().words();
    Vec::leak((0..words).map(|_| AtomicU64::new(0)).collect())
}

/// Returns another process's view of the same memory.
fn attach(words: &'static [AtomicU64], config: &Config) -> Ring {
    Ring::attach(Words::new(words), Layout::new(config).unwrap(), config)
}

fn message<'a>(channel: &'a [u8], data: &'a [u8]) -> Message<'a> {
    Message {
        channel,
        kind: Kind::Message,
        name: None,
        data,
    }
}

fn read_all(reader: &mut Reader) -> Vec<Record> {
    let mut records = Vec::new();
    let mut record = Record::empty();
    loop {
        match reader.read_next(&mut record) {
            Read::Record => records.push(record.clone()),
            Read::Empty => return records,
            other => panic!("unexpected {other:?}"),
        }
    }
}

fn everything() -> ReplayRange {
    ReplayRange {
        after: 0,
        up_to: Seq::MAX,
        count_max: usize::MAX,
        bytes_max: usize::MAX,
        unix_ms: 0,
    }
}

fn replay(ring: &mut Ring, channels: &[&[u8]], range: &ReplayRange) -> (Replay, Vec<Record>) {
    let mut records = Vec::new();
    let outcome = ring.replay(channels, range, &mut |record| records.push(record.clone()));
    (outcome, records)
}

fn members(ring: &mut Ring, channel: &[u8]) -> Vec<(Vec<u8>, Vec<u8>, u32)> {
    members_for(ring, &master(), channel)
}

fn members_for(ring: &mut Ring, who: &Owner, channel: &[u8]) -> Vec<(Vec<u8>, Vec<u8>, u32)> {
    let mut all = Vec::new();
    ring.members(who, channel, usize::MAX, &mut |user, info, connections| {
        all.push((user.to_vec(), info.to_vec(), connections));
    })
    .unwrap();
    assert_eq!(ring.member_count(who, channel), Ok(all.len()));
    all.sort();
    all
}

/// Returns the size of a presence entry with one worker, in words and in bytes.
fn presence_sizes() -> (usize, usize) {
    let layout = Layout::new(&Config {
        workers_max: 1,
        ..small()
    })
    .unwrap();
    (layout.presence.entry_words, layout.presence.entry_words * 8)
}
