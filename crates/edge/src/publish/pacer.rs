//! Deliveries at a limited rate.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use fermata_engine::Left;
use fermata_grip::item::Item;

use crate::settings::Settings;

/// Interval in milliseconds at which queues are served, and time for which unused rate accumulates.
const TURN_MS: u64 = 25;

/// Maximum bytes of items queued per route.
const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Key of a route's queue: version of the routes and index.
pub(crate) type Route = (u32, usize);

/// An item queued for one client.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub client: Left,
    /// Serial number of the client's hold.
    pub serial: u64,
    pub channel: Rc<[u8]>,
    pub item: Rc<Item>,
    /// Number of units that the delivery counts for.
    pub units: u64,
}

/// Queues of all routes.
#[derive(Debug)]
pub(crate) struct Pacer {
    rate: u64,
    units_max: u64,
    pub block_bytes: u64,
    /// Thousandths of a unit that may be delivered now; negative after a large delivery.
    credit: i64,
    since_ms: u64,
    queues: HashMap<Route, Queue>,
    /// Routes with queued deliveries, next one first.
    turns: VecDeque<Route>,
}

#[derive(Debug, Default)]
struct Queue {
    deliveries: VecDeque<Delivery>,
    units: u64,
    pub(crate) bytes: usize,
    /// Deliveries dropped since the queue was last empty.
    dropped: u64,
}

impl Queue {
    /// Returns the number of bytes that a delivery adds. Consecutive deliveries usually share one item, which is counted once.
    fn added(&self, item: &Rc<Item>) -> usize {
        match self.deliveries.back() {
            Some(last) if Rc::ptr_eq(&last.item, item) => 0,
            _ => item.bytes(),
        }
    }
}

/// Result of queueing a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// Queued.
    Waiting,
    /// Dropped, as the first delivery since the queue was empty.
    DroppedFirst,
    /// Dropped, after other dropped deliveries.
    Dropped,
}

impl Pacer {
    /// Creates a pacer with this worker's share of the rate. Returns `None` if no rate is configured.
    pub fn new(settings: &Settings) -> Option<Box<Self>> {
        let rate = settings.message_rate;
        let workers = settings.workers.max(1);
        let part = |number: u64| (number / workers).max(1);
        (rate > 0).then(|| {
            Box::new(Self::with(
                part(rate),
                part(settings.message_hwm),
                settings.message_block_bytes,
            ))
        })
    }

