//! Items that wait for servers of filters: `http-check` and `http-modify` ask one about each item before its client gets it.
//!
//! While one item is asked about, those behind it wait in the client's queue, so that nothing overtakes it. What becomes of the
//! first is decided here, [`Filtering::judge`]; who calls that asks the server and delivers.

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

/// Items of one client that wait, as many as Pushpin keeps.
pub(crate) const WAITING_MAX: usize = 100;

/// Turns of clients that have left before they are thrown out.
const STALE_MAX: usize = 1_024;

/// Items that wait for servers of filters.
pub(crate) struct Filtering {
    pub(crate) timeout_ms: u64,
    /// A client has had such a filter: only then is more to be looked at.
    is_used: bool,
    queues: HashMap<RequestId, Box<Queue>>,
    requests: Requests,
    /// Clients that may ask when another request is over, the next one first.
    turns: VecDeque<RequestId>,
}

/// Requests of filters that are under way.
struct Requests {
    /// As many as there may be.
    max: usize,
    /// The client that each is for.
    clients: HashMap<u64, RequestId>,
    last: u64,
}

/// Items of one client in their order; the first is being filtered.
struct Queue {
    client: Left,
    /// Of the hold that they are for.
    serial: u64,
    items: VecDeque<(Rc<[u8]>, Rc<Item>)>,
    bytes: usize,
    front: Front,
    /// Something did not fit.
    has_lost: bool,
    /// Its long poll is over with the first: no other is waited for.
    is_last: bool,
}

/// How far the first item is.
#[derive(Default)]
struct Front {
    /// The filter that is next, and what those before have made of the content; `None`: they have not begun.
    stage: Option<(usize, Option<Vec<u8>>)>,
    /// The request that is under way.
    asked: Option<u64>,
    /// The server gets the content.
    modifies: bool,
    waits_for_turn: bool,
    answer: Option<Result<Answer, Unfiltered>>,
}

/// What was done with an item for a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing: nobody is asked about it, nor about one before it.
    Unasked,
    /// It is not for the client: it has had it, or ends with the one that is being asked about.
    LeftOut,
    /// It waits in the client's queue.
    Queued,
    /// It does not fit into the queue; `is_first`: the first one that does not.
    Lost { is_first: bool },
}

