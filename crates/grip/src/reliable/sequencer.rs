//! Delivers items of a channel in the order of their ids.
//!
//! An item with a predecessor waits for that predecessor, so a publisher may use several paths and send out of order. The waiting
//! time is limited. Clients recover lost items with their next link.

use std::collections::{HashMap, VecDeque};

use super::seen::Seen;

/// Limits of a [`Sequencer`]; each is a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum time that an item waits for its predecessor. Pushpin's setting is `message_wait`.
    pub wait_ms: u64,
    /// Maximum number of waiting items per channel.
    pub waiting_max: usize,
    /// Maximum number of waiting items in total. An item that was released early counts until its waiting time would have
    /// ended.
    pub waiting_total_max: usize,
    /// Maximum size of all waiting items, in bytes.
    pub waiting_bytes_max: usize,
    /// Time for which an id is stored to drop duplicates: Pushpin's `id_cache_ttl`.
    pub id_ttl_ms: u64,
    /// Maximum number of stored ids.
    pub ids_max: usize,
    /// Maximum number of channels with a stored last id. When there are more, channels without an item for `id_ttl_ms` are dropped.
    /// If no channel can be dropped, items of further channels are delivered in order of arrival.
    pub channels_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wait_ms: 5_000,
            waiting_max: 100,
            waiting_total_max: 100_000,
            waiting_bytes_max: 64 * 1024 * 1024,
            id_ttl_ms: 60_000,
            ids_max: 1_000_000,
            channels_max: 1_000_000,
        }
    }
}

/// Order of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order<'a> {
    /// Id of the item. An item without an id has no order.
    pub id: Option<&'a [u8]>,
    /// Id of the item's predecessor.
    pub prev_id: Option<&'a [u8]>,
    /// True if the item never waits.
    pub no_seq: bool,
    /// Number of bytes that the item uses of `waiting_bytes_max` while it waits.
    pub bytes: usize,
}

/// Result for an offered item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The item is among the items to deliver.
    Delivered,
    /// The item waits for its predecessor.
    Waiting,
    /// The item was offered before, so it is dropped.
    Duplicate,
    /// Another item waits for the same predecessor, so this item is dropped.
    Rival,
    /// Too many items wait, or too many bytes: dropped.
    Full,
}

/// Sorts items. `T` is the caller's item.
#[derive(Debug)]
pub struct Sequencer<T> {
    limits: Limits,
    channels: HashMap<Vec<u8>, Channel<T>>,
    seen: Seen,
    /// Deadline, channel and predecessor of each waiting item, and of items that were released early. The deadlines ascend,
    /// because all items wait equally long.
    deadlines: VecDeque<(u64, Vec<u8>, Vec<u8>)>,
    /// Bytes of all waiting items.
    waiting_bytes: usize,
    /// Earliest time of the next search for channels to drop.
    tidy_ms: u64,
}

/// Minimum interval between searches for channels to drop; a search visits every channel.
const TIDY_MS: u64 = 1_000;

#[derive(Debug)]
struct Channel<T> {
    last_id: Option<Vec<u8>>,
    /// Time of the channel's last item.
    since_ms: u64,
    /// Waiting items by the id of their predecessor.
    waiting: HashMap<Vec<u8>, Waiting<T>>,
}

#[derive(Debug)]
struct Waiting<T> {
    id: Vec<u8>,
    deadline_ms: u64,
    bytes: usize,
    item: T,
}

