//! The monotonic and the wall clock. All crates above this one get the time as an argument.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Milliseconds by which both clocks of this process are ahead of the machine's clocks, or [`STILL`]. Only tests of
/// applications change it from 0.
static AHEAD_MS: AtomicU64 = AtomicU64::new(0);

/// Value of `AHEAD_MS` while both clocks are stopped at the times in the following statics.
const STILL: u64 = u64::MAX;

static STILL_MONOTONIC_US: AtomicU64 = AtomicU64::new(0);
static STILL_UNIX_US: AtomicU64 = AtomicU64::new(0);

/// Sets both clocks of this process forward permanently; timers up to that time are then due.
pub fn advance_ms(ms: u64) {
    if AHEAD_MS.load(Ordering::Relaxed) == STILL {
        STILL_MONOTONIC_US.fetch_add(ms * 1000, Ordering::Relaxed);
        STILL_UNIX_US.fetch_add(ms * 1000, Ordering::Relaxed);
    } else {
        AHEAD_MS.fetch_add(ms, Ordering::Relaxed);
    }
}

/// Stops both clocks of this process until [`run_on`]; only [`advance_ms`] moves them.
pub fn stand_still() {
    STILL_MONOTONIC_US.store(monotonic_us(), Ordering::Relaxed);
    STILL_UNIX_US.store(unix_us(), Ordering::Relaxed);
    AHEAD_MS.store(STILL, Ordering::Relaxed);
}

/// Makes both clocks follow the machine's clocks again.
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

/// Returns milliseconds of the monotonic clock (since boot, never set back), without a system call.
#[inline]
#[must_use]
pub fn monotonic_ms() -> u64 {
    match ahead_ms() {
        Some(ahead_ms) => as_ms(clock_gettime(ClockId::Monotonic)) + ahead_ms,
        None => still_us(&STILL_MONOTONIC_US) / 1000,
    }
}

/// Returns microseconds of the monotonic clock.
#[inline]
#[must_use]
pub fn monotonic_us() -> u64 {
    match ahead_ms() {
        Some(ahead_ms) => as_us(clock_gettime(ClockId::Monotonic)) + ahead_ms * 1000,
        None => still_us(&STILL_MONOTONIC_US),
    }
}

/// Returns milliseconds since 1970 of the wall clock, which may be set back.
///
/// Reads the coarse clock: up to one kernel tick (1 to 10 ms) late, but five times cheaper. It is equal in all
/// processes, so two workers agree on the order of two readings.
#[inline]
#[must_use]
pub fn unix_ms() -> u64 {
    match ahead_ms() {
        Some(ahead_ms) => as_ms(clock_gettime(ClockId::RealtimeCoarse)) + ahead_ms,
        None => still_us(&STILL_UNIX_US) / 1000,
    }
}

/// Returns microseconds since 1970 of the wall clock, from the precise clock.
#[inline]
#[must_use]
pub fn unix_us() -> u64 {
    match ahead_ms() {
        Some(ahead_ms) => as_us(clock_gettime(ClockId::Realtime)) + ahead_ms * 1000,
        None => still_us(&STILL_UNIX_US),
    }
}

/// Converts to milliseconds. A time before the clock's epoch becomes 0, because callers compute deadlines, not dates before
/// 1970.
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
    fn stopped_clocks_advance_only_when_set_forward() {
        // Run in a separate process, because other tests of this process read the clocks too.
        if std::env::var_os("FERMATA_TEST_STILL").is_none() {
            let program = std::env::current_exe().expect("the path of this program");
            let name = "clock::tests::stopped_clocks_advance_only_when_set_forward";
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
