//! Items on their way into the ring: brought into order, and kept while the ring has no room for them.
//!
//! It is handed items and the time, and says what became of them; what is ready is taken out one by one and put back
//! where the ring refuses it. Reading and writing the ring is up to the running edge.

use std::collections::VecDeque;

use fermata_engine::stats::Counter;
use fermata_grip::item::Item;
use fermata_grip::packet::Notation;
use fermata_grip::reliable::Verdict;

use crate::control::{Intake, Limits};
use crate::publish::stream::BACKLOG_MS;
use crate::settings::Settings;

/// What became of an item that was offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// It is ready, and with it perhaps others that waited for it.
    Ready,
    /// It waits for its predecessor, and would be lost with this worker: this is it as the ring would have it.
    Waiting(String),
    /// Its channel had the same id not long ago. Sending one thing several ways is what ids are for.
    Duplicate,
    /// It is not taken: what counts such items, and why.
    Dropped(Counter, &'static str),
}

/// Items in their order; of use in the one worker that has the ports of publishers.
#[derive(Debug)]
pub(crate) struct Sequence {
    intake: Intake,
    /// Items in their order that are not in the ring yet.
    backlog: VecDeque<Item>,
    /// How long an item waits for its predecessor.
    wait_ms: u64,
    /// What one call of the intake gives out; empty between calls, kept for its memory.
    ready: Vec<Item>,
}

impl Sequence {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            intake: Intake::new(Limits {
                wait_ms: settings.message_wait_ms,
                waiting_bytes_max: settings.message_wait_bytes_max,
                id_ttl_ms: settings.id_cache_ttl_ms,
                ..Limits::default()
            }),
            backlog: VecDeque::new(),
            wait_ms: settings.message_wait_ms,
            ready: Vec::new(),
        }
    }

    /// Takes an item. The ring's newest items of its channel have to be known: [`Self::knows`].
    pub(crate) fn offer(&mut self, now_ms: u64, item: Item) -> Offered {
        // The intake keeps the item, so it is written down before.
        let note = match item.prev_id.is_some() && !item.no_seq {
            true => encoded(&item),
            false => String::new(),
        };
        let verdict = self.intake.offer(now_ms, item, &mut self.ready);
        self.backlog.extend(self.ready.drain(..));
        match verdict {
            Verdict::Delivered => Offered::Ready,
            Verdict::Waiting => Offered::Waiting(note),
            Verdict::Duplicate => Offered::Duplicate,
            Verdict::Rival => Offered::Dropped(
                Counter::EdgeItemRival,
                "another item waits for the same predecessor",
            ),
            Verdict::Full => Offered::Dropped(
                Counter::EdgeItemOverflow,
                "too many items wait for their predecessors, or too large ones (message_wait_bytes_max)",
            ),
        }
    }

    /// Makes items ready that have waited long enough for their predecessors; returns how many.
    pub(crate) fn expire(&mut self, now_ms: u64) -> u64 {
        let overdue = self.intake.counts().overdue;
        self.intake.expire(now_ms, &mut self.ready);
        self.backlog.extend(self.ready.drain(..));
        self.intake.counts().overdue - overdue
    }

    /// Takes over what a channel has had before this worker came: its newest items, oldest first.
    pub(crate) fn prime(&mut self, now_ms: u64, channel: &[u8], items: &[Item]) {
        self.intake.prime(now_ms, channel, items);
    }

    /// Forgets every last id: what comes next is taken as it is.
    pub(crate) fn recover(&mut self) {
        self.intake.recover();
    }

    /// The next item for the ring.
    pub(crate) fn take(&mut self) -> Option<Item> {
        self.backlog.pop_front()
    }

    /// The ring has no room for an item that was taken: it stays the next.
    pub(crate) fn put_back(&mut self, item: Item) {
        self.backlog.push_front(item);
    }

    /// Whether an item can be brought into order without what the ring has of its channel: [`Self::prime`].
    pub(crate) fn knows(&self, item: &Item) -> bool {
        self.intake.knows(item)
    }

    /// Whether items wait for room in the ring.
    pub(crate) fn is_behindhand(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether an item that another worker noted at `noted_ms` has not waited too long.
    pub(crate) fn is_recent(&self, noted_ms: u64, unix_ms: u64) -> bool {
        noted_ms + self.wait_ms >= unix_ms
    }

    /// When there is something to do again, for items without their predecessor or without room.
    pub(crate) fn due_ms(&self, now_ms: u64) -> Option<u64> {
        let again_ms = self.is_behindhand().then(|| now_ms + BACKLOG_MS);
        let expires_ms = self.intake.next_deadline_ms();
        expires_ms.into_iter().chain(again_ms).min()
    }
}

