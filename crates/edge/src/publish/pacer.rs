//! Deliveries at a rate.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use fermata_engine::Left;
use fermata_grip::item::Item;

use crate::settings::Settings;

/// How long the rate is saved up while nothing is delivered, and how often queues are looked at.
const TURN_MS: u64 = 25;

/// Bytes of items that may wait on one route, whatever they count for.
const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A route's queue: which reading of the routes, and which of them.
pub(crate) type Route = (u32, usize);

/// An item on its way to one client.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub client: Left,
    /// Which hold of that client it is for.
    pub serial: u64,
    pub channel: Rc<[u8]>,
    pub item: Rc<Item>,
    /// What it counts for.
    pub units: u64,
}

/// The queues of all routes.
#[derive(Debug)]
pub(crate) struct Pacer {
    rate: u64,
    units_max: u64,
    pub block_bytes: u64,
    /// Thousandths of a unit that may be delivered now; less than nothing after a large one.
    credit: i64,
    since_ms: u64,
    queues: HashMap<Route, Queue>,
    /// Routes with something in their queue, the next one first.
    turns: VecDeque<Route>,
}

#[derive(Debug, Default)]
struct Queue {
    deliveries: VecDeque<Delivery>,
    units: u64,
    pub(crate) bytes: usize,
    /// Dropped since the queue was empty.
    dropped: u64,
}

impl Queue {
    /// Bytes that a delivery adds: items are shared, and mostly by neighbours.
    fn added(&self, item: &Rc<Item>) -> usize {
        match self.deliveries.back() {
            Some(last) if Rc::ptr_eq(&last.item, item) => 0,
            _ => item.bytes(),
        }
    }
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// It waits for its turn.
    Waiting,
    /// It is dropped, the first one since the queue was empty.
    DroppedFirst,
    /// It is dropped, as others before.
    Dropped,
}

impl Pacer {
    /// What the settings ask for; each of the workers has its part of it. `None`: nothing.
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

    /// Puts a delivery at the end of its route's queue.
    pub fn push(&mut self, route: Route, delivery: Delivery) -> Queued {
        let queue = self.queues.entry(route).or_default();
        let bytes = queue.added(&delivery.item);
        // One that is larger than the bound goes alone: it could never go otherwise.
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

    /// The next delivery whose time has come. With it, how many were dropped of a queue that is empty now.
    pub fn next(&mut self, now_ms: u64) -> Option<(Delivery, u64)> {
        // What nobody used is not saved up for longer than a turn, but for one delivery.
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
        match queue.deliveries.is_empty() {
            false => self.turns.push_back(route),
            true => {
                dropped = queue.dropped;
                self.queues.remove(&route);
            }
        }
        self.credit -= (delivery.units as i64).saturating_mul(1_000);
        Some((delivery, dropped))
    }

    /// When the next one may go; `None`: nothing waits.
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
        // Two in 25 ms, however long it was quiet before.
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
    fn what_does_not_fit_is_dropped_and_told() {
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
        // One that is larger than all of it goes alone.
        assert_eq!(pacer.push((0, 0), delivery(&item, 9, 9)), Queued::Waiting);
    }

    proptest! {
        /// No more than the rate goes in any time, all that waits goes in its route's order, and no figure is left over.
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
