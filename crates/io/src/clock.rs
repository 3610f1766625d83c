//! The two clocks. Everything above this crate gets the time as an argument.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// How far both clocks of this process are ahead of the machine's, or [`STILL`]; zero but in tests of applications.
static AHEAD_MS: AtomicU64 = AtomicU64::new(0);

/// Both clocks stand still, at the two times below.
const STILL: u64 = u64::MAX;

static STILL_MONOTONIC_US: AtomicU64 = AtomicU64::new(0);
static STILL_UNIX_US: AtomicU64 = AtomicU64::new(0);

/// Sets both clocks of this process forward, for good: timers that would be due by then are due.
pub fn advance_ms(ms: u64) {
    if AHEAD_MS.load(Ordering::Relaxed) == STILL {
        STILL_MONOTONIC_US.fetch_add(ms * 1000, Ordering::Relaxed);
        STILL_UNIX_US.fetch_add(ms * 1000, Ordering::Relaxed);
    } else {
        AHEAD_MS.fetch_add(ms, Ordering::Relaxed);
    }
}

/// Has both clocks of this process stand still until [`run_on`], but for [`advance_ms`].
pub fn stand_still() {
    STILL_MONOTONIC_US.store(monotonic_us(), Ordering::Relaxed);
    STILL_UNIX_US.store(unix_us(), Ordering::Relaxed);
    AHEAD_MS.store(STILL, Ordering::Relaxed);
}

/// Has both clocks go by the machine's again.
pub fn run_on() {
    AHEAD_MS.store(0, Ordering::Relaxed);
}

#[inline]
fn ahead_ms() -> Option<u64> {
    let ms = AHEAD_MS.load(Ordering::Relaxed);
    (ms != STILL).then_some(ms)
}

#[cold]
fn still_us(clock: &AtomicU64) -> u64 {
    clock.load(Ordering::Relaxed)
}

/// Milliseconds of the monotonic clock (since boot, never set back). Costs no system call.
#[inline]
#[must_use]
pub fn monotonic_ms() -> u64 {
    match ahead_ms() {
        Some(ahead_ms) => as_ms(clock_gettime(ClockId::Monotonic)) + ahead_ms,
        None => still_us(&STILL_MONOTONIC_US) / 1000,
    }
}

/// The same clock in microseconds.
#[inline]
#[must_use]
pub fn monotonic_us() -> u64 {
    match ahead_ms() {
        Some(ahead_ms) => as_us(clock_gettime(ClockId::Monotonic)) + ahead_ms * 1000,
        None => still_us(&STILL_MONOTONIC_US),
    }
}

/// Milliseconds since 1970 by the wall clock, which may be set back.
///
/// Read from the coarse clock: up to one kernel tick (1-10 ms) behind, five times cheaper, and the
/// same for all processes, so two workers never disagree on the order of two readings.
#[inline]
#[must_use]
pub fn unix_ms() -> u64 {
    match ahead_ms() {
        Some(ahead_ms) => as_ms(clock_gettime(ClockId::RealtimeCoarse)) + ahead_ms,
        None => still_us(&STILL_UNIX_US) / 1000,
    }
}

/// The wall clock in microseconds, read anew and not from the coarse clock.
#[inline]
#[must_use]
pub fn unix_us() -> u64 {
    match ahead_ms() {
        Some(ahead_ms) => as_us(clock_gettime(ClockId::Realtime)) + ahead_ms * 1000,
        None => still_us(&STILL_UNIX_US),
    }
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
    fn clocks_that_stand_still_go_when_they_are_set_forward() {
        // In a process of its own: others of this one read the clocks, too.
        if std::env::var_os("FERMATA_TEST_STILL").is_none() {
            let program = std::env::current_exe().expect("the path of this program");
            let name = "clock::tests::clocks_that_stand_still_go_when_they_are_set_forward";
            let status = std::process::Command::new(program)
                .args(["--exact", name])
                .env("FERMATA_TEST_STILL", "1")
                .status();
            assert!(status.expect("this program once more").success());
            return;
        }
        let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
        let all = || {
            [
                monotonic_us(),
                monotonic_ms() * 1000,
                unix_us(),
                unix_ms() * 1000,
            ]
        };
        advance_ms(5);
        let before = all();
        stand_still();
        let still = all();
        assert!(before[0] <= still[0] && before[2] <= still[2]);
        pause();
        assert_eq!(all(), still);
        advance_ms(1234);
        assert_eq!(all(), still.map(|us| us + 1_234_000));
        run_on();
        let monotonic_us = monotonic_us();
        pause();
        assert!(super::monotonic_us() > monotonic_us);
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
