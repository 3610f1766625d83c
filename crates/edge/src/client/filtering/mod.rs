//! Queues of items for `http-check` and `http-modify` filters, which request a decision about each
//! item from a server.
//!
//! During a request, later items wait in the client's queue, so that they are delivered in order. [`Filtering::judge`] decides
//! about the first item. The caller of `judge` sends the request and delivers the item.

mod answer;
mod format;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use fermata_engine::stats::Counter;
use fermata_engine::{Left, RequestId};
use fermata_grip::filter::{FilterError, Run};
use fermata_grip::item::Item;
use fermata_grip::reliable::{OnItem, on_item};

pub(crate) use self::answer::{Answer, Unfiltered, json, read_answer};
pub(crate) use self::format::Filtered;
use self::format::{Format, Having};
use crate::client::delivery::WAITING_BYTES_MAX;
use crate::client::session::{Kind, Session, Subscription};
use crate::settings::Settings;

/// Maximum number of queued items per client, as in Pushpin.
pub(crate) const WAITING_MAX: usize = 100;

/// Stale entries are removed from `turns` when it has this number of entries more than there are queues.
const STALE_MAX: usize = 1_024;

/// Queues of items that wait for the results of filters' servers.
pub(crate) struct Filtering {
    pub(crate) timeout_ms: u64,
    /// True if any client has had a filter that sends requests; otherwise no queue needs to be checked.
    is_used: bool,
    queues: HashMap<RequestId, Box<Queue>>,
    requests: Requests,
    /// Clients that wait because the limit of running requests is reached, in order of their arrival. An entry is stale if its
    /// client no longer waits.
    turns: VecDeque<RequestId>,
}

/// Running requests of filters.
struct Requests {
    /// Maximum number of running requests.
    max: usize,
    /// The client of each request.
    clients: HashMap<u64, RequestId>,
    last: u64,
}

/// Queued items of one client, in order. The first item is being filtered.
struct Queue {
    client: Left,
    /// Serial number of the hold that the items belong to.
    serial: u64,
    items: VecDeque<(Rc<[u8]>, Rc<Item>)>,
    bytes: usize,
    front: Front,
    /// True if an item did not fit into the queue.
    has_lost: bool,
    /// True if the long poll ends with the first item, so that no further item may be queued.
    is_last: bool,
}

/// Progress of the first item.
#[derive(Default)]
struct Front {
    /// Index of the next filter, and the content after the previous filters; `None` = no filter has run yet.
    stage: Option<(usize, Option<Vec<u8>>)>,
    /// Number of the running request.
    asked: Option<u64>,
    /// True if the filter may modify the content, so that the server receives it.
    modifies: bool,
    waits_for_turn: bool,
    answer: Option<Result<Answer, Unfiltered>>,
}

/// Result of offering an item to the queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The item was not queued, because it needs no request and no earlier item waits for a request.
    Unasked,
    /// Skipped: the client has already received the item, or its poll ends with the item that is being filtered.
    LeftOut,
    /// Queued for the client.
    Queued,
    /// Lost, because the queue is full; `is_first` is true for the first lost item.
    Lost { is_first: bool },
}

/// Decision about the first item of a client.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The item waits for the response to its filter request, for a free request, or for the end of a link's response. Also
    /// returned if the last delivered item has ended the client.
    Waits,
    /// The items' hold has ended, or the origin is about to be polled and returns the current
    /// state.
    Over,
    /// The queue is empty.
    Empty,
    /// The item is not for this client. Contains the counter if a filter dropped the item.
    LeftOut(Option<Counter>),
    /// The client has missed an earlier item.
    Behind(Left),
    /// The server returned no result. A client with reliable delivery detects the missing item by the next item, and its origin may
    /// still have it.
    Unanswered(Unfiltered),
    /// A filter failed.
    Failed(FilterError),
    /// Deliver the item in this form.
    Deliver(Filtered),
    /// The caller must send a request with this number and content.
    Ask {
        number: u64,
        item: Rc<Item>,
        content: Vec<u8>,
    },
}

