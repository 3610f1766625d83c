//! One thread at a time, and a seed that says which: processes whose every shared access is a scheduling point.
//!
//! Each process is a thread that goes on only while it has the baton. Before every shared load or store it may have to give
//! the baton away, or die. Everything follows from the seed, so a failure can be repeated.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, Thread};

use fermata_shm::crash::{self, Point};

/// One in so many accesses gives the baton away.
const SWITCH: u64 = 6;

/// A run that takes longer has stopped making progress.
const STEPS_MAX: u64 = 4_000_000;

/// Numbers from a seed (splitmix64).
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
    /// Wake-ups that came before the sleep, as an eventfd keeps them.
    pending: Vec<bool>,
    dead: HashSet<u32>,
    steps: u64,
    /// Deaths that are still allowed, and one in how many stores brings one.
    deaths_left: u32,
    death: u64,
    /// The step at which all die together; the machine of a whole server.
    cut_at: u64,
    /// Nothing happens any more unless those who sleep are told to end.
    is_quiet: bool,
    failure: Option<String>,
    trace: u64,
}

/// Shared by all processes of one run.
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

    /// Runs a process to its end. One that may crash can do so at any store of `crash::run`.
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
            // No process may wait for what will not come.
            state.cut_at = 0;
        }
        state.actors[me] = Actor::Done;
        self.pass_on(state, me);
    }

    /// Gives the baton to anybody, also to those who would not get it otherwise.
    pub(super) fn yield_now(&self, me: usize) {
        self.step(me, false, Point::Pause);
    }

    /// Sleeps until woken. `false` = the run ends: everybody sleeps or is done.
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

    /// Whether all have died together.
    pub(super) fn is_cut(&self) -> bool {
        self.state().is_cut()
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.state().failure.clone()
    }

    /// A number that two runs have in common only if they took the same way, and how many died alone.
    pub(super) fn trace(&self) -> (u64, u64) {
        let state = self.state();
        (state.trace, state.dead.len() as u64)
    }

    /// `true` = die here.
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
