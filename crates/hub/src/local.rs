//! Fan-out of one worker: records from the ring to cursors of local subscribers.
//!
//! A *stream* is a channel in one wire format that somebody here subscribes to. A record is encoded once per stream into the
//! stream's log, a contiguous buffer; a subscription is a cursor into it, so what a subscriber must be sent is
//! a slice. The log exists only while somebody has not read all of it. A slow subscriber costs nothing but its
//! cursor: when the log outgrows `log_bytes_max`, its front goes, and a cursor before the front is a *gap*.

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

/// The name under which clients of a view subscribe. It begins with a control character, so no program can publish to it.
pub fn view_channel(view: u64) -> [u8; 10] {
    let mut name = [0; 10];
    name[1] = b'v';
    name[2..].copy_from_slice(&view.to_be_bytes());
    name
}

/// Bounds of the fan-out.
#[derive(Clone, Copy)]
pub struct LocalConfig {
    /// Most encoded bytes that one channel keeps for its slow subscribers. One larger frame is still kept whole.
    pub log_bytes_max: usize,
    /// The ring's hasher, [`crate::Ring::hasher`].
    pub hasher: ChannelHasher,
}

/// A subscription; the head of the chain of all subscriptions of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubId(u32);

impl SubId {
    /// The chain without subscriptions.
    pub const NONE: SubId = SubId(NONE);
}

/// A message for one subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Direct {
    /// The subscriber, as [`crate::Subscriber::key`].
    pub key: u64,
    /// Whether the record has a name; what that means is up to the worker.
    pub has_name: bool,
    /// The message.
    pub data: Box<[u8]>,
}

/// One owner's place in one stream: 24 bytes, and 4 in the stream.
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
    /// First stream per channel hash; further ones (other formats, equal hashes) are linked.
    by_hash: HashMap<u64, u32, BuildHasherDefault<Identity>>,
    subscriptions: Vec<Subscription>,
    subscriptions_free: u32,
    subscriptions_len: usize,
    /// Streams that got frames and whose subscribers were not visited since.
    dirty: VecDeque<u32>,
    /// The stream being visited, and how many of its subscribers are still to be visited.
    visit: (u32, usize),
    record: Record,
    pool: LogPool,
    traffic: Traffic,
    /// This worker's number in [`Subscriber`], and the hash of the channel that only it reads.
    own: Option<(u64, u64)>,
    /// The hash of the channel by which all workers are told something.
    common: Option<u64>,
    /// What came over these channels.
    directs: Vec<Direct>,
    /// The channel whose records go to views, with its hash.
    selected: Option<(u64, Box<[u8]>)>,
    /// Views of the record at hand, reused.
    views: Vec<u64>,
    /// News per stream, while somebody wants to know.
    counts: Option<StreamCounts>,
}

impl Local {
    /// Without subscriptions.
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

    /// Subscribes `owner` to a channel from now on: to what the reader has not read yet.
    /// `chain` is the owner's chain so far, or [`SubId::NONE`]; returns the chain's new head.
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

    /// Makes this worker known by a random number: it leaves out whom a record excepts, and collects what comes for its
    /// subscribers over `channel`, which no other worker reads.
    pub fn receive_directs(&mut self, worker: u64, channel: &[u8]) {
        self.own = Some((worker, self.config.hasher.hash(channel)));
    }

    /// Has it collect as well what comes for all workers, over a channel that each of them reads.
    pub fn receive_common(&mut self, channel: &[u8]) {
        self.common = Some(self.config.hasher.hash(channel));
    }

    /// Has the records of `channel` go to views, beside the channel's own subscribers: [`Encode::select`] names those of a
    /// record, and who subscribes to [`view_channel`] gets it. The price of a record is that call and the views it names,
    /// however many others there are.
    pub fn select_from(&mut self, channel: &[u8]) {
        self.selected = Some((self.config.hasher.hash(channel), channel.into()));
    }

    /// What has come for single subscribers since the last call; for others than this life of the worker, nothing has.
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

    /// Ends the subscription of the chain to one channel. Returns the chain's new head; `None` when it has none to that
    /// channel. The old head is invalid afterwards.
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

    /// Appends who subscribes to a channel in one format.
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

    /// The formats of a chain's subscriptions.
    pub fn formats_of(&self, chain: SubId) -> impl Iterator<Item = u8> {
        self.chain(chain)
            .map(|subscription| self.stream(subscription).format)
    }

    /// The channels of a chain, the newest first.
    pub fn channels_of(&self, chain: SubId) -> impl Iterator<Item = &[u8]> {
        self.chain(chain)
            .map(|subscription| &*self.stream(subscription).name)
    }

    /// Ends one subscription. Returns the next one of its chain.
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

    /// The next owner of a channel with news. Every owner that has not got everything comes once per channel with news; an
    /// owner of several such channels that did not take everything may come again. `None` = all were visited.
    /// Subscribing, unsubscribing and pumping in between are allowed.
    pub fn next_ready(&mut self) -> Option<u32> {
        loop {
            let (stream_id, left) = &mut self.visit;
            if *stream_id == NONE {
                *stream_id = self.dirty.pop_front()?;
                let stream = &mut self.streams[*stream_id as usize];
                // News from here on make it dirty again, because those visited before would miss them.
                stream.dirty = false;
                *left = stream.subscribers.len();
            }
            // From the end: `swap_remove` then never moves one that was not visited behind the visited ones.
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

    /// Number of subscriptions.
    pub fn subscriptions(&self) -> usize {
        self.subscriptions_len
    }

    /// Number of channels with subscriptions, counted once per format.
    pub fn channels(&self) -> usize {
        self.streams.len() - self.streams_free.len()
    }

    /// The first channel of a chain, empty without one, and the bytes that wait for its owner.
    pub fn behind(&self, chain: SubId) -> (&[u8], u64) {
        let mut name: &[u8] = &[];
        let mut bytes = 0;
        for subscription in self.chain(chain) {
            let stream = self.stream(subscription);
            bytes += stream.end() - subscription.cursor.max(stream.start());
            // New subscriptions are put in front.
            name = &stream.name;
        }
        (name, bytes)
    }

    /// What has passed since the worker began.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Counts news per channel from now on.
    pub fn begin_tally(&mut self) {
        self.counts = Some(StreamCounts::default());
    }

    /// Gives what has been counted since the last time: a channel, its subscribers, its records, and records times
    /// subscribers. Channels without news are left out.
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

    /// Counts no more: what a channel costs is then not known.
    pub fn end_tally(&mut self) {
        self.counts = None;
    }

    /// Bytes that the logs hold, for tests of their bound.
    #[cfg(test)]
    pub(crate) fn log_bytes(&self) -> usize {
        self.streams.iter().map(Stream::log_bytes).sum()
    }

    /// Bytes of a subscription and of a stream.
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
            // Its number may soon be that of another channel.
            counts.forget(id);
        }
        self.streams_free.push(id);
    }
}

/// The keys are keyed hashes already.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Not reached: the only key type is u64.
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
