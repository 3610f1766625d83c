//! Delivers messages in quick succession to a crowd together.
//!
//! The cost of a message to many subscribers is mostly one send per subscriber, however short the
//! message is. So after a crowd was served, the worker does not read the ring for a time
//! proportional to the crowd. Each subscriber then receives all new messages in one send. A single
//! message is never delayed, and neither is a message that follows one to a few subscribers. Price:
//! of back-to-back messages to a crowd, all but the first may be `gather_ms_max` late.

/// Number of served subscribers per millisecond of gathering. Sending to this number of subscribers
/// takes about an eighth of a millisecond.
pub(crate) const SERVED_PER_MS: u64 = 64;

/// Gathering ends early when the unread part of the ring exceeds 1/`RING_SHARE`: publishers would
/// have to wait.
pub(super) const RING_SHARE: u64 = 8;

/// The timer of gathering.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gather {
    ms_max: u64,
    /// Subscribers served since the ring was last read.
    served: u64,
    until_ms: u64,
}

impl Gather {
    /// Creates a timer for at most `ms_max`; 0 = never gather.
    pub fn new(ms_max: u64) -> Self {
        Self {
            ms_max,
            served: 0,
            until_ms: 0,
        }
    }

    /// Adds subscribers that were served.
    pub fn add_served(&mut self, count: usize) {
        self.served += count as u64;
    }

    /// Notes that all subscribers were served, which starts the timer.
    pub fn end_round(&mut self, now_ms: u64) {
        let served = std::mem::take(&mut self.served);
        self.until_ms = now_ms + self.ms_max.min(served / SERVED_PER_MS);
    }

    /// Returns the remaining time.
    pub fn left_ms(&self, now_ms: u64) -> u64 {
        self.until_ms.saturating_sub(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathers_longer_for_a_larger_crowd() {
        let mut gather = Gather::new(10);
        gather.add_served(SERVED_PER_MS as usize - 1);
        gather.end_round(100);
        assert_eq!(gather.left_ms(100), 0);
        // A round may take several turns.
        gather.add_served(SERVED_PER_MS as usize * 2);
        gather.add_served(SERVED_PER_MS as usize);
        gather.end_round(200);
        assert_eq!((gather.left_ms(200), gather.left_ms(203)), (3, 0));
        gather.add_served(1_000_000);
        gather.end_round(300);
        assert_eq!(gather.left_ms(300), 10);
        gather.end_round(400);
        assert_eq!(gather.left_ms(400), 0);
    }
}
