//! Orders, deduplicates and counts the items of all control ports.
//!
//! One process owns it, because ids of a channel need one order. Its output is appended to the log, from which every worker
//! delivers to its own clients.

pub use fermata_grip::reliable::Limits;

use fermata_grip::item::Item;
use fermata_grip::reliable::{Order, Sequencer, Verdict};

/// Counters of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Received from publishers.
    pub received: u64,
    /// Passed on for delivery.
    pub delivered: u64,
    /// Dropped as duplicates of recent ids.
    pub duplicates: u64,
    /// Items dropped because another item waited for the same predecessor.
    pub rivals: u64,
    /// Dropped because too many items waited.
    pub overflowed: u64,
    /// Items passed on although their predecessor never arrived.
    pub overdue: u64,
}

/// Orders items.
#[derive(Debug)]
pub struct Intake {
    sequencer: Sequencer<Item>,
    counts: Counts,
    /// A recovery happened: ids from before do not count.
    has_recovered: bool,
}

impl Intake {
    /// Creates an empty intake.
    pub fn new(limits: Limits) -> Self {
        Self {
            sequencer: Sequencer::new(limits),
            counts: Counts::default(),
            has_recovered: false,
        }
    }

    /// Accepts an item; appends items that can be delivered to `out`, in order.
    pub fn offer(&mut self, now_ms: u64, item: Item, out: &mut Vec<Item>) -> Verdict {
        let before = out.len();
        self.counts.received += 1;
        // Cloned, because the sequencer takes ownership of the item while it compares these values.
        let (channel, id, prev_id) = (item.channel.clone(), item.id.clone(), item.prev_id.clone());
        let order = Order {
            id: id.as_deref(),
            prev_id: prev_id.as_deref(),
            no_seq: item.no_seq,
            bytes: item.bytes(),
        };
        let verdict = self.sequencer.offer(now_ms, &channel, order, item, out);
        match verdict {
            Verdict::Delivered | Verdict::Waiting => {}
            Verdict::Duplicate => self.counts.duplicates += 1,
            Verdict::Rival => self.counts.rivals += 1,
            Verdict::Full => self.counts.overflowed += 1,
        }
        self.counts.delivered += (out.len() - before) as u64;
        verdict
    }

    /// Returns true if the sequencer can order the item now. Otherwise read the channel's newest items from the ring and
    /// pass them to [`Self::prime`] first.
    pub fn knows(&self, item: &Item) -> bool {
        item.id.is_none() || self.has_recovered || self.sequencer.knows(&item.channel)
    }

    /// Records a channel's newest items from before this worker started, oldest first.
    pub fn prime(&mut self, now_ms: u64, channel: &[u8], items: &[Item]) {
        let ids = items
            .iter()
            .filter_map(|item| Some((item.id.as_deref()?, item.no_seq)));
        self.sequencer.prime(now_ms, channel, ids);
    }

    /// Records items of a channel that were published at other edges, oldest first. Appends items that waited for them to `out`.
    pub fn observe(&mut self, now_ms: u64, channel: &[u8], items: &[Item], out: &mut Vec<Item>) {
        let before = out.len();
        for item in items {
            if let Some(id) = item.id.as_deref() {
                let order = (id, item.no_seq);
                self.sequencer.observe(now_ms, channel, order, out);
            }
        }
        self.counts.delivered += (out.len() - before) as u64;
    }

    /// Removes an item that could not be appended, so that a repetition does not count as a duplicate.
    pub fn forget_item(&mut self, item: &Item) {
        if let Some(id) = &item.id {
            self.sequencer.forget_item(&item.channel, id);
        }
    }

    /// Returns true if items wait for their predecessors.
    pub fn is_waiting(&self) -> bool {
        self.sequencer.is_waiting()
    }

    /// Returns the channels whose items wait for predecessors, at most `max`, longest waiting first.
    pub fn waiting(&mut self, max: usize) -> Vec<Vec<u8>> {
        self.sequencer.waiting(max)
    }

