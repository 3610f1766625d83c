//! Requests missed items from the origins of held clients: through the client's `next` link, or by the client's original request.
//!
//! The edge sends such a request only if `catch_up` does not find the missed items in the ring. Requests are queued and limited per
//! turn, so that an origin does not receive the requests of all clients at once.

use fermata_engine::RequestId;
use fermata_engine::missed;
use fermata_engine::stats::Counter;

use crate::client::clients::Clients;
use crate::client::session::Kind;
use crate::client::source::Engine;
use crate::server::holds::Holds;
use crate::timers::{Timer, Timers};

impl Holds<'_> {
    /// Handles a client that missed items: requests the client's `next` link, or closes the client.
    pub(super) fn on_missed(&mut self, handle: RequestId) {
        match self.clients.after_miss(handle) {
            AfterMiss::Update => self.update(handle),
            AfterMiss::End => self.end_stream_of(handle),
            AfterMiss::Stays => {}
        }
    }

    /// Queues a client for a request to its origin: a long poll's original request, or a stream's `next` link.
    pub(super) fn update(&mut self, handle: RequestId) {
        if self.clients.queue_update(handle) {
            self.on_updates_due();
        }
    }

    /// Starts the requests that are due in this turn.
    pub(super) fn on_updates_due(&mut self) {
        let now_ms = self.worker.net.now_ms();
        self.clients.updates.begin_turn(now_ms);
        while let Some((handle, is_poll)) = self.clients.next_update() {
            let counter = if is_poll {
                Counter::EdgeCaughtUpRequest
            } else {
                Counter::EdgeCaughtUpLink
            };
            self.worker.net.count(counter, 1);
            if is_poll {
                self.ask_again(handle)
            } else {
                self.ask_link(handle)
            }
        }
        if let Some(due_ms) = self.clients.updates.due_ms() {
            self.timers.at(due_ms, Timer::Updates);
        }
    }

    /// Queues clients that may be the first subscribers of their channels for a request to their origins.
    pub(super) fn on_first_subscriptions_due(&mut self) {
        let now_ms = self.worker.net.now_ms();
        while let Some((handle, serial)) = self.clients.first_subscriptions.take(now_ms) {
            let session = self.clients.sessions.get(&handle);
            if session.is_some_and(|it| it.serial == serial && it.can_update()) {
                self.update(handle);
            }
        }
        if let Some(due_ms) = self.clients.first_subscriptions.due_ms() {
            self.timers.at(due_ms, Timer::FirstSubscriptions);
        }
    }

    /// Queues a request to the origin for every client of this worker that may have missed items.
    pub(super) fn recover_clients(&mut self) {
        let reliable: Vec<RequestId> = self
            .clients
            .sessions
            .iter()
            .filter(|(_, it)| {
                it.can_update() && it.subscriptions.iter().any(|it| it.prev_id.is_some())
            })
            .map(|(&handle, _)| handle)
            .collect();
        for handle in reliable {
            self.update(handle);
        }
    }
}

/// Action for a client that missed items.
#[derive(Debug, PartialEq, Eq)]
enum AfterMiss {
    /// Queue the client for a request of its link.
    Update,
    /// Close the connection, so that the client reconnects and receives the missed items.
    End,
    Stays,
}

impl Clients {
    fn after_miss(&self, handle: RequestId) -> AfterMiss {
        let Some(session) = self.sessions.get(&handle) else {
            // A shared stream has no session and no link.
            return AfterMiss::Stays;
        };
        let is_reliable = || session.subscriptions.iter().any(|it| it.prev_id.is_some());
        match &session.kind {
            Kind::Stream(stream) if stream.next.is_some() => AfterMiss::Update,
            Kind::Stream(_) if is_reliable() => AfterMiss::End,
            Kind::Stream(_) | Kind::Poll(_) | Kind::Socket(_) => AfterMiss::Stays,
        }
    }

