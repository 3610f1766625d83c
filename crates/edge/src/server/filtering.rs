//! Filters that ask a server about each item before its client gets it: `http-check` and `http-modify`.
//!
//! While one item is asked about, those behind it wait in the client's queue, so that nothing overtakes it. Requests go to
//! the meta value `url` of the client, a few at a time; a server that fails, or is too slow, costs the item. What does not fit
//! into a queue is missed as what a slow client misses: whoever can asks its origin, and the others are disconnected.

use std::collections::VecDeque;
use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::Left;
use fermata_engine::stats::Counter;
use fermata_grip::filter::Run;
use fermata_grip::item::{Body as ItemBody, Item, ResponseAction};
use fermata_grip::reliable::{OnItem, on_item};

use crate::client::clients::Clients;
use crate::client::delivery::Delivery;
use crate::client::delivery::WAITING_BYTES_MAX;
use crate::client::filtering::{
    Answer, Format, Front, Having, Next, Queue, Unfiltered, WAITING_MAX, json, read_answer,
};
use crate::client::request::Body;
use crate::client::request::ClientRequest;
use crate::client::session::Kind;
use crate::client::source::Owner;
use crate::server::edge::Edge;
use crate::upstream::response::Head;

/// What is set in the number of a request of a filter, and in no handle.
const FILTER: u64 = 0b11 << 30;

/// The meta value that says where the server is.
const URL: &[u8] = b"url";

impl Edge {
    /// Takes an item for a client whose filters ask about it, or about one before it. `Some(true)`: the client is over;
    /// `None`: nobody is asked.
    pub(super) fn filter_item(
        &mut self,
        client: Left,
        channel: &[u8],
        item: &Rc<Item>,
    ) -> Option<bool> {
        if !self.clients.filtering.is_used {
            return None;
        }
        let (Left::Request(handle) | Left::Held(handle) | Left::Socket(handle)) = client;
        let session = self.clients.sessions.get_mut(&handle)?;
        if matches!(&session.kind, Kind::Stream(stream) if stream.is_passing) {
            // It waits with the others until the link's answer is passed on.
            return None;
        }
        let serial = session.serial;
        let subscription = session.subscription(channel)?;
        if !subscription.filters.asks() && !self.clients.filtering.queues.contains_key(&handle) {
            return None;
        }
        if subscription.has_had(item) {
            return Some(false);
        }
        let queues = &mut self.clients.filtering.queues;
        let queue = queues.entry(handle).or_insert_with(|| {
            Box::new(Queue {
                client,
                serial,
                items: VecDeque::new(),
                bytes: 0,
                front: Front::default(),
                has_lost: false,
                is_last: false,
                is_running: false,
            })
        });
        if queue.is_last {
            return Some(false);
        }
        if !queue.push(channel, item) {
            self.worker.net.count(Counter::EdgeDroppedQueue, 1);
            if !std::mem::replace(&mut queue.has_lost, true) {
                let line = format!(
                    "more than {WAITING_MAX} items or {WAITING_BYTES_MAX} bytes wait for a client whose filters ask a server; it has missed something"
                );
                self.worker.net.log_for_client(LogLevel::Warning, &line);
            }
        }
        self.resume_filtering(handle);
        let session = self.clients.sessions.get(&handle);
        Some(session.is_none_or(|it| it.serial != serial))
    }

    /// Goes on with the items of a client, as far as nobody has to be waited for.
    pub(super) fn resume_filtering(&mut self, handle: u64) {
        let Some(queue) = self.clients.filtering.queues.get_mut(&handle) else {
            return;
        };
        if std::mem::replace(&mut queue.is_running, true) {
            // An answer that came at once: its caller goes on.
            return;
        }
        while self.filter_first(handle) == Next::Goes {}
        if let Some(queue) = self.clients.filtering.queues.get_mut(&handle) {
            queue.is_running = false;
        }
    }

