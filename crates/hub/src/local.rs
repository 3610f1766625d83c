//! Fan-out of one worker: from records of the ring to cursors of local subscribers.
//!
//! A *stream* is a channel in one wire format with at least one local subscriber. A record is encoded once per stream into the
//! stream's log, a contiguous buffer. A subscription is a cursor into the log, so the bytes to send are a slice. The log exists
//! only while a subscriber has unread bytes. A slow subscriber needs no memory other than its cursor. When the log exceeds
//! `log_bytes_max`, its oldest frames are dropped. A cursor before the log's start is a *gap*.

mod delivery;
mod encode;
mod log;
mod pump;
mod stream;

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use crate::hash::ChannelHasher;
use crate::record::Record;
use crate::stream_counts::{StreamCounts, Traffic};
pub use delivery::{Gathered, SLICES_MAX};
pub use encode::{Encode, PayloadSpan};
use log::{LogPool, NONE};
use stream::Stream;

/// Returns the channel name for subscribers of a view. It starts with a control character, so applications cannot publish to it.
pub fn view_channel(view: u64) -> [u8; 10] {
    let mut name = [0; 10];
    name[1] = b'v';
    name[2..].copy_from_slice(&view.to_be_bytes());
    name
}

/// Limits of the fan-out.
#[derive(Clone, Copy)]
pub struct LocalConfig {
    /// Maximum number of encoded bytes stored per channel for slow subscribers. A single larger frame is still stored.
    pub log_bytes_max: usize,
    /// The ring's hasher, [`crate::Ring::hasher`].
    pub hasher: ChannelHasher,
}

/// A subscription; as the head of a chain, all subscriptions of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubId(u32);

impl SubId {
    /// The empty chain.
    pub const NONE: SubId = SubId(NONE);
}

/// A message for one subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// The subscriber, as [`crate::Subscriber::key`].
    pub key: u64,
    /// True if the record has a name. The caller decides about the meaning of the name.
    pub has_name: bool,
    /// The message.
    pub data: Box<[u8]>,
}

/// One owner's position in one stream: 24 bytes, and 4 in the stream.
struct Subscription {
    /// Absolute offset in the stream of the next byte to send; always the start of a frame.
    cursor: u64,
    stream: u32,
    owner: u32,
    /// Next subscription of the owner, or of the free list.
    next: u32,
    /// Index in the stream's list.
    index: u32,
}

/// All subscriptions of one worker.
pub struct Local {
    config: LocalConfig,
    streams: Vec<Stream>,
    streams_free: Vec<u32>,
    /// First stream per channel hash. Further streams with the same hash (other formats, or hash collisions) are linked.
    by_hash: HashMap<u64, u32, BuildHasherDefault<Identity>>,
    subscriptions: Vec<Subscription>,
    subscriptions_free: u32,
    subscriptions_len: usize,
    /// Streams with new frames whose subscribers were not visited since.
    dirty: VecDeque<u32>,
    /// The stream being visited, and the number of its subscribers that still have to be visited.
    visit: (u32, usize),
    record: Record,
    pool: LogPool,
    traffic: Traffic,
    /// This worker's number in [`Subscriber`], and the hash of the channel that only this worker reads.
    own: Option<(u64, u64)>,
    /// Hash of the channel for messages to all workers.
    common: Option<u64>,
    /// Messages received over the channels for this worker.
    directs: Vec<Direct>,
    /// The channel whose records are sent to views, with its hash.
    selected: Option<(u64, Box<[u8]>)>,
    /// Views of the current record, reused.
    views: Vec<u64>,
    /// Counts per stream; `None` = not requested.
    counts: Option<StreamCounts>,
}

impl Local {
    /// Creates a fan-out without subscriptions.
    pub fn new(config: LocalConfig) -> Local {
        Local {
            config,
            streams: Vec::new(),
            streams_free: Vec::new(),
            by_hash: HashMap::default(),
            subscriptions: Vec::new(),
            subscriptions_free: NONE,
            subscriptions_len: 0,
            dirty: VecDeque::new(),
            visit: (NONE, 0),
            record: Record::empty(),
            pool: LogPool::default(),
            traffic: Traffic::default(),
            own: None,
            common: None,
            directs: Vec::new(),
            selected: None,
            views: Vec::new(),
            counts: None,
        }
    }

    /// Subscribes `owner` to a channel, starting with the next record of the reader. `chain` is the owner's present
    /// chain, or [`SubId::NONE`]. Returns the chain's new head.
    pub fn subscribe(&mut self, owner: u32, chain: SubId, channel: &[u8], format: u8) -> SubId {
        let stream = self.stream_for(channel, format);
        let subscription = Subscription {
            cursor: self.streams[stream as usize].end(),
            stream,
            owner,
            next: chain.0,
            index: self.streams[stream as usize].subscribers.len() as u32,
        };
        let id = self.subscriptions_free;
        let id = match self.subscriptions.get_mut(id as usize) {
            Some(free) => {
                self.subscriptions_free = free.next;
                *free = subscription;
                id
            }
            None => {
                self.subscriptions.push(subscription);
                self.subscriptions.len() as u32 - 1
            }
        };
        self.streams[stream as usize].subscribers.push(id);
        self.subscriptions_len += 1;
        SubId(id)
    }

