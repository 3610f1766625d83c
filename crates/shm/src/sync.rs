//! Atomics and waiting, which the model checker replaces by its own.

#[cfg(not(loom))]
pub use std::hash::RandomState;
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::thread;

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU64, Ordering, fence};

use crate::crash;

/// Keys of a hash function. Every execution of a model has to be the same, so that has none.
#[cfg(loom)]
pub type RandomState = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// Time does not pass in a model: waiting is letting the others go on.
#[cfg(loom)]
pub(crate) mod thread {
    pub(crate) use loom::thread::yield_now;

    pub(crate) fn sleep(_: std::time::Duration) {
        yield_now();
    }
}

/// A store to shared memory, before which a test can kill the process.
#[inline]
pub fn put(word: &AtomicU64, value: u64, ordering: Ordering) {
    crash::step();
    word.store(value, ordering);
}