    fn with(rate: u64, units_max: u64, block_bytes: u64) -> Self {
        Self {
            rate,
            units_max,
            block_bytes,
            credit: 0,
            since_ms: 0,
            queues: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// Appends a delivery to its route's queue.
    pub fn push(&mut self, route: Route, delivery: Delivery) -> Queued {
        let queue = self.queues.entry(route).or_default();
        let bytes = queue.added(&delivery.item);
        // An empty queue accepts a delivery of any size. Otherwise a delivery larger than the limit could never be sent.
        let is_full = !queue.deliveries.is_empty()
            && (queue.units + delivery.units > self.units_max
                || queue.bytes + bytes > QUEUE_BYTES_MAX);
        if is_full {
            queue.dropped += 1;
            return match queue.dropped {
                1 => Queued::DroppedFirst,
                _ => Queued::Dropped,
            };
        }
        if queue.deliveries.is_empty() {
            self.turns.push_back(route);
        }
        queue.units += delivery.units;
        queue.bytes += bytes;
        queue.deliveries.push_back(delivery);
        Queued::Waiting
    }

    /// Returns the next delivery that is due, and the number of dropped deliveries if the queue is empty now.
    pub fn next(&mut self, now_ms: u64) -> Option<(Delivery, u64)> {
        // Unused rate accumulates for at most one turn, but at least for one delivery.
        let passed_ms = now_ms.saturating_sub(self.since_ms);
        self.since_ms = now_ms;
        let most = (self.rate * TURN_MS).max(1_000) as i64;
        let gained = self.rate.saturating_mul(passed_ms).min(most as u64) as i64;
        self.credit = (self.credit + gained).min(most);
        if self.credit < 1_000 {
            return None;
        }
        let route = self.turns.pop_front()?;
        let queue = self.queues.get_mut(&route)?;
        let delivery = queue.deliveries.pop_front()?;
        queue.units -= delivery.units;
        let is_last = queue
            .deliveries
            .front()
            .is_none_or(|next| !Rc::ptr_eq(&next.item, &delivery.item));
        if is_last {
            queue.bytes = queue.bytes.saturating_sub(delivery.item.bytes());
        }
        let mut dropped = 0;
        if queue.deliveries.is_empty() {
            dropped = queue.dropped;
            self.queues.remove(&route);
        } else {
            self.turns.push_back(route)
        }
        self.credit -= (delivery.units as i64).saturating_mul(1_000);
        Some((delivery, dropped))
    }

    /// Returns the time of the next delivery; `None` if none is queued.
    pub fn due_ms(&self, now_ms: u64) -> Option<u64> {
        (!self.turns.is_empty()).then_some(now_ms + TURN_MS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn delivery(item: &Rc<Item>, units: u64, serial: u64) -> Delivery {
        Delivery {
            client: Left::Held(crate::ids::request(1)),
            serial,
            channel: Rc::from(&b"c"[..]),
            item: Rc::clone(item),
            units,
        }
    }

    fn taken(pacer: &mut Pacer, now_ms: u64) -> Vec<u64> {
        std::iter::from_fn(|| pacer.next(now_ms).map(|(it, _)| it.serial)).collect()
    }

    #[test]
    fn routes_take_turns_at_the_rate() {
        let item = Rc::new(Item::default());
        let mut pacer = Pacer::with(80, 100, 0);
        for serial in 0..4 {
            pacer.push((0, 0), delivery(&item, 1, serial));
            pacer.push((0, 1), delivery(&item, 1, 10 + serial));
        }
        // Two deliveries per 25 ms, also after a long pause.
        assert_eq!(taken(&mut pacer, 1_000), [0, 10]);
        assert_eq!(taken(&mut pacer, 1_012), [0; 0]);
        assert_eq!(taken(&mut pacer, 1_025), [1, 11]);
        assert_eq!(pacer.due_ms(1_025), Some(1_050));
        assert_eq!(taken(&mut pacer, 9_000), [2, 12]);
        assert_eq!(taken(&mut pacer, 9_025), [3, 13]);
        assert_eq!(pacer.due_ms(9_025), None);
        assert!(pacer.queues.is_empty());
    }

    #[test]
    fn a_low_rate_is_kept_too_and_large_items_are_paid_for_afterwards() {
        let item = Rc::new(Item::default());
        let mut pacer = Pacer::with(2, 100, 0);
        for serial in 0..3 {
            pacer.push(
                (0, 0),
                delivery(&item, if serial == 0 { 3 } else { 1 }, serial),
            );
        }
        assert_eq!(taken(&mut pacer, 1_000), [0]);
        let mut times = Vec::new();
        for now_ms in (1_000..6_000).step_by(25) {
            times.extend(taken(&mut pacer, now_ms).iter().map(|_| now_ms));
        }
        assert_eq!(times, [2_500, 3_000]);
    }

    #[test]
    fn reports_dropped_items() {
        let item = Rc::new(Item::default());
        let mut pacer = Pacer::with(1_000, 2, 0);
        let outcomes: Vec<_> = (0..4)
            .map(|serial| pacer.push((0, 0), delivery(&item, 1, serial)))
            .collect();
        let expected = [
            Queued::Waiting,
            Queued::Waiting,
            Queued::DroppedFirst,
            Queued::Dropped,
        ];
        assert_eq!(outcomes, expected);
        assert_eq!(pacer.next(1_000).map(|(_, dropped)| dropped), Some(0));
        assert_eq!(pacer.next(1_000).map(|(_, dropped)| dropped), Some(2));
        assert!(pacer.next(1_000).is_none());
        // A delivery larger than the limit is accepted alone.
        assert_eq!(pacer.push((0, 0), delivery(&item, 9, 9)), Queued::Waiting);
    }

    proptest! {
        /// Deliveries never exceed the rate and preserve each route's order. At the end all counts are 0.
        #[test]
        fn the_rate_and_the_order_hold(steps in prop::collection::vec((0..3usize, 0..4u64, 0..60u64), 1..200), rate in 1..400u64) {
            let mut pacer = Pacer::with(rate, 50, 0);
            let items = [Rc::new(Item::default()), Rc::new(Item::default())];
            let (mut now_ms, mut out, mut waiting) = (1_000, Vec::new(), [0, 0, 0]);
            let (mut units, begun_ms) = (0, now_ms);
            let mut largest = 1;
            for (serial, &(route, weight, passed_ms)) in steps.iter().enumerate() {
                let next = delivery(&items[serial % 2], weight, serial as u64);
                if pacer.push((0, route), next) == Queued::Waiting {
                    waiting[route] += 1;
                }
                now_ms += passed_ms;
                while let Some((it, _)) = pacer.next(now_ms) {
                    units += it.units;
                    largest = largest.max(it.units);
                    out.push(it.serial);
                }
                let most = rate * (now_ms - begun_ms) / 1_000 + (rate * TURN_MS / 1_000).max(1) + largest + 1;
                prop_assert!(units <= most, "{units} of {most}");
            }
            while pacer.due_ms(now_ms).is_some() {
                now_ms += TURN_MS;
                out.extend(taken(&mut pacer, now_ms));
            }
            prop_assert_eq!(out.len(), waiting.iter().sum::<usize>());
            for route in 0..3 {
                let of_route: Vec<_> = out.iter().filter(|&&it| steps[it as usize].0 == route).collect();
                prop_assert!(of_route.is_sorted());
            }
            prop_assert!(pacer.queues.is_empty());
        }
    }
}
