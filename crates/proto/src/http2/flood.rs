//! Rate limits for frames that cost their sender less than their receiver.
//!
//! A lifetime total would close honest connections that live for months: browsers reset a stream with every
//! `EventSource.close()`. Therefore each kind of frame has a leaky bucket, which allows a burst and then a constant
//! rate.
//!
//! A rate per second does not fit clients whose control frames follow their work. A gRPC client sends a PING per round
//! trip and a WINDOW_UPDATE per message, so on a fast network an honest client exceeds any rate. Therefore HEADERS and
//! DATA, sent or received, give credit. PING, WINDOW_UPDATE, PRIORITY, empty DATA and unknown frames first use this
//! credit and are counted only without it.
//!
//! In the same way a response gives credit for one RST_STREAM. A RST_STREAM in the same read as its request cannot have
//! waited for the response, so it is always counted. SETTINGS and resets caused by the peer have no credit.

/// Rate limit for one kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Frames per second in the long run.
    pub per_second: u32,
    /// Frames in one burst.
    pub burst: u32,
}

impl Rate {
    /// Creates a limit of `per_second` frames per second after a burst of `burst` frames.
    #[must_use]
    pub const fn new(per_second: u32, burst: u32) -> Self {
        Self { per_second, burst }
    }
}

/// A rate-limited kind of frame. Callers keep a counter of each: `counters[flood as usize]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Flood {
    /// RST_STREAM (CVE-2023-44487, Rapid Reset).
    Resets,
    /// Streams that this side had to reset or refuse (CVE-2025-8671, MadeYouReset).
    ResetsCaused,
    /// PING and its acknowledgements (CVE-2019-9512).
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
    /// Frames of unknown types, and GOAWAY after the first.
    UnknownFrames,
    /// CONTINUATION frames of one header block (CVE-2024-27316 and others).
    Continuations,
}

impl Flood {
    /// Number of kinds.
    pub const COUNT: usize = 10;

    /// All kinds, in the order of their numbers.
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

    /// Returns the name in metrics and logs.
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

/// Number of kinds with a bucket: all but the last.
const BUCKETS: usize = Flood::COUNT - 1;

/// Credit that one control frame uses up. HEADERS and DATA give one unit per byte, so a control frame is free for each 512
/// bytes. A client sends WINDOW_UPDATE for both windows whenever it has consumed a part of them.
const FRAME_COST: u32 = 512;

/// Minimum credit for a HEADERS or DATA frame: a PING, a WINDOW_UPDATE of the stream, one of the connection, and one
/// more frame.
const WORK_CREDIT: u32 = 4 * FRAME_COST;

/// Maximum credit: 8,192 frames. If a client was suspended while a full window of data arrived, it sends fewer control frames
/// in one burst.
const CREDIT_MAX: u32 = 8_192 * FRAME_COST;

/// Maximum number of resets for which earlier responses give credit.
const RESET_CREDIT_MAX: u16 = 1_000;

/// Buckets of one connection, and the credit from its work.
#[derive(Debug, Default)]
pub(super) struct Meters {
    buckets: [Bucket; BUCKETS],
    credit: u32,
    /// Last request that was received before output was last passed to the kernel. The client cannot have seen a response to a
    /// later request when it resets that request.
    answerable: u32,
    reset_credit: u16,
}

/// Fill level of a bucket at a point in time.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Level in thousandths of a frame.
    level: u32,
    /// Time of the level in milliseconds of the caller's clock, wrapping.
    at_ms: u32,
}

impl Meters {
    /// Adds credit for a HEADERS or DATA frame with `len` bytes of payload, sent or received.
    #[inline]
    pub(super) fn earn(&mut self, len: u32) {
        self.credit = (self.credit + len.max(WORK_CREDIT)).min(CREDIT_MAX);
    }

    /// Adds credit for the head of a final response.
    #[inline]
    pub(super) fn answer(&mut self) {
        self.reset_credit = (self.reset_credit + 1).min(RESET_CREDIT_MAX);
    }

    /// Records that all output was passed to the kernel. `last` is the last request that was received before.
    #[inline]
    pub(super) fn flushed(&mut self, last: u32) {
        self.answerable = last;
    }

    /// Counts a frame of a kind that accompanies HEADERS and DATA, unless their credit covers it.
    #[inline]
    pub(super) fn charge(&mut self, flood: Flood, rate: Rate, now_ms: u64) -> Result<(), Flood> {
        match self.credit.checked_sub(FRAME_COST) {
            Some(left) => {
                self.credit = left;
                Ok(())
            }
            None => self.count(flood, rate, now_ms),
        }
    }

    /// Counts a RST_STREAM of the client, unless the credit of an earlier response covers it.
    pub(super) fn charge_reset(
        &mut self,
        stream: u32,
        rate: Rate,
        now_ms: u64,
    ) -> Result<(), Flood> {
        match self.reset_credit.checked_sub(1) {
            Some(left) if stream <= self.answerable => {
                self.reset_credit = left;
                Ok(())
            }
            _ => self.count(Flood::Resets, rate, now_ms),
        }
    }

    /// Counts a frame; returns `Err` if the limit is exceeded.
    #[inline]
    pub(super) fn count(&mut self, flood: Flood, rate: Rate, now_ms: u64) -> Result<(), Flood> {
        let Some(bucket) = self.buckets.get_mut(flood as usize) else {
            // CONTINUATION is limited per header block, without a bucket.
            return Ok(());
        };
        let now_ms = now_ms as u32;
        // The bucket leaks as many thousandths per millisecond as the rate has frames per second.
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
        // The low half of the clock wraps here.
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
