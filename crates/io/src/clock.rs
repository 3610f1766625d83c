//! The two clocks. Everything above this crate gets the time as an argument.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// How far both clocks of this process are ahead of the machine's; zero but in tests of applications.
static AHEAD_MS: AtomicU64 = AtomicU64::new(0);

/// Sets both clocks of this process forward, for good: timers that would be due by then are due.
pub fn advance_ms(ms: u64) {
    AHEAD_MS.fetch_add(ms, Ordering::Relaxed);
}

#[inline]
fn ahead_ms() -> u64 {
    AHEAD_MS.load(Ordering::Relaxed)
}

/// Milliseconds of the monotonic clock (since boot, never set back). Costs no system call.
#[inline]
#[must_use]
pub fn monotonic_ms() -> u64 {
    as_ms(clock_gettime(ClockId::Monotonic)) + ahead_ms()
}

/// The same clock in microseconds.
#[inline]
#[must_use]
pub fn monotonic_us() -> u64 {
    as_us(clock_gettime(ClockId::Monotonic)) + ahead_ms() * 1000
}

/// Milliseconds since 1970 by the wall clock, which may be set back.
///
/// Read from the coarse clock: up to one kernel tick (1-10 ms) behind, five times cheaper, and the
/// same for all processes, so two workers never disagree on the order of two readings.
#[inline]
#[must_use]
pub fn unix_ms() -> u64 {
    as_ms(clock_gettime(ClockId::RealtimeCoarse)) + ahead_ms()
}

/// The wall clock in microseconds, read anew and not from the coarse clock.
#[inline]
#[must_use]
pub fn unix_us() -> u64 {
    as_us(clock_gettime(ClockId::Realtime)) + ahead_ms() * 1000
}

/// A clock before its epoch reads as zero: callers compute deadlines, not dates before 1970.
#[inline]
fn as_ms(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1000 + nanoseconds / 1_000_000
}

#[inline]
fn as_us(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_does_not_go_back_and_unix_agrees_with_std() {
        let first = monotonic_ms();
        assert!(monotonic_ms() >= first);
        let std_ms = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("the test machine's clock is after 1970")
            .as_millis() as u64;
        assert!(std_ms.abs_diff(unix_ms()) < 1000);
    }

    #[test]
    fn a_time_before_the_epoch_is_zero() {
        assert_eq!(
            as_ms(Timespec {
                tv_sec: -5,
                tv_nsec: 0
            }),
            0
        );
    }
}
