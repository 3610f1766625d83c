//! Streams of a connection: found by identifier, queued by urgency.
//!
//! A stream has an entry (`Place`) from its head until the caller releases it. Entries are in a vector, and the identifiers in a
//! separate sorted vector, so a look-up touches few cache lines. For closed streams only the last few identifiers are stored.
//! Frames for closed streams are handled by the identifier only.

use super::priority::{Priority, URGENCIES};

/// Marker for "no place".
const NONE: u16 = u16::MAX;

/// Maximum number of streams: places are 16-bit numbers.
pub(super) const STREAMS_MAX: usize = NONE as usize - 1;

/// Number of recently closed streams to remember. Frames for them may still arrive.
const RECENT: usize = 16;

/// Entries that an idle connection keeps allocated.
const KEPT_WHEN_IDLE: usize = 1;

/// State of the receiving direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// The head of a response is expected (clients only). `bodiless` is true if `content-length` has no meaning, as after
    /// HEAD. `interims` counts the interim heads so far.
    Head { bodiless: bool, interims: u8 },
    /// DATA or trailers are expected.
    Body,
    /// END_STREAM arrived.
    Ended,
}

/// State of the sending direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// The head was not sent; interim heads may have been.
    Head,
    /// DATA or trailers may follow.
    Body,
    /// END_STREAM was sent.
    Ended,
}

/// Whether a stream was reset, and by which side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetState {
    /// Not reset.
    Open,
    /// The peer reset the stream.
    ResetByPeer,
    /// This side reset the stream.
    ResetHere,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub id: u32,
    /// Number that the caller attached.
    pub context: u32,
    pub reading: Reading,
    pub writing: Writing,
    pub reset_state: ResetState,
    /// State of received content. The state exists until all content was received and consumed. A held GET request has no such
    /// state.
    incoming: Option<Box<Incoming>>,
    /// Send window. Negative after SETTINGS reduced it below the bytes in flight (RFC 9113, section 6.9.2).
    pub send_window: i32,
    pub priority: Priority,
    /// True if the caller has more to send.
    pub pending: bool,
    /// True after the peer sent a WINDOW_UPDATE for the stream.
    pub window_updated: bool,
    queued: bool,
    previous: u16,
    next: u16,
    /// State of output that waits for a window; `None` if no output waits.
    pub stalled: Option<Stalled>,
}

/// State of the content that a stream receives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    /// Content bytes that are missing according to `content-length`; `None` without it.
    pub missing: Option<u64>,
    /// Receive window. Negative if the peer sent more before it received SETTINGS that reduce it.
    pub window: i32,
    /// Number of bytes passed to the caller that the caller has not consumed.
    pub unconsumed: u32,
    /// Consumed bytes that no WINDOW_UPDATE has reported yet.
    pub unreported: u32,
    /// Part of `Limits::header_list_bytes_max` and `headers_count_max` that the head left for trailers.
    pub list_bytes_left: u32,
    pub fields_left: u16,
}

/// Output that waits for a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stalled {
    /// Start of the wait: low half of the caller's clock, wrapping.
    pub at_ms: u32,
    /// Number of bytes sent since then.
    pub bytes: u16,
}

impl Stream {
    pub(super) fn new(id: u32, reading: Reading, send_window: i32, receive_window: i32) -> Self {
        Self {
            id,
            context: 0,
            incoming: (reading != Reading::Ended).then(|| {
                Box::new(Incoming {
                    missing: None,
                    window: receive_window,
                    unconsumed: 0,
                    unreported: 0,
                    list_bytes_left: 0,
                    fields_left: 0,
                })
            }),
            reading,
            writing: Writing::Head,
            reset_state: ResetState::Open,
            send_window,
            priority: Priority::USUAL,
            pending: false,
            window_updated: false,
            queued: false,
            previous: NONE,
            next: NONE,
            stalled: None,
        }
    }