impl Filtering {
    pub fn new(settings: &Settings) -> Self {
        Self {
            timeout_ms: settings.filter_timeout_ms,
            is_used: false,
            queues: HashMap::new(),
            requests: Requests {
                max: settings.filter_requests_max,
                clients: HashMap::new(),
                last: 0,
            },
            turns: VecDeque::new(),
        }
    }

    /// Records if a subscription has filters that send requests.
    pub fn watch(&mut self, subscription: &Subscription) {
        self.is_used |= subscription.filters.asks();
    }

    /// Returns true if any client has ever had a filter that sends requests.
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    /// Returns true if the body of the response to this request is not used.
    pub fn ignores_body(&self, number: u64) -> bool {
        let client = self.requests.clients.get(&number);
        let queue = client.and_then(|it| self.queues.get(it));
        queue.is_some_and(|it| !it.front.modifies)
    }

    /// Queues an item if the client's filters send a request for this item, or have to send one for an item queued before it.
    pub fn take(
        &mut self,
        client: Left,
        session: &mut Session,
        channel: &[u8],
        item: &Rc<Item>,
    ) -> Taken {
        if matches!(&session.kind, Kind::Stream(stream) if stream.is_passing) {
            // The item is held back with other items until the link's response has been forwarded.
            return Taken::Unasked;
        }
        let handle = client.request();
        let serial = session.serial;
        let Some(subscription) = session.subscription(channel) else {
            // The client has unsubscribed.
            return Taken::Unasked;
        };
        if !subscription.filters.asks() && !self.queues.contains_key(&handle) {
            return Taken::Unasked;
        }
        if subscription.has_had(item) {
            return Taken::LeftOut;
        }
        let queue = self.queues.entry(handle);
        let queue = queue.or_insert_with(|| Box::new(Queue::new(client, serial)));
        if queue.is_last {
            return Taken::LeftOut;
        }
        if queue.push(channel, item) {
            Taken::Queued
        } else {
            Taken::Lost {
                is_first: !std::mem::replace(&mut queue.has_lost, true),
            }
        }
    }

    /// Continues with the first item of a client, and returns the action for the caller.
    pub fn judge(&mut self, handle: RequestId, session: Option<&mut Session>) -> Verdict {
        let Some(queue) = self.queues.get_mut(&handle) else {
            // The last delivered item has ended the client.
            return Verdict::Waits;
        };
        let waited = queue.front.waits_for_turn;
        let verdict = queue.judge(handle, session, &mut self.requests);
        if queue.front.waits_for_turn && !waited {
            self.add_turn(handle);
        }
        verdict
    }

    /// Handles the response of a filter's server, or a missing response. Returns the client whose items must be judged again, if
    /// any.
    pub fn on_answer(
        &mut self,
        number: u64,
        answer: Result<Answer, Unfiltered>,
    ) -> Option<RequestId> {
        // `None` if the client is no longer held.
        let handle = self.requests.clients.remove(&number)?;
        let queue = self.queues.get_mut(&handle)?;
        if queue.front.asked != Some(number) {
            return None;
        }
        queue.front.asked = None;
        queue.front.answer = Some(answer);
        Some(handle)
    }

    /// Removes the items of a client that is no longer held, or whose origin is polled again. Returns the number of the client's
    /// running request, which the caller must cancel.
    pub fn forget(&mut self, handle: RequestId) -> Option<u64> {
        let queue = self.queues.remove(&handle)?;
        self.requests.forget(&queue.front)
    }

