//! Timers: a hierarchical timing wheel with 16 bytes per entry.
//!
//! Six levels of 64 slots; a slot of level `n` spans `64^n` ms. An entry is on the level of the highest digit (base 64)
//! in which its due time differs from the wheel's time. It moves to a lower level when the wheel reaches its slot.
//! Arming is therefore O(1), and an entry moves at most five times. A bitmap per level finds the next slot without
//! visiting empty ones.
//!
//! Timers cannot be cancelled. Activity on a connection does not touch the wheel; when the old entry fires, the owner compares it
//! with the real deadline and arms again. A busy connection needs one entry per time-out instead of one per request, and entries
//! need no back pointer.
//!
//! Slots are linked lists through one slab. A slot costs 8 bytes, a burst leaves no capacity in slots, and entries of
//! the same millisecond fire in the order of arming.

const LEVELS: usize = 6;
const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const NONE: u32 = u32::MAX;

/// Maximum distance of a due time in milliseconds (24.8 days). Entries beyond it fire at this distance.
pub const AHEAD_MS_MAX: u64 = i32::MAX as u64;

/// Number of entries above which the slab is freed when the last timer has fired.
const ENTRIES_KEPT_MAX: usize = 4096;

/// A timer that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fired {
    /// Key that was passed when the timer was armed.
    pub key: u64,
    /// Due time that was passed, limited to [`AHEAD_MS_MAX`] after the time of arming.
    pub due_ms: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: u64,
    /// Low half of the due time. The high half follows from the wheel's time, which is at most `AHEAD_MS_MAX` away.
    due_low: u32,
    /// Next entry of the same slot, or of the free list.
    next: u32,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    first: u32,
    /// Last entry of the slot; valid unless `first` is `NONE`.
    last: u32,
}

/// A set of timers, each with a key and a due time.
#[derive(Debug)]
pub struct Wheel {
    /// The wheel's time. Invariant: no entry is in a slot that starts before this time, except overdue entries, which are in the
    /// time's own slot of level 0.
    now_ms: u64,
    /// Start of the earliest slot with an entry; `u64::MAX` = no entry.
    next_ms: u64,
    entries: Vec<Entry>,
    free: u32,
    len: usize,
    /// Bit `s` of word `l` is set if slot `s` of level `l` has an entry.
    occupied: [u64; LEVELS],
    slots: Box<[[Slot; SLOTS]; LEVELS]>,
}

impl Wheel {
    /// Creates an empty wheel at the time `now_ms`.
    #[must_use]
    pub fn new(now_ms: u64) -> Self {
        Self {
            now_ms,
            next_ms: u64::MAX,
            entries: Vec::new(),
            free: NONE,
            len: 0,
            occupied: [0; LEVELS],
            slots: Box::new(
                [[Slot {
                    first: NONE,
                    last: NONE,
                }; SLOTS]; LEVELS],
            ),
        }
    }

    /// Arms a timer. A due time in the past fires at the next [`poll`](Self::poll).
    ///
    /// # Panics
    /// Panics with 2^32 - 1 armed timers (64 GiB of them).
    pub fn arm(&mut self, key: u64, due_ms: u64) {
        let due_ms = due_ms
            .min(self.now_ms.saturating_add(AHEAD_MS_MAX))
            .max(self.now_ms.saturating_sub(AHEAD_MS_MAX));
        let entry = Entry {
            key,
            due_low: due_ms as u32,
            next: NONE,
        };
        let index = if self.free == NONE {
            let index = u32::try_from(self.entries.len()).unwrap_or(NONE);
            assert!(index != NONE, "2^32 - 1 timers are armed");
            self.entries.push(entry);
            index
        } else {
            let index = self.free;
            let place = &mut self.entries[index as usize];
            self.free = place.next;
            *place = entry;
            index
        };
        self.len += 1;
        self.link(index);
    }

    /// Advances the wheel to `now_ms` and appends every timer that is due by then, earliest first.
    ///
    /// Fires no further timer if the clock stopped or went back. Costs one comparison if no timer is due.
    pub fn poll(&mut self, now_ms: u64, fired: &mut Vec<Fired>) {
        while self.next_ms <= now_ms {
            let (level, slot) = self.earliest();
            self.now_ms = self.next_ms;
            self.empty(level, slot, fired);
            self.next_ms = if self.len == 0 {
                u64::MAX
            } else {
                self.start_ms(self.earliest())
            };
        }
        self.now_ms = self.now_ms.max(now_ms);
        if self.len == 0 && self.entries.capacity() > ENTRIES_KEPT_MAX {
            self.entries = Vec::new();
            self.free = NONE;
        }
    }

