//! Simulated crashes for tests. With the feature `crash`, a countdown of shared stores ends the "process" by unwinding,
//! with its locks held. A simulation decides before every shared access which process continues and which crashes.
//! Without the feature, all functions are empty.

#[cfg(not(all(feature = "crash", not(loom))))]
pub use off::*;
#[cfg(all(feature = "crash", not(loom)))]
pub use on::*;

/// Empty versions of the functions. Benchmarks call these, because they are compiled with the feature, as tests are.
pub mod off {
    /// Called before every shared store.
    #[inline(always)]
    pub fn step() {}

    /// Called before every shared load that a simulation controls.
    #[inline(always)]
    pub fn look() {}

    /// Called instead of waiting; returns false if the caller must really wait.
    #[inline(always)]
    pub fn pause() -> bool {
        false
    }

    /// Returns true if this thread is unwinding from a simulated crash, so that nothing may be cleaned up.
    #[inline(always)]
    pub fn is_dead() -> bool {
        false
    }
}

#[cfg(all(feature = "crash", not(loom)))]
mod on {
    use std::cell::{Cell, RefCell};
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    thread_local! {
        static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
        static DEAD: Cell<bool> = const { Cell::new(false) };
        static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
    }

    struct Killed;

    /// The next step of a process.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Point {
        /// Reads a shared word.
        Load,
        /// Writes a shared word.
        Store,
        /// Waits for a lock: another process must continue.
        Pause,
    }

    /// Lets other processes run first. Returns true if this process has to crash.
    pub type Hook = Box<dyn FnMut(Point) -> bool>;

    /// Sets or removes the simulation that controls this thread.
    pub fn set_hook(hook: Option<Hook>) {
        HOOK.set(hook);
    }

    /// Reports a step to the simulation; returns false without a simulation.
    fn at(point: Point) -> bool {
        if DEAD.get() {
            return false;
        }
        let dies = HOOK.with_borrow_mut(|hook| hook.as_mut().map(|hook| hook(point)));
        if dies == Some(true) {
            DEAD.set(true);
            resume_unwind(Box::new(Killed));
        }
        dies.is_some()
    }

    /// Called before every shared load that a simulation controls.
    pub fn look() {
        at(Point::Load);
    }

    /// Called instead of waiting; returns false if the caller must really wait.
    pub fn pause() -> bool {
        at(Point::Pause)
    }

    /// Called before every shared store.
    pub fn step() {
        at(Point::Store);
        if let Some(left) = LEFT.get() {
            if left == 0 {
                LEFT.set(None);
                DEAD.set(true);
                resume_unwind(Box::new(Killed));
            }
            LEFT.set(Some(left - 1));
        }
    }

    /// Returns true if this thread is unwinding from a simulated crash, so that nothing may be cleaned up.
    pub fn is_dead() -> bool {
        DEAD.get()
    }

    /// Runs `body`, and crashes it before its shared store number `at`, counted from 0. Returns `None` if `body` crashed.
    pub fn run<T>(at: u64, body: impl FnOnce() -> T) -> Option<T> {
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
