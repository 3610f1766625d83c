//! Publishes to one channel with one subscriber while others are idle: what `tests/cost.rs` counts instructions of.
//!
//! `publish_cost CHANNELS CLIENTS PUBLISHES`: the idle channels, the idle clients spread over them, and how often to
//! publish and deliver.

use std::sync::atomic::AtomicU64;

use fermata_hub::{
    Config, Encode, Kind, Layout, Local, LocalConfig, Message, Owner, PayloadSpan, Record, Ring,
    SubId,
};

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

fn main() {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .map(|argument| argument.parse().expect("a number"))
        .collect();
    let [channels, clients, publishes] = numbers[..] else {
        panic!("usage: publish_cost CHANNELS CLIENTS PUBLISHES");
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
