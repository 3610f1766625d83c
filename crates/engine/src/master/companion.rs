//! The companion: an additional process of the server, restarted by the master, for the embedder.
//!
//! It serves no requests and has none of the server's sockets. If it exits, the master starts
//! another. When the server stops, the embedder stops it after the workers.

use fermata_config::LogLevel;
use fermata_io::clock;

use super::restarted_process::RestartedProcess;
use crate::admin::stats;
use crate::log::Logger;

/// The companion's handle of the server: a log, and counters.
pub struct Companion {
    pub(super) logger: Logger,
    pub(super) stats: stats::Shared,
    pub(super) memory_bytes_max: usize,
}

impl Companion {
    /// Returns the memory limit in bytes of programs without a limit of their own. 0 means none.
    pub fn memory_bytes_max(&self) -> usize {
        self.memory_bytes_max
    }

    /// Writes a log line under the companion's name.
    pub fn log(&self, level: LogLevel, message: &str) {
        self.logger.write(level, clock::unix_ms(), message);
    }

    /// Writes a line that a script printed to standard error, whatever `log_level` is.
    pub fn log_text(&self, line: &str) {
        self.logger.write_text(clock::unix_ms(), line);
    }

    /// Counts a started job. May be called in every child process of the companion.
    pub fn job_begins(&self) {
        self.stats.job_begins();
    }

    /// Counts a job that has finished, or whose process has exited.
    pub fn job_ends(&self) {
        self.stats.job_ends();
    }

    /// Counts a replaced job process.
    pub fn process_replaced(&self) {
        self.stats.job_process_replaced();
    }
}

/// The master's state of the companion.
pub(super) struct CompanionProcess {
    /// Name of the companion in log lines; `None` = no companion.
    pub name: Option<String>,
    pub process: RestartedProcess,
}

impl CompanionProcess {
    pub fn new(name: Option<String>) -> CompanionProcess {
        CompanionProcess {
            process: RestartedProcess::new(name.is_some()),
            name,
        }
    }
}