    /// Returns true if this side may still send on the stream.
    #[inline]
    pub(super) fn can_send(&self) -> bool {
        self.reset_state == ResetState::Open && self.writing != Writing::Ended
    }

    /// Returns true if the peer may still send on the stream.
    #[inline]
    pub(super) fn can_receive(&self) -> bool {
        self.reset_state == ResetState::Open && self.reading != Reading::Ended
    }

    /// Returns the state of received content, or `None` once all of it was received and consumed.
    #[inline]
    pub(super) fn incoming(&mut self) -> Option<&mut Incoming> {
        self.incoming.as_deref_mut()
    }

    /// Returns the number of bytes passed to the caller that the caller has not consumed.
    #[inline]
    pub(super) fn unconsumed(&self) -> u32 {
        self.incoming
            .as_ref()
            .map_or(0, |incoming| incoming.unconsumed)
    }

    /// Marks `len` bytes as consumed, but at most the unconsumed bytes. Returns the number of bytes marked.
    #[inline]
    pub(super) fn consume(&mut self, len: u32) -> u32 {
        let Some(incoming) = self.incoming() else {
            return 0;
        };
        let len = incoming.unconsumed.min(len);
        incoming.unconsumed -= len;
        self.drop_incoming();
        len
    }

    /// Handles END_STREAM from the peer.
    #[inline]
    pub(super) fn end_reading(&mut self) {
        self.reading = Reading::Ended;
        self.drop_incoming();
    }

    #[inline]
    fn drop_incoming(&mut self) {
        if self.reading == Reading::Ended && self.unconsumed() == 0 {
            self.incoming = None;
        }
    }
}

/// Index of a stream's entry, valid until the stream is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u16);

/// First and last stream of a queue.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u16,
    last: u16,
}

/// How a stream without an entry was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// This side reset the stream: frames in flight must be ignored (RFC 9113, section 5.1).
    ResetHere,
    /// The stream ended, or the peer reset it.
    Closed,
    /// The stream was closed so long ago that its identifier is no longer stored, or its identifier was skipped.
    Forgotten,
}

/// Flag in `recent` for streams that this side reset.
const WAS_RESET_HERE: u32 = 1 << 31;

/// An entry of the vector.
#[derive(Debug)]
enum Slot {
    Taken(Stream),
    /// Unused, with the index of the next unused entry.
    Free(u16),
}

#[derive(Debug)]
pub(super) struct Streams {
    slots: Vec<Slot>,
    /// First unused entry.
    free: u16,
    /// Identifier and place of each stream, ascending.
    order: Vec<(u32, u16)>,
    queues: [Ends; URGENCIES],
    recent: [u32; RECENT],
    recent_next: u8,
}

impl Streams {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            order: Vec::new(),
            queues: [Ends {
                first: NONE,
                last: NONE,
            }; URGENCIES],
            recent: [0; RECENT],
            recent_next: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<Place> {
        // Most look-ups are for the newest stream.
        if let Some(&(last, place)) = self.order.last()
            && last == id
        {
            return Some(Place(place));
        }
        let index = self.order.binary_search_by_key(&id, |&(id, _)| id).ok()?;
        Some(Place(self.order[index].1))
    }

