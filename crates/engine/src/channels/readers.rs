//! Readers: handlers that read a channel's events in order and wait for the next one.
//!
//! A reader is a position in the ring. An event is copied from the ring when the handler requests
//! it, so a slow reader needs no memory and delays no publisher; if the ring has overwritten its
//! next event, it receives a gap. A reader that has read everything subscribes to its channel. The
//! channel's next message ends this subscription and wakes the handler, so there is one wake-up for
//! any number of messages that arrive together.

use fermata_hub::{Backlog, Local, Ring, Seq, SubId};

use crate::channels::encode::FORMAT_READER;
use crate::embed::waiting::{WaitEvent, Waiting};
use crate::id::ReaderId;
use crate::missed::missed;
use crate::net::slab::Slab;

/// Maximum number of open readers per worker.
pub const READERS_MAX: usize = 65_536;

/// Owners of subscriptions from this number on are readers. Smaller numbers are exchanges.
const READER_OWNERS: u32 = 1 << 31;

/// A reader of one channel.
struct ChannelReader {
    /// `None` while an event is read.
    backlog: Option<Backlog>,
    /// Subscription that wakes the reader.
    chain: SubId,
    /// True from the result `ReadNext::Wait` to the next `Event::Read`.
    is_waiting: bool,
    /// True if the reader's first event id is unknown, which is reported before its first event.
    is_unknown: bool,
}

impl ChannelReader {
    /// Ends the subscription. The reader then continues at the first message that the subscription
    /// received, or at `read_up_to` if it received none. Without this, a reader that has waited
    /// while the ring was overwritten by other channels would receive a gap.
    fn end_subscription(&mut self, local: &mut Local, ring: &mut Ring, read_up_to: Seq) {
        if self.chain == SubId::NONE {
            return;
        }
        let first = local.first_unread(self.chain);
        local.unsubscribe(std::mem::replace(&mut self.chain, SubId::NONE));
        // `None`: records were lost, and the search in the ring decides if the channel had any.
        if let (Some(first), Some(backlog)) = (first, &mut self.backlog) {
            backlog.skip_to(ring, first.map_or(read_up_to, |seq| seq - 1));
        }
    }
}

/// The readers of a worker.
pub(crate) struct Readers(Slab<ChannelReader>);

impl Readers {
    pub fn new() -> Readers {
        Readers(Slab::new())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn insert(&mut self, backlog: Backlog, is_unknown: bool) -> ReaderId {
        ReaderId::new(self.0.insert(ChannelReader {
            backlog: Some(backlog),
            chain: SubId::NONE,
            is_waiting: false,
            is_unknown,
        }))
    }

    /// Returns true once if the reader's first event id is unknown.
    pub fn take_unknown(&mut self, id: ReaderId) -> bool {
        let reader = self.0.get_mut(id.key());
        reader.is_some_and(|reader| std::mem::take(&mut reader.is_unknown))
    }

    /// Removes the position of an open reader, to be returned with [`Readers::put_back`] or
    /// [`Readers::wait`]. `read_up_to`: position up to which the worker has read the ring.
    pub fn take_backlog(
        &mut self,
        id: ReaderId,
        local: &mut Local,
        ring: &mut Ring,
        read_up_to: Seq,
    ) -> Option<Backlog> {
        let reader = self.0.get_mut(id.key())?;
        reader.end_subscription(local, ring, read_up_to);
        reader.backlog.take()
    }

    pub fn put_back(&mut self, id: ReaderId, backlog: Backlog) {
        let Some(reader) = self.0.get_mut(id.key()) else {
            // Unreachable: the position was taken from this reader.
            return missed(());
        };
        reader.backlog = Some(backlog);
    }

    /// Makes a reader wait. `local`: the reader has read everything that this worker has, so the
    /// channel's next message wakes it. `None`: the caller wakes it.
    pub fn wait(&mut self, id: ReaderId, backlog: Backlog, local: Option<&mut Local>) {
        let Some(reader) = self.0.get_mut(id.key()) else {
            // Unreachable: the position was taken from this reader.
            return missed(());
        };
        reader.is_waiting = true;
        if let Some(local) = local {
            let channel = backlog.channels().next().unwrap_or_default();
            let owner = READER_OWNERS | id.key().index;
            reader.chain = local.subscribe(owner, SubId::NONE, channel, FORMAT_READER);
        }
        reader.backlog = Some(backlog);
    }

    /// Wakes the reader that owns a subscription. Returns false if the owner is an exchange.
    #[inline]
    pub fn wake_owner(
        &mut self,
        owner: u32,
        local: &mut Local,
        ring: &mut Ring,
        waiting: &mut Waiting,
    ) -> bool {
        if owner < READER_OWNERS {
            return false;
        }
        let index = owner & !READER_OWNERS;
        let (Some(key), Some(reader)) = (self.0.key(index), self.0.at_mut(index)) else {
            // Unreachable: a reader that is closed ends its subscription.
            return missed(true);
        };
        // There is an unread message or a loss, so the position up to which the worker has read is
        // not used.
        reader.end_subscription(local, ring, 0);
        self.wake(waiting, ReaderId::new(key));
        true
    }

    /// Wakes a reader, if it waits.
    #[cold]
    pub fn wake(&mut self, waiting: &mut Waiting, id: ReaderId) {
        // The reader may have been closed after it was queued.
        if let Some(reader) = self.0.get_mut(id.key())
            && std::mem::take(&mut reader.is_waiting)
        {
            waiting.events.push_back(WaitEvent::Read(id));
        }
    }

    /// Closes a reader. `Event::Read` may still follow for a closed reader.
    pub fn close(&mut self, local: &mut Local, id: ReaderId) {
        if self.0.get(id.key()).is_some()
            && let Some(reader) = self.0.remove(id.key().index)
        {
            local.unsubscribe(reader.chain);
        }
    }
}
