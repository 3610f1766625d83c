//! The process that takes spans to their collector: started beside the workers, started anew, and ended behind them.

use std::time::{Duration, Instant};

use fermata_config::LogLevel;
use fermata_io::process::{self, Exit, Fork, Pid};
use fermata_io::signal::{self, SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGUSR1};
use fermata_io::{Driver, clock};

use super::state::Master;
use crate::admin::otlp::{Exporter, FLUSH_MS_MAX};

/// How its lines are marked.
const NAME: &str = "otlp";

/// Between two looks whether it has ended.
const LOOK: Duration = Duration::from_millis(2);

impl Master {
    /// Forks the exporter when it is due. While the server stops as well: workers that drain go on recording.
    pub(super) fn start_exporter(&mut self, now_ms: u64) {
        if now_ms < self.exporter.due_ms {
            return;
        }
        let master = process::pid();
        match process::fork() {
            Ok(Fork::Child) => {
                let code = match self.be_exporter(master) {
                    Ok(()) => 0,
                    Err(error) => {
                        let logger = self.logger.named(NAME);
                        logger.write(LogLevel::Error, clock::unix_ms(), &error.to_string());
                        1
                    }
                };
                process::exit_now(code);
            }
            Ok(Fork::Parent(pid)) => {
                self.exporter.begin(pid, now_ms);
                self.log(
                    LogLevel::Info,
                    &format!("exporter of spans started pid={pid}"),
                );
            }
            Err(error) => {
                let longest_ms = self.settings.restart_delay_ms_max;
                self.exporter.delay(now_ms, longest_ms);
                let message = format!(
                    "the exporter of spans cannot be started: fork: {error}; tried again in {} ms",
                    self.exporter.delay_ms
                );
                self.log(LogLevel::Error, &message);
            }
        }
    }

    fn be_exporter(&mut self, master: Pid) -> std::io::Result<()> {
        // The master ends it, when nobody records any more: not a terminal, and not whoever signals all processes.
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE] {
            signal::ignore(signal)?;
        }
        signal::restore_default(SIGCHLD)?;
        // What belongs to the master and to workers, above all the listeners.
        self.children.clear();
        self.seats.clear();
        self.control = None;
        self.metrics = None;
        self.tls = None;
        self.cluster = None;
        self.ring = None;
        if let Some(identity) = &self.identity {
            identity.take_on().map_err(std::io::Error::other)?;
        }
        process::end_with_parent(master)?;
        let logger = self.logger.named(NAME);
        logger.take_panics();
        let Some(otlp) = self.otlp.take() else {
            return Err(std::io::Error::other("there is no collector"));
        };
        let exporter = Exporter::new(otlp, &self.settings, self.stats, logger);
        exporter.map_err(std::io::Error::other)?.run()
    }

    /// A child of this process has ended: starts the exporter anew if it was that.
    pub(super) fn on_exporter_exit(&mut self, pid: Pid, exit: Exit) {
        if pid != self.exporter.pid {
            return;
        }
        let now_ms = self.driver.refresh_now();
        let longest_ms = self.settings.restart_delay_ms_max;
        self.exporter.end(now_ms, longest_ms);
        let message = format!(
            "the exporter of spans has ended pid={pid} ({exit}), and with it the spans that waited there; it is started anew in {} ms",
            self.exporter.delay_ms
        );
        self.log(LogLevel::Error, &message);
    }

    /// No worker records any more: the exporter is given a moment for what it has.
    pub(super) fn end_exporter(&mut self) {
        let (Some(otlp), pid) = (&self.otlp, self.exporter.pid) else {
            return;
        };
        if pid == 0 {
            return;
        }
        otlp.finish();
        let until = Instant::now() + Duration::from_millis(FLUSH_MS_MAX);
        while process::reap_pid(pid).is_none() {
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