    /// Drops a client's items of reliable channels when its next link is polled, because the link's response contains them. Returns
    /// the number of a running request, which the caller must cancel.
    pub fn leave_reliable(&mut self, handle: RequestId, session: &Session) -> Option<u64> {
        let queue = self.queues.get_mut(&handle)?;
        let is_reliable = |(channel, item): &(Rc<[u8]>, Rc<Item>)| {
            let mut subscriptions = session.subscriptions.iter();
            let found = subscriptions.find(|it| it.channel == **channel);
            item.id.is_some() && found.is_some_and(|it| it.prev_id.is_some())
        };
        let takes_first = queue.items.front().is_some_and(is_reliable);
        queue.items.retain(|it| !is_reliable(it));
        queue.count_bytes();
        if !takes_first {
            return None;
        }
        let front = std::mem::take(&mut queue.front);
        self.requests.forget(&front)
    }

    /// Removes the empty queue of a client. Returns the client, and true if items were lost.
    pub fn end(&mut self, handle: RequestId) -> Option<(Left, bool)> {
        let queue = self.queues.remove(&handle)?;
        Some((queue.client, queue.has_lost))
    }

    /// Handles the time-out of a long poll. Returns true if an item is being filtered. The result of the filter then ends the poll.
    pub fn ends_with_first(&mut self, handle: RequestId) -> bool {
        let Some(queue) = self.queues.get_mut(&handle) else {
            // No item waits for a server.
            return false;
        };
        queue.is_last = true;
        queue.items.truncate(1);
        queue.count_bytes();
        true
    }

    /// Returns the next client that may send a request; `None` if the limit is reached or no client
    /// waits.
    pub fn next_turn(&mut self) -> Option<RequestId> {
        while self.requests.may_begin()
            && let Some(handle) = self.turns.pop_front()
        {
            if let Some(queue) = self.queues.get_mut(&handle)
                && std::mem::take(&mut queue.front.waits_for_turn)
            {
                return Some(handle);
            }
        }
        None
    }

    fn add_turn(&mut self, handle: RequestId) {
        self.turns.push_back(handle);
        if self.turns.len() > self.queues.len() + STALE_MAX {
            let queues = &self.queues;
            let waits = |it: &RequestId| queues.get(it).is_some_and(|it| it.front.waits_for_turn);
            self.turns.retain(waits);
        }
    }
}

impl Requests {
    fn may_begin(&self) -> bool {
        self.clients.len() < self.max
    }

    fn begin(&mut self, handle: RequestId) -> u64 {
        self.last += 1;
        let number = self.last;
        self.clients.insert(number, handle);
        number
    }

    fn forget(&mut self, front: &Front) -> Option<u64> {
        let number = front.asked?;
        self.clients.remove(&number);
        Some(number)
    }
}

impl Queue {
    fn new(client: Left, serial: u64) -> Self {
        Self {
            client,
            serial,
            items: VecDeque::new(),
            bytes: 0,
            front: Front::default(),
            has_lost: false,
            is_last: false,
        }
    }

    fn push(&mut self, channel: &[u8], item: &Rc<Item>) -> bool {
        let bytes = item.bytes();
        let is_full = self.items.len() >= WAITING_MAX || self.bytes + bytes > WAITING_BYTES_MAX;
        if !self.items.is_empty() && is_full {
            return false;
        }
        self.bytes += bytes;
        self.items.push_back((Rc::from(channel), Rc::clone(item)));
        true
    }

    /// Removes the first item.
    fn pop(&mut self) {
        if let Some((_, item)) = self.items.pop_front() {
            self.bytes -= item.bytes();
        }
        self.front = Front::default();
    }

    fn count_bytes(&mut self) {
        self.bytes = self.items.iter().map(|(_, item)| item.bytes()).sum();
    }

