//! Atomics and waiting, which the model checker replaces by its own (`--cfg loom`, see `tests/loom.rs`).

#[cfg(not(loom))]
pub(crate) use std::hash::RandomState;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::thread;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};

/// Every execution of a model has to be the same.
#[cfg(loom)]
pub(crate) type RandomState = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;

/// Time does not pass in a model: waiting is letting the others go on.
#[cfg(loom)]
pub(crate) mod thread {
    pub(crate) use loom::thread::yield_now;

    pub(crate) fn sleep(_: std::time::Duration) {
        yield_now();
    }
}

/// A store to shared memory, before which a test can kill the process.
pub(crate) fn put(word: &AtomicU64, value: u64, ordering: Ordering) {
    crash::step();
    word.store(value, ordering);
}

/// Deaths on demand: in tests a countdown of shared stores ends the "process" by unwinding, with its locks kept.
#[cfg(not(test))]
pub(crate) mod crash {
    #[inline(always)]
    pub(crate) fn step() {}

    #[inline(always)]
    pub(crate) fn dead() -> bool {
        false
    }
}

#[cfg(test)]
pub(crate) mod crash {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    thread_local! {
        static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
        static DEAD: Cell<bool> = const { Cell::new(false) };
    }

    struct Killed;

    /// Called before every shared store.
    pub(crate) fn step() {
        if let Some(left) = LEFT.get() {
            if left == 0 {
                LEFT.set(None);
                DEAD.set(true);
                resume_unwind(Box::new(Killed));
            }
            LEFT.set(Some(left - 1));
        }
    }

    /// Whether this thread is unwinding from a simulated death, so that nothing may be cleaned up.
    pub(crate) fn dead() -> bool {
        DEAD.get()
    }

    /// Runs `body` and kills it before its shared store number `at` (0 = the first). `None` = it was killed.
    pub(crate) fn run<T>(at: u64, body: impl FnOnce() -> T) -> Option<T> {
        LEFT.set(Some(at));
        DEAD.set(false);
        let outcome = catch_unwind(AssertUnwindSafe(body));
        LEFT.set(None);
        DEAD.set(false);
        match outcome {
            Ok(value) => Some(value),
            Err(cause) if cause.is::<Killed>() => None,
            Err(cause) => resume_unwind(cause),
        }
    }
}
