//! Order in which a request tries the targets of a route.
//!
//! The order contains all targets: first the targets that are up, by the policy; then the reserves; then the targets that are out,
//! as a last resort. State between requests belongs to one worker.

use std::cell::Cell;
use std::rc::Rc;

use super::health::State;
use crate::hash::{hash, mix};

/// Number of random bits in `points`.
const POINT_BITS: u32 = 52;

/// How a target is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The first target in the file that is up.
    #[default]
    FailOver,
    /// The targets in turn, by weight.
    RoundRobin,
    /// The target with the fewest requests in flight, by weight.
    LeastRequests,
    /// The same target for the same key, by weight. If a target becomes unavailable, only its keys move to other targets.
    Hash(HashBy),
}

/// Key of a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HashBy {
    /// The client's address.
    Client,
    /// The path without its query.
    Path,
    /// A header's first value.
    Header(String),
    /// A cookie's value.
    Cookie(String),
}

/// A target to choose from.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Name of the target, for hashes.
    pub name: &'a str,
    /// Weight, at least 1.
    pub weight: u32,
    /// The target is used only if no other target is up.
    pub is_reserve: bool,
    /// Its state.
    pub state: State,
}

/// A worker's state about the targets of one route.
#[derive(Debug, Default)]
pub struct Balancer {
    /// Credits of the targets; the target with the most credit is next.
    credits: Vec<i64>,
    /// Requests in flight per target, including those that began before the routes were reloaded.
    open: Vec<Rc<Cell<u32>>>,
}

impl Balancer {
    /// Creates the state for `targets` targets.
    pub fn new(targets: usize) -> Self {
        Self {
            credits: vec![0; targets],
            open: (0..targets).map(|_| Rc::default()).collect(),
        }
    }

    /// Shares the count of a target with the same target of the previous routes, whose requests are still in flight.
    pub fn share(&mut self, target: usize, before: &Self, of: usize) {
        if let (Some(open), Some(shared)) = (self.open.get_mut(target), before.open.get(of)) {
            *open = Rc::clone(shared);
        }
    }

    /// Returns the indices of the targets in the order in which they are tried. `key` is hashed.
    pub fn order(&mut self, policy: &Policy, targets: &[Candidate<'_>], key: &[u8]) -> Vec<usize> {
        let is_up = |at: &usize| targets[*at].state != State::Out;
        let is_reserve = |at: &usize| targets[*at].is_reserve;
        let (up, out): (Vec<usize>, Vec<usize>) = (0..targets.len()).partition(is_up);
        let (reserve, mut first): (Vec<usize>, Vec<usize>) = up.into_iter().partition(is_reserve);
        match policy {
            Policy::FailOver => {}
            Policy::RoundRobin => self.take_turns(targets, &mut first),
            Policy::LeastRequests => {
                // Targets with equal load are tried in turn.
                self.take_turns(targets, &mut first);
                let load = |at: &usize| {
                    let open = self.open(*at);
                    // Add one, because otherwise the weights of idle targets would have no effect.
                    (u64::from(open) + 1) * u64::from(u32::MAX)
                        / u64::from(targets[*at].weight.max(1))
                };
                first.sort_by_key(load);
            }
            Policy::Hash(_) => {
                let key = hash(key);
                let score = |at: &usize| points(key, targets[*at].name, targets[*at].weight);
                first.sort_by(|one, other| score(other).total_cmp(&score(one)));
            }
        }
        first.extend(reserve);
        first.extend(out);
        first
    }

    /// Counts a request to a target.
    pub fn begin(&mut self, target: usize) {
        if let Some(open) = self.open.get(target) {
            open.set(open.get() + 1);
        }
    }

    /// Ends a request to a target.
    pub fn end(&mut self, target: usize) {
        if let Some(open) = self.open.get(target) {
            open.set(open.get().saturating_sub(1));
        }
    }

    /// Returns the number of requests in flight to a target.
    pub fn open(&self, target: usize) -> u32 {
        self.open.get(target).map_or(0, |open| open.get())
    }

    /// Moves the target whose turn it is to the front. Each target gains its weight as credit, the target with the most credit is
    /// chosen, and the sum of all weights is subtracted from its credit. The other targets follow in the order of the file.
    fn take_turns(&mut self, targets: &[Candidate<'_>], first: &mut [usize]) {
        self.credits.resize(targets.len(), 0);
        let mut total = 0;
        for &at in first.iter() {
            let weight = i64::from(targets[at].weight);
            self.credits[at] += weight;
            total += weight;
        }
        let best = (0..first.len())
            .rev()
            .max_by_key(|&place| self.credits[first[place]]);
        if let Some(place) = best {
            self.credits[first[place]] -= total;
            first.rotate_left(place);
        }
    }
}

/// Weighted rendezvous hashing: each target has a score for a key, and the target with the highest score is used. If a target
/// becomes unavailable, its keys are distributed over all other targets, and no other key moves.
fn points(key: u64, name: &str, weight: u32) -> f64 {
    let drawn = mix(key ^ hash(name.as_bytes())) >> (u64::BITS - POINT_BITS);
    // Between 0 and 1, both excluded.
    let unit = (drawn as f64 + 0.5) / (1_u64 << POINT_BITS) as f64;
    -f64::from(weight) / unit.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 4] = ["a", "b", "c", "d"];

    fn targets(weights: &[u32]) -> Vec<Candidate<'static>> {
        let candidate = |(at, &weight)| Candidate {
            name: NAMES[at],
            weight,
            is_reserve: false,
            state: State::Up,
        };
        weights.iter().enumerate().map(candidate).collect()
    }