    /// Advances the first item.
    fn judge(
        &mut self,
        handle: RequestId,
        session: Option<&mut Session>,
        requests: &mut Requests,
    ) -> Verdict {
        if self.front.asked.is_some() || self.front.waits_for_turn {
            return Verdict::Waits;
        }
        let Some(session) = session.filter(|it| it.serial == self.serial) else {
            return Verdict::Over;
        };
        let is_asking = match &session.kind {
            // An item sent now would interrupt the link's response.
            Kind::Stream(stream) if stream.is_passing => return Verdict::Waits,
            Kind::Stream(stream) => stream.is_asking,
            Kind::Poll(poll) if poll.is_queued => return Verdict::Over,
            Kind::Poll(_) | Kind::Socket(_) => false,
        };
        let Some((channel, item)) = self.items.front().cloned() else {
            return Verdict::Empty;
        };
        let mut subscriptions = session.subscriptions.iter();
        let Some(at) = subscriptions.position(|it| *it.channel == *channel) else {
            self.pop();
            return Verdict::LeftOut(None);
        };
        let mut prev_id = session.subscriptions[at].prev_id.clone();
        if is_asking && prev_id.is_some() && item.id.is_some() {
            // The response of the running poll should contain the item. If the ids in the response show that it does not, the
            // origin is polled again.
            self.pop();
            return Verdict::LeftOut(None);
        }
        match on_item(&mut prev_id, item.id.as_deref(), item.prev_id.as_deref()) {
            OnItem::Delivered => {}
            OnItem::Known => {
                self.pop();
                return Verdict::LeftOut(None);
            }
            OnItem::Behind => {
                self.pop();
                return Verdict::Behind(self.client);
            }
        }
        let having = Having {
            session,
            channel: &channel,
            prev_id: prev_id.as_deref(),
        };
        match self.filter(&having, at, &item) {
            Stage::Ask(at, content) if !requests.may_begin() => {
                self.front.stage = Some((at, content));
                self.front.waits_for_turn = true;
                Verdict::Waits
            }
            Stage::Ask(at, content) => {
                let sent = if self.front.modifies {
                    content.clone().unwrap_or_default()
                } else {
                    Vec::new()
                };
                self.front.stage = Some((at, content));
                let number = requests.begin(handle);
                self.front.asked = Some(number);
                Verdict::Ask {
                    number,
                    item,
                    content: sent,
                }
            }
            Stage::Done(verdict) => {
                self.pop();
                // This item is the newest one that the client has received of the channel.
                if !matches!(verdict, Verdict::Unanswered(_)) {
                    session.subscriptions[at].prev_id = prev_id;
                }
                verdict
            }
        }
    }

    /// Runs the filters of the subscription at index `at` until one needs a request.
    fn filter(&mut self, having: &Having<'_>, at: usize, item: &Item) -> Stage {
        let filters = &having.session.subscriptions[at].filters;
        let Some(format) = Format::new(having.session, self.client, item) else {
            return Stage::Done(Verdict::LeftOut(None));
        };
        if !format
            .content_filters
            .is_none_or(|expected| filters.are_content_filters(expected))
        {
            // The publisher has written the content for other filters.
            let counter = Counter::EdgeDroppedContentFilters;
            return Stage::Done(Verdict::LeftOut(Some(counter)));
        }
        let dropped = Verdict::LeftOut(Some(Counter::EdgeFiltered));
        let (from, content) = match (self.front.answer.take(), self.front.stage.take()) {
            (Some(Err(error)), _) => return Stage::Done(Verdict::Unanswered(error)),
            (Some(Ok(Answer::Drop)), _) => return Stage::Done(dropped),
            (Some(Ok(Answer::Replace(content))), Some((at, Some(_)))) => (at + 1, Some(content)),
            (Some(Ok(_)), Some((at, content))) => (at + 1, content),
            (None, Some(stage)) => stage,
            (_, None) => (0, format.content),
        };
        match filters.run(from, having, &item.meta, content) {
            Ok(Run::Deliver(content)) => Stage::Done(Verdict::Deliver(format.action.with(content))),
            Ok(Run::Drop) => Stage::Done(dropped),
            Ok(Run::Ask {
                at,
                modifies,
                content,
            }) => {
                self.front.modifies = modifies;
                Stage::Ask(at, content)
            }
            Err(error) => Stage::Done(Verdict::Failed(error)),
        }
    }
}

/// Progress of an item's filters.
enum Stage {
    /// The filter at this index needs a request. The second value is the content after the previous filters.
    Ask(usize, Option<Vec<u8>>),
    Done(Verdict),
}

