//! Readers: handlers that read a channel's events in order and wait for the next one.
//!
//! A reader is a position in the ring. An event is copied from the ring when the handler requests it, so a slow reader
//! needs no memory and delays no publisher; if the ring has overwritten its next event, it receives a gap. A reader
//! that has read everything subscribes to its channel. The channel's next message ends this subscription and wakes the
//! handler, so there is one wake-up for any number of messages that arrive together.

use fermata_hub::{Backlog, Kind, Missed, SubId};
use fermata_io::Driver;

use crate::admin::stats::Counter;
use crate::channels::Channels;
use crate::channels::encode::FORMAT_READER;
use crate::channels::missed::Loss;
use crate::channels::publish::{Past, check_channel};
use crate::channels::since::Since;
use crate::embed::waiting::{WaitEvent, Waiting};
use crate::misuse::Misuse;
use crate::net::Net;
use crate::net::slab::{Key, Slab};

/// Maximum number of open readers per worker.
pub const READERS_MAX: usize = 65_536;

/// Owners of subscriptions from this number on are readers. Smaller numbers are exchanges.
pub(crate) const READER_OWNERS: u32 = 1 << 31;

/// A reader of this worker. An id never refers to a later reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderId(Key);

impl ReaderId {
    /// Returns the id as a number, which is never 0.
    pub fn to_raw(self) -> u64 {
        self.0.to_u64()
    }

    /// Returns the id of a number from [`ReaderId::to_raw`].
    pub fn from_raw(raw: u64) -> ReaderId {
        ReaderId(Key::from_u64(raw))
    }
}

/// Result of reading a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadNext {
    /// The next event.
    Event(Past),
    /// Events before the next one are missing, for this reason.
    Gap(&'static str),
    /// All events were read. `Event::Read` follows when there may be more.
    Wait,
}

/// A reader of one channel.
struct ChannelReader {
    backlog: Backlog,
    /// Subscription that wakes the reader.
    chain: SubId,
    /// True from the result `ReadNext::Wait` to the next `Event::Read`.
    is_waiting: bool,
    /// True if the reader's first event id is unknown, which is reported before its first event.
    is_unknown: bool,
}

/// The readers of a worker.
pub(crate) struct Readers {
    readers: Slab<ChannelReader>,
}

impl Readers {
    pub fn new() -> Readers {
        Readers {
            readers: Slab::new(),
        }
    }

    /// Returns true if the reader has not been closed.
    pub fn is_open(&self, id: ReaderId) -> bool {
        self.readers.get(id.0).is_some()
    }
}

impl Channels {
    /// Opens a reader of a channel.
    ///
    /// # Errors
    /// The channel name is invalid, or [`READERS_MAX`] is reached.
    pub(crate) fn open_reader(
        &mut self,
        channel: &[u8],
        since: Since<'_>,
    ) -> Result<ReaderId, Misuse> {
        check_channel(channel)?;
        if self.readers.readers.len() >= READERS_MAX {
            return Err(Misuse::TooManyReaders);
        }
        let channels = [channel];
        let newest = self.ring.newest();
        let missed = self.missed_since(&channels, since);
        let is_unknown = matches!(missed, Some(None));
        let backlog = missed.flatten();
        let reader = ChannelReader {
            backlog: backlog.unwrap_or_else(|| Backlog::from_now(&channels, newest)),
            chain: SubId::NONE,
            is_waiting: false,
            is_unknown,
        };
        Ok(ReaderId(self.readers.readers.insert(reader)))
    }

    /// Reads the next event of a reader's channel; `None` if the reader was closed.
    pub(crate) fn read_next<D: Driver>(
        &mut self,
        net: &mut Net<D>,
        id: ReaderId,
    ) -> Option<ReadNext> {
        let reader = self.readers.readers.get_mut(id.0)?;
        if std::mem::take(&mut reader.is_unknown) {
            net.counts.add(Counter::GapsUnknown, 1);
            return Some(ReadNext::Gap("unknown id"));
        }
        // The reader is put back below; nothing reads its placeholder.
        let mut backlog = std::mem::replace(&mut reader.backlog, Backlog::new(&[], 0));
        let next = self.next_of(net, &mut backlog);
        let is_waiting = next.is_none();
        let (is_behind_log, waits_until) = (self.is_waiting_at(&backlog), backlog.waits_until());
        let mut chain = SubId::NONE;
        if is_waiting && !is_behind_log {
            let channel = backlog.channels().next().unwrap_or_default();
            let owner = READER_OWNERS | id.0.index;
            chain = self
                .local
                .subscribe(owner, SubId::NONE, channel, FORMAT_READER);
        }
        if is_waiting && is_behind_log {
            // The log has not replied, or is not connected: try again when it has advanced.
            self.queue_reader_ahead(net, id, waits_until);
        }
        let reader = self.readers.readers.get_mut(id.0)?;
        self.local
            .unsubscribe(std::mem::replace(&mut reader.chain, chain));
        reader.is_waiting = is_waiting;
        reader.backlog = backlog;
        Some(next.unwrap_or(ReadNext::Wait))
    }

    /// Returns the next message or gap of a backlog; `None` if it has no more for now.
    fn next_of<D: Driver>(&mut self, net: &mut Net<D>, backlog: &mut Backlog) -> Option<ReadNext> {
        let unix_ms = net.driver.unix_ms();
        let has_begun = backlog.has_begun();
        let mut next = None;
        self.next_missed(backlog, unix_ms, &mut |encoder, missed| {
            next = match missed {
                Missed::Record(record) if record.kind == Kind::Message => {
                    Some(ReadNext::Event(Past::of(&encoder.ids, record)))
                }
                // Joins and leaves.
                Missed::Record(_) => None,
                Missed::Gap { is_of_log: true } => {
                    net.counts.add(Counter::GapsLog, 1);
                    Some(ReadNext::Gap(Loss::Log.reason()))
                }
                Missed::Gap { .. } if has_begun => {
                    net.counts.add(Counter::GapsSlow, 1);
                    Some(ReadNext::Gap(Loss::Slow.reason()))
                }
                Missed::Gap { .. } => {
                    net.counts.add(Counter::GapsExpired, 1);
                    Some(ReadNext::Gap("expired"))
                }
            };
            next.is_none()
        });
        next
    }

    /// Closes a reader. `Event::Read` may still follow for a closed reader.
    pub(crate) fn close_reader(&mut self, id: ReaderId) {
        if self.readers.is_open(id)
            && let Some(reader) = self.readers.readers.remove(id.0.index)
        {
            self.local.unsubscribe(reader.chain);
        }
    }

    /// Wakes the reader that owns a subscription.
    #[cold]
    pub(crate) fn wake_owner(&mut self, waiting: &mut Waiting, owner: u32) {
        if let Some(key) = self.readers.readers.key(owner & !READER_OWNERS) {
            self.wake_reader(waiting, ReaderId(key));
        }
    }

    /// Wakes a reader, if it waits.
    pub(crate) fn wake_reader(&mut self, waiting: &mut Waiting, id: ReaderId) {
        // The reader may have been closed after it was queued.
        let Some(reader) = self.readers.readers.get_mut(id.0) else {
            return;
        };
        self.local
            .unsubscribe(std::mem::replace(&mut reader.chain, SubId::NONE));
        if std::mem::take(&mut reader.is_waiting) {
            waiting.events.push_back(WaitEvent::Read(id));
        }
    }
}
