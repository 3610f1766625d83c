//! Helper processes of the master: start, restart and common setup.

use fermata_config::LogLevel;
use fermata_io::process::{self, Exit, Fork, Pid};
use fermata_io::signal::{self, SIGCHLD, SIGPIPE};
use fermata_io::{Driver, clock};

use super::restarted_process::{Helper, RestartedProcess};
use super::state::{Master, SIGNALS};
use crate::log::Logger;

/// Main function of a helper process; returns on failure or when its work is done.
type Serve = fn(&mut Master, Logger) -> std::io::Result<()>;

impl Master {
    pub(super) fn helper(&mut self, helper: Helper) -> &mut RestartedProcess {
        match helper {
            Helper::Bridge => &mut self.bridge,
            Helper::Exporter => &mut self.exporter,
            Helper::Companion => &mut self.companion.process,
        }
    }

    /// Forks due helpers, also while the server stops: draining workers still publish and record
    /// spans.
    pub(super) fn start_helpers(&mut self, now_ms: u64) {
        if self.bridge.due.is_due(now_ms) {
            self.start_helper(Helper::Bridge, "bridge", Self::be_bridge, now_ms);
        }
        if self.exporter.due.is_due(now_ms) {
            self.start_helper(Helper::Exporter, "otlp", Self::be_exporter, now_ms);
        }
    }

    fn start_helper(&mut self, helper: Helper, name: &str, serve: Serve, now_ms: u64) {
        let master = process::pid();
        match process::fork() {
            Ok(Fork::Child) => {
                process::set_title(&format!("fermata {name}"));
                let logger = self.logger.named(name);
                let code = match self.be_helper(serve, master, logger.clone()) {
                    Ok(()) => 0,
                    Err(error) => {
                        logger.write(LogLevel::Error, clock::unix_ms(), &error.to_string());
                        1
                    }
                };
                process::exit_now(code);
            }
            Ok(Fork::Parent(pid)) => {
                self.helper(helper).begin(pid, now_ms);
                let message = format!("{} started pid={pid}", helper.titles().0);
                self.log(LogLevel::Info, &message);
            }
            Err(error) => self.delay_helper(helper, now_ms, &error),
        }
    }

    /// Schedules a retry after a failed fork.
    pub(super) fn delay_helper(&mut self, helper: Helper, now_ms: u64, error: &std::io::Error) {
        let longest_ms = self.settings.restart_delay_ms_max;
        let process = self.helper(helper);
        process.delay(now_ms, longest_ms);
        let message = format!(
            "cannot start {}: fork: {error}; retrying in {} ms",
            helper.titles().1,
            process.delay_ms
        );
        self.log(LogLevel::Error, &message);
    }

    /// Runs a helper in its forked process.
    fn be_helper(&mut self, serve: Serve, master: Pid, logger: Logger) -> std::io::Result<()> {
        // Ignore signals from a terminal or to the process group: the master kills the helper after
        // the last worker.
        for signal in SIGNALS.into_iter().chain([SIGPIPE]) {
            signal::ignore(signal)?;
        }
        signal::restore_default(SIGCHLD)?;
        // Release resources of the master and the workers, above all the listeners.
        self.children.clear();
        self.worker_slots.clear();
        self.control = None;
        self.metrics = None;
        self.tls = None;
        if let Some(identity) = &self.identity {
            identity.take_on().map_err(std::io::Error::other)?;
        }
        process::end_with_parent(master)?;
        logger.take_panics();
        serve(self, logger)
    }

    /// Handles an exited child process: restarts it if it is a helper.
    pub(super) fn on_helper_exit(&mut self, pid: Pid, exit: Exit) {
        for helper in Helper::ALL {
            if self.helper(helper).pid != pid {
                continue;
            }
            match helper {
                Helper::Bridge => self.clean_up_bridge(pid),
                Helper::Companion => self.stats.companion_ended(),
                Helper::Exporter => {}
            }
            let now_ms = self.driver.refresh_now();
            let longest_ms = self.settings.restart_delay_ms_max;
            let process = self.helper(helper);
            process.end(now_ms, longest_ms);
            let message = format!(
                "{} exited pid={pid} ({exit}): {}; restarting it in {} ms",
                helper.titles().1,
                helper.loss(),
                process.delay_ms
            );
            self.log(LogLevel::Error, &message);
        }
    }
}
