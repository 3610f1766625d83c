//! Follows published events from a separate thread, which forwards them to edges in front of the
//! server.
//!
//! The thread reads the ring at its own pace. So publishers and handlers never wait for the thread.
//! The worker wakes it when the ring has new records.

use std::collections::HashMap;
use std::thread::Thread;

use fermata_hub::{Follower as Records, Ids, Kind, Previous, Read, Record, Ring, Seq};

use crate::channels::stream_format::StreamFormat;

/// Maximum number of channels whose newest id is stored; above this number, all stored ids are
/// dropped.
const CHANNELS_MAX: usize = 100_000;

/// Reads published events in order.
pub struct Follower {
    records: Records,
    record: Record,
    /// Newest id of each channel that was read.
    newest: HashMap<Box<[u8]>, (Ids, Seq)>,
    /// Some records were overwritten before they were read.
    has_lost: bool,
    /// Records up to this position or before this time are skipped.
    after: Seq,
    from_unix_ms: u64,
    /// Skip the past of a restarted log: it was forwarded before or is lost.
    skips_past: bool,
}

/// All published events of a server whose workers have exited.
pub struct Archive(pub(crate) Ring);

impl Archive {
    /// Returns a reader that starts at the oldest retained event.
    pub fn follow(&self) -> Follower {
        Follower::new(&self.0)
    }
}

/// A thread that is woken when there are new records.
pub(crate) struct FollowerThread {
    pub thread: Thread,
    pub figures: Box<dyn Fn() -> [u64; 3]>,
}

/// Result of reading.
pub enum Followed<'a> {
    /// A message, join or leave.
    Event(Published<'a>),
    /// The reader was too slow, and events were overwritten.
    Lost,
    /// No more events for now.
    Nothing,
}

/// An event of a channel.
pub struct Published<'a> {
    /// Channel name.
    pub channel: &'a [u8],
    /// Position in the ring; later events have larger positions.
    pub place: u64,
    /// Event id.
    pub id: String,
    /// Id of the channel's previous event; `None` if unknown. After a loss of events, an id that no
    /// client has received.
    pub previous: Option<String>,
    /// Content.
    pub what: What<'a>,
    /// Time of publication.
    pub unix_ms: u64,
    sse: Sse<'a>,
}

/// Content of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// A message: name and data.
    Message(Option<&'a [u8]>, &'a [u8]),
    /// A user joined: `{"user": …, "info": …}`.
    Join(&'a [u8]),
    /// A user left; the data is the same as for a join.
    Leave(&'a [u8]),
}

struct Sse<'a>(&'a Record, Ids);

impl Published<'_> {
    /// Returns the data of a message; `None` for joins and leaves, which only event streams
    /// receive.
    pub fn message(&self) -> Option<&[u8]> {
        match self.what {
            What::Message(_, data) => Some(data),
            What::Join(_) | What::Leave(_) => None,
        }
    }

    /// Appends the event as a server-sent event.
    pub fn write_sse(&self, out: &mut Vec<u8>) {
        StreamFormat::EventStream.record(&self.sse.1, self.sse.0, out);
    }
}

impl Follower {
    /// Creates a reader that starts at the oldest retained event.
    pub(crate) fn new(ring: &Ring) -> Self {
        Self {
            records: ring.follow(),
            record: Record::empty(),
            newest: HashMap::new(),
            has_lost: false,
            after: 0,
            from_unix_ms: 0,
            skips_past: false,
        }
    }

    /// Skips events up to a position (0 = none), and events published before a time. Reports a loss
    /// if more is missing.
    pub fn begin_after(&mut self, place: u64, from_unix_ms: u64) {
        if place != 0 {
            self.records.go_to(place);
        }
        self.after = place;
        self.from_unix_ms = from_unix_ms;
    }

    /// Returns true if there are unread events.
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
                Read::Record if self.skips_past && self.record.seq < self.records.live_from() => {}
                Read::Record => break,
                Read::Skipped => {}
                Read::Lost => {
                    // The lost events may include the previous event of any channel.
                    self.newest.clear();
                    self.has_lost = true;
                    self.skips_past |= self.records.is_log_lost();
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
        // A client with the last event before the loss must not accept this one as its successor.
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
                // Direct messages and gaps are skipped above.
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

    /// Returns channel, id and previous id of the next event.
    fn next(follower: &mut Follower) -> Option<(Vec<u8>, String, Option<String>)> {
        match follower.next_event() {
            Followed::Event(event) => Some((event.channel.to_vec(), event.id, event.previous)),
            Followed::Lost | Followed::Nothing => None,
        }
    }

    /// Without a made-up previous id, a client with the last event before the loss would accept the
    /// next event as its successor.
    #[test]
    fn gives_events_after_a_loss_an_unknown_predecessor() {
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

    /// Event ids are the same on all machines.
    #[test]
    fn uses_log_ids_for_events_of_a_log() {
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
        // The earlier content of the log is unknown from here on.
        ring.begin_log(&who, place(30)).expect("the lock is free");
        ring.publish_logged(&who, &message(b"c", b"x"), None, place(33), 1)
            .expect("there is room");
        assert!(next(&mut follower).is_none(), "some may be lost");
        let (_, own, previous) = next(&mut follower).expect("an event");
        assert_eq!((own, previous), (id(33), Some(id(32))));
    }
}