    #[inline]
    pub(super) fn get(&self, place: Place) -> &Stream {
        match &self.slots[usize::from(place.0)] {
            Slot::Taken(stream) => stream,
            Slot::Free(_) => unreachable!("a place is good until its stream is removed"),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: Place) -> &mut Stream {
        match &mut self.slots[usize::from(place.0)] {
            Slot::Taken(stream) => stream,
            Slot::Free(_) => unreachable!("a place is good until its stream is removed"),
        }
    }

    /// Adds a stream with a higher identifier than all others. The caller ensures that there are fewer than
    /// [`STREAMS_MAX`].
    pub(super) fn add(&mut self, stream: Stream) -> Place {
        debug_assert!(self.order.last().is_none_or(|&(last, _)| last < stream.id));
        let id = stream.id;
        if self.order.len() == self.order.capacity() {
            self.order.reserve_exact(growth(self.order.len()));
        }
        let place = match self.slots.get_mut(usize::from(self.free)) {
            Some(slot) => {
                let place = self.free;
                if let Slot::Free(next) = std::mem::replace(slot, Slot::Taken(stream)) {
                    self.free = next;
                }
                place
            }
            None => {
                if self.slots.len() == self.slots.capacity() {
                    self.slots.reserve_exact(growth(self.slots.len()));
                }
                self.slots.push(Slot::Taken(stream));
                self.slots.len() as u16 - 1
            }
        };
        self.order.push((id, place));
        Place(place)
    }

    /// Removes a stream and remembers its identifier.
    pub(super) fn remove(&mut self, place: Place) -> Stream {
        self.dequeue(place);
        let slot = &mut self.slots[usize::from(place.0)];
        let Slot::Taken(stream) = std::mem::replace(slot, Slot::Free(self.free)) else {
            unreachable!("a place is good until its stream is removed");
        };
        self.free = place.0;
        let index = self.order.binary_search_by_key(&stream.id, |&(id, _)| id);
        if let Ok(index) = index {
            self.order.remove(index);
        }
        self.remember(stream.id, stream.reset_state == ResetState::ResetHere);
        if self.order.is_empty() && self.slots.capacity() > KEPT_WHEN_IDLE {
            self.slots.clear();
            self.free = NONE;
            self.slots.shrink_to(KEPT_WHEN_IDLE);
            self.order.shrink_to(KEPT_WHEN_IDLE);
        }
        stream
    }

    /// Remembers the identifier of a closed stream without an entry.
    pub(super) fn remember(&mut self, id: u32, reset_here: bool) {
        let mark = if reset_here { WAS_RESET_HERE } else { 0 };
        self.recent[usize::from(self.recent_next)] = id | mark;
        self.recent_next = (self.recent_next + 1) % RECENT as u8;
    }

    /// Records that the peer ended or reset a stream that this side had reset: no further frames of the stream are in flight.
    pub(super) fn ended_from_both(&mut self, id: u32) {
        for recent in &mut self.recent {
            if *recent == id | WAS_RESET_HERE {
                *recent = id;
            }
        }
    }

    /// Returns how a stream without an entry was closed. The stream was opened or skipped before.
    pub(super) fn gone(&self, id: u32) -> Gone {
        for &recent in &self.recent {
            if recent == id | WAS_RESET_HERE {
                return Gone::ResetHere;
            }
            if recent == id {
                return Gone::Closed;
            }
        }
        Gone::Forgotten
    }

    /// Returns all streams in ascending order.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.order.iter().map(|&(_, place)| Place(place))
    }

    /// Returns the `nth` stream in ascending order.
    pub(super) fn nth(&self, nth: usize) -> Option<Place> {
        self.order.get(nth).map(|&(_, place)| Place(place))
    }

    /// Returns the stream that has its turn: the first of the most urgent (RFC 9218, section 10).
    #[inline]
    pub(super) fn first_queued(&self) -> Option<Place> {
        let ends = self.queues.iter().find(|ends| ends.first != NONE)?;
        Some(Place(ends.first))
    }

    /// Returns true if other streams of the same urgency wait for a turn.
    #[inline]
    pub(super) fn shares_turns(&self, place: Place) -> bool {
        let ends = self.queues[usize::from(self.get(place).priority.urgency())];
        ends.first != ends.last
    }

    /// Queues a stream that has output and a window; removes any other stream from its queue.
    #[inline]
    pub(super) fn requeue(&mut self, place: Place) {
        let stream = self.get(place);
        let sends = stream.reset_state == ResetState::Open && stream.writing == Writing::Body;
        let belongs = stream.pending && stream.send_window > 0 && sends;
        if belongs && !stream.queued {
            self.enqueue(place);
        } else if !belongs && stream.queued {
            self.dequeue(place);
        }
    }

