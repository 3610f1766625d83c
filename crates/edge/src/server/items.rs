//! What published items do to clients that take them one by one.

use std::rc::Rc;

use fermata_engine::stats::Counter;
use fermata_engine::{Items, Left, RequestId};
use fermata_grip::item;
use fermata_grip::item::{Item, StreamAction};
use fermata_grip::reliable::OnItem;

use crate::client::delivery::{Delivery, WAITING_BYTES_MAX, drop_item, excluded_by};
use crate::client::session::{Kind, Session};
use crate::client::socket::close_slow_socket;
use crate::client::source::Asker;
use crate::server::edge::Edge;

impl Edge {
    /// Something was published to one client.
    pub(super) fn on_items(&mut self, items: &Items) {
        self.note_ids(items);
        if items.gap && self.on_gap(items.client) {
            return;
        }
        for (channel, data) in items.iter() {
            let Some(item) = self.publishing.last_item.read(data) else {
                continue;
            };
            if !self
                .clients
                .pace(&mut self.worker, items.client, channel, &item)
                && self.on_item(items.client, channel, &item)
            {
                return;
            }
        }
        if self.clients.pacer.is_some() {
            self.on_rate_due();
        }
    }

    /// A client was too slow and has lost some items. True: it is over, or will be told by its origin.
    fn on_gap(&mut self, client: Left) -> bool {
        match client {
            Left::Request(handle) => {
                if !self.catch_up(client, true) {
                    // What it waited for may have gone by.
                    self.update(handle);
                    return true;
                }
                !self.clients.sessions.contains_key(&handle)
            }
            Left::Held(handle) => {
                if self.catch_up(client, true) {
                    return !self.clients.sessions.contains_key(&handle);
                }
                if self.clients.has_link(handle) {
                    self.update(handle);
                    return false;
                }
                // As any client that has missed something and cannot be given it.
                self.end_stream_of(handle);
                true
            }
            Left::Socket(socket) => {
                close_slow_socket(&mut self.worker, socket.handshake());
                true
            }
        }
    }

    /// Gives a client one item. True: it is over.
    pub(super) fn on_item(&mut self, client: Left, channel: &[u8], item: &Rc<Item>) -> bool {
        if let Some(is_over) = self.filter_item(client, channel, item) {
            return is_over;
        }
        match client {
            Left::Request(handle) => self.on_item_of_poll(handle, channel, item),
            Left::Held(handle) => self.on_item_of_stream(handle, channel, item),
            Left::Socket(socket) => {
                self.on_item_of_socket(socket.handshake(), channel, item);
                false
            }
        }
    }

    /// Remembers what a client's session has had, for the service that keeps it.
    fn note_ids(&mut self, items: &Items) {
        let handle = items.client.request();
        let ports = &mut self.publishing.ports;
        let keeper = self
            .pushpin
            .keeper(ports, &mut self.timers, &mut self.worker);
        // The client may have left before it took them.
        let (Some(mut keeper), Some(session)) = (keeper, self.clients.sessions.get(&handle)) else {
            return;
        };
        for (channel, data) in items.iter() {
            if let Some(item) = self.publishing.last_item.read(data)
                && let Some(id) = &item.id
            {
                keeper.note_id(session, channel, id);
            }
        }
    }

    fn on_item_of_poll(&mut self, handle: RequestId, channel: &[u8], item: &Rc<Item>) -> bool {
        let Some(session) = self.clients.sessions.get_mut(&handle) else {
            // An item before has answered it.
            return true;
        };
        let Some(subscription) = session.subscription(channel) else {
            return false;
        };
        // Whether it is for this client or not, it is the channel's next.
        match subscription.judge(item) {
            OnItem::Delivered => {}
            OnItem::Known => return false,
            OnItem::Behind => {
                self.update(handle);
                return true;
            }
        }
        let Some(format) = &item.http_response else {
            return false;
        };
        let filters = subscription.filters.clone();
        if matches!(&session.kind, Kind::Poll(poll) if poll.is_queued) {
            // Its origin is about to be asked, and will know.
            return true;
        }
        if let Some(counter) = excluded_by(session, &filters, &format.content_filters, item) {
            self.worker.net.count(counter, 1);
            return false;
        }
        let action = match &format.action {
            item::ResponseAction::Send(response) if !filters.is_empty() => {
                let mut response = response.clone();
                if let item::Body::Bytes(body) = &response.body {
                    match filters.content(&**session, body) {
                        Ok(content) => response.body = item::Body::Bytes(content.into_owned()),
                        Err(error) => {
                            drop_item(&mut self.worker, &error.to_string());
                            return false;
                        }
                    }
                }
                item::ResponseAction::Send(response)
            }
            action => action.clone(),
        };
        self.on_poll_item(handle, &action)
    }

