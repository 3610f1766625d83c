//! What is published, for a thread beside the loop that tells it to somebody else: edges in front of the server.
//!
//! The thread reads the ring by itself and at its own pace, so nobody who publishes waits for it, and it waits for no
//! handler. The worker tells it when the ring has moved on.

use std::collections::HashMap;
use std::thread::Thread;

use fermata_hub::{Follower as Records, Ids, Kind, Previous, Read, Record, Ring, Seq};

use crate::channels::stream_format::StreamFormat;

/// Channels whose newest id is remembered beyond what the ring keeps; with more all are forgotten.
const CHANNELS_MAX: usize = 100_000;

/// Reads what is published, in order.
pub struct Follower {
    records: Records,
    record: Record,
    /// The newest id of each channel that was read.
    newest: HashMap<Box<[u8]>, (Ids, Seq)>,
    /// Some records were gone before they were read.
    has_lost: bool,
    /// What is left out: records up to here, and older ones.
    after: Seq,
    from_unix_ms: u64,
}

/// All that a server has published, when its workers have ended.
pub struct Archive(pub(crate) Ring);

impl Archive {
    /// A reader, from the oldest event that is kept.
    pub fn follow(&self) -> Follower {
        Follower::new(&self.0)
    }
}

/// A thread that is woken when there is something to read.
pub(crate) struct FollowerThread {
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
    /// The id of the channel's event before it; `None`: that is not known any more. Where events were lost in between, it is
    /// one that nobody has got.
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

struct Sse<'a>(&'a Record, Ids);

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
        StreamFormat::EventStream.record(&self.sse.1, self.sse.0, out);
    }
}

impl Follower {
    /// Reads along in a ring from the oldest event that is kept.
    pub(crate) fn new(ring: &Ring) -> Self {
        Self {
            records: ring.follow(),
            record: Record::empty(),
            newest: HashMap::new(),
            has_lost: false,
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
                Read::Lost => {
                    // What stands before the next event of a channel may be among them.
                    self.newest.clear();
                    self.has_lost = true;
                    return Followed::Lost;
                }
                Read::Empty => return Followed::Nothing,
            }
        }
        let (ids, record) = (self.records.ids(), &self.record);
        let id = ids.id_of(record);
        let before = match self.records.previous(record.channel(), record.seq) {
            Previous::At(seq) => self.records.id_at(seq),
            Previous::Beginning => Some(self.records.id_of_beginning()),
            Previous::Unknown => None,
        };
        let before = before.or_else(|| self.newest.get(record.channel()).copied());
        // Clients of an edge that had an event before those that were lost must not take this one for the next.
        let nobodys = self.has_lost.then_some((id.0, id.1 - 1));
        let before = before.or(nobodys);
        match self.newest.get_mut(record.channel()) {
            Some(newest) => *newest = id,
            None => {
                if self.newest.len() == CHANNELS_MAX {
                    self.newest.clear();
                }
                self.newest.insert(record.channel().into(), id);
            }
        }
        Followed::Event(Published {
            channel: record.channel(),
            place: record.seq,
            id: text(id),
            previous: before.map(text),
            what: match record.kind {
                // Those for one subscriber are left out above.
                Kind::Message | Kind::Direct | Kind::Gap => {
                    What::Message(record.name(), record.data())
                }
                Kind::Join => What::Join(record.data()),
                Kind::Leave => What::Leave(record.data()),
            },
            unix_ms: record.unix_ms,
            sse: Sse(record, ids),
        })
    }
}

pub(crate) fn text((ids, seq): (Ids, Seq)) -> String {
    let mut out = Vec::with_capacity(fermata_hub::ID_BYTES_MAX);
    ids.write(seq, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use fermata_hub::{Config, LogPlace, Message, Owner};

    use super::*;
    use crate::channels::{memory, test_ring};

    const CONFIG: Config = Config {
        history_count_max: 1000,
        ..test_ring::CONFIG
    };

    fn ring() -> (Ring, Owner) {
        (test_ring::ring(&CONFIG), memory::owner(0))
    }

    fn message<'a>(channel: &'a [u8], data: &'a [u8]) -> Message<'a> {
        Message {
            channel,
            kind: Kind::Message,
            name: None,
            data,
        }
    }

    /// Channel, id and the id before it of what comes next.
    fn next(follower: &mut Follower) -> Option<(Vec<u8>, String, Option<String>)> {
        match follower.next_event() {
            Followed::Event(event) => Some((event.channel.to_vec(), event.id, event.previous)),
            Followed::Lost | Followed::Nothing => None,
        }
    }

    /// A client of an edge that has the event before those that were lost would have taken the next for the one behind it.
    #[test]
    fn what_comes_behind_lost_events_follows_none_that_somebody_has() {
        let (mut ring, who) = ring();
        let mut follower = Follower::new(&ring);
        let mut publish = |channel, data| {
            let seq = ring.publish(&who, &message(channel, data), 1);
            text((ring.ids(), seq.expect("nobody waits for a follower")))
        };
        let told = publish(b"c", b"told");
        let (_, id, before) = next(&mut follower).expect("an event");
        assert_eq!((id, before), (told.clone(), Some("7-0".to_owned())));
        let lost = publish(b"c", b"lost");
        for _ in 0..200 {
            publish(b"other", &[0; 1000]);
        }
        let behind = publish(b"c", b"behind");
        assert!(next(&mut follower).is_none(), "some are lost");
        let (_, id, before) = std::iter::from_fn(|| next(&mut follower))
            .find(|(channel, ..)| channel == b"c")
            .expect("the newest is kept");
        let before = before.expect("an edge looks for it");
        assert_eq!(id, behind);
        assert!(![told, lost, behind].contains(&before), "{before}");
    }

    /// They are the same on all machines.
    #[test]
    fn ids_of_events_from_a_log_are_the_logs() {
        let (mut ring, who) = ring();
        let epoch = 9;
        let place = |seq| LogPlace { epoch, seq };
        ring.begin_log(&who, place(20)).expect("the lock is free");
        let mut follower = Follower::new(&ring);
        for seq in [21, 25] {
            ring.publish_logged(&who, &message(b"c", b"x"), None, place(seq), 1)
                .expect("there is room");
        }
        let id = |seq| text((Ids::new(epoch), seq));
        for (seq, before) in [(21, 20), (25, 21)] {
            let (_, own, previous) = next(&mut follower).expect("an event");
            assert_eq!((own, previous), (id(seq), Some(id(before))));
        }
        // From here on nothing is known of what the log had.
        ring.begin_log(&who, place(30)).expect("the lock is free");
        ring.publish_logged(&who, &message(b"c", b"x"), None, place(33), 1)
            .expect("there is room");
        assert!(next(&mut follower).is_none(), "some may be lost");
        let (_, own, previous) = next(&mut follower).expect("an event");
        assert_eq!((own, previous), (id(33), Some(id(32))));
    }
}
