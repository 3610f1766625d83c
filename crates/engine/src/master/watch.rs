//! Monitoring workers: heartbeats, and positions of handlers.

use fermata_config::LogLevel;
use fermata_io::signal::SIGKILL;
use fermata_io::{Deadline, Driver, process};

use super::blocking::HandlerSample;
use super::stall::{Heartbeat, doing};
use super::state::Master;

/// Number of samples per `blocking_call_ms`.
const SAMPLES_PER_LIMIT: u64 = 4;

/// Minimum and maximum time between samples.
const SAMPLE_MS_MIN: u64 = 5;
const SAMPLE_MS_MAX: u64 = 1_000;

/// Number of samples without a handler before sampling stops.
const IDLE_SAMPLES: u8 = 2;

/// Number of checks per `stall_timeout_ms`: a stall is detected at most a quarter later.
const CHECKS: u64 = 4;

/// Minimum time between two checks.
const CHECK_MS_MIN: u64 = 10;

impl Master {
    /// Kills workers without a heartbeat for `stall_timeout_ms`, and wakes all others.
    pub(super) fn check_workers(&mut self, now_ms: u64) {
        if !self.check_due.is_due(now_ms) {
            return;
        }
        let timeout_ms = self.settings.stall_timeout_ms;
        let interval_ms = (timeout_ms / CHECKS).max(CHECK_MS_MIN);
        // If the master itself was suspended, the workers may have been suspended too: restart the
        // measurement.
        let was_absent = self.check_due.delayed(interval_ms + 1).is_due(now_ms);
        self.check_due = Deadline::after(now_ms, interval_ms);
        let mut stalled = Vec::new();
        for child in &mut self.children {
            let pid = child.pid as u32;
            let is_started = self
                .stats
                .worker(u32::from(child.slot))
                .is_some_and(|it| it.1 == pid);
            let beats = if is_started {
                self.stats.beats(child.slot)
            } else {
                0
            };
            if beats != child.heartbeat.beats || was_absent {
                child.heartbeat = Heartbeat {
                    beats,
                    since_ms: now_ms,
                };
            } else if now_ms - child.heartbeat.since_ms >= timeout_ms {
                stalled.push((
                    child.pid,
                    child.index,
                    child.slot,
                    now_ms - child.heartbeat.since_ms,
                ));
                // The killed worker will exit soon. Otherwise the next kill follows after the same
                // time.
                child.heartbeat.since_ms = now_ms;
            }
            if let Some(waker) = self.wakers.get(usize::from(child.slot)) {
                waker.wake();
            }
        }
        let fate = match self.stopping_until {
            None => "it is killed and replaced",
            Some(_) => "it is killed",
        };
        for (pid, index, slot, silent_ms) in stalled {
            let place = self.stats.handler(slot).map_or_else(
                || "while it runs no handler".to_owned(),
                |handler| format!("in {}", self.router.what_runs(handler)),
            );
            let frames = self.sampler.frames.as_ref();
            let line = frames.and_then(|frames| frames.place(pid).ok());
            let line = line.map_or_else(String::new, |line| format!(", in {line}"));
            let message = format!(
                "worker {index} (pid {pid}) has not answered for {silent_ms} ms \
                 (stall_timeout_ms {timeout_ms}), {place}{line}, {}; {fate}. Long work \
                 belongs into another process; if it may take that long, raise stall_timeout_ms",
                doing(pid),
            );
            self.log(LogLevel::Error, &message);
            self.stats.worker_stalled();
            let _ = process::kill(pid, SIGKILL);
        }
    }

    /// Starts sampling, when a worker runs a handler after a pause.
    pub(super) fn start_sampling(&mut self) {
        self.sampler.waker.drain();
        self.sampler.idle_samples = 0;
        if self.sampler.due.is_never() {
            let now_ms = self.driver.now_ms();
            self.sampler.due = Deadline::after(now_ms, self.sample_interval_ms());
        }
    }

    fn sample_interval_ms(&self) -> u64 {
        (self.settings.blocking_call_ms / SAMPLES_PER_LIMIT).clamp(SAMPLE_MS_MIN, SAMPLE_MS_MAX)
    }

    /// Samples the positions of long-running handlers.
    pub(super) fn sample_handlers(&mut self, now_ms: u64) {
        if !self.sampler.due.is_due(now_ms) {
            return;
        }
        self.sampler.due = Deadline::after(now_ms, self.sample_interval_ms());
        let unix_ms = self.driver.unix_ms();
        let mut is_quiet = true;
        for child in &mut self.children {
            let since_unix_ms = self.stats.handler_since_unix_ms(child.slot);
            let is_another = child.sample.since_unix_ms != since_unix_ms;
            if is_another {
                let reads = 0;
                child.sample = HandlerSample {
                    since_unix_ms,
                    reads,
                };
            }
            let Some(since_unix_ms) = since_unix_ms else {
                is_quiet &= !is_another;
                continue;
            };
            is_quiet = false;
            // Read once before the limit, because a handler may end right after it, and once after
            // the limit.
            let asked_ms = match child.sample.reads {
                0 => self.settings.blocking_call_ms / 2,
                1 => self.settings.blocking_call_ms,
                _ => continue,
            };
            if unix_ms.saturating_sub(since_unix_ms) < asked_ms {
                continue;
            }
            child.sample.reads += 1;
            let Some(frames) = &self.sampler.frames else {
                continue;
            };
            // The worker runs while its memory is read, so a frame may be freed, for example the
            // frames of a deep recursion after a fatal error. An earlier position, if any, is
            // retained.
            let Ok(place) = frames.place(child.pid) else {
                continue;
            };
            if self.stats.handler_since_unix_ms(child.slot) == Some(since_unix_ms) {
                self.stats.set_place(child.slot, since_unix_ms, &place);
            }
        }
        self.rest_or_go_on(is_quiet);
    }

    /// Stops sampling after idle samples. A worker that still saw sampling enabled may start a
    /// handler concurrently, so one more sample follows.
    fn rest_or_go_on(&mut self, is_quiet: bool) {
        let sampler = &mut self.sampler;
        if !is_quiet {
            sampler.idle_samples = 0;
            self.stats.set_sampled(true);
            return;
        }
        sampler.idle_samples += 1;
        if sampler.idle_samples == IDLE_SAMPLES {
            self.stats.set_sampled(false);
        } else if sampler.idle_samples > IDLE_SAMPLES {
            sampler.due = Deadline::NEVER;
        }
    }
}