    /// Ends a stream's turn. An incremental stream moves behind the others of its urgency.
    #[inline]
    pub(super) fn turn_over(&mut self, place: Place) {
        let stream = self.get(place);
        if stream.queued && stream.priority.is_incremental() && self.shares_turns(place) {
            self.dequeue(place);
            self.enqueue(place);
        }
    }

    pub(super) fn set_priority(&mut self, place: Place, priority: Priority) {
        let queued = self.get(place).queued;
        self.dequeue(place);
        self.get_mut(place).priority = priority;
        if queued {
            self.enqueue(place);
        }
    }

    /// Queues a stream after all others of its urgency. A stream that is not incremental goes before those with higher
    /// identifiers, which were requested later (RFC 9218, section 10).
    fn enqueue(&mut self, place: Place) {
        let stream = self.get(place);
        let (id, priority) = (stream.id, stream.priority);
        let urgency = usize::from(priority.urgency());
        let mut before = self.queues[urgency].last;
        if !priority.is_incremental() {
            while before != NONE {
                let other = self.get(Place(before));
                if other.priority.is_incremental() || other.id < id {
                    break;
                }
                before = other.previous;
            }
        }
        let next = if before == NONE {
            std::mem::replace(&mut self.queues[urgency].first, place.0)
        } else {
            std::mem::replace(&mut self.get_mut(Place(before)).next, place.0)
        };
        if next == NONE {
            self.queues[urgency].last = place.0;
        } else {
            self.get_mut(Place(next)).previous = place.0;
        }
        let stream = self.get_mut(place);
        stream.queued = true;
        stream.previous = before;
        stream.next = next;
    }

    fn dequeue(&mut self, place: Place) {
        let stream = self.get_mut(place);
        if !stream.queued {
            return;
        }
        stream.queued = false;
        let (previous, next) = (stream.previous, stream.next);
        let urgency = usize::from(stream.priority.urgency());
        if previous == NONE {
            self.queues[urgency].first = next;
        } else {
            self.get_mut(Place(previous)).next = next;
        }
        if next == NONE {
            self.queues[urgency].last = previous;
        } else {
            self.get_mut(Place(next)).previous = previous;
        }
    }

    /// Returns the number of heap bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        let incoming = self.slots.iter().filter(|slot| match slot {
            Slot::Taken(stream) => stream.incoming.is_some(),
            Slot::Free(_) => false,
        });
        self.slots.capacity() * size_of::<Slot>()
            + self.order.capacity() * size_of::<(u32, u16)>()
            + incoming.count() * size_of::<Incoming>()
    }
}

