//! Queue of events for the origin. One request is sent at a time. Events that the origin does not accept are sent again.

use std::collections::VecDeque;

use super::event::{Event, encode};

/// A bounded queue of events.
#[derive(Clone, Debug)]
pub struct Outbox {
    events: VecDeque<Event>,
    /// Number of events in the pending request.
    offered: usize,
    /// Number of content bytes in `events` that an earlier request already contained.
    replayed: usize,
    content_bytes: usize,
    content_bytes_max: usize,
    events_max: usize,
}

/// The queue has no room, so the event was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the origin is too slow: too many bytes wait for it")]
pub struct Full;

/// Extent of a response's acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The origin accepted everything in the request.
    All,
    /// The origin accepted a part. The rest comes first in the next request.
    Part,
}

/// Reason why a response's acceptance is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcceptError {
    /// More than was offered.
    #[error("Content-Bytes-Accepted is more than was sent")]
    TooMuch,
    /// The origin accepted nothing, although the queue is full.
    #[error("Content-Bytes-Accepted is 0 while the queue is full; accept a part")]
    Stuck,
}

impl Outbox {
    /// Creates an empty queue with these limits.
    pub fn new(content_bytes_max: usize, events_max: usize) -> Self {
        Self {
            events: VecDeque::new(),
            offered: 0,
            replayed: 0,
            content_bytes: 0,
            content_bytes_max,
            events_max,
        }
    }

    /// Adds an event.
    ///
    /// # Errors
    /// The queue has no room. The reader of the client's socket should check [`Self::has_room`] first.
    pub fn push(&mut self, event: Event) -> Result<(), Full> {
        let content_bytes = self.content_bytes + event.content().len();
        if content_bytes > self.content_bytes_max || self.events.len() >= self.events_max {
            return Err(Full);
        }
        self.content_bytes = content_bytes;
        self.events.push_back(event);
        Ok(())
    }

    /// Returns true if an event with `content_bytes` of content can be added.
    pub fn has_room(&self, content_bytes: usize) -> bool {
        self.content_bytes + content_bytes <= self.content_bytes_max
            && self.events.len() < self.events_max
    }

    /// Returns true if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Appends the body of the next request and returns the number of content bytes that are sent again.
    ///
    /// With `is_single` the body contains only one event, for the route option `one_event`.
    pub fn offer(&mut self, body: &mut Vec<u8>, is_single: bool) -> usize {
        self.offered = if is_single {
            self.events.len().min(1)
        } else {
            self.events.len()
        };
        for event in self.events.iter().take(self.offered) {
            encode(body, event);
        }
        let offered_bytes = self.offered_bytes();
        let replayed = self.replayed.min(offered_bytes);
        self.replayed = self.replayed.max(offered_bytes);
        replayed
    }

    /// Handles a response that accepted `content_bytes` of the request. `None`: the response accepted all.
    ///
    /// # Errors
    /// The number is invalid, or no progress is possible.
    pub fn accept(&mut self, content_bytes: Option<usize>) -> Result<Accepted, AcceptError> {
        let offered_bytes = self.offered_bytes();
        let mut left = content_bytes.unwrap_or(offered_bytes);
        if left > offered_bytes {
            return Err(AcceptError::TooMuch);
        }
        // With a full queue, the next request would be the same, so the origin would never accept anything.
        if left == 0 && offered_bytes > 0 && !self.has_room(1) {
            return Err(AcceptError::Stuck);
        }
        self.content_bytes -= left;
        self.replayed -= left.min(self.replayed);
        let is_all = left == offered_bytes;
        // Events without content are accepted together with the data before them. Events after unaccepted data are not accepted.
        while self.offered > 0
            && let Some(len) = self.events.front().map(|event| event.content().len())
            && len <= left
        {
            left -= len;
            self.events.pop_front();
            self.offered -= 1;
        }
        // The origin accepted a part of this event. The rest comes first in the next request.
        if left > 0
            && let Some(event) = self.events.front_mut()
        {
            trim(event, left);
        }
        self.offered = 0;
        Ok(if is_all {
            Accepted::All
        } else {
            Accepted::Part
        })
    }

    /// Handles a failed request. The next request contains all its events again.
    pub fn fail(&mut self) {
        self.offered = 0;
    }

    /// Returns the content bytes of the pending request.
    pub fn offered_bytes(&self) -> usize {
        let offered = self.events.iter().take(self.offered);
        offered.map(|event| event.content().len()).sum()
    }
}

