//! What is published, for a thread beside the loop that tells it to somebody else: edges in front of the server.
//!
//! The thread reads the ring by itself and at its own pace, so nobody who publishes waits for it, and it waits for no
//! handler. The worker tells it when the ring has moved on.

use std::collections::HashMap;
use std::thread::Thread;

use fermata_hub::{Follower as Records, Kind, Previous, Read, Record, Ring, Seq};

use crate::channels::encode;

/// Channels whose newest id is remembered beyond what the ring keeps; with more all are forgotten.
const CHANNELS_MAX: usize = 100_000;

/// Reads what is published, in order.
pub struct Follower {
    records: Records,
    record: Record,
    /// The newest record of each channel that was read.
    newest: HashMap<Box<[u8]>, Seq>,
    /// What is left out: records up to here, and older ones.
    after: Seq,
    from_unix_ms: u64,
}

/// All that a server has published, when its workers have ended.
pub struct Archive(pub(crate) Ring);

impl Archive {
    /// Somebody who reads it, from the oldest event that is kept.
    pub fn follow(&self) -> Follower {
        Follower::new(&self.0)
    }
}

/// Somebody who is told that there is something to read.
pub(crate) struct Told {
    pub thread: Thread,
    pub figures: Box<dyn Fn() -> [u64; 3]>,
}

/// What there is to read.
pub enum Followed<'a> {
    /// A message, or a join or leave.
    Event(Published<'a>),
    /// It was too slow: some are gone.
    Lost,
    /// Nothing more as yet.
    Nothing,
}

/// An event of a channel.
pub struct Published<'a> {
    /// The channel's name.
    pub channel: &'a [u8],
    /// Where it stands among all events: the next one has a larger number.
    pub place: u64,
    /// Its id.
    pub id: String,
    /// The id of the channel's event before it; `None`: that is not known any more.
    pub previous: Option<String>,
    /// What it is.
    pub what: What<'a>,
    /// When it was published.
    pub unix_ms: u64,
    sse: Sse<'a>,
}

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// A message, with the name it was published with.
    Message(Option<&'a [u8]>, &'a [u8]),
    /// A user is present: `{"user": …, "info": …}`.
    Join(&'a [u8]),
    /// A user is gone, told in the same way.
    Leave(&'a [u8]),
}

struct Sse<'a>(&'a Record, fermata_hub::Ids);

impl Published<'_> {
    /// The data of a message; joins and leaves are told to event streams alone.
    pub fn message(&self) -> Option<&[u8]> {
        match self.what {
            What::Message(_, data) => Some(data),
            What::Join(_) | What::Leave(_) => None,
        }
    }

    /// Appends what an event stream gets.
    pub fn write_sse(&self, out: &mut Vec<u8>) {
        encode::event(&self.sse.1, self.sse.0, out);
    }
}

impl Follower {
    /// Reads along in a ring from the oldest event that is kept.
    pub(crate) fn new(ring: &Ring) -> Self {
        Self {
            records: ring.follow(),
            record: Record::empty(),
            newest: HashMap::new(),
            after: 0,
            from_unix_ms: 0,
        }
    }

    /// Leaves out what comes up to the place of an event, 0 for none, and what was published before a time. When more is
    /// gone than that, it is told as lost.
    pub fn begin_after(&mut self, place: u64, from_unix_ms: u64) {
        if place != 0 {
            self.records.go_to(place);
        }
        self.after = place;
        self.from_unix_ms = from_unix_ms;
    }

    /// Whether there is something to read.
    pub fn has_more(&self) -> bool {
        self.records.has_more()
    }

    /// Reads the next event.
    pub fn next_event(&mut self) -> Followed<'_> {
        loop {
            match self.records.read_next(&mut self.record) {
                Read::Record if self.record.kind == Kind::Direct => {}
                Read::Record if self.record.seq <= self.after => {}
                Read::Record if self.record.unix_ms < self.from_unix_ms => {}
                Read::Record => break,
                Read::Skipped => {}
                Read::Lost => return Followed::Lost,
                Read::Empty => return Followed::Nothing,
            }
        }
        let (ids, record) = (self.records.ids(), &self.record);
        let before = match self.records.previous(record.channel(), record.seq) {
            Previous::At(seq) => Some(seq),
            Previous::Beginning => Some(0),
            Previous::Unknown => self.newest.get(record.channel()).copied(),
        };
        match self.newest.get_mut(record.channel()) {
            Some(newest) => *newest = record.seq,
            None => {
                if self.newest.len() == CHANNELS_MAX {
                    self.newest.clear();
                }
                self.newest.insert(record.channel().into(), record.seq);
            }
        }
        Followed::Event(Published {
            channel: record.channel(),
            place: record.seq,
            id: text(&ids, record.seq),
            previous: before.map(|seq| text(&ids, seq)),
            what: match record.kind {
                // Those for one subscriber are left out above.
                Kind::Message | Kind::Direct | Kind::Gap => What::Message(record.name(), record.data()),
                Kind::Join => What::Join(record.data()),
                Kind::Leave => What::Leave(record.data()),
            },
            unix_ms: record.unix_ms,
            sse: Sse(record, ids),
        })
    }
}

pub(crate) fn text(ids: &fermata_hub::Ids, seq: Seq) -> String {
    let mut out = Vec::with_capacity(fermata_hub::ID_BYTES_MAX);
    ids.write(seq, &mut out);
    String::from_utf8(out).unwrap_or_default()
}
