//! Records of a worker that wait for the log's reply, and the publishers to notify of results.

use std::collections::{HashMap, VecDeque};

use super::state::{Answer, PENDING_MAX, State};
use crate::id::PublishId;

/// Records of this worker in the outbox, and their results.
#[derive(Default)]
pub(crate) struct Pending {
    records: HashMap<PublishId, Waiting>,
    /// Records whose result was not reported yet, in the order of the results. Some of them may no
    /// longer be in `records`, because the publisher has continued. The publisher's number is
    /// stored only in `records`: it may be an address, which is invalid afterwards.
    over: VecDeque<PublishId>,
}

/// A publisher to notify of a result, identified by a number that the publisher chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publisher {
    /// A handler of the application.
    Program(u64),
    /// The protocol gateway next to the application.
    Beside(u64),
}

impl Publisher {
    pub(super) fn of_program(self) -> Option<u64> {
        match self {
            Publisher::Program(number) => Some(number),
            Publisher::Beside(_) => None,
        }
    }

    pub(super) fn beside_program(self) -> Option<u64> {
        match self {
            Publisher::Beside(number) => Some(number),
            Publisher::Program(_) => None,
        }
    }
}

struct Waiting {
    /// `None`: the publisher polls.
    publisher: Option<Publisher>,
    answer: Option<Answer>,
}

impl Pending {
    pub fn is_full(&self) -> bool {
        self.records.len() >= PENDING_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn add(&mut self, id: PublishId, publisher: Option<Publisher>) {
        let answer = None;
        self.records.insert(id, Waiting { publisher, answer });
    }

    /// Reads the bridge's replies. Drops replies that no publisher waits for.
    pub fn take_answers(&mut self, state: State, slot: u16) {
        while let Some((outbox, answer)) = state.next_answer(slot) {
            let id = PublishId::new(outbox);
            if let Some(waiting) = self.records.get_mut(&id)
                && waiting.answer.replace(answer).is_none()
                && waiting.publisher.is_some()
            {
                self.over.push_back(id);
            }
        }
    }

    /// Returns true if [`Pending::next_over`] may return a publisher.
    pub fn has_news(&self) -> bool {
        !self.over.is_empty()
    }

    /// Returns the number of the next publisher whose record has a result, among publishers that
    /// `number_of` accepts.
    pub fn next_over(&mut self, number_of: fn(Publisher) -> Option<u64>) -> Option<u64> {
        let mut at = 0;
        while let Some(id) = self.over.get(at) {
            let publisher = self.records.get(id).and_then(|waiting| waiting.publisher);
            let number = publisher.and_then(number_of);
            if publisher.is_some() && number.is_none() {
                at += 1;
                continue;
            }
            self.over.remove(at);
            // Skip a record that was removed, for example because the publisher's wait timed out.
            if number.is_some() {
                return number;
            }
        }
        None
    }

    /// Removes and returns the result of a record.
    pub fn take(&mut self, id: PublishId) -> Option<Answer> {
        let answer = self.records.get(&id)?.answer?;
        self.records.remove(&id);
        Some(answer)
    }

    /// Drops a record whose result is no longer needed.
    pub fn forget(&mut self, id: PublishId) {
        self.records.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use fermata_hub::LogPlace;

    use super::super::memory::NOBODY;
    use super::super::state::ANSWERS_MAX;
    use super::*;

    #[test]
    fn delivers_bounded_replies_in_order_per_worker() {
        let (state, mut pending) = (State::of_test(), Pending::default());
        let accepted = |seq| Answer::Accepted(LogPlace { epoch: 7, seq });
        for round in 0..3 {
            for number in 1..=PENDING_MAX as u64 {
                pending.add(PublishId::new(number), Some(Publisher::Program(number + 1)));
                assert!(state.answer(1, number, accepted(number)), "round {round}");
            }
            assert!(pending.is_full() && !state.has_answers(0) && state.has_answers(1));
            pending.take_answers(state, 1);
            for number in 1..=PENDING_MAX as u64 {
                assert_eq!(pending.next_over(Publisher::of_program), Some(number + 1));
                let outcome = pending.take(PublishId::new(number));
                assert_eq!(outcome, Some(accepted(number)));
            }
            assert!(pending.is_empty() && !pending.has_news());
        }
        // A worker that reads no replies, and a slot that does not exist.
        let taken = (0..2 * ANSWERS_MAX as u64)
            .filter(|number| state.answer(0, *number, Answer::Refused))
            .count();
        assert_eq!(taken, ANSWERS_MAX);
        assert!(!state.answer(NOBODY, 1, Answer::Unknown));
        // A reply that no publisher awaits is dropped, and a second reply changes nothing.
        let [first, second] = [1, 2].map(PublishId::new);
        pending.add(first, Some(Publisher::Program(5)));
        pending.add(second, Some(Publisher::Program(6)));
        pending.forget(first);
        for answer in [Answer::Unknown, Answer::Refused] {
            state.answer(1, 1, answer);
            state.answer(1, 2, answer);
        }
        pending.take_answers(state, 1);
        assert_eq!(
            (
                pending.next_over(Publisher::of_program),
                pending.next_over(Publisher::of_program)
            ),
            (Some(6), None)
        );
        assert_eq!(
            (pending.take(first), pending.take(second)),
            (None, Some(Answer::Refused))
        );
    }

    #[test]
    fn reports_no_result_taken_or_dropped_before() {
        let (state, mut pending) = (State::of_test(), Pending::default());
        let publishers = [
            Some(Publisher::Program(11)),
            Some(Publisher::Program(12)),
            None,
            Some(Publisher::Beside(14)),
            Some(Publisher::Program(15)),
        ];
        for (publisher, number) in publishers.into_iter().zip(1..) {
            pending.add(PublishId::new(number), publisher);
            state.answer(1, number, Answer::Refused);
        }
        pending.take_answers(state, 1);
        let taken = pending.take(PublishId::new(1));
        assert_eq!(taken, Some(Answer::Refused));
        pending.forget(PublishId::new(2));
        assert_eq!(
            (
                pending.next_over(Publisher::of_program),
                pending.next_over(Publisher::of_program)
            ),
            (Some(15), None)
        );
        assert!(pending.has_news());
        assert_eq!(
            (
                pending.next_over(Publisher::beside_program),
                pending.next_over(Publisher::beside_program)
            ),
            (Some(14), None)
        );
        assert!(!pending.has_news());
    }
}