impl<T> Sequencer<T> {
    /// Creates an empty sequencer.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            channels: HashMap::new(),
            seen: Seen::new(limits.id_ttl_ms, limits.ids_max),
            deadlines: VecDeque::new(),
            waiting_bytes: 0,
            tidy_ms: 0,
        }
    }

    /// Returns true if the sequencer knows ids of this channel.
    pub fn knows(&self, channel: &[u8]) -> bool {
        self.channels.contains_key(channel)
    }

    /// Adopts the state of a channel from another sequencer. `delivered` are the ids of recently delivered items, oldest first,
    /// each with its `no_seq`. The last one without `no_seq` becomes the channel's last item, which the next item has to
    /// follow.
    pub fn prime<'a>(
        &mut self,
        now_ms: u64,
        channel: &[u8],
        delivered: impl Iterator<Item = (&'a [u8], bool)>,
    ) {
        let mut last_id = None;
        for (id, no_seq) in delivered {
            self.seen.insert(now_ms, channel, id);
            if !no_seq {
                last_id = Some(id.to_vec());
            }
        }
        if last_id.is_some() && !self.knows(channel) {
            self.remember(now_ms, channel, last_id);
        }
    }

    /// Records an item of a channel that was delivered without being offered here. Appends the items that waited for it to
    /// `out`. The newest of all these becomes the channel's last item. If the item was offered here before, this function only
    /// releases the items that waited for it.
    pub fn observe(
        &mut self,
        now_ms: u64,
        channel: &[u8],
        (id, no_seq): (&[u8], bool),
        out: &mut Vec<T>,
    ) {
        let is_new = self.seen.insert(now_ms, channel, id);
        if no_seq {
            return;
        }
        let Some(state) = self.channels.get_mut(channel) else {
            if is_new {
                self.remember(now_ms, channel, Some(id.to_vec()));
            }
            return;
        };
        state.since_ms = now_ms;
        if is_new || state.waiting.contains_key(id) {
            self.waiting_bytes -= state.follow(id.to_vec(), out);
        }
    }

    /// Drops the id of a delivered item that reached no subscriber. The item is then accepted when it is offered again.
    pub fn forget_item(&mut self, channel: &[u8], id: &[u8]) {
        self.seen.forget(channel, id);
        if let Some(state) = self.channels.get_mut(channel)
            && state.last_id.as_deref() == Some(id)
        {
            // The item's predecessor is the last item again, but its id is unknown. Without a last id, the next item is
            // accepted whatever its predecessor is.
            state.last_id = None;
        }
    }

    /// Returns true if any item waits for its predecessor.
    pub fn is_waiting(&self) -> bool {
        self.waiting_bytes > 0
    }

    /// Returns the channels of the `max` items that have waited longest.
    pub fn waiting(&mut self, max: usize) -> Vec<Vec<u8>> {
        let waits = |(_, channel, prev_id): &(u64, Vec<u8>, Vec<u8>)| {
            let state = self.channels.get(channel);
            state.is_some_and(|it| it.waiting.contains_key(prev_id))
        };
        while self.deadlines.front().is_some_and(|it| !waits(it)) {
            self.deadlines.pop_front();
        }
        let oldest = self.deadlines.iter().take(max);
        let channels = oldest.filter(|it| waits(it)).map(|it| &it.1);
        let mut channels: Vec<Vec<u8>> = channels.cloned().collect();
        channels.sort_unstable();
        channels.dedup();
        channels
    }

    fn remember(&mut self, now_ms: u64, channel: &[u8], last_id: Option<Vec<u8>>) {
        if self.channels.len() >= self.limits.channels_max && now_ms >= self.tidy_ms {
            self.tidy_ms = now_ms.saturating_add(TIDY_MS);
            let ttl_ms = self.limits.id_ttl_ms;
            self.channels.retain(|_, state| {
                !state.waiting.is_empty() || now_ms.saturating_sub(state.since_ms) < ttl_ms
            });
        }
        if self.channels.len() < self.limits.channels_max {
            let state = Channel {
                last_id,
                since_ms: now_ms,
                waiting: HashMap::new(),
            };
            self.channels.insert(channel.to_vec(), state);
        }
    }

    /// Adds an item. Appends to `out` all items that can now be delivered, in order.
    pub fn offer(
        &mut self,
        now_ms: u64,
        channel: &[u8],
        order: Order<'_>,
        item: T,
        out: &mut Vec<T>,
    ) -> Verdict {
        let Some(id) = order.id else {
            out.push(item);
            return Verdict::Delivered;
        };
        if !self.seen.insert(now_ms, channel, id) {
            return Verdict::Duplicate;
        }
        if order.no_seq {
            out.push(item);
            return Verdict::Delivered;
        }
        let Some(state) = self.channels.get_mut(channel) else {
            self.remember(now_ms, channel, Some(id.to_vec()));
            out.push(item);
            return Verdict::Delivered;
        };
        state.since_ms = now_ms;
        if let (Some(prev_id), Some(last_id)) = (order.prev_id, &state.last_id)
            && prev_id != last_id
        {
            if state.waiting.contains_key(prev_id) {
                // An item that was not accepted may be offered again.
                self.seen.remove(channel, id);
                return Verdict::Rival;
            }
            if state.waiting.len() >= self.limits.waiting_max
                || self.deadlines.len() >= self.limits.waiting_total_max
                || self.waiting_bytes.saturating_add(order.bytes) > self.limits.waiting_bytes_max
            {
                self.seen.remove(channel, id);
                return Verdict::Full;
            }
            let deadline_ms = now_ms.saturating_add(self.limits.wait_ms);
            let waiting = Waiting {
                id: id.to_vec(),
                deadline_ms,
                bytes: order.bytes,
                item,
            };
            self.waiting_bytes += order.bytes;
            state.waiting.insert(prev_id.to_vec(), waiting);
            self.deadlines
                .push_back((deadline_ms, channel.to_vec(), prev_id.to_vec()));
            return Verdict::Waiting;
        }
        out.push(item);
        self.waiting_bytes -= state.follow(id.to_vec(), out);
        Verdict::Delivered
    }

    /// Appends the items whose wait has expired to `out`, in order.
    pub fn expire(&mut self, now_ms: u64, out: &mut Vec<T>) {
        while let Some((deadline_ms, _, _)) = self.deadlines.front()
            && *deadline_ms <= now_ms
            && let Some((deadline_ms, channel, prev_id)) = self.deadlines.pop_front()
        {
            let Some(state) = self.channels.get_mut(&channel) else {
                // The channel was dropped.
                continue;
            };
            // This deadline may be outdated: the predecessor has arrived, and another item now waits for the same predecessor,
            // with a later deadline.
            let is_due = |waiting: &Waiting<T>| waiting.deadline_ms == deadline_ms;
            if !state.waiting.get(&prev_id).is_some_and(is_due) {
                continue;
            }
            if let Some(waiting) = state.waiting.remove(&prev_id) {
                out.push(waiting.item);
                self.waiting_bytes -= waiting.bytes + state.follow(waiting.id, out);
            }
        }
    }

    /// Returns the earliest time at which [`Self::expire`] may have an effect.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines
            .front()
            .map(|(deadline_ms, _, _)| *deadline_ms)
    }

    /// Returns the id of the last item delivered to a channel.
    pub fn last_id(&self, channel: &[u8]) -> Option<&[u8]> {
        self.channels.get(channel)?.last_id.as_deref()
    }

    /// Drops a channel that has no subscribers, and its waiting items.
    pub fn forget(&mut self, channel: &[u8]) {
        if let Some(state) = self.channels.remove(channel) {
            let bytes: usize = state.waiting.values().map(|it| it.bytes).sum();
            self.waiting_bytes -= bytes;
        }
    }

    /// Drops all last ids, so that the next item of each channel is accepted whatever its predecessor is. Waiting items keep
    /// waiting.
    pub fn recover(&mut self) {
        self.channels.retain(|_, state| {
            state.last_id = None;
            !state.waiting.is_empty()
        });
    }
}

