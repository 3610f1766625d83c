//! Clients that missed items, and the times at which the edge requests these items from their origins.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use fermata_engine::RequestId;
use fermata_grip::item::Item;

use crate::settings::Settings;

/// Number of queue entries of disconnected clients above which these entries are removed.
const LEFT_MAX: usize = 1_024;

/// Maximum number of clients of a worker for which a request is sent to the origin per turn.
const UPDATES_MAX: u32 = 100;

/// Interval between two turns in milliseconds.
const UPDATES_MS: u64 = 100;

/// Time in milliseconds between a channel's first subscription and the catch-up request for its clients.
const FIRST_MS: u64 = 1_000;

/// Maximum number of channels whose first subscription is remembered.
const FIRST_MAX: usize = 100_000;

/// Queue of clients for which a request to the origin is due. A client is identified by its request and the serial number of its
/// hold.
#[derive(Debug, Default)]
pub(crate) struct Updates {
    waiting: VecDeque<(RequestId, u64)>,
    /// Number of clients that may still be served in this turn.
    left: u32,
    /// Time of the next turn.
    turn_ms: u64,
}

impl Updates {
    /// Adds a client. Removes entries of disconnected clients if the queue is longer than twice the number of `held` clients plus
    /// `LEFT_MAX`.
    pub(crate) fn add(
        &mut self,
        client: (RequestId, u64),
        held: usize,
        is_held: impl Fn(RequestId, u64) -> bool,
    ) {
        self.waiting.push_back(client);
        if self.waiting.len() > LEFT_MAX + 2 * held {
            self.waiting
                .retain(|&(handle, serial)| is_held(handle, serial));
        }
    }

    /// Starts a new turn if one is due.
    pub(crate) fn begin_turn(&mut self, now_ms: u64) {
        if now_ms >= self.turn_ms {
            self.turn_ms = now_ms + UPDATES_MS;
            self.left = UPDATES_MAX;
        }
    }

    /// Returns the next client of this turn. Skips disconnected clients without counting them.
    pub(crate) fn take(&mut self, is_there: impl Fn(RequestId, u64) -> bool) -> Option<RequestId> {
        while self.left > 0
            && let Some((handle, serial)) = self.waiting.pop_front()
        {
            if is_there(handle, serial) {
                self.left -= 1;
                return Some(handle);
            }
        }
        None
    }

    /// Returns the time of the next turn; `None` if the queue is empty.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        (!self.waiting.is_empty()).then_some(self.turn_ms)
    }
}

/// Channels that were subscribed to recently and whose last id is unknown.
#[derive(Debug)]
pub(crate) struct FirstSubscriptions {
    /// The setting `update_on_first_subscription`.
    is_on: bool,
    /// Time in milliseconds for which a channel without clients stays subscribed (`subscription_linger_ms`).
    linger_ms: u64,
    /// Time of the last subscription of each channel.
    since_ms: HashMap<Vec<u8>, u64>,
    /// Due time, request and serial number of the hold of each client.
    due: VecDeque<(u64, RequestId, u64)>,
}

impl FirstSubscriptions {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            is_on: settings.update_on_first_subscription,
            linger_ms: settings.subscription_linger_ms,
            since_ms: HashMap::new(),
            due: VecDeque::new(),
        }
    }

    /// Adds the subscriptions of a client. Returns the time of the client's catch-up request if one of the channels is new.
    pub(crate) fn begin<'a>(
        &mut self,
        now_ms: u64,
        (handle, serial): (RequestId, u64),
        channels: impl Iterator<Item = &'a [u8]>,
    ) -> Option<u64> {
        if !self.is_on {
            return None;
        }
        let mut is_first = false;
        for channel in channels {
            is_first |= self.note(now_ms, channel);
        }
        is_first.then(|| {
            let due_ms = now_ms + FIRST_MS;
            self.due.push_back((due_ms, handle, serial));
            due_ms
        })
    }

    /// Returns the next client whose catch-up is due, as its request and the serial number of its hold.
    pub(crate) fn take(&mut self, now_ms: u64) -> Option<(RequestId, u64)> {
        let &(due_ms, handle, serial) = self.due.front()?;
        if due_ms > now_ms {
            return None;
        }
        self.due.pop_front();
        Some((handle, serial))
    }

    /// Returns the time of the next catch-up.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.due.front().map(|(due_ms, ..)| *due_ms)
    }

    /// Records a subscription. Returns true if the channel had no subscription for so long that publishers may have skipped it.
    fn note(&mut self, now_ms: u64, channel: &[u8]) -> bool {
        let linger_ms = self.linger_ms;
        if self.since_ms.len() >= FIRST_MAX {
            self.since_ms
                .retain(|_, since_ms| now_ms.saturating_sub(*since_ms) < linger_ms);
        }
        // At the limit, treat a new channel as known, so that no request is sent for it.
        if self.since_ms.len() >= FIRST_MAX && !self.since_ms.contains_key(channel) {
            return false;
        }
        let before_ms = self.since_ms.insert(channel.to_vec(), now_ms);
        before_ms.is_none_or(|it| now_ms.saturating_sub(it) >= linger_ms)
    }
}