    /// The client is not held any more, or asks its origin anew.
    pub(super) fn forget_filtering(&mut self, handle: u64) {
        if let Some(queue) = self.clients.filtering.queues.remove(&handle) {
            self.forget_front(&queue.front);
        }
    }

    /// A client's next link is asked: its answer has the items of reliable channels.
    pub(super) fn leave_items_to_link(&mut self, handle: u64) {
        let Some(session) = self.clients.sessions.get(&handle) else {
            return;
        };
        let Some(queue) = self.clients.filtering.queues.get_mut(&handle) else {
            return;
        };
        let is_reliable = |(channel, item): &(Rc<[u8]>, Rc<Item>)| {
            let mut subscriptions = session.subscriptions.iter();
            let found = subscriptions.find(|it| it.channel == **channel);
            item.id.is_some() && found.is_some_and(|it| it.prev_id.is_some())
        };
        let takes_first = queue.items.front().is_some_and(is_reliable);
        queue.items.retain(|it| !is_reliable(it));
        queue.bytes = queue.items.iter().map(|(_, item)| item.bytes()).sum();
        if takes_first {
            let front = std::mem::take(&mut queue.front);
            self.forget_front(&front);
        }
        self.resume_filtering(handle);
    }

    /// The server of a filter has answered.
    pub(super) fn on_filter_answer(&mut self, number: u64, head: &Head, body: &[u8]) {
        let modifies = !self.clients.filtering.ignores_body(number);
        self.on_filtered(number, read_answer(head, body, modifies));
    }

    /// It could not be asked, or has not answered.
    pub(super) fn on_filter_failed(&mut self, number: u64, reason: &str) {
        self.on_filtered(number, Err(Unfiltered::Unanswered(reason.to_owned())));
    }

    fn on_filtered(&mut self, number: u64, answer: Result<Answer, Unfiltered>) {
        let Some(handle) = self.clients.filtering.asked.remove(&number) else {
            return;
        };
        if let Some(queue) = self.clients.filtering.queues.get_mut(&handle)
            && queue.front.asked == Some(number)
        {
            queue.front.asked = None;
            queue.front.answer = Some(answer);
            self.resume_filtering(handle);
        }
        self.give_turns();
    }

    fn forget_front(&mut self, front: &Front) {
        if let Some(number) = front.asked {
            self.clients.filtering.asked.remove(&number);
            self.abandon(number);
            self.give_turns();
        }
    }

    /// Requests are over: as many clients ask as may.
    fn give_turns(&mut self) {
        if std::mem::replace(&mut self.clients.filtering.is_giving_turns, true) {
            return;
        }
        while self.clients.filtering.asked.len() < self.clients.filtering.requests_max
            && let Some(handle) = self.clients.filtering.turns.pop_front()
        {
            if let Some(queue) = self.clients.filtering.queues.get_mut(&handle)
                && std::mem::take(&mut queue.front.waits_for_turn)
            {
                self.resume_filtering(handle);
            }
        }
        self.clients.filtering.is_giving_turns = false;
    }