    #[test]
    fn turns_follow_weights_smoothly() {
        let targets = targets(&[3, 1, 1]);
        let mut balancer = Balancer::new(3);
        let firsts: Vec<usize> = (0..10)
            .map(|_| balancer.order(&Policy::RoundRobin, &targets, b"")[0])
            .collect();
        assert_eq!(firsts, [0, 1, 0, 2, 0, 0, 1, 0, 2, 0]);
    }

    #[test]
    fn everybody_is_in_the_order_and_those_that_are_out_come_last() {
        let mut targets = targets(&[1, 1, 1, 1]);
        targets[0].state = State::Out;
        targets[1].is_reserve = true;
        targets[3].state = State::Trial;
        let hash = Policy::Hash(HashBy::Client);
        for policy in [&Policy::FailOver, &Policy::RoundRobin, &hash] {
            let order = Balancer::new(4).order(policy, &targets, b"key");
            assert_eq!(order[2..], [1, 0], "{policy:?}");
            assert!(order[..2].contains(&2) && order[..2].contains(&3));
        }
        for target in &mut targets {
            target.state = State::Out;
        }
        let order = Balancer::new(4).order(&Policy::RoundRobin, &targets, b"");
        assert_eq!(order, [0, 1, 2, 3], "tried all the same");
    }

    #[test]
    fn the_fewest_requests_by_weight_win() {
        let targets = targets(&[1, 2]);
        let mut balancer = Balancer::new(2);
        let mut counts = [0; 2];
        for _ in 0..9 {
            let at = balancer.order(&Policy::LeastRequests, &targets, b"")[0];
            balancer.begin(at);
            counts[at] += 1;
        }
        assert_eq!(counts, [3, 6]);
        for _ in 0..6 {
            balancer.end(1);
        }
        assert_eq!(balancer.open(1), 0);
        let order = balancer.order(&Policy::LeastRequests, &targets, b"");
        assert_eq!(order, [1, 0]);
    }

    #[test]
    fn hashes_keep_to_their_target_and_move_only_what_has_to() {
        let mut targets = targets(&[1, 1, 2]);
        let policy = Policy::Hash(HashBy::Client);
        let mut balancer = Balancer::new(3);
        let mut choose = |targets: &[Candidate<'_>], key: u32| {
            balancer.order(&policy, targets, &key.to_be_bytes())[0]
        };
        let before: Vec<usize> = (0..4_000).map(|key| choose(&targets, key)).collect();
        let again: Vec<usize> = (0..4_000).map(|key| choose(&targets, key)).collect();
        assert_eq!(before, again);
        let share = |which| before.iter().filter(|&&at| at == which).count();
        assert!((900..1_100).contains(&share(0)), "{}", share(0));
        assert!((1_900..2_100).contains(&share(2)), "{}", share(2));
        targets[1].state = State::Out;
        for (key, &at) in before.iter().enumerate() {
            let now = choose(&targets, key as u32);
            assert!(at == now || at == 1, "{key}");
        }
    }
}