    /// Returns the time of the next [`poll`](Self::poll), or `None` if no timer is armed. No timer is due before that time. The
    /// time may be too early, because distant timers are sorted step by step, but is never too late.
    #[inline]
    #[must_use]
    pub fn next_due_ms(&self) -> Option<u64> {
        (self.len != 0).then_some(self.next_ms)
    }

    /// Returns the number of armed timers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no timer is armed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends an entry to the slot of its due time.
    fn link(&mut self, index: u32) {
        // An overdue entry goes into the current slot, which is emptied next.
        let due_ms = self
            .due_ms(self.entries[index as usize].due_low)
            .max(self.now_ms);
        let level = level(self.now_ms, due_ms);
        let number = digit(due_ms, level);
        self.entries[index as usize].next = NONE;
        let slot = &mut self.slots[level][number];
        match slot.first {
            NONE => slot.first = index,
            _ => self.entries[slot.last as usize].next = index,
        }
        slot.last = index;
        self.occupied[level] |= 1 << number;
        let start_ms = due_ms >> shift(level) << shift(level);
        self.next_ms = self.next_ms.min(start_ms);
    }

    /// Empties a slot that the wheel has reached: fires its entries, or moves them to lower levels.
    fn empty(&mut self, level: usize, number: usize, fired: &mut Vec<Fired>) {
        let mut index = std::mem::replace(&mut self.slots[level][number].first, NONE);
        self.occupied[level] &= !(1 << number);
        while index != NONE {
            let Entry { key, due_low, next } = self.entries[index as usize];
            if level == 0 {
                fired.push(Fired {
                    key,
                    due_ms: self.due_ms(due_low),
                });
                self.entries[index as usize].next = self.free;
                self.free = index;
                self.len -= 1;
            } else {
                self.link(index);
            }
            index = next;
        }
    }

    /// Returns the slot that starts first. Lower levels come first: their entries share all higher digits with the
    /// current time, so they are before every slot of the levels above.
    fn earliest(&self) -> (usize, usize) {
        let level = self
            .occupied
            .iter()
            .position(|&bits| bits != 0)
            .unwrap_or(0);
        let present = digit(self.now_ms, level);
        let ahead = self.occupied[level]
            .rotate_right(present as u32)
            .trailing_zeros() as usize;
        (level, (present + ahead) % SLOTS)
    }

    /// Returns the start of a slot that has entries.
    fn start_ms(&self, (level, number): (usize, usize)) -> u64 {
        let ahead = (number + SLOTS - digit(self.now_ms, level)) % SLOTS;
        ((self.now_ms >> shift(level)) + ahead as u64) << shift(level)
    }

    /// Returns the complete due time for its low half: the time nearest to the current time.
    fn due_ms(&self, due_low: u32) -> u64 {
        let distance = due_low.wrapping_sub(self.now_ms as u32) as i32;
        self.now_ms.wrapping_add_signed(i64::from(distance))
    }
}

const fn shift(level: usize) -> u32 {
    DIGIT_BITS * level as u32
}

const fn digit(time_ms: u64, level: usize) -> usize {
    (time_ms >> shift(level)) as usize % SLOTS
}

