//! Where items from all control ports come together: brought into order, each once, and counted.
//!
//! One process owns it: ids of a channel have one order only if one place decides. What it gives out is to be
//! appended to the log, from which every worker delivers to its own clients.

pub use fermata_grip::reliable::Limits;

use fermata_grip::item::Item;
use fermata_grip::reliable::{Order, Sequencer, Verdict};

/// What became of items so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Taken from publishers.
    pub received: u64,
    /// Given out for delivery.
    pub delivered: u64,
    /// Dropped, because the channel had the same id not long ago.
    pub duplicates: u64,
    /// Dropped, because another item waited for the same predecessor.
    pub rivals: u64,
    /// Dropped, because too many items waited.
    pub overflowed: u64,
    /// Given out though their predecessor never came.
    pub overdue: u64,
}

/// Brings items into order.
#[derive(Debug)]
pub struct Intake {
    sequencer: Sequencer<Item>,
    counts: Counts,
    /// What channels have had before counts no longer.
    has_recovered: bool,
}

impl Intake {
    /// Without any memory yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            sequencer: Sequencer::new(limits),
            counts: Counts::default(),
            has_recovered: false,
        }
    }

    /// Takes an item; appends to `out` what is to be delivered now, in order.
    pub fn offer(&mut self, now_ms: u64, item: Item, out: &mut Vec<Item>) -> Verdict {
        let before = out.len();
        self.counts.received += 1;
        // The sequencer keeps the item, so what it orders by is handed to it apart.
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

    /// Whether an item can be brought into order without asking the ring what its channel has had: [`Self::prime`].
    pub fn knows(&self, item: &Item) -> bool {
        item.id.is_none() || self.has_recovered || self.sequencer.knows(&item.channel)
    }

    /// Takes over what a channel has had before this worker came: its newest items, oldest first.
    pub fn prime(&mut self, now_ms: u64, channel: &[u8], items: &[Item]) {
        let ids = items
            .iter()
            .filter_map(|item| Some((item.id.as_deref()?, item.no_seq)));
        self.sequencer.prime(now_ms, channel, ids);
    }

    /// Takes over what a channel has had that was not offered here, oldest first; appends to `out` what has waited for it.
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

    /// An item that was given out went nowhere: it is no duplicate when it comes again.
    pub fn forget_item(&mut self, item: &Item) {
        if let Some(id) = &item.id {
            self.sequencer.forget_item(&item.channel, id);
        }
    }

    /// Whether items wait for their predecessors.
    pub fn is_waiting(&self) -> bool {
        self.sequencer.is_waiting()
    }

    /// Channels of such items: at most `max`, those that wait longest.
    pub fn waiting(&mut self, max: usize) -> Vec<Vec<u8>> {
        self.sequencer.waiting(max)
    }

    /// Whether what channels have had before counts no longer.
    pub fn has_recovered(&self) -> bool {
        self.has_recovered
    }

    /// Appends to `out` what has waited long enough for its predecessor.
    pub fn expire(&mut self, now_ms: u64, out: &mut Vec<Item>) {
        let before = out.len();
        self.sequencer.expire(now_ms, out);
        let count = (out.len() - before) as u64;
        self.counts.overdue += count;
        self.counts.delivered += count;
    }

    /// Forgets every last id: what comes next is taken as it is.
    pub fn recover(&mut self) {
        self.has_recovered = true;
        self.sequencer.recover();
    }

    /// When [`Self::expire`] has something to do, at the earliest.
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.sequencer.next_deadline_ms()
    }

    /// What became of items so far.
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
