//! Checks that the cost of a publish does not depend on idle clients. The cost is counted in instructions, which the load of the
//! machine does not change.

#![cfg(not(loom))]

use std::sync::atomic::AtomicU64;

use fermata_hub::{
    Config, Encode, Kind, Layout, Local, LocalConfig, Message, Owner, PayloadSpan, Record, Ring,
    SubId,
};
use fermata_testkit::instructions;

/// Parameters of a run under callgrind: number of idle channels, of idle clients over all channels, and of publishes.
const AMOUNTS: &str = "FERMATA_PUBLISH_AMOUNTS";

struct Copy;

impl Encode for Copy {
    fn encode(&mut self, _format: u8, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        out.extend_from_slice(record.data());
        PayloadSpan {
            start: 0,
            end: record.data().len(),
        }
    }
}

/// One subscriber receives all published messages, among clients of other channels that receive none.
#[test]
fn publishes_arrive_among_idle_clients() {
    let amounts = std::env::var(AMOUNTS).unwrap_or_else(|_| "3 20 100".to_owned());
    let amounts = amounts
        .split(' ')
        .map(|amount| amount.parse().expect("a number"));
    let [channels, clients, publishes] = amounts.collect::<Vec<usize>>()[..] else {
        panic!("{AMOUNTS} is three numbers");
    };
    let config = Config {
        ring_bytes: 1 << 20,
        index_buckets: 65_536,
        record_bytes_max: 4096,
        workers_max: 2,
        history_count_max: 1000,
        history_age_ms_max: 86_400_000,
        members_max: 16,
        leave_delay_ms: 2000,
    };
    let words = Layout::new(&config).expect("sizes are fine").words();
    let memory: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
    let mut ring = Ring::create(Vec::leak(memory), &config, 1, 2).expect("memory is large enough");
    let owner = Owner {
        slot: 0,
        pid: std::process::id(),
        alive: |_| true,
    };
    let mut reader = ring
        .worker_started(&owner, 0)
        .expect("nobody holds the lock");
    let mut local = Local::new(LocalConfig {
        log_bytes_max: 65_536,
        hasher: ring.hasher(),
    });
    for client in 0..clients {
        let channel = format!("idle.{}", client % channels);
        local.subscribe(client as u32, SubId::NONE, channel.as_bytes(), 0);
    }
    let listener = local.subscribe(u32::MAX - 1, SubId::NONE, b"news", 0);
    let message = Message {
        channel: b"news",
        kind: Kind::Message,
        name: None,
        data: &[b'x'; 100],
    };
    let mut delivered = 0;
    for _ in 0..publishes {
        ring.publish(&owner, &message, 0).expect("there is room");
        local.pump(&mut reader, &mut Copy, 16);
        while local.next_ready().is_some() {
            let bytes = local.contiguous(listener, 4096).map_or(0, <[u8]>::len);
            local.advance(listener, false, bytes, &mut Vec::new());
            delivered += 1;
        }
    }
    assert_eq!(delivered, publishes);
}

/// Returns the instructions of one publish with its delivery. The instructions of start and exit cancel out.
fn per_publish(channels: u32, clients: u32) -> f64 {
    const MORE: u32 = 2_000;
    let run = |publishes| {
        let amounts = format!("{channels} {clients} {publishes}");
        instructions("publishes_arrive_among_idle_clients", AMOUNTS, &amounts)
    };
    let (few, many) = (run(1_000), run(1_000 + MORE));
    (many - few) as f64 / f64::from(MORE)
}

#[test]
fn publish_cost_is_independent_of_idle_clients() {
    let alone = per_publish(1, 1);
    for (channels, clients) in [(20_000, 20_000), (1, 20_000), (100, 20_000)] {
        let among_many = per_publish(channels, clients);
        let share = among_many / alone;
        println!(
            "{among_many:.0} instructions with {clients} clients in {channels} channels, {alone:.0} alone"
        );
        // A longer probe of the channel table costs a few instructions.
        assert!(
            (0.98..1.02).contains(&share),
            "{among_many:.0} instructions per publish with {clients} clients in {channels} channels, {alone:.0} alone"
        );
    }
}
