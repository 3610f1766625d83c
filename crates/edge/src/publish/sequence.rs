//! Items before they are appended to the ring: ordered, and queued while the ring is full.
//!
//! The caller passes items and the time, removes ready items one by one, and puts an item back if the ring refuses it. The running
//! edge reads and writes the ring.

use std::collections::VecDeque;

use fermata_engine::stats::Counter;
use fermata_grip::item::Item;
use fermata_grip::packet::Notation;
use fermata_grip::reliable::Verdict;

use crate::control::{Intake, Limits};
use crate::publish::stream::BACKLOG_MS;
use crate::settings::Settings;

/// Result of offering an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The item is ready, possibly together with items that waited for it.
    Ready,
    /// The item waits for its predecessor. Contains the encoded item, which the caller stores, because a crash of this worker would
    /// lose it.
    Waiting(String),
    /// An item with this id was published to the channel recently: publishers send one item over several connections.
    Duplicate,
    /// The item is refused. Contains the counter of such items and the reason.
    Dropped(Counter, &'static str),
}

/// An item in its place in the order, ready to be appended.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub item: Item,
    /// Numbers of the requests that wait for the shared log.
    pub posts: Vec<u64>,
    /// The publisher counts the item as published: it arrived without a request, or the response was sent while the item waited for
    /// its predecessor. Requests that join later do not change this.
    pub is_owed: bool,
    /// The log was unavailable, and may already contain the item from an earlier attempt or another edge.
    pub is_late: bool,
    /// The item was found in the log.
    pub is_there: bool,
}

