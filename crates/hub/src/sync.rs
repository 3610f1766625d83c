//! Atomics and waiting, which the model checker replaces by its own (`--cfg loom`, see `tests/loom.rs`).

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::thread;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Time does not pass in a model: waiting is letting the others go on.
#[cfg(loom)]
pub(crate) mod thread {
    pub(crate) use loom::thread::yield_now;

    pub(crate) fn sleep(_: std::time::Duration) {
        yield_now();
    }
}
