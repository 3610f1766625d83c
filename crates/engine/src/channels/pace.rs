//! Schedule of keep-alive comments and pings: each client has its own time.
//!
//! Many clients connect at the same time, for example after a restart. If each comment followed
//! exactly one interval later, the worker would send the comments of all these clients at the same
//! time forever. So a client's first comment is due at a time within the interval that depends on
//! the client's number, and later comments follow at multiples of the interval. An event that is
//! sent less than half an interval before a comment delays the comment by half an interval. So a
//! comment follows an event after half an interval at the earliest and one interval at the latest.
//!
//! A socket's ping is due relative to its last message, so it cannot keep a phase within the
//! interval. The socket's number selects a phase within half an interval instead. The ping is due
//! at the last time with this phase before the interval is over.
//!
//! Due times are multiples of 100 ms plus an offset. A worker with many clients therefore wakes at
//! most ten times per second and sends a batch of comments. The offset differs between workers.

use std::num::NonZeroU32;

use fermata_io::Deadline;

/// Distance between two due times of the grid, in milliseconds.
const TICK_MS: u64 = 100;

/// Minimum interval that uses the grid: shorter intervals would be changed by more than 5 %.
const GRIDDED_MS_MIN: u64 = 20 * TICK_MS;

/// 2^32 divided by the golden ratio: its multiples modulo 2^32 are spread evenly, however many
/// there are.
const GOLDEN: u32 = 0x9e37_79b9;

/// Converts a setting, in milliseconds, to a client's maximum silence. 0 in the setting and `None`
/// in the result mean that no comments are sent.
pub(crate) fn interval_of(ms: u64) -> Option<NonZeroU32> {
    NonZeroU32::new(u32::try_from(ms).unwrap_or(u32::MAX))
}

/// A client's position in the schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Number within the worker.
    index: u32,
    /// Slot of the worker.
    slot: u16,
    /// Maximum silence in milliseconds.
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

    /// Returns the time of the first comment of a newly held client. It is within one interval.
    fn first_ms(self, now_ms: u64) -> u64 {
        self.on_grid(now_ms, now_ms + 1 + self.share(self.interval() - 1))
    }

    /// Returns the time of the next comment after an event was sent. `due` is the planned time of
    /// that comment.
    #[inline]
    pub fn after_sending(self, now_ms: u64, due: Deadline) -> Deadline {
        let (interval, half) = (self.interval(), self.interval() / 2);
        match due.ms().and_then(|due_ms| due_ms.checked_sub(now_ms)) {
            Some(ahead) if (half..=interval).contains(&ahead) => due,
            Some(ahead) if ahead < half => due.delayed(half),
            // No comment was planned, or the deadline is not the deadline of a comment.
            _ => Deadline::at(self.first_ms(now_ms)),
        }
    }

    /// Returns the time of the comment that follows one sent at `due`.
    pub fn after_comment(self, now_ms: u64, due: Deadline) -> Deadline {
        let next = due.delayed(self.interval());
        if next.is_due(now_ms) {
            // A handler has blocked the loop for longer than the interval, for all clients. Spread
            // their comments again.
            Deadline::at(self.first_ms(now_ms))
        } else {
            next
        }
    }

    /// Returns the time of the next ping of a client that last sent bytes at `now_ms`: half an
    /// interval to a full interval later.
    #[inline]
    pub fn ping_ms(self, now_ms: u64) -> u64 {
        let is_gridded = self.interval() >= GRIDDED_MS_MIN;
        let tick_ms = if is_gridded { TICK_MS } else { 1 };
        let cycle_ms = (self.interval() / 2 / tick_ms * tick_ms).max(1);
        let phase_ms = self.share(cycle_ms) / tick_ms * tick_ms;
        let offset_ms = if is_gridded { self.offset() } else { 0 };
        let latest_ms = now_ms + self.interval();
        // Both terms are below two cycles, so the difference is never negative.
        latest_ms - (latest_ms + 2 * cycle_ms - phase_ms - offset_ms % cycle_ms) % cycle_ms
    }

    fn interval(self) -> u64 {
        u64::from(self.interval_ms.get())
    }

    /// Returns this client's fraction of `span_ms`.
    fn share(self, span_ms: u64) -> u64 {
        // Start at 1: the fraction of 0 is 0, so the comment of client 0 would be due immediately.
        let fraction = u64::from(self.index.wrapping_add(1).wrapping_mul(GOLDEN));
        (fraction * span_ms) >> 32
    }

    /// Returns the offset of the worker's grid in milliseconds. The factor 37 has no common divisor
    /// with `TICK_MS`, so 100 workers have different offsets, and adjacent slots are 37 ms apart.
    fn offset(self) -> u64 {
        u64::from(self.slot) * 37 % TICK_MS
    }

    /// Returns the last grid time up to `due_ms`, or the next grid time if that one has passed.
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
    fn spreads_a_crowd_over_the_interval() {
        // 20,000 clients connect within 1 ms. One 55th of the clients is due in each of the 55
        // seconds.
        let mut seconds = [0; 55];
        for index in 0..20_000 {
            let due_ms = place(index, 55_000).first_ms(1_000_000);
            seconds[((due_ms - 1_000_001) / 1000) as usize] += 1;
        }
        let is_fair = |count: &u32| (320..=410).contains(count);
        assert!(seconds.iter().all(is_fair), "{seconds:?}");
    }

    #[test]
    fn keeps_comments_spread_after_a_broadcast() {
        let mut seconds = vec![0; 56];
        for index in 0..20_000 {
            let place = place(index, 55_000);
            let due = Deadline::at(place.first_ms(1_000_000));
            let due_ms = place.after_sending(1_030_000, due).ms().expect("it is due");
            seconds[((due_ms - 1_030_000) / 1000) as usize] += 1;
        }
        // All are in the second half of the interval, twice as dense as before.
        assert!(seconds.iter().all(|count| *count <= 800), "{seconds:?}");
    }

    #[test]
    fn spreads_pings_of_a_crowd_permanently() {
        let mut seconds = [0; 13];
        for index in 0..20_000 {
            let place = place(index, 25_000);
            let due_ms = place.ping_ms(1_000_000);
            seconds[((due_ms - 1_012_500) / 1000) as usize] += 1;
            // If the client replies immediately, the next ping follows a full interval later, at
            // the same phase.
            assert_eq!(place.ping_ms(due_ms + 3), due_ms + 25_000);
        }
        let is_fair = |count: &u32| (1_500..=1_700).contains(count);
        assert!(seconds[1..12].iter().all(is_fair), "{seconds:?}");
    }

    #[test]
    fn wakes_for_pings_only_on_the_grid() {
        let mut moments: Vec<u64> = (0..20_000)
            .map(|index| place(index, 25_000).ping_ms(1_000_000))
            .collect();
        moments.sort_unstable();
        moments.dedup();
        assert_eq!(moments.len(), 125);
        assert!(moments.windows(2).all(|pair| pair[1] - pair[0] == TICK_MS));
    }

    #[test]
    fn keeps_a_comment_that_is_due_soon_enough() {
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
        /// In all cases, the next comment is in the future and within one interval.
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
