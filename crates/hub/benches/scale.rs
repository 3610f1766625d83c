//! Cost of size: channels, subscriptions and idle clients by the thousand and by the million.
//!
//! `cargo bench -p fermata-hub --bench scale` prints a table. A column with equal rows does not depend on the size. Caches make
//! larger rows slower by a small factor, not by a thousand. The memory figures are those of the process.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use fermata_hub::{
    Config, Encode, Kind, Layout, Local, LocalConfig, Message, Owner, PayloadSpan, Reader, Record,
    Ring, SubId,
};

/// Operations timed per figure.
const SAMPLES: u32 = 20_000;
/// Number of batches in which calls are timed.
const BATCHES: u32 = 100;
/// Subscribers that are served per measured publish.
const LIVELY: u32 = 8;

struct Copy;

impl Encode for Copy {
    fn encode(&mut self, _: u8, record: &Record, out: &mut Vec<u8>) -> PayloadSpan {
        out.extend_from_slice(record.data());
        let end = record.data().len();
        PayloadSpan { start: 0, end }
    }
}

struct Bench {
    ring: Ring,
    reader: Reader,
    who: Owner,
    local: Local,
    chains: Vec<SubId>,
}

fn start() -> Bench {
    let config = Config {
        ring_bytes: 1 << 24,
        index_buckets: 1 << 14,
        record_bytes_max: 65_536,
        workers_max: 64,
        history_count_max: 1000,
        history_age_ms_max: 1_000_000,
        members_max: 16,
        leave_delay_ms: 0,
    };
    let words = Layout::new(&config).expect("sizes that fit").words();
    let words: &[AtomicU64] = Vec::leak((0..words).map(|_| AtomicU64::new(0)).collect());
    let mut ring = Ring::create(words, &config, 1, 2).expect("enough memory");
    let alive = |_| true;
    let who = Owner {
        slot: 0,
        pid: 1,
        alive,
    };
    let reader = ring.worker_started(&who, 0).expect("a free slot");
    let local = Local::new(LocalConfig {
        log_bytes_max: 1 << 18,
        hasher: ring.hasher(),
    });
    Bench {
        ring,
        reader,
        who,
        local,
        chains: Vec::new(),
    }
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|it| it.parse().ok());
    pages.unwrap_or(0) * 4096
}

/// Returns nanoseconds per call, from the best of many small batches: other processes can only make a batch slower.
fn best(count: u32, mut body: impl FnMut(u32)) -> f64 {
    let batch = count / BATCHES;
    let batches = (0..BATCHES).map(|at| each(batch, |number| body(at * batch + number)));
    batches.fold(f64::MAX, f64::min)
}

/// Returns nanoseconds per call.
fn each(count: u32, mut body: impl FnMut(u32)) -> f64 {
    let start = Instant::now();
    for number in 0..count {
        body(number);
    }
    start.elapsed().as_nanos() as f64 / f64::from(count)
}

impl Bench {
    fn publish(&mut self, channel: &[u8]) {
        let message = Message {
            channel,
            kind: Kind::Message,
            name: None,
            data: &[b'x'; 100],
        };
        self.ring
            .publish(&self.who, &message, 0)
            .expect("the reader keeps up");
    }

    /// Publishes one message to a channel of `LIVELY` subscribers, and gathers the bytes for each of them.
    fn deliver(&mut self) {
        self.publish(b"lively");
        self.local.pump(&mut self.reader, &mut Copy, 100);
        let mut rest = Vec::new();
        while let Some(owner) = self.local.next_ready() {
            let chain = self.chains[owner as usize];
            let bytes = black_box(self.local.contiguous(chain, 1 << 16)).map_or(0, <[u8]>::len);
            self.local.advance(chain, false, bytes, &mut rest);
        }
    }
}

fn row(title: &str, size: u32, name: impl Fn(u32) -> String) {
    let mut bench = start();
    for owner in 0..LIVELY {
        let chain = bench.local.subscribe(owner, SubId::NONE, b"lively", 0);
        bench.chains.push(chain);
    }
    let before = resident_bytes();
    let filling = each(size, |number| {
        let owner = LIVELY + number;
        let chain = bench
            .local
            .subscribe(owner, SubId::NONE, name(number).as_bytes(), 0);
        bench.chains.push(chain);
    });
    // The vector of chains belongs to the benchmark.
    let own = bench.chains.capacity() * size_of::<SubId>();
    let memory = resident_bytes().saturating_sub(before + own) / size as usize;
    let subscribe = best(SAMPLES, |number| {
        let name = name(size + number);
        let chain = bench.local.subscribe(0, SubId::NONE, name.as_bytes(), 0);
        bench.local.unsubscribe(black_box(chain));
    });
    // Remove subscribers from random positions, not from the end.
    let leave = best(SAMPLES.min(size / 2), |number| {
        let place = LIVELY + (number.wrapping_mul(7_919)) % size;
        let chain = std::mem::replace(&mut bench.chains[place as usize], SubId::NONE);
        if chain != SubId::NONE {
            bench.local.unsubscribe(chain);
        }
    });
    let publish = best(SAMPLES, |_| {
        bench.publish(b"nobody");
        while bench.local.pump(&mut bench.reader, &mut Copy, 100) {}
    });
    let deliver = best(SAMPLES, |_| bench.deliver());
    println!(
        "{title:<34}{size:>10}{filling:>10.0}{subscribe:>14.0}{leave:>10.0}{publish:>10.0}{deliver:>12.0}{memory:>12}"
    );
}

fn main() {
    println!(
        "{:<34}{:>10}{:>10}{:>14}{:>10}{:>10}{:>12}{:>12}",
        "nanoseconds", "size", "fill", "come and go", "leave", "publish", "to 8", "bytes each"
    );
    for size in [1_000, 100_000, 1_000_000] {
        row("channels of one subscriber", size, |number| {
            format!("user.{number:07}")
        });
    }
    for size in [1_000, 100_000, 1_000_000] {
        row("subscribers of one channel", size, |_| "all".to_owned());
    }
}