/// Ordered items. Used only in the worker with the ports of publishers.
#[derive(Debug)]
pub(crate) struct Sequence {
    intake: Intake,
    /// Ordered items that are not in the ring.
    backlog: VecDeque<Queued>,
    /// Total size of the backlog.
    backlog_bytes: usize,
    /// Time in milliseconds for which an item waits for its predecessor.
    wait_ms: u64,
    /// Time in milliseconds for which an item's id is stored.
    id_ttl_ms: u64,
    /// Output buffer of the intake, empty between calls.
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
            backlog_bytes: 0,
            wait_ms: settings.message_wait_ms,
            id_ttl_ms: settings.id_cache_ttl_ms,
            ready: Vec::new(),
        }
    }

    /// Offers an item of a request; a `post` of 0 means no request. Requires that [`Self::knows`] returns true.
    pub(crate) fn offer(&mut self, now_ms: u64, item: Item, post: u64) -> Offered {
        // Encode the item first, because the intake takes ownership of it.
        let note = if item.prev_id.is_some() && !item.no_seq {
            encoded(&item)
        } else {
            String::new()
        };
        let verdict = self.intake.offer(now_ms, item, &mut self.ready);
        // Items that waited for this item follow. Their publishers already have responses.
        self.queue_ready(post);
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

    /// Makes items ready that waited for their predecessors as long as permitted. Returns the number of these items.
    pub(crate) fn expire(&mut self, now_ms: u64) -> u64 {
        let overdue = self.intake.counts().overdue;
        self.intake.expire(now_ms, &mut self.ready);
        self.queue_ready(0);
        self.intake.counts().overdue - overdue
    }

    /// Records a channel's newest items from before this worker started, oldest first.
    pub(crate) fn prime(&mut self, now_ms: u64, channel: &[u8], items: &[Item]) {
        self.intake.prime(now_ms, channel, items);
    }

    /// Records items of other edges, oldest first. Makes items ready that waited for them.
    pub(crate) fn observe(&mut self, now_ms: u64, channel: &[u8], items: &[Item]) {
        if self.is_behindhand() {
            for id in items.iter().filter_map(|it| it.id.as_deref()) {
                if let Some(queued) = self.queued_mut(channel, id) {
                    queued.is_there = true;
                }
            }
        }
        self.intake.observe(now_ms, channel, items, &mut self.ready);
        self.queue_ready(0);
    }

    /// Removes an item that could not be appended, so that it is accepted when it is repeated.
    pub(crate) fn forget(&mut self, item: &Item) {
        self.intake.forget_item(item);
    }

    /// Returns true if items wait for their predecessors.
    pub(crate) fn is_waiting(&self) -> bool {
        self.intake.is_waiting()
    }

    /// Returns the channels whose items wait for predecessors, at most `max`, longest waiting first.
    pub(crate) fn waiting(&mut self, max: usize) -> Vec<Vec<u8>> {
        self.intake.waiting(max)
    }

    /// Returns true if a recovery happened.
    pub(crate) fn has_recovered(&self) -> bool {
        self.intake.has_recovered()
    }

    /// Removes the last id of every channel: the next item of each channel is accepted whatever its predecessor is.
    pub(crate) fn recover(&mut self) {
        self.intake.recover();
    }

    /// Returns the next item for the ring.
    pub(crate) fn first(&self) -> Option<&Queued> {
        self.backlog.front()
    }

    /// Removes and returns the next item for the ring.
    pub(crate) fn take(&mut self) -> Option<Queued> {
        let queued = self.backlog.pop_front()?;
        self.backlog_bytes -= queued.item.bytes();
        Some(queued)
    }

    /// Puts an item back at the front of the queue.
    pub(crate) fn put_back(&mut self, queued: Queued) {
        self.backlog_bytes += queued.item.bytes();
        self.backlog.push_front(queued);
    }

    /// Removes and returns the items whose requests `is_over` selects. Items with `is_owed` stay queued; only their requests are
    /// returned.
    pub(crate) fn take_of(
        &mut self,
        is_over: impl Fn(&[u64]) -> bool,
    ) -> (VecDeque<Queued>, Vec<u64>) {
        let backlog = std::mem::take(&mut self.backlog).into_iter();
        let mut posts = Vec::new();
        let mut over = VecDeque::new();
        for mut queued in backlog {
            if queued.posts.is_empty() || !is_over(&queued.posts) {
                self.backlog.push_back(queued);
            } else if queued.is_owed {
                posts.append(&mut queued.posts);
                self.backlog.push_back(queued);
            } else {
                self.backlog_bytes -= queued.item.bytes();
                over.push_back(queued);
            }
        }
        (over, posts)
    }

    /// Marks all queued items as late, after the log became unavailable.
    pub(crate) fn set_late(&mut self) {
        for queued in &mut self.backlog {
            queued.is_late = true;
        }
    }

    /// Returns the queued item with this channel and id.
    pub(crate) fn queued_mut(&mut self, channel: &[u8], id: &[u8]) -> Option<&mut Queued> {
        let mut backlog = self.backlog.iter_mut();
        backlog.find(|it| it.is(channel, id))
    }

    /// Returns the size of the backlog.
    pub(crate) fn backlog_bytes(&self) -> usize {
        self.backlog_bytes
    }

    /// Moves the items in `ready` to the backlog. The first one belongs to request `post`; 0 = no request.
    fn queue_ready(&mut self, post: u64) {
        for (at, item) in self.ready.drain(..).enumerate() {
            self.backlog_bytes += item.bytes();
            let posts = if at == 0 && post != 0 {
                vec![post]
            } else {
                Vec::new()
            };
            self.backlog.push_back(Queued {
                is_owed: posts.is_empty(),
                item,
                posts,
                is_late: false,
                is_there: false,
            });
        }
    }

    /// Returns true if an item can be ordered without [`Self::prime`].
    pub(crate) fn knows(&self, item: &Item) -> bool {
        self.intake.knows(item)
    }

    /// Returns true if items wait for room in the ring.
    pub(crate) fn is_behindhand(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Returns true if an item that another worker stored at `noted_ms` may not have been published. In a cluster, the item may
    /// also have waited for the log. While its id is stored, publishing it again has no effect.
    pub(crate) fn is_recent(&self, noted_ms: u64, unix_ms: u64, is_in_cluster: bool) -> bool {
        let kept_ms = if is_in_cluster {
            self.wait_ms.max(self.id_ttl_ms)
        } else {
            self.wait_ms
        };
        noted_ms.saturating_add(kept_ms) >= unix_ms
    }

    /// Returns the next due time of items that wait for a predecessor or for room.
    pub(crate) fn due_ms(&self, now_ms: u64) -> Option<u64> {
        let again_ms = self.is_behindhand().then(|| now_ms + BACKLOG_MS);
        let expires_ms = self.intake.next_deadline_ms();
        expires_ms.into_iter().chain(again_ms).min()
    }
}

impl Queued {
    /// Records that request `post` publishes the same item; 0 means that the item arrived without a request, so its publisher does
    /// not publish it again after a failure. Returns true if a request waits for the item.
    pub(crate) fn join(&mut self, post: u64) -> bool {
        self.is_owed |= post == 0;
        if post != 0 {
            self.posts.push(post);
        }
        post != 0
    }

    /// Returns true if the item has this channel and id.
    pub(crate) fn is(&self, channel: &[u8], id: &[u8]) -> bool {
        self.item.channel == channel && self.item.id.as_deref() == Some(id)
    }
}

/// Encodes an item for the ring.
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
        let ids: Vec<u8> = items.filter_map(|it| it.item.id).flatten().collect();
        String::from_utf8(ids).expect("letters")
    }

    #[test]
    fn an_item_waits_for_its_predecessor_and_is_noted() {
        let mut sequence = sequence();
        assert_eq!(sequence.offer(0, item("a", None), 0), Offered::Ready);
        let late = item("c", Some("b"));
        let note = Offered::Waiting(encoded(&late));
        assert_eq!(sequence.offer(0, late, 0), note);
        assert_eq!(take_all(&mut sequence), "a");
        assert_eq!(sequence.offer(0, item("a", None), 0), Offered::Duplicate);
        assert!(matches!(
            sequence.offer(0, item("x", Some("b")), 0),
            Offered::Dropped(Counter::EdgeItemRival, _)
        ));
        assert_eq!(sequence.offer(0, item("b", Some("a")), 0), Offered::Ready);
        assert_eq!(take_all(&mut sequence), "bc");
        assert!(!sequence.is_behindhand());
        // The time-out is still scheduled, although no item waits any more.
        assert_eq!(sequence.due_ms(0), Some(1_000));
        assert_eq!((sequence.expire(1_000), sequence.due_ms(1_000)), (0, None));
    }

    #[test]
    fn an_item_whose_predecessor_never_comes_is_ready_in_time() {
        let mut sequence = sequence();
        sequence.offer(0, item("a", None), 0);
        sequence.take();
        sequence.offer(5, item("c", Some("b")), 0);
        assert_eq!(sequence.due_ms(5), Some(1_005));
        assert_eq!((sequence.expire(1_004), sequence.expire(1_005)), (0, 1));
        assert_eq!(take_all(&mut sequence), "c");
    }

    #[test]
    fn what_the_ring_refuses_stays_the_next() {
        let mut sequence = sequence();
        for id in ["a", "b"] {
            sequence.offer(0, item(id, None), 0);
        }
        let first = sequence.take().expect("an item");
        sequence.put_back(first);
        assert!(sequence.is_behindhand());
        assert_eq!(sequence.due_ms(7), Some(7 + BACKLOG_MS));
        assert_eq!(take_all(&mut sequence), "ab");
    }

    #[test]
    fn an_item_that_is_owed_outlives_the_requests_that_join_it() {
        let mut sequence = sequence();
        sequence.offer(0, item("a", None), 1);
        sequence.offer(0, item("c", Some("b")), 2);
        // "c" was acknowledged while it waited, "p" arrived through a port without replies, and "q" arrived through one after a
        // request.
        sequence.offer(0, item("b", Some("a")), 3);
        sequence.offer(0, item("p", None), 0);
        sequence.offer(0, item("q", None), 4);
        for (id, post) in [("a", 5), ("c", 6), ("p", 7), ("q", 0)] {
            let queued = sequence.queued_mut(b"c", id.as_bytes()).expect("it waits");
            assert_eq!(queued.join(post), post != 0, "{id}");
        }
        let bytes = sequence.backlog_bytes();
        let (over, posts) = sequence.take_of(|posts| !posts.contains(&3));
        let over_bytes: usize = over.iter().map(|it| it.item.bytes()).sum();
        assert_eq!(sequence.backlog_bytes(), bytes - over_bytes);
        let over: Vec<_> = over.into_iter().map(|it| (it.item.id, it.posts)).collect();
        assert_eq!(over, [(Some(b"a".to_vec()), vec![1, 5])]);
        assert_eq!(posts, [6, 7, 4]);
        assert_eq!(take_all(&mut sequence), "bcpq");
    }

    #[test]
    fn notes_are_recent_as_long_as_items_wait() {
        let sequence = sequence();
        assert!(sequence.is_recent(500, 1_500, false));
        assert!(!sequence.is_recent(500, 1_501, false));
    }

    #[test]
    fn notes_of_a_cluster_are_recent_as_long_as_ids_are_remembered() {
        let sequence = sequence();
        assert!(sequence.is_recent(500, 60_500, true));
        assert!(!sequence.is_recent(500, 60_501, true));
    }
}