/// An item as the ring has it.
pub(crate) fn encoded(item: &Item) -> String {
    item.to_value(Notation::Json).to_json().to_string()
}

#[cfg(test)]
mod tests {
    use fermata_grip::item::{Format, StreamAction};

    use super::*;

    fn sequence() -> Sequence {
        Sequence::new(&Settings {
            message_wait_ms: 1_000,
            ..Settings::default()
        })
    }

    fn item(id: &str, prev_id: Option<&str>) -> Item {
        Item {
            channel: b"c".to_vec(),
            id: Some(id.into()),
            prev_id: prev_id.map(Into::into),
            http_stream: Some(Format::new(StreamAction::Send(id.into()))),
            ..Item::default()
        }
    }

    fn take_all(sequence: &mut Sequence) -> String {
        let items = std::iter::from_fn(|| sequence.take());
        let ids: Vec<u8> = items.filter_map(|it| it.id).flatten().collect();
        String::from_utf8(ids).expect("letters")
    }

    #[test]
    fn an_item_waits_for_its_predecessor_and_is_noted() {
        let mut sequence = sequence();
        assert_eq!(sequence.offer(0, item("a", None)), Offered::Ready);
        let late = item("c", Some("b"));
        let note = Offered::Waiting(encoded(&late));
        assert_eq!(sequence.offer(0, late), note);
        assert_eq!(take_all(&mut sequence), "a");
        assert_eq!(sequence.offer(0, item("a", None)), Offered::Duplicate);
        assert!(matches!(
            sequence.offer(0, item("x", Some("b"))),
            Offered::Dropped(Counter::EdgeItemRival, _)
        ));
        assert_eq!(sequence.offer(0, item("b", Some("a"))), Offered::Ready);
        assert_eq!(take_all(&mut sequence), "bc");
        assert!(!sequence.is_behindhand());
        // Its time is looked at still, and nothing is there any more.
        assert_eq!(sequence.due_ms(0), Some(1_000));
        assert_eq!((sequence.expire(1_000), sequence.due_ms(1_000)), (0, None));
    }

    #[test]
    fn an_item_whose_predecessor_never_comes_is_ready_in_time() {
        let mut sequence = sequence();
        sequence.offer(0, item("a", None));
        sequence.take();
        sequence.offer(5, item("c", Some("b")));
        assert_eq!(sequence.due_ms(5), Some(1_005));
        assert_eq!((sequence.expire(1_004), sequence.expire(1_005)), (0, 1));
        assert_eq!(take_all(&mut sequence), "c");
    }

    #[test]
    fn what_the_ring_refuses_stays_the_next() {
        let mut sequence = sequence();
        for id in ["a", "b"] {
            sequence.offer(0, item(id, None));
        }
        let first = sequence.take().expect("an item");
        sequence.put_back(first);
        assert!(sequence.is_behindhand());
        assert_eq!(sequence.due_ms(7), Some(7 + BACKLOG_MS));
        assert_eq!(take_all(&mut sequence), "ab");
    }

    #[test]
    fn notes_are_recent_as_long_as_items_wait() {
        let sequence = sequence();
        assert!(sequence.is_recent(500, 1_500));
        assert!(!sequence.is_recent(500, 1_501));
    }
}
