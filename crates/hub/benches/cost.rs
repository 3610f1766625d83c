//! Cost of the hot paths, in nanoseconds per operation. Run: `cargo bench -p fermata-hub`.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use fermata_hub::{
    Config, Departure, Encode, Kind, Layout, Local, LocalConfig, Message, Owner, PayloadSpan,
    Presence, Reader, Record, ReplayRange, Ring, Seq, SubId,
};

const ROUNDS: u32 = 200;
const PER_ROUND: u32 = 1000;

/// Encoder that copies only the data, so that the measured costs are those outside of the encoder.
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

fn start() -> (Ring, Reader, Owner) {
    let config = Config {
        ring_bytes: 16 << 20,
        index_buckets: 65536,
        record_bytes_max: 65536,
        workers_max: 4,
        history_count_max: 1000,
        history_age_ms_max: 86_400_000,
        members_max: 16384,
        leave_delay_ms: 2000,
    };
    let words = Layout::new(&config).expect("sizes are fine").words();
    let memory: Vec<AtomicU64> = (0..words).map(|_| AtomicU64::new(0)).collect();
    let mut ring = Ring::create(Vec::leak(memory), &config, 1, 2).expect("memory is large enough");
    let who = Owner {
        slot: 0,
        pid: std::process::id(),
        alive: |_| true,
    };
    let reader = ring
        .worker_started(&who, 0)
        .expect("nobody else holds the lock");
    (ring, reader, who)
}

/// Reports the fastest round, which other processes have disturbed least.
fn report(name: &str, mut round: impl FnMut() -> Duration) {
    let best = (0..ROUNDS).map(|_| round()).min().unwrap_or_default();
    println!(
        "{name:<52} {:>8.1} ns",
        best.as_nanos() as f64 / f64::from(PER_ROUND)
    );
}

fn timed(body: impl FnOnce()) -> Duration {
    let start = Instant::now();
    body();
    start.elapsed()
}

fn message(data: &[u8]) -> Message<'_> {
    Message {
        channel: b"room.17",
        kind: Kind::Message,
        name: Some(b"message"),
        data,
    }
}

fn main() {
    let (mut ring, mut reader, who) = start();
    let (small, large) = ([b'x'; 100], [b'x'; 10_000]);
    let mut local = Local::new(LocalConfig {
        log_bytes_max: 1 << 30,
        hasher: ring.hasher(),
    });
    let publish = |ring: &mut Ring, data: &[u8]| {
        for _ in 0..PER_ROUND {
            ring.publish(&who, &message(data), 0)
                .expect("the reader keeps up");
        }
    };
    for (name, data) in [
        ("publish 100 bytes", &small[..]),
        ("publish 10,000 bytes", &large),
    ] {
        report(name, || {
            let time = timed(|| publish(&mut ring, data));
            while local.pump(&mut reader, &mut Copy, 100) {}
            time
        });
    }
    report("pump, nobody subscribes here", || {
        publish(&mut ring, &small);
        timed(|| while local.pump(&mut reader, &mut Copy, 100) {})
    });
    let chain = local.subscribe(0, SubId::NONE, b"room.17", 0);
    let mut rest = Vec::new();
    report("pump 100 bytes with a subscriber, encoder copies", || {
        publish(&mut ring, &small);
        let time = timed(|| while local.pump(&mut reader, &mut Copy, 100) {});
        let bytes = local.contiguous(chain, usize::MAX).map_or(0, <[u8]>::len);
        local.advance(chain, false, bytes, &mut rest);
        time
    });
    report("publish, pump, send one by one", || {
        timed(|| {
            for _ in 0..PER_ROUND {
                ring.publish(&who, &message(&small), 0)
                    .expect("the reader keeps up");
                local.pump(&mut reader, &mut Copy, 100);
                let bytes = local.contiguous(chain, usize::MAX).map_or(0, <[u8]>::len);
                local.advance(chain, false, bytes, &mut rest);
            }
        })
    });
    let chains: Vec<SubId> = (1..PER_ROUND)
        .map(|owner| local.subscribe(owner, SubId::NONE, b"room.17", 0))
        .collect();
    let all: Vec<SubId> = std::iter::once(chain).chain(chains).collect();
    report("visit, contiguous, advance, per subscriber", || {
        ring.publish(&who, &message(&small), 0)
            .expect("the reader keeps up");
        local.pump(&mut reader, &mut Copy, 100);
        timed(|| {
            while let Some(owner) = local.next_ready() {
                let chain = all[owner as usize];
                let bytes = black_box(local.contiguous(chain, 65536)).map_or(0, <[u8]>::len);
                local.advance(chain, false, bytes, &mut rest);
            }
        })
    });
    report("gather with a vector and advance, per subscriber", || {
        ring.publish(&who, &message(&small), 0)
            .expect("the reader keeps up");
        local.pump(&mut reader, &mut Copy, 100);
        timed(|| {
            while let Some(owner) = local.next_ready() {
                let chain = all[owner as usize];
                let mut out = Vec::with_capacity(1);
                let bytes = local.gather(chain, false, &mut out, 65536).bytes;
                black_box(out);
                local.advance(chain, false, bytes, &mut rest);
            }
        })
    });
    report("subscribe and unsubscribe, a channel of its own", || {
        timed(|| {
            for _ in 0..PER_ROUND {
                let chain = local.subscribe(0, SubId::NONE, b"user.123", 0);
                local.unsubscribe(black_box(chain));
            }
        })
    });
    let range = ReplayRange {
        after: 0,
        up_to: Seq::MAX,
        count_max: 100,
        bytes_max: usize::MAX,
        unix_ms: 0,
    };
    report("replay, per record of 100", || {
        timed(|| {
            for _ in 0..PER_ROUND / 100 {
                ring.replay(&[b"room.17"], &range, &mut |record| {
                    black_box(record.data());
                });
            }
        })
    });
    let presence = Presence {
        channel: b"room.17",
        user: b"alice",
        info: b"{\"name\":\"Alice\"}",
        source: b"",
        announce: None,
        announce_changed: None,
    };
    ring.join(&who, &presence, 0).expect("there is room");
    report("join and leave of a second tab", || {
        timed(|| {
            for _ in 0..PER_ROUND {
                ring.join(&who, &presence, 0).expect("there is room");
                ring.leave(&who, presence.channel, presence.user, Departure::Lost, 0)
                    .expect("nobody else holds the lock");
            }
        })
    });
}
