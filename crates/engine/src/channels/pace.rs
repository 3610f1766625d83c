//! When held clients get their keep-alives and sockets their pings: each at a time of its own.
//!
//! Clients come in crowds (a restart, a broadcast that all of them get), and comments that followed
//! one interval later would come in the same crowd for ever. So a client's first comment is due
//! anywhere within the interval, as its number decides, and it keeps its place in the interval from
//! then on. Something sent in between moves a comment that would come soon after by half an interval:
//! silence never lasts longer than the interval, and nothing is sent twice as often as it has to be.
//!
//! A socket's ping follows its last message, so it cannot keep a place in the interval. Its phase within
//! half of the interval follows from its number alone: the ping is due at the last moment of that phase
//! before the interval is over.
//!
//! Due times lie on a grid, so that a worker with very many clients wakes ten times a second for a
//! batch of them and not a thousand times for one. Workers have different grids.

use std::num::NonZeroU32;

use fermata_io::Deadline;

/// Distance of the grid's lines.
const TICK_MS: u64 = 100;

/// Intervals below this are too short for the grid.
const GRIDDED_MS_MIN: u64 = 20 * TICK_MS;

/// 2^32 by the golden ratio: multiples of it, taken modulo 2^32, are spread evenly however many there are.
const GOLDEN: u32 = 0x9e37_79b9;

/// The longest silence of a client, of a setting in which 0 = for ever; `None` = for ever.
pub(crate) fn interval_of(ms: u64) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(ms).unwrap_or(u32::MAX))
}

/// A client as the schedule sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Its number within the worker.
    index: u32,
    /// The worker's slot.
    slot: u16,
    /// The longest silence.
    interval_ms: NonZeroU32,
}

impl Place {
    pub fn of(index: u32, slot: u16, interval_ms: NonZeroU32) -> Place {
        Place {
            index,
            slot,
            interval_ms,
        }
    }

    /// The first comment of a client that is held from now on: anywhere within the interval.
    fn first_ms(self, now_ms: u64) -> u64 {
        self.on_grid(now_ms, now_ms + 1 + self.share(self.interval() - 1))
    }

    /// The next comment after something was sent, when `due` was due so far.
    #[inline]
    pub fn after_sending(self, now_ms: u64, due: Deadline) -> Deadline {
        let (interval, half) = (self.interval(), self.interval() / 2);
        match due.ms().and_then(|due_ms| due_ms.checked_sub(now_ms)) {
            Some(ahead) if (half..=interval).contains(&ahead) => due,
            Some(ahead) if ahead < half => due.delayed(half),
            // It had no place, or what was due was something else.
            _ => Deadline::at(self.first_ms(now_ms)),
        }
    }

    /// The next comment after one that was `due`.
    pub fn after_comment(self, now_ms: u64, due: Deadline) -> Deadline {
        let next = due.delayed(self.interval());
        if next.is_due(now_ms) {
            // A handler has kept the loop for longer than the interval.
            Deadline::at(self.first_ms(now_ms))
        } else {
            next
        }
    }

    /// The next ping of a client that was heard at `now_ms`: after half of the interval at the earliest,
    /// and after all of it at the latest.
    #[inline]
    pub fn ping_ms(self, now_ms: u64) -> u64 {
        let is_gridded = self.interval() >= GRIDDED_MS_MIN;
        let tick_ms = if is_gridded { TICK_MS } else { 1 };
        let cycle_ms = (self.interval() / 2 / tick_ms * tick_ms).max(1);
        let phase_ms = self.share(cycle_ms) / tick_ms * tick_ms;
        let offset_ms = if is_gridded { self.offset() } else { 0 };
        let latest_ms = now_ms + self.interval();
        // Both terms are below two cycles, so the difference is not negative for any time of a clock.
        latest_ms - (latest_ms + 2 * cycle_ms - phase_ms - offset_ms % cycle_ms) % cycle_ms
    }

    fn interval(self) -> u64 {
        u64::from(self.interval_ms.get())
    }

    /// This client's share of `span_ms`.
    fn share(self, span_ms: u64) -> u64 {
        // From one on: the only client of a server had better not get its comment at once.
        let fraction = u64::from(self.index.wrapping_add(1).wrapping_mul(GOLDEN));
        (fraction * span_ms) >> 32
    }

    /// By how much the worker's grid is shifted. 37 has no divisor in common with the distance of the
    /// lines, so neighbours are far apart.
    fn offset(self) -> u64 {
        u64::from(self.slot) * 37 % TICK_MS
    }

