//! Looking after workers: whether they answer, and where their handlers are.

use fermata_config::LogLevel;
use fermata_io::signal::SIGKILL;
use fermata_io::{Deadline, Driver, process};

use super::blocking::HandlerSample;
use super::stall::{Heartbeat, doing};
use super::state::Master;

/// Looks per `blocking_call_ms`.
const SAMPLES_PER_LIMIT: u64 = 4;

/// Bounds of the time between two looks.
const SAMPLE_MS_MIN: u64 = 5;
const SAMPLE_MS_MAX: u64 = 1_000;

/// Looks without a handler before the master says that it looks no more.
const IDLE_SAMPLES: u8 = 2;

/// Checks per `stall_timeout_ms`: a stall is noticed at most a quarter later than that.
const CHECKS: u64 = 4;

/// Least time between two checks.
const CHECK_MS_MIN: u64 = 10;

impl Master {
    /// Kills workers that have not answered for `stall_timeout_ms` and asks all others.
    pub(super) fn check_workers(&mut self, now_ms: u64) {
        if !self.check_due.is_due(now_ms) {
            return;
        }
        let timeout_ms = self.settings.stall_timeout_ms;
        let interval_ms = (timeout_ms / CHECKS).max(CHECK_MS_MIN);
        // When we ourselves were stopped or got no time, so perhaps did they: begin anew.
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
                // It is dead soon; if not, the next one comes as late as this one.
                child.heartbeat.since_ms = now_ms;
            }
            if let Some(waker) = self.wakers.get(usize::from(child.slot)) {
                waker.wake();
            }
        }
        for (pid, index, slot, silent_ms) in stalled {
            let place = self.stats.handler(slot).map_or_else(
                || "outside of handlers".to_owned(),
                |handler| format!("in {}", self.router.what_runs(handler)),
            );
            let frames = self.sampler.frames.as_ref();
            let line = frames.and_then(|frames| frames.place(pid).ok());
            let line = line.map_or_else(String::new, |line| format!(", in {line}"));
            let message = format!(
                "worker {index} (pid {pid}) has not answered for {silent_ms} ms \
                 (stall_timeout_ms {timeout_ms}), {place}{line}, {}; it is killed and replaced. Long work \
                 belongs into another process; if the handler may take that long, raise stall_timeout_ms",
                doing(pid),
            );
            self.log(LogLevel::Error, &message);
            self.stats.worker_stalled();
            let _ = process::kill(pid, SIGKILL);
        }
    }

    /// A worker runs a handler after a pause.
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

    /// Looks where handlers are that have been running for long.
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
            // Once before it is too long, or one that ends just then would not be seen; once more after.
            let asked_ms = match child.sample.reads {
                0 => self.settings.blocking_call_ms / 2,
                1 => self.settings.blocking_call_ms,
                _ => continue,
            };
            if unix_ms.saturating_sub(since_unix_ms) < asked_ms {
                continue;
            }
            child.sample.reads += 1;
            let place = match &self.sampler.frames {
                None => continue,
                Some(frames) => frames.place(child.pid),
            };
            let place =
                place.unwrap_or_else(|error| format!("a place that cannot be read: {error}"));
            if self.stats.handler_since_unix_ms(child.slot) == Some(since_unix_ms) {
                self.stats.set_place(child.slot, since_unix_ms, &place);
            }
        }
        self.rest_or_go_on(is_quiet);
    }

    /// A handler may begin while we say that we look no more, and its worker may have seen that we
    /// still do: so there is one look more after we have said it.
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