/// Returns the number of entries to allocate: an eighth more, so that few remain unused.
fn growth(len: usize) -> usize {
    if len == 0 {
        KEPT_WHEN_IDLE
    } else {
        (len / 8).max(2)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(id: u32, priority: Priority) -> Stream {
        let mut stream = Stream::new(id, Reading::Ended, 100, 100);
        stream.priority = priority;
        stream.writing = Writing::Body;
        stream.pending = true;
        stream
    }

    /// Returns the identifiers in the order in which the streams are served. Each turn sends something; `turns` limits the number
    /// of turns.
    fn served(streams: &mut Streams, turns: usize) -> Vec<u32> {
        (0..turns)
            .filter_map(|_| {
                let place = streams.first_queued()?;
                streams.turn_over(place);
                Some(streams.get(place).id)
            })
            .collect()
    }

    #[test]
    fn a_stream_is_small() {
        let bytes = size_of::<Slot>() + size_of::<(u32, u16)>();
        // A growing vector may leave an eighth unused.
        assert!(bytes * 9 / 8 <= 64, "{bytes}");
    }

    #[test]
    fn urgency_goes_first_and_incremental_ones_take_turns() {
        let mut streams = Streams::new();
        for (id, priority) in [
            (1, Priority::new(5, false)),
            (3, Priority::new(3, true)),
            (5, Priority::new(3, true)),
            (7, Priority::new(3, true)),
            (9, Priority::new(0, false)),
            (11, Priority::new(0, false)),
        ] {
            let place = streams.add(stream(id, priority));
            streams.requeue(place);
        }
        assert_eq!(served(&mut streams, 2), [9, 9]);
        for id in [9, 11] {
            let place = streams.find(id).expect("there");
            streams.remove(place);
        }
        assert_eq!(served(&mut streams, 7), [3, 5, 7, 3, 5, 7, 3]);
        // A stream without a window is skipped. When it has a window, it is queued behind the others.
        let place = streams.find(5).expect("there");
        streams.get_mut(place).send_window = 0;
        streams.requeue(place);
        assert_eq!(served(&mut streams, 3), [7, 3, 7]);
        streams.get_mut(place).send_window = 1;
        streams.requeue(place);
        assert_eq!(served(&mut streams, 3), [3, 7, 5]);
        streams.set_priority(place, Priority::new(1, true));
        assert_eq!(served(&mut streams, 2), [5, 5]);
    }

    #[test]
    fn non_incremental_streams_are_sent_in_request_order() {
        let mut streams = Streams::new();
        for id in [1, 3, 5, 7] {
            streams.add(stream(id, Priority::USUAL));
        }
        for id in [5, 1, 7, 3] {
            let place = streams.find(id).expect("there");
            streams.requeue(place);
        }
        for id in [1, 3, 5, 7] {
            let place = streams.first_queued().expect("some wait");
            assert_eq!(streams.get(place).id, id);
            streams.remove(place);
        }
        assert_eq!(streams.first_queued(), None);
    }

    #[test]
    fn recently_closed_streams_are_remembered() {
        let mut streams = Streams::new();
        for i in 0..20 {
            let place = streams.add(stream(i * 2 + 1, Priority::USUAL));
            if i % 2 == 0 {
                streams.get_mut(place).reset_state = ResetState::ResetHere;
            }
            streams.remove(place);
        }
        assert_eq!(streams.gone(39), Gone::Closed);
        assert_eq!(streams.gone(37), Gone::ResetHere);
        assert_eq!(streams.gone(1), Gone::Forgotten);
        assert!(streams.kept_bytes() < 300);
    }

    proptest! {
        /// The queues match a sorted list after any sequence of additions, removals and changes.
        #[test]
        fn queues_match_a_sorted_list(steps in prop::collection::vec((0u8..5, 0usize..20, 0u8..16), 1..300)) {
            let mut streams = Streams::new();
            let mut next = 1;
            for (what, which, priority) in steps {
                let priority = Priority::new(priority & 7, priority & 8 != 0);
                let place = streams.nth(which);
                match (what, place) {
                    (0, _) | (_, None) => {
                        let place = streams.add(stream(next, priority));
                        streams.requeue(place);
                        next += 2;
                    }
                    (1, Some(place)) => {
                        streams.remove(place);
                    }
                    (2, Some(place)) => streams.set_priority(place, priority),
                    (3, Some(place)) => {
                        let stream = streams.get_mut(place);
                        stream.pending = !stream.pending;
                        streams.requeue(place);
                    }
                    (_, Some(place)) => streams.turn_over(place),
                }
                let mut queued: Vec<u32> = Vec::new();
                for ends in &streams.queues {
                    let (mut at, mut before) = (ends.first, NONE);
                    while at != NONE {
                        let stream = streams.get(Place(at));
                        prop_assert!(stream.queued && stream.previous == before);
                        queued.push(stream.id);
                        (before, at) = (at, stream.next);
                    }
                    prop_assert_eq!(before, ends.last);
                }
                queued.sort_unstable();
                let expected: Vec<u32> = streams
                    .places()
                    .map(|place| streams.get(place))
                    .filter(|stream| stream.pending)
                    .map(|stream| stream.id)
                    .collect();
                prop_assert_eq!(queued, expected);
            }
        }
    }
}
