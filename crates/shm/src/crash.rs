//! Deaths on demand: with the feature `crash` a countdown of shared stores ends the "process" by unwinding, with its locks kept.
//! A simulation decides before every shared access who goes on, and who dies. Without it all of this is nothing.

#[cfg(not(all(feature = "crash", not(loom))))]
pub use off::*;
#[cfg(all(feature = "crash", not(loom)))]
pub use on::*;

/// Nothing of it. What is compiled for benchmarks has the feature as tests have it, and names this instead.
pub mod off {
    /// Called before every shared store.
    #[inline(always)]
    pub fn step() {}

    /// Called before every shared load that a simulation is to see.
    #[inline(always)]
    pub fn look() {}

    /// Called instead of waiting; `false` = really wait.
    #[inline(always)]
    pub fn pause() -> bool {
        false
    }

    /// Whether this thread is unwinding from a simulated death, so that nothing may be cleaned up.
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

    /// What a process is about to do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Point {
        /// It reads a shared word.
        Load,
        /// It writes one.
        Store,
        /// It waits for the lock: somebody else must go on.
        Pause,
    }

    /// Lets others go on first; `true` kills the process instead.
    pub type Hook = Box<dyn FnMut(Point) -> bool>;

    /// Puts this thread under a simulation's control, or out of it.
    pub fn set_hook(hook: Option<Hook>) {
        HOOK.set(hook);
    }

    /// Whether a simulation has heard of it.
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

    /// Called before every shared load that a simulation is to see.
    pub fn look() {
        at(Point::Load);
    }

    /// Called instead of waiting; `false` = really wait.
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

    /// Whether this thread is unwinding from a simulated death, so that nothing may be cleaned up.
    pub fn is_dead() -> bool {
        DEAD.get()
    }

    /// Runs `body` and kills it before its shared store number `at` (0 = the first). `None` = it was killed.
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