/// Returns the highest digit in which two times differ. Times that differ above the top level are at most two of its
/// slots apart and have just crossed a boundary. The top level can therefore hold them.
fn level(now_ms: u64, due_ms: u64) -> usize {
    let highest_bit = 63 - ((now_ms ^ due_ms) | 1).leading_zeros();
    ((highest_bit / DIGIT_BITS) as usize).min(LEVELS - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn poll(wheel: &mut Wheel, now_ms: u64) -> Vec<u64> {
        let mut fired = Vec::new();
        wheel.poll(now_ms, &mut fired);
        fired.into_iter().map(|fired| fired.key).collect()
    }

    #[test]
    fn an_entry_is_sixteen_bytes() {
        assert_eq!(size_of::<Entry>(), 16);
    }

    #[test]
    fn nothing_fires_early_and_nothing_twice() {
        let mut wheel = Wheel::new(1000);
        wheel.arm(1, 1001);
        wheel.arm(2, 76_000);
        assert_eq!(poll(&mut wheel, 1000), []);
        assert_eq!(poll(&mut wheel, 1001), [1]);
        assert_eq!(poll(&mut wheel, 75_999), []);
        assert_eq!(poll(&mut wheel, 76_000), [2]);
        assert_eq!(poll(&mut wheel, 1_000_000), []);
        assert!(wheel.is_empty());
        assert_eq!(wheel.next_due_ms(), None);
    }

    #[test]
    fn timers_of_one_millisecond_fire_in_the_order_of_arming() {
        let mut wheel = Wheel::new(0);
        for key in 0..10 {
            wheel.arm(key, 5000);
        }
        assert_eq!(poll(&mut wheel, 4990), []);
        wheel.arm(10, 5000);
        assert_eq!(poll(&mut wheel, 9999), (0..=10).collect::<Vec<_>>());
    }

    #[test]
    fn overdue_timers_fire_with_their_own_due_time() {
        let mut wheel = Wheel::new(50_000);
        wheel.arm(1, 7);
        let mut fired = Vec::new();
        wheel.poll(50_000, &mut fired);
        assert_eq!(fired, [Fired { key: 1, due_ms: 7 }]);
    }

    #[test]
    fn limits_the_distance_of_due_times() {
        let mut wheel = Wheel::new(10);
        wheel.arm(1, u64::MAX);
        assert_eq!(poll(&mut wheel, 10 + AHEAD_MS_MAX - 1), []);
        assert_eq!(poll(&mut wheel, 10 + AHEAD_MS_MAX), [1]);
    }

    #[test]
    fn memory_of_a_burst_is_freed() {
        let mut wheel = Wheel::new(0);
        for key in 0..100_000 {
            wheel.arm(key, key % 1000);
        }
        assert_eq!(poll(&mut wheel, 1000).len(), 100_000);
        assert_eq!(wheel.entries.capacity(), 0);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Arm(i64),
        Advance(u64),
        /// Sleeps until the time that the wheel returns, as the engine does.
        Follow,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let distance = prop_oneof![
            -10_i64..10,
            0..100_i64,
            0..10_000_i64,
            0..(1_i64 << 31) + 10
        ];
        let pause = prop_oneof![0..3_u64, 0..100_u64, 0..10_000_u64, 0..(1_u64 << 33)];
        let step = prop_oneof![
            4 => distance.prop_map(Step::Arm),
            2 => pause.prop_map(Step::Advance),
            2 => Just(Step::Follow),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        /// Compares with a sorted list. The starts include every kind of boundary: of a slot, of the low half of a due
        /// time (2^32) and of the top level (2^36).
        #[test]
        fn behaves_like_a_sorted_list(
            start_ms in prop_oneof![
                0..100_000_u64,
                (1_u64 << 32) - 5000..(1 << 32) + 10,
                (1_u64 << 36) - 5000..(1 << 36) + 10,
                any::<u64>().prop_map(|ms| ms >> 16),
            ],
            steps in steps(),
        ) {
            let mut wheel = Wheel::new(start_ms);
            let mut now_ms = start_ms;
            let mut model: Vec<(u64, u64)> = Vec::new();
            for (key, step) in steps.into_iter().enumerate() {
                let before_ms = now_ms;
                match step {
                    Step::Arm(distance) => {
                        let due_ms = now_ms.saturating_add_signed(distance);
                        wheel.arm(key as u64, due_ms);
                        model.push((due_ms.min(now_ms + AHEAD_MS_MAX), key as u64));
                        continue;
                    }
                    Step::Advance(pause_ms) => now_ms += pause_ms,
                    Step::Follow => now_ms = now_ms.max(wheel.next_due_ms().unwrap_or(now_ms)),
                }
                let mut fired = Vec::new();
                wheel.poll(now_ms, &mut fired);
                let mut due = fired.iter().map(|f| (f.due_ms, f.key)).collect::<Vec<_>>();
                // Overdue timers fire in the order in which they were armed.
                prop_assert!(due.is_sorted_by_key(|&(due_ms, _)| due_ms.max(before_ms)));
                due.sort_unstable();
                let mut expected =
                    model.extract_if(.., |&mut (due_ms, _)| due_ms <= now_ms).collect::<Vec<_>>();
                expected.sort_unstable();
                prop_assert_eq!(due, expected);
                prop_assert_eq!(wheel.len(), model.len());
                let next_ms = model.iter().map(|&(due_ms, _)| due_ms).min();
                prop_assert!(wheel.next_due_ms() <= next_ms);
                prop_assert_eq!(wheel.next_due_ms().is_some(), next_ms.is_some());
            }
        }

        /// Following the wheel's own estimate reaches a timer in few steps.
        #[test]
        fn few_wake_ups_reach_a_timer(start_ms in 0..1_u64 << 40, distance in 0..AHEAD_MS_MAX) {
            let mut wheel = Wheel::new(start_ms);
            wheel.arm(1, start_ms + distance);
            let mut wake_ups = 0;
            while let Some(next_ms) = wheel.next_due_ms() {
                prop_assert!(next_ms <= start_ms + distance);
                poll(&mut wheel, next_ms);
                wake_ups += 1;
            }
            prop_assert!(wake_ups <= LEVELS);
        }
    }
}