/// Removes the accepted content from an event. The rest becomes a message of the same type.
fn trim(event: &mut Event, taken: usize) {
    match event {
        Event::Text(content)
        | Event::Binary(content)
        | Event::Ping(content)
        | Event::Pong(content) => {
            content.drain(..taken.min(content.len()));
        }
        Event::Open | Event::Close(_) | Event::Disconnect => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::over_http::{decode, event::tests::events};

    fn text(content: &str) -> Event {
        Event::Text(content.into())
    }

    fn outbox(events: &[Event]) -> Outbox {
        let mut outbox = Outbox::new(100, 10);
        for event in events {
            outbox.push(event.clone()).expect("room");
        }
        outbox
    }

    fn offer(outbox: &mut Outbox, is_single: bool) -> (Vec<Event>, usize) {
        let mut body = Vec::new();
        let replayed = outbox.offer(&mut body, is_single);
        (decode(&body).expect("own body"), replayed)
    }

    #[test]
    fn does_not_resend_accepted_events() {
        let mut outbox = outbox(&[Event::Open]);
        assert_eq!(offer(&mut outbox, false), (vec![Event::Open], 0));
        outbox.push(text("while under way")).expect("room");
        assert_eq!(outbox.accept(None), Ok(Accepted::All));
        assert_eq!(
            offer(&mut outbox, false),
            (vec![text("while under way")], 0)
        );
    }

    #[test]
    fn resends_and_counts_unaccepted_content() {
        let mut outbox = outbox(&[
            text("ab"),
            Event::Binary(b"cdef".to_vec()),
            Event::Close(None),
        ]);
        offer(&mut outbox, false);
        assert_eq!(outbox.accept(Some(4)), Ok(Accepted::Part));
        outbox.push(text("gh")).expect("room");
        let rest = vec![
            Event::Binary(b"ef".to_vec()),
            Event::Close(None),
            text("gh"),
        ];
        assert_eq!(offer(&mut outbox, false), (rest.clone(), 2));
        outbox.fail();
        assert_eq!(offer(&mut outbox, false), (rest, 4));
        assert_eq!(outbox.accept(Some(2)), Ok(Accepted::Part));
        assert_eq!(offer(&mut outbox, false), (vec![text("gh")], 2));
    }

    #[test]
    fn sends_one_event_per_request_if_single() {
        let mut outbox = outbox(&[text("a"), text("b")]);
        for content in ["a", "b"] {
            assert_eq!(offer(&mut outbox, true), (vec![text(content)], 0));
            assert_eq!(outbox.accept(None), Ok(Accepted::All));
        }
        assert!(outbox.is_empty());
    }

    #[test]
    fn rejects_impossible_acceptance() {
        let mut outbox = Outbox::new(2, 10);
        outbox.push(text("ab")).expect("room");
        assert_eq!(outbox.push(text("c")), Err(Full));
        offer(&mut outbox, false);
        assert_eq!(outbox.accept(Some(3)), Err(AcceptError::TooMuch));
        assert_eq!(outbox.accept(Some(0)), Err(AcceptError::Stuck));
        assert_eq!(outbox.accept(Some(1)), Ok(Accepted::Part));
        assert!(outbox.has_room(1) && !outbox.has_room(2));
    }

    proptest! {
        /// However little is accepted each time, the content arrives complete and in order.
        #[test]
        fn delivers_all_content_in_order(events in prop::collection::vec(events(), 0..8), parts in prop::collection::vec(1usize..9, 200)) {
            let sent: Vec<u8> = events.iter().flat_map(|event| event.content().to_vec()).collect();
            let mut outbox = Outbox::new(1_000, 10);
            for event in events {
                prop_assert_eq!(outbox.push(event), Ok(()));
            }
            let mut arrived = Vec::new();
            for part in parts {
                let (offered, _) = offer(&mut outbox, part % 2 == 0);
                let content: Vec<u8> = offered.iter().flat_map(|event| event.content().to_vec()).collect();
                let taken = part.min(content.len());
                arrived.extend_from_slice(&content[..taken]);
                prop_assert!(outbox.accept(Some(taken)).is_ok());
            }
            prop_assert_eq!(arrived, sent);
            prop_assert!(outbox.is_empty());
            prop_assert_eq!((outbox.content_bytes, outbox.replayed), (0, 0));
        }
    }
}
