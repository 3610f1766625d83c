//! Queues per resource: jobs that change the same resource run one after the other, in the order of their requests.
//!
//! A job joins the queues of all its keys in one step. So two jobs never wait for each other.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use super::id::JobId;
use super::key::Key;

struct Turn {
    /// The first job of the queue, which may use the resource.
    now: JobId,
    /// The jobs that wait for `now` to end, in order.
    next: VecDeque<JobId>,
}

#[derive(Default)]
pub(super) struct Turns {
    by_key: HashMap<Key, Turn>,
}

impl Turns {
    /// Returns true if a job with these keys would have to wait.
    pub fn are_taken(&self, keys: &[Key]) -> bool {
        keys.iter().any(|key| self.by_key.contains_key(key))
    }

    /// Adds a job to the queues of its keys. No key may occur twice.
    pub fn join(&mut self, job: JobId, keys: &[Key]) {
        for key in keys {
            match self.by_key.entry(key.clone()) {
                Entry::Occupied(turn) => turn.into_mut().next.push_back(job),
                Entry::Vacant(free) => {
                    let next = VecDeque::new();
                    free.insert(Turn { now: job, next });
                }
            }
        }
    }

    /// Returns true if this job is the first in the queues of all its keys.
    pub fn has_all(&self, job: JobId, keys: &[Key]) -> bool {
        keys.iter()
            .all(|key| self.by_key.get(key).is_none_or(|turn| turn.now == job))
    }

    /// Removes the ended job from the queue of a key. Returns the job that is the first now.
    pub fn leave(&mut self, key: &Key) -> Option<JobId> {
        let turn = self.by_key.get_mut(key)?;
        match turn.next.pop_front() {
            Some(job) => {
                turn.now = job;
                Some(job)
            }
            None => {
                self.by_key.remove(key);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(number: u64) -> JobId {
        JobId::from_raw(number).expect("not zero")
    }

    #[test]
    fn a_job_with_two_keys_has_its_turn_between_those_of_each() {
        let (a, b) = (Key::Handle(1), Key::Handle(2));
        let mut turns = Turns::default();
        turns.join(job(1), std::slice::from_ref(&a));
        turns.join(job(2), &[a.clone(), b.clone()]);
        turns.join(job(3), std::slice::from_ref(&b));
        assert!(turns.has_all(job(1), std::slice::from_ref(&a)));
        assert!(!turns.has_all(job(2), &[a.clone(), b.clone()]));
        // No job has used `b` yet, but an earlier job is queued for it.
        assert!(!turns.has_all(job(3), std::slice::from_ref(&b)));
        assert_eq!(turns.leave(&a), Some(job(2)));
        assert!(turns.has_all(job(2), &[a.clone(), b.clone()]));
        assert_eq!(turns.leave(&a), None);
        assert_eq!(turns.leave(&b), Some(job(3)));
        assert_eq!(turns.leave(&b), None);
        assert!(!turns.are_taken(&[a, b]));
    }
}
