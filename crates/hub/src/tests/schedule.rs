//! Runs one thread at a time in an order that a seed determines. Each shared access of a process is a scheduling point.
//!
//! Each process is a thread that runs only while it holds the baton. Before every shared load or store it may have to
//! pass the baton on, or die. The seed determines everything, so a failure can be repeated.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, Thread};

use fermata_shm::crash::{self, Point};

/// The baton is passed on at one in this many accesses.
const SWITCH: u64 = 6;

/// A run with more steps has stopped making progress.
const STEPS_MAX: u64 = 4_000_000;

/// Random numbers from a seed (splitmix64).
#[derive(Clone)]
pub(super) struct Dice(pub u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Actor {
    Ready,
    Asleep,
    Done,
}

struct State {
    dice: Dice,
    current: usize,
    actors: Vec<Actor>,
    threads: Vec<Option<Thread>>,
    /// Wake-ups that arrived before the sleep, as an eventfd stores them.
    pending: Vec<bool>,
    dead: HashSet<u32>,
    steps: u64,
    /// Number of crashes still allowed, and the inverse probability of a crash per store.
    deaths_left: u32,
    death: u64,
    /// Step at which all processes die together, as in a power failure.
    cut_at: u64,
    /// True if no process can run until the sleeping processes are signalled to exit.
    is_quiet: bool,
    failure: Option<String>,
    trace: u64,
}

/// The state that all processes of one run share.
#[derive(Clone)]
pub(super) struct Schedule(Arc<Mutex<State>>);

impl Schedule {
    pub(super) fn new(seed: u64, actors: usize, deaths: u32, death: u64, cut_at: u64) -> Schedule {
        Schedule(Arc::new(Mutex::new(State {
            dice: Dice(seed),
            current: 0,
            actors: vec![Actor::Ready; actors],
            threads: vec![None; actors],
            pending: vec![false; actors],
            dead: HashSet::new(),
            steps: 0,
            deaths_left: deaths,
            death,
            cut_at,
            is_quiet: false,
            failure: None,
            trace: 0,
        })))
    }

    /// Runs a process until it ends. If `may_crash`, it can be killed at any store within `crash::run`.
    pub(super) fn act(&self, me: usize, may_crash: bool, body: impl FnOnce()) {
        self.state().threads[me] = Some(thread::current());
        self.wait_for_baton(me);
        let schedule = self.clone();
        crash::set_hook(Some(Box::new(move |point| {
            schedule.step(me, may_crash, point)
        })));
        let outcome = catch_unwind(AssertUnwindSafe(|| crash::run(u64::MAX, body)));
        crash::set_hook(None);
        let mut state = self.state();
        if let Err(cause) = outcome {
            let cause = cause
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| cause.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "a panic without words".to_owned());
            state.failure.get_or_insert(cause);
            // No process may wait for an event that will not arrive.
            state.cut_at = 0;
        }
        state.actors[me] = Actor::Done;
        self.pass_on(state, me);
    }

    /// Passes the baton to any process, including processes that would not get it otherwise.
    pub(super) fn yield_now(&self, me: usize) {
        self.step(me, false, Point::Pause);
    }

    /// Sleeps until woken. Returns false if the run ends, because every process sleeps or is done.
    pub(super) fn sleep(&self, me: usize) -> bool {
        let mut state = self.state();
        if !std::mem::take(&mut state.pending[me]) && !state.is_cut() {
            state.actors[me] = Actor::Asleep;
            self.pass_on(state, me);
            self.wait_for_baton(me);
            state = self.state();
            state.pending[me] = false;
        }
        !state.is_quiet && !state.is_cut()
    }

    pub(super) fn wake(&self, actor: usize) {
        let mut state = self.state();
        match state.actors[actor] {
            Actor::Asleep => state.actors[actor] = Actor::Ready,
            Actor::Ready => state.pending[actor] = true,
            Actor::Done => {}
        }
    }

    pub(super) fn bury(&self, pid: u32) {
        self.state().dead.insert(pid);
    }

    pub(super) fn is_alive(&self, pid: u32) -> bool {
        !self.state().dead.contains(&pid)
    }

    /// Returns true if all processes have died together.
    pub(super) fn is_cut(&self) -> bool {
        self.state().is_cut()
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    /// Returns a hash of the schedule, and the number of single processes that crashed.
    pub(super) fn trace(&self) -> (u64, u64) {
        let state = self.state();
        (state.trace, state.dead.len() as u64)
    }

    /// Returns true if the process is to be killed here.
    fn step(&self, me: usize, may_crash: bool, point: Point) -> bool {
        let mut state = self.state();
        state.steps += 1;
        if state.steps > STEPS_MAX && !state.is_cut() {
            state.failure.get_or_insert("no progress".to_owned());
            state.cut_at = 0;
        }
        if state.is_cut() {
            return true;
        }
        if may_crash && point == Point::Store && state.deaths_left > 0 {
            let death = state.death;
            if state.dice.roll(death) == 0 {
                state.deaths_left -= 1;
                return true;
            }
        }
        if point == Point::Pause || state.dice.roll(SWITCH) == 0 {
            self.pass_on(state, me);
            self.wait_for_baton(me);
            return self.state().is_cut();
        }
        false
    }

    fn pass_on(&self, mut state: MutexGuard<'_, State>, me: usize) {
        if state.is_cut() || !state.actors.contains(&Actor::Ready) {
            state.is_quiet |= !state.is_cut();
            for actor in &mut state.actors {
                if *actor == Actor::Asleep {
                    *actor = Actor::Ready;
                }
            }
        }
        let ready: Vec<usize> = (0..state.actors.len())
            .filter(|&actor| state.actors[actor] == Actor::Ready)
            .collect();
        if ready.is_empty() {
            return;
        }
        let next = ready[state.dice.roll(ready.len() as u64) as usize];
        state.current = next;
        state.trace = state.trace.rotate_left(5) ^ (next as u64 + 1).wrapping_mul(state.steps | 1);
        if next != me
            && let Some(thread) = &state.threads[next]
        {
            thread.unpark();
        }
    }

    fn wait_for_baton(&self, me: usize) {
        while self.state().current != me {
            thread::park();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    fn is_cut(&self) -> bool {
        self.steps >= self.cut_at
    }
}