    fn on_item_of_stream(&mut self, handle: RequestId, channel: &[u8], item: &Rc<Item>) -> bool {
        if self
            .clients
            .holds_back(&mut self.worker, handle, channel, item)
        {
            return false;
        }
        let delivery = match self.clients.sessions.get_mut(&handle) {
            Some(session) => deliver(session, channel, item),
            // A stream without wishes is told of what is no content.
            None => match &item.http_stream {
                Some(format) => Delivery::Act(format.action.clone()),
                None => Delivery::Nothing,
            },
        };
        self.give_stream(handle, delivery)
    }

    /// Gives a held client what an item is to it. True: it is over.
    pub(super) fn give_stream(&mut self, handle: RequestId, delivery: Delivery) -> bool {
        match delivery {
            Delivery::Nothing => {}
            Delivery::Filtered(counter) => self.worker.net.count(counter, 1),
            Delivery::Content(content) => {
                // A client that has left takes nothing.
                let unsent = self.worker.write_held(handle, &content).unwrap_or(0);
                self.clients.touch_link(&mut self.worker, handle);
                if unsent > WAITING_BYTES_MAX {
                    // Only what comes at a rate, or from a link, is not held back by the engine.
                    self.worker.net.count(Counter::DroppedSlow, 1);
                    self.cut_stream_of(handle);
                    return true;
                }
            }
            Delivery::Act(StreamAction::Close) => {
                self.end_stream_of(handle);
                return true;
            }
            // The next link has the news.
            Delivery::Act(StreamAction::Hint) if self.clients.has_link(handle) => {
                self.ask_link(handle);
            }
            Delivery::Behind => self.on_missed(handle),
            Delivery::Act(StreamAction::Send(_) | StreamAction::Hint | StreamAction::Refresh) => {}
            Delivery::Failed(reason) => drop_item(&mut self.worker, &reason),
        }
        false
    }

    /// Ends a held client's response in order.
    pub(super) fn end_stream_of(&mut self, handle: RequestId) {
        self.forget_stream(handle);
        self.clients.forget_gone(handle);
        let _ = self.worker.end_held(handle);
    }

    /// Ends it such that it does not look whole.
    pub(super) fn cut_stream_of(&mut self, handle: RequestId) {
        self.forget_stream(handle);
        self.worker.cut_held(handle);
    }

    fn forget_stream(&mut self, handle: RequestId) {
        self.clients.sessions.remove(&handle);
        self.abandon(Asker::Client(handle));
        self.on_no_longer_held(handle);
    }
}

fn deliver(session: &mut Session, channel: &[u8], item: &Item) -> Delivery {
    let Kind::Stream(stream) = &session.kind else {
        return Delivery::Nothing;
    };
    let is_asking = stream.is_asking;
    let Some(subscription) = session.subscription(channel) else {
        return Delivery::Nothing;
    };
    if is_asking && subscription.prev_id.is_some() && item.id.is_some() {
        // The answer has it, or shows by its ids that it does not, and is asked for again.
        return Delivery::Nothing;
    }
    // Whether it is for this client or not, it is the channel's next.
    match subscription.judge(item) {
        OnItem::Delivered => {}
        OnItem::Known => return Delivery::Nothing,
        OnItem::Behind => return Delivery::Behind,
    }
    let Some(format) = &item.http_stream else {
        return Delivery::Nothing;
    };
    let filters = subscription.filters.clone();
    if let Some(counter) = excluded_by(session, &filters, &format.content_filters, item) {
        return Delivery::Filtered(counter);
    }
    match &format.action {
        StreamAction::Send(content) => match filters.content(session, content) {
            Ok(content) => Delivery::Content(content.into_owned()),
            Err(error) => Delivery::Failed(error.to_string()),
        },
        action => Delivery::Act(action.clone()),
    }
}
