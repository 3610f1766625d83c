//! The process that takes spans to their collector, as the master has it.

use std::time::{Duration, Instant};

use fermata_config::LogLevel;
use fermata_io::process;
use fermata_io::signal::SIGKILL;

use super::state::Master;
use crate::admin::otlp::{Exporter, FLUSH_MS_MAX};
use crate::log::Logger;

/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(2);

impl Master {
    /// Is the exporter, until the master says that no worker is left.
    pub(super) fn be_exporter(&mut self, logger: Logger) -> std::io::Result<()> {
        self.cluster = None;
        self.ring = None;
        let Some(otlp) = self.otlp.take() else {
            return Err(std::io::Error::other("there is no collector"));
        };
        let exporter = Exporter::new(otlp, &self.settings, self.stats, logger);
        exporter.map_err(std::io::Error::other)?.run()
    }

    /// No worker records any more: the exporter is given a moment for what it has.
    pub(super) fn end_exporter(&mut self) {
        let (Some(otlp), pid) = (&self.otlp, self.exporter.pid) else {
            return;
        };
        if pid == 0 {
            return;
        }
        let until = Instant::now() + Duration::from_millis(FLUSH_MS_MAX);
        let mut is_told = false;
        while process::reap_pid(pid).is_none() {
            is_told = is_told || otlp.finish();
            if Instant::now() >= until {
                let message = format!(
                    "the exporter of spans has not ended within {FLUSH_MS_MAX} ms; killing it, and with it the spans that wait there"
                );
                self.log(LogLevel::Warning, &message);
                let _ = process::kill(pid, SIGKILL);
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}