impl<T> Channel<T> {
    /// Records that item `id` is delivered, and appends the items that waited for it. Returns the size of the appended items in
    /// bytes.
    fn follow(&mut self, mut id: Vec<u8>, out: &mut Vec<T>) -> usize {
        let mut bytes = 0;
        while let Some(next) = self.waiting.remove(&id) {
            bytes += next.bytes;
            out.push(next.item);
            id = next.id;
        }
        self.last_id = Some(id);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Run {
        sequencer: Sequencer<String>,
        out: Vec<String>,
    }

    impl Run {
        fn new(limits: Limits) -> Self {
            Self {
                sequencer: Sequencer::new(limits),
                out: Vec::new(),
            }
        }

        fn offer(&mut self, now_ms: u64, id: &str, prev_id: Option<&str>) -> Verdict {
            let prev_id = prev_id.map(str::as_bytes);
            let item = id.to_owned();
            let order = Order {
                id: Some(id.as_bytes()),
                prev_id,
                no_seq: false,
                bytes: id.len(),
            };
            self.sequencer
                .offer(now_ms, b"c", order, item, &mut self.out)
        }
    }

    #[test]
    fn items_wait_for_their_predecessors() {
        let mut run = Run::new(Limits::default());
        for (id, prev_id, verdict) in [
            ("a", None, Verdict::Delivered),
            ("e", Some("d"), Verdict::Waiting),
            ("d", Some("c"), Verdict::Waiting),
            ("c", Some("b"), Verdict::Waiting),
            ("b", Some("a"), Verdict::Delivered),
            ("b", Some("a"), Verdict::Duplicate),
        ] {
            assert_eq!(run.offer(0, id, prev_id), verdict, "{id}");
        }
        assert_eq!(run.out, ["a", "b", "c", "d", "e"]);
        assert_eq!(run.sequencer.last_id(b"c"), Some(&b"e"[..]));
        // Deadlines of released items have no effect.
        run.sequencer.expire(1_000_000, &mut run.out);
        assert_eq!((run.out.len(), run.sequencer.next_deadline_ms()), (5, None));
    }

    #[test]
    fn items_follow_observed_ones() {
        let mut run = Run::new(Limits::default());
        run.offer(0, "a", None);
        assert_eq!(run.offer(0, "c", Some("b")), Verdict::Waiting);
        assert!(run.sequencer.is_waiting());
        assert_eq!(run.sequencer.waiting(10), [b"c"]);
        let observe = |run: &mut Run, id: &[u8]| {
            let item = (id, false);
            run.sequencer.observe(0, b"c", item, &mut run.out);
        };
        observe(&mut run, b"b");
        assert_eq!(run.out, ["a", "c"]);
        assert!(run.sequencer.waiting(10).is_empty() && !run.sequencer.is_waiting());
        // Observe an item that was offered here, after an item that was not.
        for id in [&b"a"[..], b"x", b"c"] {
            observe(&mut run, id);
        }
        assert_eq!(run.sequencer.last_id(b"c"), Some(&b"x"[..]));
        // The publisher of "c" continues. The next item waits until "c" is observed again.
        assert_eq!(run.offer(0, "d", Some("c")), Verdict::Waiting);
        observe(&mut run, b"c");
        assert_eq!(run.offer(0, "x", None), Verdict::Duplicate);
        assert_eq!(
            (&run.out[2..], run.sequencer.waiting_bytes),
            (&["d".to_owned()][..], 0)
        );
    }

    #[test]
    fn accepts_a_forgotten_item_again() {
        let mut run = Run::new(Limits::default());
        run.offer(0, "a", None);
        run.offer(0, "b", Some("a"));
        run.sequencer.forget_item(b"c", b"b");
        assert_eq!(run.offer(0, "b", Some("a")), Verdict::Delivered);
        assert_eq!(run.offer(0, "b", Some("a")), Verdict::Duplicate);
        assert_eq!(run.offer(0, "a", None), Verdict::Duplicate);
        assert_eq!(run.out, ["a", "b", "b"]);
    }

    #[test]
    fn delivers_after_the_wait_despite_a_gap() {
        let mut run = Run::new(Limits::default());
        run.offer(0, "a", None);
        run.offer(1, "d", Some("c"));
        run.offer(2, "c", Some("x"));
        run.sequencer.expire(5_000, &mut run.out);
        assert_eq!(run.out, ["a"]);
        assert_eq!(run.sequencer.next_deadline_ms(), Some(5_001));
        run.sequencer.expire(5_001, &mut run.out);
        assert_eq!(run.out, ["a", "d"]);
        run.sequencer.expire(5_002, &mut run.out);
        assert_eq!(run.out, ["a", "d", "c"]);
    }

    #[test]
    fn successors_of_an_expired_item_are_delivered() {
        let mut run = Run::new(Limits::default());
        run.offer(0, "a", None);
        run.offer(1, "c", Some("b"));
        run.offer(4_000, "d", Some("c"));
        run.sequencer.expire(5_001, &mut run.out);
        assert_eq!(run.out, ["a", "c", "d"]);
    }

    #[test]
    fn drops_rivals_and_items_beyond_limits() {
        let mut run = Run::new(Limits {
            waiting_max: 2,
            channels_max: 1,
            ..Limits::default()
        });
        run.offer(0, "a", None);
        assert_eq!(run.offer(0, "x1", Some("x0")), Verdict::Waiting);
        assert_eq!(run.offer(0, "y1", Some("x0")), Verdict::Rival);
        assert_eq!(run.offer(0, "z1", Some("z0")), Verdict::Waiting);
        assert_eq!(run.offer(0, "w1", Some("w0")), Verdict::Full);
        // An item of a channel beyond the limit is delivered without order.
        let mut out = Vec::new();
        let mut other = |id: &[u8]| {
            let order = Order {
                id: Some(id),
                prev_id: Some(b"?"),
                no_seq: false,
                bytes: 1,
            };
            let item = String::new();
            run.sequencer.offer(0, b"other", order, item, &mut out)
        };
        assert_eq!([other(b"1"), other(b"2")], [Verdict::Delivered; 2]);
        assert_eq!(run.sequencer.last_id(b"other"), None);
    }

    #[test]
    fn no_seq_item_is_delivered_immediately_and_once() {
        let mut run = Run::new(Limits::default());
        run.offer(0, "a", None);
        let mut offer = |id: &[u8]| {
            let order = Order {
                id: Some(id),
                prev_id: Some(b"?"),
                no_seq: true,
                bytes: 4,
            };
            let item = "fast".to_owned();
            run.sequencer.offer(0, b"c", order, item, &mut run.out)
        };
        assert_eq!(
            [offer(b"f"), offer(b"f")],
            [Verdict::Delivered, Verdict::Duplicate]
        );
        assert_eq!(run.sequencer.last_id(b"c"), Some(&b"a"[..]));
    }

    #[test]
    fn forgotten_channel_starts_again() {
        let mut run = Run::new(Limits::default());
        run.offer(0, "a", None);
        run.offer(0, "c", Some("b"));
        run.sequencer.recover();
        assert_eq!(run.sequencer.last_id(b"c"), None);
        assert_eq!(run.offer(0, "b", Some("?")), Verdict::Delivered);
        assert_eq!(run.out, ["a", "b", "c"]);
        run.sequencer.forget(b"c");
        assert_eq!(run.offer(0, "z", Some("y")), Verdict::Delivered);
    }

    #[test]
    fn bounds_waiting_bytes_and_accepts_refused_items_again() {
        let mut run = Run::new(Limits {
            waiting_bytes_max: 5,
            ..Limits::default()
        });
        run.offer(0, "a", None);
        assert_eq!(run.offer(0, "ccc", Some("b")), Verdict::Waiting);
        assert_eq!(run.offer(0, "eee", Some("d")), Verdict::Full);
        assert_eq!(run.offer(0, "b", Some("a")), Verdict::Delivered);
        assert_eq!(run.offer(0, "eee", Some("d")), Verdict::Waiting);
        assert_eq!(run.sequencer.waiting_bytes, 3);
        run.sequencer.forget(b"c");
        assert_eq!(run.sequencer.waiting_bytes, 0);
    }

    #[test]
    fn primed_items_are_duplicates() {
        let mut run = Run::new(Limits::default());
        assert!(!run.sequencer.knows(b"c"));
        let delivered = [(&b"a"[..], false), (b"b", false), (b"x", true)];
        run.sequencer.prime(0, b"c", delivered.into_iter());
        assert_eq!(run.sequencer.last_id(b"c"), Some(&b"b"[..]));
        for (id, prev_id, verdict) in [
            ("a", None, Verdict::Duplicate),
            ("x", None, Verdict::Duplicate),
            ("d", Some("c"), Verdict::Waiting),
            ("c", Some("b"), Verdict::Delivered),
        ] {
            assert_eq!(run.offer(0, id, prev_id), verdict, "{id}");
        }
        assert_eq!(run.out, ["c", "d"]);
    }

    #[test]
    fn drops_idle_channels_for_new_ones() {
        let limits = Limits {
            channels_max: 2,
            ..Limits::default()
        };
        let mut sequencer = Sequencer::new(limits);
        let mut offer = |now_ms: u64, channel: &[u8], id: &[u8], prev_id: Option<&[u8]>| {
            let order = Order {
                id: Some(id),
                prev_id,
                ..Order::default()
            };
            let verdict = sequencer.offer(now_ms, channel, order, (), &mut Vec::new());
            (verdict, sequencer.knows(channel))
        };
        offer(0, b"waits", b"1", None);
        offer(0, b"waits", b"3", Some(b"2"));
        offer(0, b"silent", b"1", None);
        assert_eq!(offer(1, b"new", b"1", None), (Verdict::Delivered, false));
        let late_ms = limits.id_ttl_ms;
        assert_eq!(
            offer(late_ms, b"new", b"2", None),
            (Verdict::Delivered, true)
        );
        let late_ms = late_ms + TIDY_MS;
        assert_eq!(
            offer(late_ms, b"waits", b"2", Some(b"1")),
            (Verdict::Delivered, true)
        );
        assert!(!offer(late_ms, b"silent", b"2", Some(b"0")).1);
    }

    /// Steps: an item of a channel with an id and a predecessor, or the passing of time.
    fn steps() -> impl Strategy<Value = Vec<(u8, u8, Option<u8>, bool, u64)>> {
        let step = (
            0..3u8,
            0..12u8,
            prop::option::of(0..12u8),
            any::<bool>(),
            0..3_000u64,
        );
        prop::collection::vec(step, 0..120)
    }

    proptest! {
        /// For any items in any order, limits hold, each accepted item is delivered once, and finally no item waits.
        #[test]
        fn limits_hold_and_accepted_items_are_delivered(steps in steps()) {
            let limits = Limits { waiting_max: 3, waiting_total_max: 5, waiting_bytes_max: 30, channels_max: 2, ids_max: 8, ..Limits::default() };
            let (mut sequencer, mut out) = (Sequencer::new(limits), Vec::new());
            let (mut taken, mut now_ms) = (0, 0);
            for (number, (channel, id, prev_id, no_seq, passed_ms)) in steps.into_iter().enumerate() {
                now_ms += passed_ms;
                sequencer.expire(now_ms, &mut out);
                let prev_id = prev_id.map(|it| [it]);
                let order = Order { id: Some(&[id]), prev_id: prev_id.as_ref().map(|it| &it[..]), no_seq, bytes: 10 };
                let verdict = sequencer.offer(now_ms, &[channel], order, number, &mut out);
                if matches!(verdict, Verdict::Delivered | Verdict::Waiting) {
                    taken += 1;
                }
                let waiting: usize = sequencer.channels.values().map(|it| it.waiting.len()).sum();
                prop_assert!(waiting <= 3 && sequencer.waiting_bytes == 10 * waiting);
                prop_assert!(sequencer.channels.len() <= 2 && sequencer.deadlines.len() <= 5);
                prop_assert_eq!(out.len() + waiting, taken);
                if number % 40 == 39 {
                    sequencer.recover();
                }
            }
            sequencer.expire(now_ms + limits.wait_ms, &mut out);
            prop_assert_eq!((out.len(), sequencer.waiting_bytes), (taken, 0));
            out.sort_unstable();
            out.dedup();
            prop_assert_eq!(out.len(), taken);
        }

        /// For any shuffling and repetition of a chain of items, each item is delivered once and in order.
        #[test]
        fn restores_order_after_any_shuffle(mut order in Just((1..20u32).collect::<Vec<_>>()).prop_shuffle(), repeats in prop::collection::vec(0..19usize, 0..5)) {
            let mut run = Run::new(Limits::default());
            run.offer(0, "0", None);
            let again: Vec<_> = repeats.iter().map(|&at| order[at]).collect();
            order.extend(again);
            for n in order {
                run.offer(0, &n.to_string(), Some(&(n - 1).to_string()));
            }
            let expected: Vec<_> = (0..20).map(|n: u32| n.to_string()).collect();
            prop_assert_eq!(run.out, expected);
        }
    }
}