    /// The last line of the grid up to `due_ms`, or the one after it where that is past.
    fn on_grid(self, now_ms: u64, due_ms: u64) -> u64 {
        if self.interval() < GRIDDED_MS_MIN {
            return due_ms;
        }
        let line_ms = due_ms - (due_ms + self.offset()) % TICK_MS;
        if line_ms > now_ms {
            line_ms
        } else {
            line_ms + TICK_MS
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn interval(ms: u32) -> NonZeroU32 {
        interval_of(ms.into()).expect("not zero")
    }

    fn place(index: u32, interval_ms: u32) -> Place {
        Place::of(index, 3, interval(interval_ms))
    }

    #[test]
    fn a_crowd_is_spread_over_the_interval() {
        // 20,000 clients that come within 1 ms: in each of 55 seconds a 55th of them.
        let mut seconds = [0; 55];
        for index in 0..20_000 {
            let due_ms = place(index, 55_000).first_ms(1_000_000);
            seconds[((due_ms - 1_000_001) / 1000) as usize] += 1;
        }
        let is_fair = |count: &u32| (320..=410).contains(count);
        assert!(seconds.iter().all(is_fair), "{seconds:?}");
    }

    #[test]
    fn a_broadcast_does_not_gather_them() {
        let mut seconds = vec![0; 56];
        for index in 0..20_000 {
            let place = place(index, 55_000);
            let due = Deadline::at(place.first_ms(1_000_000));
            let due_ms = place.after_sending(1_030_000, due).ms().expect("it is due");
            seconds[((due_ms - 1_030_000) / 1000) as usize] += 1;
        }
        // All lie in the second half of the interval, twice as close as before.
        assert!(seconds.iter().all(|count| *count <= 800), "{seconds:?}");
    }

    #[test]
    fn pings_of_a_crowd_are_spread_and_stay_so() {
        let mut seconds = [0; 13];
        for index in 0..20_000 {
            let place = place(index, 25_000);
            let due_ms = place.ping_ms(1_000_000);
            seconds[((due_ms - 1_012_500) / 1000) as usize] += 1;
            // Answered at once, it is asked again after the whole interval, at the same moment as before.
            assert_eq!(place.ping_ms(due_ms + 3), due_ms + 25_000);
        }
        let is_fair = |count: &u32| (1_500..=1_700).contains(count);
        assert!(seconds[1..12].iter().all(is_fair), "{seconds:?}");
    }

    #[test]
    fn a_worker_wakes_for_pings_on_its_grid_only() {
        let mut moments: Vec<u64> = (0..20_000)
            .map(|index| place(index, 25_000).ping_ms(1_000_000))
            .collect();
        moments.sort_unstable();
        moments.dedup();
        assert_eq!(moments.len(), 125);
        assert!(moments.windows(2).all(|pair| pair[1] - pair[0] == TICK_MS));
    }

    #[test]
    fn what_is_due_often_enough_stays_where_it_is() {
        let place = place(7, 10_000);
        for (due_ms, expected) in [
            (105_000, 105_000),
            (110_000, 110_000),
            (104_999, 109_999),
            (100_000, 105_000),
        ] {
            let after = place.after_sending(100_000, Deadline::at(due_ms));
            assert_eq!(after, Deadline::at(expected));
        }
    }

    proptest! {
        /// Whatever happens, the next comment lies ahead and no farther than the interval.
        #[test]
        fn silence_never_lasts_longer_than_the_interval(
            index in any::<u32>(),
            slot in 0..crate::channels::memory::SLOTS,
            interval_ms in 1_u32..=3_600_000,
            now_ms in 1_u64..1 << 40,
            due_ms in prop_oneof![any::<u64>(), 0_u64..1 << 40],
            ahead_ms in 0_u64..3_600_000,
            late_ms in 0_u64..10_000,
        ) {
            let place = Place::of(index, slot, interval(interval_ms));
            let within = |due_ms: u64| due_ms > now_ms && due_ms <= now_ms + u64::from(interval_ms);
            let due_within = |due: Deadline| due.ms().is_some_and(within);
            prop_assert!(within(place.first_ms(now_ms)));
            let due_ms = if due_ms % 2 == 0 { due_ms } else { now_ms + ahead_ms };
            let after = place.after_sending(now_ms, Deadline::at(due_ms));
            prop_assert!(due_within(after), "{after:?}");
            if within(due_ms) {
                let rested = Deadline::after(now_ms, u64::from(interval_ms) / 2);
                prop_assert!(after >= rested, "half an interval of rest");
            }
            let ping_ms = place.ping_ms(now_ms);
            prop_assert!(within(ping_ms) && ping_ms >= now_ms + u64::from(interval_ms) / 2);
            let late = Deadline::at(now_ms.saturating_sub(late_ms));
            prop_assert!(due_within(place.after_comment(now_ms, late)));
        }
    }
}
