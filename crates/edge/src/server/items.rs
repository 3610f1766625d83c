//! What published items do to clients that take them one by one.

use std::rc::Rc;

use fermata_config::LogLevel;
use fermata_engine::{Items, Left};
use fermata_grip::item::{self, Item, StreamAction};
use fermata_grip::packet::Notation;
use fermata_grip::reliable::{OnItem, on_item};
use fermata_grip::value::Value;

use super::edge::Edge;
use super::hold::{Kind, Session};

/// An item of the ring. `None`: it is none, which only another program that writes to the ring could cause.
pub(super) fn read(data: &[u8]) -> Option<Item> {
    let json: serde_json::Value = serde_json::from_slice(data).ok()?;
    item::parse(&Value::from(json), Notation::Json, None).ok()
}

/// What one subscription makes of an item.
enum Delivery {
    Nothing,
    Content(Vec<u8>),
    Act(StreamAction),
    /// The client misses an item before this one.
    Behind,
    Failed(String),
}

impl Edge {
    /// Something was published to one client.
    pub(super) fn on_items(&mut self, items: &Items) {
        if self.state.is_some() {
            self.note_ids(items);
        }
        match items.client {
            Left::Request(handle) => {
                if items.gap {
                    // What it waited for may have gone by.
                    self.ask_again(handle);
                    return;
                }
                for (channel, data) in items.iter() {
                    if self.on_item_of_poll(handle, channel, data) {
                        return;
                    }
                }
            }
            Left::Held(handle) => {
                if items.gap && !self.has_link(handle) {
                    // As any client that has missed something and cannot be given it.
                    self.end_stream_of(handle);
                    return;
                }
                if items.gap {
                    self.ask_link(handle);
                }
                for (channel, data) in items.iter() {
                    self.on_item_of_stream(handle, channel, data);
                }
            }
            Left::Socket(handle) => self.on_items_of_socket(handle, items),
        }
    }

    /// Remembers what a client's session has had, for the service that keeps it.
    fn note_ids(&mut self, items: &Items) {
        let (Left::Request(handle) | Left::Held(handle) | Left::Socket(handle)) = items.client;
        for (channel, data) in items.iter() {
            if let Some(item) = self.item(data)
                && let Some(id) = &item.id
            {
                self.note_id(handle, channel, id);
            }
        }
    }

    pub(super) fn item(&mut self, data: &[u8]) -> Option<Rc<Item>> {
        if let Some((known, item)) = &self.last_item
            && known == data
        {
            return Some(Rc::clone(item));
        }
        let item = Rc::new(read(data)?);
        self.last_item = Some((data.to_vec(), Rc::clone(&item)));
        Some(item)
    }

    fn on_item_of_poll(&mut self, handle: u64, channel: &[u8], data: &[u8]) -> bool {
        let Some(item) = self.item(data) else {
            return false;
        };
        let Some(session) = self.sessions.get_mut(&handle) else {
            return true;
        };
        let Some(subscription) = session
            .subscriptions
            .iter_mut()
            .find(|it| it.channel == channel)
        else {
            return false;
        };
        // Whether it is for this client or not, it is the channel's next.
        let had = &mut subscription.prev_id;
        match on_item(had, item.id.as_deref(), item.prev_id.as_deref()) {
            OnItem::Delivered => {}
            OnItem::Known => return false,
            OnItem::Behind => {
                self.ask_again(handle);
                return true;
            }
        }
        let Some(format) = &item.http_response else {
            return false;
        };
        let filters = subscription.filters.clone();
        let Some(session) = self.sessions.get(&handle) else {
            return true;
        };
        let is_for_it = format
            .content_filters
            .as_ref()
            .is_none_or(|expected| filters.are_content_filters(expected));
        if !is_for_it || !filters.delivers(&**session, &item.meta) {
            return false;
        }
        let action = match &format.action {
            item::ResponseAction::Send(response) if !filters.is_empty() => {
                let mut response = response.clone();
                if let item::Body::Bytes(body) = &response.body {
                    match filters.content(&**session, body) {
                        Ok(content) => response.body = item::Body::Bytes(content.into_owned()),
                        Err(error) => {
                            let line = format!("an item is dropped: {error}");
                            self.worker.log_for_client(LogLevel::Warning, &line);
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

    fn on_item_of_stream(&mut self, handle: u64, channel: &[u8], data: &[u8]) {
        let Some(item) = self.item(data) else {
            return;
        };
        let delivery = match self.sessions.get_mut(&handle) {
            Some(session) => deliver(session, channel, &item),
            // A stream without wishes is told of what is no content.
            None => match &item.http_stream {
                Some(format) => Delivery::Act(format.action.clone()),
                None => Delivery::Nothing,
            },
        };
        match delivery {
            Delivery::Nothing => {}
            Delivery::Content(content) => {
                // A client that has left takes nothing.
                let _ = self.worker.write_held(handle, &content);
                self.touch_link(handle);
            }
            Delivery::Act(StreamAction::Close) => self.end_stream_of(handle),
            Delivery::Act(StreamAction::Hint) | Delivery::Behind => self.on_missed(handle),
            Delivery::Act(StreamAction::Send(_) | StreamAction::Refresh) => {}
            Delivery::Failed(reason) => {
                let line = format!("an item is dropped: {reason}");
                self.worker.log_for_client(LogLevel::Warning, &line);
            }
        }
    }

    /// Ends a held client's response in order.
    pub(super) fn end_stream_of(&mut self, handle: u64) {
        self.sessions.remove(&handle);
        self.abandon(handle);
        self.on_no_longer_held(handle);
        let _ = self.worker.end_held(handle);
    }
}

fn deliver(session: &mut Session, channel: &[u8], item: &Item) -> Delivery {
    let Kind::Stream(stream) = &session.kind else {
        return Delivery::Nothing;
    };
    let is_asking = stream.is_asking;
    let Some(subscription) = session
        .subscriptions
        .iter_mut()
        .find(|it| it.channel == channel)
    else {
        return Delivery::Nothing;
    };
    // Whether it is for this client or not, it is the channel's next.
    let had = &mut subscription.prev_id;
    if is_asking && had.is_some() && item.id.is_some() {
        // The answer has it, or shows by its ids that it does not, and is asked for again.
        return Delivery::Nothing;
    }
    match on_item(had, item.id.as_deref(), item.prev_id.as_deref()) {
        OnItem::Delivered => {}
        OnItem::Known => return Delivery::Nothing,
        OnItem::Behind => return Delivery::Behind,
    }
    let Some(format) = &item.http_stream else {
        return Delivery::Nothing;
    };
    let filters = subscription.filters.clone();
    let is_for_it = format
        .content_filters
        .as_ref()
        .is_none_or(|expected| filters.are_content_filters(expected));
    if !is_for_it || !filters.delivers(session, &item.meta) {
        return Delivery::Nothing;
    }
    match &format.action {
        StreamAction::Send(content) => match filters.content(session, content) {
            Ok(content) => Delivery::Content(content.into_owned()),
            Err(error) => Delivery::Failed(error.to_string()),
        },
        action => Delivery::Act(action.clone()),
    }
}
