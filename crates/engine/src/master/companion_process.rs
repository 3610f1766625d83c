//! Starting the companion.

use fermata_config::LogLevel;
use fermata_io::clock;
use fermata_io::process::{self, Fork};
use fermata_io::signal;

use super::companion::Companion;
use super::restarted_process::Helper;
use super::state::{Master, SIGNALS};

impl Master {
    /// Forks the companion when it is due. Returns `Some` in the companion, where the master's
    /// state is to be dropped.
    ///
    /// The companion is also restarted while the server stops, because waiting handlers may need
    /// it.
    pub(super) fn start_companion(&mut self, now_ms: u64) -> Option<Companion> {
        if !self.companion.process.due.is_due(now_ms) {
            return None;
        }
        let name = self.companion.name.as_deref()?;
        let logger = self.logger.named(name);
        match process::fork() {
            Ok(Fork::Child) => {
                // Restore default signals; the embedder sets up its own.
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
                self.companion.process.begin(pid, now_ms);
                None
            }
            Err(error) => {
                self.delay_helper(Helper::Companion, now_ms, &error);
                None
            }
        }
    }
}
