//! Starting the companion, and starting it anew.

use fermata_config::LogLevel;
use fermata_io::process::{self, Exit, Fork};
use fermata_io::signal;
use fermata_io::{Driver, clock};

use super::companion::Companion;
use super::kept::{RESTART_DELAY_MS, STABLE_MS};
use super::state::{Master, SIGNALS};

impl Master {
    /// Forks the companion when it is due. `Some` in it: the rest of the master is to be dropped there.
    ///
    /// It is started anew while the server stops as well: handlers that the workers still wait for may need it.
    pub(super) fn start_companion(&mut self, now_ms: u64) -> Option<Companion> {
        if now_ms < self.beside.due_ms {
            return None;
        }
        let name = self.beside.name.as_deref()?;
        let logger = self.logger.named(name);
        match process::fork() {
            Ok(Fork::Child) => {
                // What a process does from its start on; the embedder sets up its own.
                for signal in SIGNALS {
                    let _ = signal::restore_default(signal);
                }
                if let Some(identity) = &self.identity
                    && let Err(error) = identity.take_on()
                {
                    logger.write(LogLevel::Error, clock::unix_ms(), &error.to_string());
                    process::exit_now(1);
                }
                let stats = self.stats;
                Some(Companion {
                    logger,
                    stats,
                    memory_bytes_max: self.settings.worker_memory_bytes_max,
                })
            }
            Ok(Fork::Parent(pid)) => {
                self.beside.pid = pid;
                self.beside.started_ms = now_ms;
                self.beside.due_ms = u64::MAX;
                None
            }
            Err(error) => {
                self.delay_companion(now_ms);
                let message = format!(
                    "the process that supervises jobs cannot be started: fork: {error}; tried again in {} ms",
                    self.beside.delay_ms
                );
                self.log(LogLevel::Error, &message);
                None
            }
        }
    }

    /// A child of this process has ended: starts the companion anew if it was that.
    pub(super) fn on_companion_exit(&mut self, pid: i32, exit: Exit) {
        if pid != self.beside.pid {
            return;
        }
        let now_ms = self.driver.refresh_now();
        self.beside.pid = 0;
        self.stats.companion_ended();
        if now_ms.saturating_sub(self.beside.started_ms) >= STABLE_MS {
            self.beside.delay_ms = 0;
            self.beside.due_ms = now_ms;
        } else {
            self.delay_companion(now_ms);
        }
        let message = format!(
            "the process that supervises jobs has ended pid={pid} ({exit}), and with it the jobs that ran; it is started \
             anew in {} ms",
            self.beside.delay_ms
        );
        self.log(LogLevel::Error, &message);
    }

    fn delay_companion(&mut self, now_ms: u64) {
        let longest_ms = self.settings.restart_delay_ms_max;
        let beside = &mut self.beside;
        beside.delay_ms = (beside.delay_ms * 2).clamp(RESTART_DELAY_MS.min(longest_ms), longest_ms);
        beside.due_ms = now_ms + beside.delay_ms;
    }
}
