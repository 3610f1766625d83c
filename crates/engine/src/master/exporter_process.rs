//! The exporter process for spans, in the master.

use std::time::{Duration, Instant};

use fermata_config::LogLevel;
use fermata_io::process;
use fermata_io::signal::SIGKILL;

use super::state::Master;
use crate::admin::otlp::{Exporter, FLUSH_MS_MAX};
use crate::log::Logger;

/// Interval at which the master checks if the exporter has exited.
const LOOK: Duration = Duration::from_millis(2);

impl Master {
    /// Runs the exporter in the forked process, until the master reports that no worker is left.
    pub(super) fn be_exporter(&mut self, logger: Logger) -> std::io::Result<()> {
        self.cluster = None;
        self.ring = None;
        let Some(otlp) = self.otlp.take() else {
            return Err(std::io::Error::other("there is no collector"));
        };
        let exporter = Exporter::new(otlp, &self.settings, self.stats, logger);
        exporter.map_err(std::io::Error::other)?.run()
    }

    /// Stops the exporter when no worker records any more, with time to flush.
    pub(super) fn end_exporter(&mut self) {
        let (Some(otlp), pid) = (&self.otlp, self.exporter.pid) else {
            return;
        };
        if pid == 0 {
            return;
        }
        let until = Instant::now() + Duration::from_millis(FLUSH_MS_MAX);
        let mut is_finished = false;
        while process::reap_pid(pid).is_none() {
            is_finished = is_finished || otlp.finish();
            if Instant::now() >= until {
                let message = format!(
                    "the exporter of spans did not exit within {FLUSH_MS_MAX} ms; killing it, its queued spans are lost"
                );
                self.log(LogLevel::Warning, &message);
                let _ = process::kill(pid, SIGKILL);
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}
