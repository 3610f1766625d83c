//! Frames that cost their sender less than their receiver, counted as rates.
//!
//! A lifetime's sum would end an honest connection that lives for months: browsers reset a stream with every
//! `EventSource.close()`. So each cause has a bucket that leaks: it bears a burst, and then a rate for ever.

/// How many frames of one cause are borne.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Frames per second in the long run.
    pub per_second: u32,
    /// Frames at once.
    pub burst: u32,
}

impl Rate {
    /// `per_second` in the long run, `burst` at once.
    #[must_use]
    pub const fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second, burst }
    }
}

/// What there was too much of. An embedder keeps a counter of each: `counters[flood as usize]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Flood {
    /// RST_STREAM (CVE-2023-44487, Rapid Reset).
    Resets,
    /// Streams that had to be reset or refused (CVE-2025-8671, MadeYouReset).
    ResetsCaused,
    /// PING, and answers to it (CVE-2019-9512).
    Pings,
    /// SETTINGS (CVE-2019-9515).
    Settings,
    /// Empty DATA (CVE-2019-9518).
    EmptyData,
    /// WINDOW_UPDATE of the connection.
    ConnectionWindowUpdates,
    /// WINDOW_UPDATE of streams (CVE-2019-9511).
    StreamWindowUpdates,
    /// PRIORITY and PRIORITY_UPDATE (CVE-2019-9513).
    Priorities,
    /// Frames of unknown kinds, and GOAWAY behind the first.
    UnknownFrames,
    /// CONTINUATION of one block (CVE-2024-27316 and others).
    Continuations,
}

impl Flood {
    /// Number of causes.
    pub const COUNT: usize = 10;

    /// All causes, in the order of their numbers.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Resets,
        Self::ResetsCaused,
        Self::Pings,
        Self::Settings,
        Self::EmptyData,
        Self::ConnectionWindowUpdates,
        Self::StreamWindowUpdates,
        Self::Priorities,
        Self::UnknownFrames,
        Self::Continuations,
    ];

    /// The name for metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Resets => "resets",
            Self::ResetsCaused => "resets_caused",
            Self::Pings => "pings",
            Self::Settings => "settings",
            Self::EmptyData => "empty_data",
            Self::ConnectionWindowUpdates => "connection_window_updates",
            Self::StreamWindowUpdates => "stream_window_updates",
            Self::Priorities => "priorities",
            Self::UnknownFrames => "unknown_frames",
            Self::Continuations => "continuations",
        }
    }
}

impl std::fmt::Display for Flood {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Causes with a bucket: all but the last.
const BUCKETS: usize = Flood::COUNT - 1;

/// The buckets of one connection.
#[derive(Debug, Default)]
pub(super) struct Meters {
    buckets: [Bucket; BUCKETS],
}

/// How full a bucket was when.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Thousandths of frames.
    level: u32,
    /// Milliseconds of the embedder's clock, wrapping.
    at_ms: u32,
}

impl Meters {
    /// Counts one; `Err` when there was too much of it.
    #[inline]
    pub(super) fn count(&mut self, flood: Flood, rate: Rate, now_ms: u64) -> Result<(), Flood> {
        let Some(bucket) = self.buckets.get_mut(flood as usize) else {
            // Each kind has one.
            return Ok(());
        };
        let now_ms = now_ms as u32;
        // Per millisecond as many thousandths leak as frames per second.
        let leaked = u64::from(now_ms.wrapping_sub(bucket.at_ms)) * u64::from(rate.per_second);
        let level = u64::from(bucket.level).saturating_sub(leaked) + 1000;
        if level > u64::from(rate.burst) * 1000 {
            return Err(flood);
        }
        bucket.level = u32::try_from(level).unwrap_or(u32::MAX);
        bucket.at_ms = now_ms;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_borne_and_then_the_rate() {
        let rate = Rate::new(10, 5);
        let mut meters = Meters::default();
        let start = u64::from(u32::MAX) - 3;
        for _ in 0..5 {
            assert_eq!(meters.count(Flood::Pings, rate, start), Ok(()));
        }
        assert_eq!(meters.count(Flood::Pings, rate, start), Err(Flood::Pings));
        assert_eq!(meters.count(Flood::Settings, rate, start), Ok(()));
        // The clock's low half wraps here.
        for second in 0..1000 {
            for tenth in 1..=10 {
                let now = start + second * 1000 + tenth * 100;
                assert_eq!(meters.count(Flood::Pings, rate, now), Ok(()));
            }
        }
    }

    #[test]
    fn names_and_numbers_agree() {
        for (i, flood) in Flood::ALL.into_iter().enumerate() {
            assert_eq!(flood as usize, i);
        }
    }
}