    /// Queues a client for a request to its origin. Returns false if the client is already queued, has a request in progress, or
    /// has no origin.
    fn queue_update(&mut self, handle: RequestId) -> bool {
        let Some(session) = self.sessions.get_mut(&handle) else {
            // The client has left, or is a shared stream.
            return false;
        };
        let serial = session.serial;
        let is_queued = match &mut session.kind {
            Kind::Stream(stream) if stream.is_asking => true,
            Kind::Stream(stream) => std::mem::replace(&mut stream.is_queued, true),
            Kind::Poll(poll) => std::mem::replace(&mut poll.is_queued, true),
            Kind::Socket(_) => true,
        };
        if !is_queued {
            let sessions = &self.sessions;
            let is_held = |handle, serial| {
                let session = sessions.get(&handle);
                session.is_some_and(|it| it.serial == serial)
            };
            self.updates.add((handle, serial), sessions.len(), is_held);
        }
        !is_queued
    }

    /// Returns the next client of this turn, and true if the client is a long poll.
    fn next_update(&mut self) -> Option<(RequestId, bool)> {
        loop {
            let sessions = &self.sessions;
            let is_there = |handle, serial| {
                let session = sessions.get(&handle);
                session.is_some_and(|it| it.serial == serial)
            };
            let handle = self.updates.take(is_there)?;
            match self.sessions.get(&handle).map(|it| &it.kind) {
                Some(Kind::Poll(_)) => return Some((handle, true)),
                Some(Kind::Stream(_)) => return Some((handle, false)),
                Some(Kind::Socket(_)) | None => {}
            }
        }
    }

    /// Schedules one request to the origin for a held client whose channels have no ids in the ring. The client may be the first
    /// subscriber of a channel: publishers may have skipped items before, because the channel had no subscribers.
    pub(super) fn on_first_subscription(
        &mut self,
        timers: &mut Timers,
        worker: &mut Engine,
        handle: RequestId,
    ) {
        let now_ms = worker.net.now_ms();
        let Some(session) = self.sessions.get(&handle) else {
            return missed(());
        };
        let reliable = session.subscriptions.iter();
        let reliable = reliable.filter(|it| it.prev_id.is_some());
        let channels = reliable.map(|it| it.channel.as_slice());
        let client = (handle, session.serial);
        if let Some(due_ms) = self.first_subscriptions.begin(now_ms, client, channels) {
            timers.at(due_ms, Timer::FirstSubscriptions);
        }
    }
}

#[cfg(test)]
mod tests {
    use fermata_grip::instruct::NextLink;

    use super::*;
    use crate::client::session::Session;
    use crate::ids::request;
    use crate::settings::Settings;

    #[test]
    fn a_stream_that_misses_something_asks_its_link_or_ends_where_ids_tell() {
        let next = || NextLink {
            uri: b"/next".to_vec(),
            timeout_s: 5,
        };
        for (link, prev_id, expected) in [
            (Some(next()), Some("1"), AfterMiss::Update),
            (Some(next()), None, AfterMiss::Update),
            (None, Some("1"), AfterMiss::End),
            (None, None, AfterMiss::Stays),
        ] {
            let mut clients = Clients::new(&Settings::default());
            clients
                .sessions
                .insert(request(7), Session::of_stream(link, prev_id));
            assert_eq!(clients.after_miss(request(7)), expected);
            assert_eq!(clients.after_miss(request(8)), AfterMiss::Stays);
        }
    }

    #[test]
    fn a_stream_waits_once_for_its_turn_and_not_while_it_is_asked() {
        let mut clients = Clients::new(&Settings::default());
        clients
            .sessions
            .insert(request(7), Session::of_stream(None, None));
        assert!(!clients.queue_update(request(8)));
        assert!(clients.queue_update(request(7)));
        assert!(!clients.queue_update(request(7)));
        assert_eq!(clients.next_update(), None);
        clients.updates.begin_turn(1_000);
        assert_eq!(clients.next_update(), Some((request(7), false)));
        assert_eq!(clients.next_update(), None);
        let stream = clients.stream(request(7)).expect("it is there");
        (stream.is_queued, stream.is_asking) = (false, true);
        assert!(!clients.queue_update(request(7)));
    }

    #[test]
    fn a_client_that_was_held_anew_has_no_turn_of_the_time_before() {
        let mut clients = Clients::new(&Settings::default());
        clients
            .sessions
            .insert(request(7), Session::of_stream(None, None));
        assert!(clients.queue_update(request(7)));
        let mut again = Session::of_stream(None, None);
        again.serial += 1;
        clients.sessions.insert(request(7), again);
        clients.updates.begin_turn(1_000);
        assert_eq!(clients.next_update(), None);
    }
}