    /// Sets this worker's random number. The worker then skips subscribers that a record excludes, and collects messages for single
    /// subscribers from `channel`, which no other worker reads.
    pub fn receive_directs(&mut self, worker: u64, channel: &[u8]) {
        self.own = Some((worker, self.config.hasher.hash(channel)));
    }

    /// Also collects messages from `channel`, which every worker reads.
    pub fn receive_common(&mut self, channel: &[u8]) {
        self.common = Some(self.config.hasher.hash(channel));
    }

    /// Sends the records of `channel` to views, in addition to the channel's own subscribers. [`Encode::select`] returns the views
    /// of a record; subscribers of [`view_channel`] receive it. The cost of a record is that call and the selected views; it does
    /// not depend on the number of other views.
    pub fn select_from(&mut self, channel: &[u8]) {
        self.selected = Some((self.config.hasher.hash(channel), channel.into()));
    }

    /// Returns the messages for single subscribers since the last call. Excludes messages for an earlier process in this slot.
    pub fn take_directs(&mut self) -> Vec<Direct> {
        std::mem::take(&mut self.directs)
    }

    /// Ends all subscriptions of the chain. The id is invalid afterwards.
    pub fn unsubscribe(&mut self, chain: SubId) {
        let mut id = chain.0;
        while id != NONE {
            id = self.remove(id);
        }
    }

    /// Ends the subscription of the chain to one channel. Returns the chain's new head, or `None` if it has no
    /// subscription to the channel. The old head is invalid afterwards.
    pub fn leave(&mut self, chain: SubId, channel: &[u8]) -> Option<SubId> {
        let mut before = NONE;
        let mut id = chain.0;
        loop {
            let subscription = self.subscriptions.get(id as usize)?;
            if *self.stream(subscription).name == *channel {
                break;
            }
            before = id;
            id = subscription.next;
        }
        let next = self.remove(id);
        match self.subscriptions.get_mut(before as usize) {
            Some(before) => {
                before.next = next;
                Some(chain)
            }
            None => Some(SubId(next)),
        }
    }

    /// Appends the owners that subscribe to a channel in one format.
    pub fn owners(&self, channel: &[u8], format: u8, owners: &mut Vec<u32>) {
        let hash = self.config.hasher.hash(channel);
        let mut id = self.by_hash.get(&hash).copied().unwrap_or(NONE);
        while let Some(stream) = self.streams.get(id as usize) {
            if stream.format == format && *stream.name == *channel {
                let subscriptions = stream.subscribers.iter();
                owners.extend(subscriptions.map(|&id| self.subscriptions[id as usize].owner));
                return;
            }
            id = stream.next;
        }
    }

    /// Returns the formats of a chain's subscriptions.
    pub fn formats_of(&self, chain: SubId) -> impl Iterator<Item = u8> {
        self.chain(chain)
            .map(|subscription| self.stream(subscription).format)
    }

    /// Returns the channels of a chain, newest first.
    pub fn channels_of(&self, chain: SubId) -> impl Iterator<Item = &[u8]> {
        self.chain(chain)
            .map(|subscription| &*self.stream(subscription).name)
    }

    /// Ends one subscription. Returns the next subscription of its chain.
    fn remove(&mut self, id: u32) -> u32 {
        let Subscription {
            cursor,
            stream: stream_id,
            next,
            index,
            ..
        } = self.subscriptions[id as usize];
        let stream = &mut self.streams[stream_id as usize];
        stream.subscribers.swap_remove(index as usize);
        if let Some(&moved) = stream.subscribers.get(index as usize) {
            self.subscriptions[moved as usize].index = index;
        }
        if cursor < stream.end() {
            stream.caught_up(&mut self.pool);
        }
        if stream.subscribers.is_empty() {
            self.remove_stream(stream_id);
        }
        let freed = &mut self.subscriptions[id as usize];
        (freed.owner, freed.next) = (NONE, self.subscriptions_free);
        self.subscriptions_free = id;
        self.subscriptions_len -= 1;
        next
    }