    /// Takes the first item of a client a step further.
    fn filter_first(&mut self, handle: u64) -> Next {
        let Some(queue) = self.clients.filtering.queues.get_mut(&handle) else {
            return Next::Waits;
        };
        if queue.front.asked.is_some() || queue.front.waits_for_turn {
            return Next::Waits;
        }
        let (client, serial) = (queue.client, queue.serial);
        let session = self.clients.sessions.get(&handle);
        let Some(session) = session.filter(|it| it.serial == serial) else {
            self.forget_filtering(handle);
            return Next::Waits;
        };
        let is_asking = match &session.kind {
            // What is said now would stand in the middle of its link's answer.
            Kind::Stream(stream) if stream.is_passing => return Next::Waits,
            Kind::Stream(stream) => stream.is_asking,
            Kind::Poll(poll) if poll.is_queued => {
                // Its origin is about to be asked, and will know.
                self.forget_filtering(handle);
                return Next::Waits;
            }
            Kind::Poll(_) | Kind::Socket(_) => false,
        };
        let Some((channel, item)) = queue.items.front().cloned() else {
            self.end_filtering(handle);
            return Next::Waits;
        };
        let mut subscriptions = session.subscriptions.iter();
        let Some(subscription) = subscriptions.find(|it| *it.channel == *channel) else {
            queue.pop();
            return Next::Goes;
        };
        if is_asking && subscription.prev_id.is_some() && item.id.is_some() {
            // The answer has it, or shows by its ids that it does not, and is asked for again.
            queue.pop();
            return Next::Goes;
        }
        let mut prev_id = subscription.prev_id.clone();
        match on_item(&mut prev_id, item.id.as_deref(), item.prev_id.as_deref()) {
            OnItem::Delivered => {}
            OnItem::Known => {
                queue.pop();
                return Next::Goes;
            }
            OnItem::Behind => {
                queue.pop();
                match client {
                    Left::Request(_) => self.update(handle),
                    Left::Held(_) => self.on_missed(handle),
                    Left::Socket(_) => {}
                }
                return Next::Goes;
            }
        }
        let filters = subscription.filters.clone();
        let Some(format) = Format::new(session, client, &item) else {
            self.clients.settle(handle, &channel, prev_id);
            return Next::Goes;
        };
        let is_for_it = format.content_filters.is_none_or(|expected| {
            // The publisher's content was written for these.
            filters.are_content_filters(expected)
        });
        if !is_for_it {
            self.clients.settle(handle, &channel, prev_id);
            self.worker.net.count(Counter::EdgeDroppedContentFilters, 1);
            return Next::Goes;
        }
        let (from, content) = match (queue.front.answer.take(), queue.front.stage.take()) {
            (Some(Err(error)), _) => {
                // A reliable client that misses this one finds out by the next, and its origin may know better.
                queue.pop();
                self.drop_item(&error.to_string());
                return Next::Goes;
            }
            (Some(Ok(Answer::Drop)), _) => {
                self.clients.settle(handle, &channel, prev_id);
                self.worker.net.count(Counter::EdgeFiltered, 1);
                return Next::Goes;
            }
            (Some(Ok(Answer::Replace(content))), Some((at, Some(_)))) => (at + 1, Some(content)),
            (Some(Ok(_)), Some((at, content))) => (at + 1, content),
            (None, Some(stage)) => stage,
            (_, None) => (0, format.content),
        };
        let having = Having {
            session,
            channel: &channel,
            prev_id: prev_id.as_deref(),
        };
        match filters.run(from, &having, &item.meta, content) {
            Ok(Run::Deliver(content)) => {
                self.clients.settle(handle, &channel, prev_id);
                self.deliver_filtered(client, &item, content);
            }
            Ok(Run::Drop) => {
                self.clients.settle(handle, &channel, prev_id);
                self.worker.net.count(Counter::EdgeFiltered, 1);
            }
            Ok(Run::Ask {
                at,
                modifies,
                content,
            }) => {
                queue.front.modifies = modifies;
                if self.clients.filtering.asked.len() >= self.clients.filtering.requests_max {
                    queue.front.stage = Some((at, content));
                    queue.front.waits_for_turn = true;
                    self.clients.filtering.add_turn(handle);
                    return Next::Waits;
                }
                let sent = match modifies {
                    true => content.clone().unwrap_or_default(),
                    false => Vec::new(),
                };
                queue.front.stage = Some((at, content));
                self.ask_filter(handle, &item, sent);
            }
            Err(error) => {
                self.clients.settle(handle, &channel, prev_id);
                self.drop_item(&error.to_string());
            }
        }
        Next::Goes
    }

