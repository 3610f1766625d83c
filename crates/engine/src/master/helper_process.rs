//! Processes that the master keeps beside the workers and ends itself: started, started anew, and what they have in common.

use fermata_config::LogLevel;
use fermata_io::process::{self, Exit, Fork, Pid};
use fermata_io::signal::{self, SIGCHLD, SIGPIPE};
use fermata_io::{Driver, clock};

use super::restarted_process::{Helper, RestartedProcess};
use super::state::{Master, SIGNALS};
use crate::log::Logger;

/// What a process does that the master ends itself, until that fails or has nothing more to do.
type Serve = fn(&mut Master, Logger) -> std::io::Result<()>;

impl Master {
    pub(super) fn helper(&mut self, helper: Helper) -> &mut RestartedProcess {
        match helper {
            Helper::Bridge => &mut self.bridge,
            Helper::Exporter => &mut self.exporter,
            Helper::Companion => &mut self.companion.process,
        }
    }

    /// Forks those that are due. While the server stops as well: workers that drain go on publishing and recording.
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

    /// It could not be forked.
    pub(super) fn delay_helper(&mut self, helper: Helper, now_ms: u64, error: &std::io::Error) {
        let longest_ms = self.settings.restart_delay_ms_max;
        let process = self.helper(helper);
        process.delay(now_ms, longest_ms);
        let message = format!(
            "{} cannot be started: fork: {error}; tried again in {} ms",
            helper.titles().1,
            process.delay_ms
        );
        self.log(LogLevel::Error, &message);
    }

    /// What runs in the forked process, until that fails or has nothing more to do.
    fn be_helper(&mut self, serve: Serve, master: Pid, logger: Logger) -> std::io::Result<()> {
        // The master ends it, behind the last worker: not a terminal, and not whoever signals all processes.
        for signal in SIGNALS.into_iter().chain([SIGPIPE]) {
            signal::ignore(signal)?;
        }
        signal::restore_default(SIGCHLD)?;
        // What belongs to the master and to workers, above all the listeners.
        self.children.clear();
        self.seats.clear();
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

    /// A child of this process has ended: starts it anew if it was one of them.
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
                "{} has ended pid={pid} ({exit}): {}; it is started anew in {} ms",
                helper.titles().1,
                helper.loss(),
                process.delay_ms
            );
            self.log(LogLevel::Error, &message);
        }
    }
}
