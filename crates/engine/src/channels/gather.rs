//! Messages that follow each other closely reach a crowd together.
//!
//! Nearly all that a message to many subscribers costs is one send for each of them, however short it is. So after a
//! crowd has been served the ring is left alone for a time in proportion to the crowd, and what is published meanwhile
//! goes to each in one send. A message that comes alone is never delayed, and one to few subscribers delays the next by
//! nothing. The price: of messages that come back to back to a crowd, each but the first may be `gather_ms_max` later.

/// Subscribers served for each millisecond of gathering. They took about an eighth of that to send to.
pub(crate) const SERVED_PER_MS: u64 = 64;

/// Gathering ends early when this share of the ring is filled with what this worker has not read: publishers would wait.
pub(super) const RING_SHARE: u64 = 8;

/// Whether what is published waits for more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gather {
    ms_max: u64,
    /// Subscribers served since the ring was last read.
    served: u64,
    until_ms: u64,
}

impl Gather {
    /// For at most so long; 0: never.
    pub fn new(ms_max: u64) -> Self {
        Self {
            ms_max,
            served: 0,
            until_ms: 0,
        }
    }

    /// Subscribers have been sent something.
    pub fn add_served(&mut self, count: usize) {
        self.served += count as u64;
    }

    /// Everybody has been offered what was read of the ring.
    pub fn end_round(&mut self, now_ms: u64) {
        let served = std::mem::take(&mut self.served);
        self.until_ms = now_ms + self.ms_max.min(served / SERVED_PER_MS);
    }

    /// How long it still takes.
    pub fn left_ms(&self, now_ms: u64) -> u64 {
        self.until_ms.saturating_sub(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_is_left_alone_in_proportion() {
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
