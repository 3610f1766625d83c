//! What is published to clients that take items one by one.

use fermata_engine::{Items, Left};

use crate::client::socket::close_slow_socket;
use crate::server::holds::Holds;

impl Holds<'_> {
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
            if !self.clients.pace(self.worker, items.client, channel, &item)
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
                close_slow_socket(self.worker, socket.handshake());
                true
            }
        }
    }

    /// Remembers what a client's session has had, for the service that keeps it.
    fn note_ids(&mut self, items: &Items) {
        let handle = items.client.request();
        let ports = &mut self.publishing.ports;
        let keeper = self.pushpin.keeper(ports, self.timers, self.worker);
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
}
