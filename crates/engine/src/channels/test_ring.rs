//! Rings in the memory of a test.

use std::sync::atomic::AtomicU64;

use fermata_hub::{Config, Layout, Ring};

/// A small ring.
pub(crate) const CONFIG: Config = Config {
    ring_bytes: 1 << 16,
    index_buckets: 16,
    record_bytes_max: 1024,
    workers_max: 2,
    history_count_max: 10,
    history_age_ms_max: 1000,
    members_max: 2,
    leave_delay_ms: 0,
};

/// Allocates leaked memory for a ring of these sizes, so that a test can act as several processes.
pub(crate) fn words(config: &Config) -> &'static [AtomicU64] {
    let len = Layout::new(config).expect("sizes that fit").words();
    let words: Vec<AtomicU64> = (0..len).map(|_| AtomicU64::new(0)).collect();
    words.leak()
}

/// Creates a ring in new memory.
pub(crate) fn ring(config: &Config) -> Ring {
    ring_in(words(config), config)
}

/// Creates a ring in this memory.
pub(crate) fn ring_in(words: &'static [AtomicU64], config: &Config) -> Ring {
    Ring::create(words, config, 7, 11).expect("memory of the right size")
}