    /// Returns the next owner of a channel with new frames, or `None` if all were visited. Each owner with unread
    /// frames is returned once per channel with new frames. An owner with unread frames in several such channels may be
    /// returned again. Subscribing, unsubscribing and pumping between calls is allowed.
    pub fn next_ready(&mut self) -> Option<u32> {
        loop {
            let (stream_id, left) = &mut self.visit;
            if *stream_id == NONE {
                *stream_id = self.dirty.pop_front()?;
                let stream = &mut self.streams[*stream_id as usize];
                // Clear the flag: later frames have to mark the stream dirty again, because subscribers that were already visited
                // would miss them.
                stream.dirty = false;
                *left = stream.subscribers.len();
            }
            // Visit from the end, because `swap_remove` then never moves a subscriber that is not visited yet behind the visited
            // subscribers.
            let stream = &self.streams[*stream_id as usize];
            *left = (*left).min(stream.subscribers.len());
            while *left > 0 {
                *left -= 1;
                let subscription = &self.subscriptions[stream.subscribers[*left] as usize];
                if subscription.cursor < stream.end() {
                    return Some(subscription.owner);
                }
            }
            *stream_id = NONE;
        }
    }

    /// Returns the number of subscriptions.
    pub fn subscriptions(&self) -> usize {
        self.subscriptions_len
    }

    /// Returns the number of channels with subscriptions, counted once per format.
    pub fn channels(&self) -> usize {
        self.streams.len() - self.streams_free.len()
    }

    /// Returns the first channel of a chain (empty for an empty chain) and the bytes that wait for its owner.
    pub fn behind(&self, chain: SubId) -> (&[u8], u64) {
        let mut name: &[u8] = &[];
        let mut bytes = 0;
        for subscription in self.chain(chain) {
            let stream = self.stream(subscription);
            bytes += stream.end() - subscription.cursor.max(stream.start());
            // New subscriptions are prepended, so the last subscription in the chain is the oldest.
            name = &stream.name;
        }
        (name, bytes)
    }

    /// Returns the traffic since the worker started.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Starts counting records per channel.
    pub fn begin_tally(&mut self) {
        self.counts = Some(StreamCounts::default());
    }

    /// Passes the counts since the last call to `each`: channel, subscribers, records, and records times subscribers.
    /// Channels without records are skipped.
    pub fn take_tally<'a>(&'a mut self, each: &mut dyn FnMut(&'a [u8], u64, u64, u64)) {
        let Some(counts) = &mut self.counts else {
            return;
        };
        for (id, records, deliveries) in counts.drain() {
            if let Some(stream) = self.streams.get(id as usize) {
                each(
                    &stream.name,
                    stream.subscribers.len() as u64,
                    records,
                    deliveries,
                );
            }
        }
    }

    /// Stops counting records per channel.
    pub fn end_tally(&mut self) {
        self.counts = None;
    }

    /// Returns the bytes stored in logs, for tests of their limit.
    #[cfg(test)]
    pub(crate) fn log_bytes(&self) -> usize {
        self.streams.iter().map(Stream::log_bytes).sum()
    }

    /// Returns the sizes of a subscription and a stream, in bytes.
    #[cfg(test)]
    pub(crate) fn sizes() -> (usize, usize) {
        (size_of::<Subscription>(), size_of::<Stream>())
    }

    fn chain(&self, chain: SubId) -> impl Iterator<Item = &Subscription> {
        let first = self.subscriptions.get(chain.0 as usize);
        std::iter::successors(first, |subscription| {
            self.subscriptions.get(subscription.next as usize)
        })
    }

    fn stream(&self, subscription: &Subscription) -> &Stream {
        &self.streams[subscription.stream as usize]
    }

    fn stream_for(&mut self, channel: &[u8], format: u8) -> u32 {
        let hash = self.config.hasher.hash(channel);
        let first = self.by_hash.get(&hash).copied().unwrap_or(NONE);
        let mut id = first;
        while let Some(stream) = self.streams.get(id as usize) {
            if stream.format == format && *stream.name == *channel {
                return id;
            }
            id = stream.next;
        }
        let id = match self.streams_free.pop() {
            Some(id) => {
                self.streams[id as usize].reuse(channel, hash, format, first);
                id
            }
            None => {
                self.streams.push(Stream::new(channel, hash, format, first));
                self.streams.len() as u32 - 1
            }
        };
        self.by_hash.insert(hash, id);
        id
    }

    fn remove_stream(&mut self, id: u32) {
        let (hash, next) = (
            self.streams[id as usize].hash,
            self.streams[id as usize].next,
        );
        let first = self.by_hash.get(&hash).copied().unwrap_or(NONE);
        if first != id {
            let mut before = first;
            while let Some(stream) = self.streams.get_mut(before as usize) {
                if stream.next == id {
                    stream.next = next;
                    break;
                }
                before = stream.next;
            }
        } else if next == NONE {
            self.by_hash.remove(&hash);
        } else {
            self.by_hash.insert(hash, next);
        }
        self.streams[id as usize].clear();
        if let Some(counts) = &mut self.counts {
            // The stream's index may be reused for another channel.
            counts.forget(id);
        }
        self.streams_free.push(id);
    }
}

/// Returns keys unchanged, because they are keyed hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Never called: the only key type is u64.
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