    /// Returns true if a recovery happened.
    pub fn has_recovered(&self) -> bool {
        self.has_recovered
    }

    /// Appends items that waited for their predecessor as long as permitted to `out`.
    pub fn expire(&mut self, now_ms: u64, out: &mut Vec<Item>) {
        let before = out.len();
        self.sequencer.expire(now_ms, out);
        let count = (out.len() - before) as u64;
        self.counts.overdue += count;
        self.counts.delivered += count;
    }

    /// Removes the last id of every channel: the next item of each channel is accepted whatever its predecessor is.
    pub fn recover(&mut self) {
        self.has_recovered = true;
        self.sequencer.recover();
    }

    /// Returns the earliest time at which [`Self::expire`] has work.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.sequencer.next_deadline_ms()
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use fermata_grip::item::{Format, StreamAction};

    use super::*;

    fn item(id: &str, prev_id: Option<&str>) -> Item {
        Item {
            channel: b"c".to_vec(),
            id: Some(id.into()),
            prev_id: prev_id.map(Into::into),
            http_stream: Some(Format::new(StreamAction::Send(id.into()))),
            ..Item::default()
        }
    }

    fn ids(items: &[Item]) -> String {
        let ids = items.iter().filter_map(|item| item.id.clone());
        String::from_utf8(ids.flatten().collect()).expect("letters")
    }

    #[test]
    fn items_out_of_order_are_turned() {
        let (mut intake, mut out) = (Intake::new(Limits::default()), Vec::new());
        for (id, prev_id) in [
            ("a", None),
            ("e", Some("d")),
            ("d", Some("c")),
            ("c", Some("b")),
            ("c", Some("b")),
            ("x", Some("b")),
            ("b", Some("a")),
        ] {
            intake.offer(0, item(id, prev_id), &mut out);
        }
        assert_eq!(ids(&out), "abcde");
        let expected = Counts {
            received: 7,
            delivered: 5,
            duplicates: 1,
            rivals: 1,
            ..Counts::default()
        };
        assert_eq!(intake.counts(), expected);
        assert_eq!(intake.next_deadline_ms(), Some(5_000));
    }

    #[test]
    fn a_predecessor_is_waited_for_only_so_long() {
        let limits = Limits {
            waiting_max: 1,
            ..Limits::default()
        };
        let (mut intake, mut out) = (Intake::new(limits), Vec::new());
        intake.offer(0, item("a", None), &mut out);
        assert_eq!(
            intake.offer(10, item("c", Some("b")), &mut out),
            Verdict::Waiting
        );
        assert_eq!(
            intake.offer(20, item("e", Some("d")), &mut out),
            Verdict::Full
        );
        intake.expire(5_009, &mut out);
        assert_eq!(ids(&out), "a");
        intake.expire(5_010, &mut out);
        assert_eq!(ids(&out), "ac");
        let counts = intake.counts();
        assert_eq!(
            (counts.overdue, counts.overflowed, counts.delivered),
            (1, 1, 2)
        );
    }

    #[test]
    fn what_the_worker_before_has_delivered_is_followed() {
        let (mut intake, mut out) = (Intake::new(Limits::default()), Vec::new());
        let next = item("c", Some("b"));
        assert!(!intake.knows(&next) && intake.knows(&Item::default()));
        intake.prime(0, b"c", &[item("a", None), item("b", Some("a"))]);
        assert!(intake.knows(&next));
        for again in [item("b", Some("a")), item("d", Some("c")), next] {
            intake.offer(0, again, &mut out);
        }
        assert_eq!((ids(&out), intake.counts().duplicates), ("cd".into(), 1));
        intake.recover();
        assert!(intake.knows(&item("y", None)));
    }

    #[test]
    fn after_recovering_everything_is_taken_as_it_is() {
        let (mut intake, mut out) = (Intake::new(Limits::default()), Vec::new());
        intake.offer(0, item("a", None), &mut out);
        intake.recover();
        intake.offer(0, item("c", Some("b")), &mut out);
        assert_eq!(ids(&out), "ac");
    }
}