    /// No item waits any more.
    fn end_filtering(&mut self, handle: u64) {
        let Some(queue) = self.clients.filtering.queues.remove(&handle) else {
            return;
        };
        match queue.client {
            Left::Request(_) if queue.has_lost => self.update(handle),
            Left::Request(_) => self.on_poll_due(handle),
            Left::Held(_) if !queue.has_lost => {}
            Left::Held(_) if self.clients.has_link(handle) => self.update(handle),
            Left::Held(_) => self.end_stream_of(handle),
            Left::Socket(_) if queue.has_lost => self.close_slow_socket(handle),
            Left::Socket(_) => {}
        }
    }

    fn deliver_filtered(&mut self, client: Left, item: &Item, content: Option<Vec<u8>>) {
        match client {
            Left::Request(handle) => {
                let Some(format) = &item.http_response else {
                    return;
                };
                let action = match (&format.action, content) {
                    (ResponseAction::Send(response), Some(content)) => {
                        let mut response = response.clone();
                        response.body = ItemBody::Bytes(content);
                        ResponseAction::Send(response)
                    }
                    (action, _) => action.clone(),
                };
                self.on_poll_item(handle, &action);
            }
            Left::Held(handle) => {
                let Some(format) = &item.http_stream else {
                    return;
                };
                let delivery = match content {
                    Some(content) => Delivery::Content(content),
                    None => Delivery::Act(format.action.clone()),
                };
                self.give_stream(handle, delivery);
            }
            Left::Socket(handle) => {
                if let Some(format) = &item.ws_message {
                    self.give_socket(handle, &format.action, content);
                }
            }
        }
    }

    /// Asks the server of a client's filter about an item.
    fn ask_filter(&mut self, handle: u64, item: &Item, content: Vec<u8>) {
        self.clients.filtering.last += 1;
        let number = self.clients.filtering.last << 32 | FILTER;
        self.clients.filtering.asked.insert(number, handle);
        if let Some(queue) = self.clients.filtering.queues.get_mut(&handle) {
            queue.front.asked = Some(number);
        }
        let Some(session) = self.clients.sessions.get(&handle) else {
            return self.on_filter_failed(number, "the client has left");
        };
        let last_ids = session.last_ids();
        let url = session.meta.get(URL).cloned().unwrap_or_default();
        if url.is_empty() {
            let reason =
                "a filter that asks a server needs the meta value url; set it with Grip-Set-Meta";
            return self.on_filter_failed(number, reason);
        }
        let headers = vec![
            (b"Sub-Meta".to_vec(), json(&session.meta)),
            (b"Pub-Meta".to_vec(), json(&item.meta)),
        ];
        let source = session.source.clone();
        let Some(mut source) = self.routing.link_source(&source, &url) else {
            let reason = "the meta value url, which a filter is to ask, leads nowhere";
            return self.on_filter_failed(number, reason);
        };
        let get = &source.request;
        source.request = Rc::new(ClientRequest {
            method: b"POST".to_vec(),
            target: get.target.clone(),
            headers,
            body: Body::Memory(content),
            peer: get.peer,
            host: get.host.clone(),
            is_tls: get.is_tls,
        });
        let due_ms = self.worker.net.now_ms() + self.clients.filtering.timeout_ms;
        self.ask_by(Owner::Filter(number), source, last_ids, due_ms);
    }
}

impl Clients {
    /// The time of a long poll is over. True: an item is being asked about, and the poll ends with that.
    pub(super) fn ends_with_filter(&mut self, handle: u64) -> bool {
        let Some(queue) = self.filtering.queues.get_mut(&handle) else {
            return false;
        };
        queue.is_last = true;
        queue.items.truncate(1);
        queue.bytes = queue.items.iter().map(|(_, item)| item.bytes()).sum();
        true
    }

    /// The first item is done with: it is the last that its client has had of the channel.
    fn settle(&mut self, handle: u64, channel: &[u8], prev_id: Option<Vec<u8>>) {
        if let Some(queue) = self.filtering.queues.get_mut(&handle) {
            queue.pop();
        }
        if let Some(session) = self.sessions.get_mut(&handle)
            && let Some(subscription) = session.subscription(channel)
        {
            subscription.prev_id = prev_id;
        }
    }
}
