//! The companion: one more process of the server, which the master keeps running beside the workers for its embedder.
//!
//! It serves nothing and has none of the server's sockets. When it ends the master starts another; when the server ends,
//! the embedder ends it by its own means, after the workers.

use fermata_config::LogLevel;
use fermata_io::clock;

use super::restarted_process::RestartedProcess;
use crate::admin::stats;
use crate::log::Logger;

/// The server as its companion has it: a log, and figures of what it does.
pub struct Companion {
    pub(super) logger: Logger,
    pub(super) stats: stats::Shared,
    pub(super) memory_bytes_max: usize,
}

impl Companion {
    /// The memory limit of programs that have none of their own; 0 = none.
    pub fn memory_bytes_max(&self) -> usize {
        self.memory_bytes_max
    }

    /// Writes a log line under the companion's name.
    pub fn log(&self, level: LogLevel, message: &str) {
        self.logger.write(level, clock::unix_ms(), message);
    }

    /// A job begins. Every process below the companion may say so.
    pub fn job_begins(&self) {
        self.stats.job_begins();
    }

    /// It has ended, or its process has.
    pub fn job_ends(&self) {
        self.stats.job_ends();
    }

    /// A process for jobs has ended and is replaced.
    pub fn process_replaced(&self) {
        self.stats.job_process_replaced();
    }
}

/// The companion as the master sees it.
pub(super) struct CompanionProcess {
    /// The name its log lines have; `None` = the embedder wants none.
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
