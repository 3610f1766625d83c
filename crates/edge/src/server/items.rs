//! Delivers published items to clients whose items the edge handles one by one: long polls, WebSockets, and streams with filters,
//! ids or links. The engine itself sends items to shared streams.

use fermata_engine::{Items, Left};

use crate::client::socket::close_slow_socket;
use crate::server::holds::Holds;

impl Holds<'_> {
    /// Delivers published items to one client.
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

    /// Handles a client that lost items because it read too slowly. Returns true if the client is no longer held, or if a request
    /// to its origin will return the items.
    fn on_gap(&mut self, client: Left) -> bool {
        match client {
            Left::Request(handle) => {
                if !self.catch_up(client, true) {
                    // The item for which the client waits may be among the lost items.
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
                // The missed items cannot be delivered.
                self.end_stream_of(handle);
                true
            }
            Left::Socket(socket) => {
                close_slow_socket(self.worker, socket.handshake());
                true
            }
        }
    }

    /// Reports the last ids of a client to the session service.
    fn note_ids(&mut self, items: &Items) {
        let handle = items.client.request();
        let ports = &mut self.publishing.ports;
        let keeper = self.pushpin.keeper(ports, self.timers, self.worker);
        // The client may have left.
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
