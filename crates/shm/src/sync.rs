//! Atomics and waiting, which the model checker replaces.

#[cfg(not(loom))]
pub use std::hash::RandomState;
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::thread;

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};

use crate::crash;

/// Keys of a hash function. A model uses no keys, because all its executions must be equal.
#[cfg(loom)]
pub type RandomState = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// Time does not pass in a model. So waiting lets the other threads run.
#[cfg(loom)]
pub(crate) mod thread {
    pub(crate) use loom::thread::yield_now;

    pub(crate) fn sleep(_: std::time::Duration) {
        yield_now();
    }
}

/// Stores to shared memory; a test can crash the process before the store.
#[inline]
pub fn put(word: &AtomicU64, value: u64, ordering: Ordering) {
    crash::step();
    word.store(value, ordering);
}