#[cfg(test)]
mod tests {
    use fermata_grip::filter::Filters;
    use fermata_grip::item::{Format as ItemFormat, StreamAction};

    use super::*;
    use crate::client::delivery::Delivery;
    use crate::client::source::Source;
    use crate::ids::request;

    const HANDLE: RequestId = request(7);
    const CLIENT: Left = Left::Held(HANDLE);

    fn session(filters: &[&str], prev_id: Option<&str>) -> Session {
        let filters = filters.iter().map(|it| it.as_bytes());
        Session {
            source: Source::of_get("/"),
            subscriptions: vec![Subscription {
                channel: b"c".to_vec(),
                own: None,
                prev_id: prev_id.map(|it| it.as_bytes().to_vec()),
                ahead: Vec::new(),
                filters: Filters::from_names(filters),
            }],
            meta: Default::default(),
            kind: Kind::Stream(Box::default()),
            serial: 1,
        }
    }

    fn item(id: &str, prev_id: &str, content: &str) -> Rc<Item> {
        let bytes = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
        Rc::new(Item {
            channel: b"c".to_vec(),
            id: bytes(id),
            prev_id: bytes(prev_id),
            http_stream: Some(ItemFormat {
                action: StreamAction::Send(content.as_bytes().to_vec()),
                content_filters: None,
            }),
            ..Item::default()
        })
    }

    fn filtering(requests_max: usize, session: &Session) -> Filtering {
        let mut filtering = Filtering::new(&Settings {
            filter_requests_max: requests_max,
            ..Settings::default()
        });
        filtering.watch(&session.subscriptions[0]);
        filtering
    }

    fn delivered(verdict: Verdict) -> Vec<u8> {
        match verdict {
            Verdict::Deliver(Filtered::Stream(HANDLE, Delivery::Content(content))) => content,
            other => panic!("{other:?}"),
        }
    }