/// What becomes of the first item of a client.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It waits for its answer, for the client's turn to ask, or for the end of a link's answer; or nothing waits here.
    Waits,
    /// The hold that the items are for is over, or its origin is about to be asked, and will know.
    Over,
    /// No item waits any more.
    Empty,
    /// It is not for this client; a filter that keeps it back is counted.
    LeftOut(Option<Counter>),
    /// The client misses an item before it.
    Behind(Left),
    /// The server of a filter does not say what becomes of it. A reliable client that misses this one finds out by the next,
    /// and its origin may know better.
    Unanswered(Unfiltered),
    /// A filter could not do its work.
    Failed(FilterError),
    /// It is delivered so.
    Deliver(Filtered),
    /// The server of a filter is to be asked by the request of this number, with this content.
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

    /// A client is subscribed so.
    pub fn watch(&mut self, subscription: &Subscription) {
        self.is_used |= subscription.filters.asks();
    }

    /// Whether a client has ever had a filter that asks a server.
    pub fn is_used(&self) -> bool {
        self.is_used
    }

    /// Whether the body of this request's answer means nothing.
    pub fn ignores_body(&self, number: u64) -> bool {
        let client = self.requests.clients.get(&number);
        let queue = client.and_then(|it| self.queues.get(it));
        queue.is_some_and(|it| !it.front.modifies)
    }

    /// Takes an item for a client whose filters ask about it, or about one before it.
    pub fn take(
        &mut self,
        client: Left,
        session: &mut Session,
        channel: &[u8],
        item: &Rc<Item>,
    ) -> Taken {
        if matches!(&session.kind, Kind::Stream(stream) if stream.is_passing) {
            // It waits with the others until the link's answer is passed on.
            return Taken::Unasked;
        }
        let handle = client.request();
        let serial = session.serial;
        let Some(subscription) = session.subscription(channel) else {
            // It has unsubscribed.
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
        match queue.push(channel, item) {
            true => Taken::Queued,
            false => Taken::Lost {
                is_first: !std::mem::replace(&mut queue.has_lost, true),
            },
        }
    }

    /// Takes the first item of a client a step further.
    pub fn judge(&mut self, handle: RequestId, session: Option<&mut Session>) -> Verdict {
        let Some(queue) = self.queues.get_mut(&handle) else {
            // What was delivered has ended its client.
            return Verdict::Waits;
        };
        let waited = queue.front.waits_for_turn;
        let verdict = queue.judge(handle, session, &mut self.requests);
        if queue.front.waits_for_turn && !waited {
            self.add_turn(handle);
        }
        verdict
    }

    /// The server of a filter has answered, or could not be asked. `Some`: the items of this client can be judged again.
    pub fn on_answer(
        &mut self,
        number: u64,
        answer: Result<Answer, Unfiltered>,
    ) -> Option<RequestId> {
        // `None`: its client is not held any more.
        let handle = self.requests.clients.remove(&number)?;
        let queue = self.queues.get_mut(&handle)?;
        if queue.front.asked != Some(number) {
            return None;
        }
        queue.front.asked = None;
        queue.front.answer = Some(answer);
        Some(handle)
    }

    /// The client is not held any more, or asks its origin anew. Returns its request that is needed no longer.
    pub fn forget(&mut self, handle: RequestId) -> Option<u64> {
        let queue = self.queues.remove(&handle)?;
        self.requests.forget(&queue.front)
    }

    /// A client's next link is asked: its answer has the items of reliable channels. Returns a request that is needed no longer.
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

    /// No item of a client waits any more: who it is, and whether it has lost some.
    pub fn end(&mut self, handle: RequestId) -> Option<(Left, bool)> {
        let queue = self.queues.remove(&handle)?;
        Some((queue.client, queue.has_lost))
    }

    /// The time of a long poll is over. True: an item is being asked about, and the poll ends with that.
    pub fn ends_with_first(&mut self, handle: RequestId) -> bool {
        let Some(queue) = self.queues.get_mut(&handle) else {
            // Nothing waits for a server.
            return false;
        };
        queue.is_last = true;
        queue.items.truncate(1);
        queue.count_bytes();
        true
    }

    /// The next client that may ask. `None`: as many ask as may, or want to.
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

    /// Removes the first.
    fn pop(&mut self) {
        if let Some((_, item)) = self.items.pop_front() {
            self.bytes -= item.bytes();
        }
        self.front = Front::default();
    }

    fn count_bytes(&mut self) {
        self.bytes = self.items.iter().map(|(_, item)| item.bytes()).sum();
    }

    /// Takes the first item a step further.
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
            // What is said now would stand in the middle of its link's answer.
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
            // The answer has it, or shows by its ids that it does not, and is asked for again.
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
                let sent = match self.front.modifies {
                    true => content.clone().unwrap_or_default(),
                    false => Vec::new(),
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
                // It is the last that its client has had of the channel.
                if !matches!(verdict, Verdict::Unanswered(_)) {
                    session.subscriptions[at].prev_id = prev_id;
                }
                verdict
            }
        }
    }

    /// Runs the filters of the subscription at `at` as far as nobody has to be asked.
    fn filter(&mut self, having: &Having<'_>, at: usize, item: &Item) -> Stage {
        let filters = &having.session.subscriptions[at].filters;
        let Some(format) = Format::new(having.session, self.client, item) else {
            return Stage::Done(Verdict::LeftOut(None));
        };
        if !format
            .content_filters
            .is_none_or(|expected| filters.are_content_filters(expected))
        {
            // The publisher's content was written for others.
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

/// How far the filters of an item have come.
enum Stage {
    /// The server of the filter at this place is to be asked, with what those before have made of the content.
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
        // The server of the second filter is not told what it cannot change.
        let (number, content) = asked(filtering.judge(HANDLE, Some(&mut session)));
        assert!(content.is_empty() && filtering.ignores_body(number));
        assert_eq!(filtering.on_answer(number, Ok(Answer::Pass)), Some(HANDLE));
        assert_eq!(filtering.on_answer(number, Ok(Answer::Pass)), None);
        assert_eq!(delivered(filtering.judge(HANDLE, Some(&mut session))), b"2");
        assert_eq!(session.subscriptions[0].prev_id.as_deref(), Some(&b"2"[..]));
        let (number, content) = asked(filtering.judge(HANDLE, Some(&mut session)));
        assert_eq!(content, b"three");
        // What its server does not answer is missed, as the next item's ids show.
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
        // The client whose request it is leaves.
        assert_eq!(filtering.forget(request(1)), Some(number));
        assert_eq!(filtering.next_turn(), Some(request(2)));
        asked(filtering.judge(request(2), Some(&mut second)));
        assert_eq!(filtering.next_turn(), None);
    }

    #[test]
    fn items_of_a_hold_that_is_over_are_for_nobody() {
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
        // One that is larger than all of it is asked about alone.
        assert!(queue.push(b"c", &large) && !queue.push(b"c", &item));
    }
}
