//! Delivers one item to one client: applies the client's filters, and detects missed and duplicate items by their ids.

use std::rc::Rc;

use fermata_engine::{Left, RequestId};
use fermata_grip::item;
use fermata_grip::item::{Item, StreamAction};
use fermata_grip::reliable::OnItem;

use crate::client::delivery::{Delivery, drop_item, excluded_by};
use crate::client::session::{Kind, Session};
use crate::server::holds::Holds;

impl Holds<'_> {
    /// Delivers one item to a client. Returns true if the client is no longer held.
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

    fn on_item_of_poll(&mut self, handle: RequestId, channel: &[u8], item: &Rc<Item>) -> bool {
        let Some(session) = self.clients.sessions.get_mut(&handle) else {
            // An earlier item was the client's response.
            return true;
        };
        let Some(subscription) = session.subscription(channel) else {
            return false;
        };
        // The item advances the channel's sequence even if it is not for this client.
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
            // The queued request to the client's origin will return the item.
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
                            drop_item(self.worker, &error.to_string());
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
        if self.clients.holds_back(self.worker, handle, channel, item) {
            return false;
        }
        let delivery = match self.clients.sessions.get_mut(&handle) {
            Some(session) => deliver(session, channel, item),
            // Clients of shared streams receive only actions here.
            None => match &item.http_stream {
                Some(format) => Delivery::Act(format.action.clone()),
                None => Delivery::Nothing,
            },
        };
        self.give_stream(handle, delivery)
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
        // The response of the link contains the item. If it does not, the ids in the response show that the item is missing, and
        // the edge requests the link again.
        return Delivery::Nothing;
    }
    // The item advances the channel's sequence even if it is not for this client.
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