    fn asked(verdict: Verdict) -> (u64, Vec<u8>) {
        match verdict {
            Verdict::Ask {
                number, content, ..
            } => (number, content),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_item_waits_for_its_answer_and_the_next_one_for_it() {
        let mut session = session(&["http-modify", "http-check"], Some("1"));
        let mut filtering = filtering(1, &session);
        assert!(filtering.is_used());
        for item in [item("2", "1", "two"), item("3", "2", "three")] {
            let taken = filtering.take(CLIENT, &mut session, b"c", &item);
            assert_eq!(taken, Taken::Queued);
        }
        let (number, content) = asked(filtering.judge(HANDLE, Some(&mut session)));
        assert_eq!(content, b"two");
        assert!(!filtering.ignores_body(number));
        let verdict = filtering.judge(HANDLE, Some(&mut session));
        assert!(matches!(verdict, Verdict::Waits), "{verdict:?}");
        let replaced = Ok(Answer::Replace(b"2".to_vec()));
        assert_eq!(filtering.on_answer(number, replaced), Some(HANDLE));
        // The second filter cannot modify the content, so its server does not receive it.
        let (number, content) = asked(filtering.judge(HANDLE, Some(&mut session)));
        assert!(content.is_empty() && filtering.ignores_body(number));
        assert_eq!(filtering.on_answer(number, Ok(Answer::Pass)), Some(HANDLE));
        assert_eq!(filtering.on_answer(number, Ok(Answer::Pass)), None);
        assert_eq!(delivered(filtering.judge(HANDLE, Some(&mut session))), b"2");
        assert_eq!(session.subscriptions[0].prev_id.as_deref(), Some(&b"2"[..]));
        let (number, content) = asked(filtering.judge(HANDLE, Some(&mut session)));
        assert_eq!(content, b"three");
        // An item without result is missed, as the next item's ids show.
        let failed = Err(Unfiltered::Status(500));
        assert_eq!(filtering.on_answer(number, failed), Some(HANDLE));
        let verdict = filtering.judge(HANDLE, Some(&mut session));
        assert!(matches!(verdict, Verdict::Unanswered(_)), "{verdict:?}");
        assert_eq!(session.subscriptions[0].prev_id.as_deref(), Some(&b"2"[..]));
        let verdict = filtering.judge(HANDLE, Some(&mut session));
        assert!(matches!(verdict, Verdict::Empty), "{verdict:?}");
        assert_eq!(filtering.end(HANDLE), Some((CLIENT, false)));
    }

    #[test]
    fn clients_take_turns_when_as_many_ask_as_may() {
        let mut first = session(&["http-check"], None);
        let mut second = session(&["http-check"], None);
        let mut filtering = filtering(1, &first);
        let item = item("", "", "x");
        filtering.take(Left::Held(request(1)), &mut first, b"c", &item);
        filtering.take(Left::Held(request(2)), &mut second, b"c", &item);
        let (number, _) = asked(filtering.judge(request(1), Some(&mut first)));
        let verdict = filtering.judge(request(2), Some(&mut second));
        assert!(matches!(verdict, Verdict::Waits), "{verdict:?}");
        assert_eq!(filtering.next_turn(), None);
        // The client with the running request disconnects.
        assert_eq!(filtering.forget(request(1)), Some(number));
        assert_eq!(filtering.next_turn(), Some(request(2)));
        asked(filtering.judge(request(2), Some(&mut second)));
        assert_eq!(filtering.next_turn(), None);
    }

    #[test]
    fn drops_items_of_an_ended_hold() {
        let mut session = session(&["http-check"], Some("1"));
        let mut filtering = filtering(9, &session);
        let late = item("3", "2", "three");
        filtering.take(CLIENT, &mut session, b"c", &late);
        let verdict = filtering.judge(HANDLE, Some(&mut session));
        assert!(matches!(verdict, Verdict::Behind(CLIENT)), "{verdict:?}");
        let next = item("2", "1", "two");
        filtering.take(CLIENT, &mut session, b"c", &next);
        session.serial += 1;
        let verdict = filtering.judge(HANDLE, Some(&mut session));
        assert!(matches!(verdict, Verdict::Over), "{verdict:?}");
        let verdict = filtering.judge(HANDLE, None);
        assert!(matches!(verdict, Verdict::Over), "{verdict:?}");
        assert_eq!(filtering.forget(HANDLE), None);
        let verdict = filtering.judge(HANDLE, None);
        assert!(matches!(verdict, Verdict::Waits), "{verdict:?}");
    }

    #[test]
    fn a_links_answer_has_the_items_of_reliable_channels() {
        let mut session = session(&["http-check"], Some("1"));
        let mut filtering = filtering(9, &session);
        for item in [item("2", "1", "two"), item("", "", "none")] {
            filtering.take(CLIENT, &mut session, b"c", &item);
        }
        let (number, _) = asked(filtering.judge(HANDLE, Some(&mut session)));
        assert_eq!(filtering.leave_reliable(HANDLE, &session), Some(number));
        let (_, content) = asked(filtering.judge(HANDLE, Some(&mut session)));
        assert!(content.is_empty());
        assert_eq!(filtering.leave_reliable(HANDLE, &session), None);
    }

    #[test]
    fn a_queue_is_bounded_by_count_and_bytes() {
        let mut queue = Queue::new(Left::Held(request(1)), 1);
        let item = Rc::new(Item::default());
        let fits = (0..2 * WAITING_MAX).filter(|_| queue.push(b"c", &item));
        assert_eq!(fits.count(), WAITING_MAX);
        while !queue.items.is_empty() {
            queue.pop();
        }
        assert_eq!(queue.bytes, 0);
        let large = Rc::new(Item {
            id: Some(vec![0; WAITING_BYTES_MAX]),
            ..Item::default()
        });
        // An item larger than the limit is accepted into an empty queue.
        assert!(queue.push(b"c", &large) && !queue.push(b"c", &item));
    }
}