/// State of a client's missed items, according to the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayState {
    /// No item was published since the client's last item, or the client has no last id.
    UpToDate,
    /// Items were published since the client's last item.
    Behind,
    /// The ring has no recent item with an id in one of the client's channels.
    Unknown,
}

/// Returns the items after the item with this id. Returns `None` if some of them are missing.
pub(crate) fn after(items: Vec<Item>, prev_id: &[u8]) -> Option<Vec<Rc<Item>>> {
    // Items with `no-seq` or without an id are not part of the sequence.
    let has_order = |item: &Item| item.id.is_some() && !item.no_seq;
    let found = items
        .iter()
        .rposition(|it| has_order(it) && it.id.as_deref() == Some(prev_id));
    let begin = match found {
        Some(at) => at + 1,
        None => items
            .iter()
            .position(|it| has_order(it) && it.prev_id.as_deref() == Some(prev_id))?,
    };
    let rest = items.into_iter().skip(begin).filter(|it| it.id.is_some());
    let rest: Vec<Rc<Item>> = rest.map(Rc::new).collect();
    let mut last = prev_id;
    for item in &rest {
        if item.prev_id.as_deref().is_some_and(|it| it != last) && !item.no_seq {
            // The item's predecessor was never published here.
            return None;
        }
        last = match (&item.id, item.no_seq) {
            (Some(id), false) => id,
            _ => last,
        };
    }
    Some(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::request;

    fn item(id: &str, prev_id: Option<&str>) -> Item {
        Item {
            id: (!id.is_empty()).then(|| id.into()),
            prev_id: prev_id.map(Into::into),
            ..Item::default()
        }
    }

    fn ids(items: Vec<Item>, prev_id: &str) -> Option<String> {
        let found = after(items, prev_id.as_bytes())?;
        let ids = found.iter().filter_map(|it| it.id.clone()).flatten();
        Some(ids.map(char::from).collect())
    }

    #[test]
    fn what_follows_an_id_is_found_where_it_is_all_there() {
        let history = || {
            vec![
                item("b", Some("a")),
                item("", None),
                item("c", Some("b")),
                item("d", None),
            ]
        };
        for (prev_id, expected) in [
            ("a", Some("bcd")),
            ("b", Some("cd")),
            ("d", Some("")),
            ("x", None),
        ] {
            assert_eq!(ids(history(), prev_id).as_deref(), expected, "{prev_id}");
        }
        // An item between the two was never published here.
        let broken = vec![item("b", Some("a")), item("d", Some("c"))];
        assert_eq!(ids(broken.clone(), "b"), None);
        assert_eq!(ids(broken, "c").as_deref(), Some("d"));
        let overtaking = Item {
            no_seq: true,
            ..item("x", Some("?"))
        };
        let history = vec![item("a", None), overtaking, item("b", Some("a"))];
        assert_eq!(ids(history.clone(), "a").as_deref(), Some("xb"));
        assert_eq!(ids(history, "x"), None);
    }

    #[test]
    fn clients_that_have_left_do_not_wait_for_their_turn() {
        let mut updates = Updates::default();
        updates.add((request(1), 0), 1, |_, _| true);
        for serial in 1..20_000 {
            let is_held = |handle, of| handle == request(1) || of == serial;
            updates.add((request(7), serial), 2, is_held);
        }
        assert!(updates.waiting.len() <= LEFT_MAX + 4);
        assert_eq!(updates.waiting.front(), Some(&(request(1), 0)));
        assert_eq!(updates.waiting.back(), Some(&(request(7), 19_999)));
    }

    #[test]
    fn clients_ask_in_turns_and_those_that_left_take_no_place() {
        let mut updates = Updates::default();
        let count = u64::from(UPDATES_MAX) + 2;
        for handle in 1..=count {
            updates.add((request(handle), 7), count as usize, |_, _| true);
        }
        updates.begin_turn(1_000);
        let mut turn = |now_ms| {
            updates.begin_turn(now_ms);
            let asked = std::iter::from_fn(|| updates.take(|handle, _| handle != request(1)));
            let asked: Vec<RequestId> = asked.collect();
            (asked.len(), asked.last().copied(), updates.due_ms())
        };
        let later_ms = 1_000 + UPDATES_MS;
        assert_eq!(turn(1_000), (100, Some(request(101)), Some(later_ms)));
        assert_eq!(turn(later_ms - 1), (0, None, Some(later_ms)));
        assert_eq!(turn(later_ms), (1, Some(request(102)), None));
    }

    #[test]
    fn the_first_client_of_a_channel_catches_up_once() {
        let settings = |update_on_first_subscription| Settings {
            update_on_first_subscription,
            subscription_linger_ms: 10_000,
            ..Settings::default()
        };
        let begin = |first: &mut FirstSubscriptions, now_ms, handle| {
            first.begin(now_ms, (request(handle), 7), [b"c".as_slice()].into_iter())
        };
        let mut off = FirstSubscriptions::new(&settings(false));
        assert_eq!(begin(&mut off, 0, 1), None);
        let mut first = FirstSubscriptions::new(&settings(true));
        assert_eq!(begin(&mut first, 0, 1), Some(FIRST_MS));
        assert_eq!(begin(&mut first, 9_999, 2), None);
        // A channel stays subscribed for `linger_ms` after each client.
        assert_eq!(begin(&mut first, 19_999, 3), Some(19_999 + FIRST_MS));
        assert_eq!(
            (first.take(FIRST_MS - 1), first.due_ms()),
            (None, Some(FIRST_MS))
        );
        assert_eq!(first.take(FIRST_MS), Some((request(1), 7)));
        assert_eq!(
            (first.take(FIRST_MS), first.due_ms()),
            (None, Some(19_999 + FIRST_MS))
        );
    }

    #[test]
    fn so_many_channels_are_remembered() {
        let mut first = FirstSubscriptions::new(&Settings {
            update_on_first_subscription: true,
            subscription_linger_ms: 10_000,
            ..Settings::default()
        });
        let names: Vec<String> = (0..FIRST_MAX).map(|at| at.to_string()).collect();
        let all = names.iter().map(String::as_bytes);
        assert!(first.begin(0, (request(1), 1), all).is_some());
        let mut begin =
            |now_ms| first.begin(now_ms, (request(1), 1), [b"c".as_slice()].into_iter());
        // Entries older than `linger_ms` make room.
        assert_eq!(
            (begin(9_999), begin(10_000)),
            (None, Some(10_000 + FIRST_MS))
        );
    }

    proptest! {
        /// In a complete chain, the missed items are the items after the client's last one, wherever the ring's history starts.
        #[test]
        fn a_chain_is_continued(len in 1..30usize, from in 0..30usize, had in 0..30usize) {
            let chain: Vec<Item> = (from..from + len)
                .map(|at| item(&at.to_string(), Some(&(at.wrapping_sub(1) as i64).to_string())))
                .collect();
            let found = after(chain, had.to_string().as_bytes());
            let is_known = had + 1 >= from && had < from + len;
            prop_assert_eq!(found.map(|it| it.len()), is_known.then(|| from + len - had - 1));
        }
    }
}
