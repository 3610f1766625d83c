//! The process that bridges this machine and the log of its cluster: started beside the workers, and started anew.

use fermata_config::LogLevel;
use fermata_hub::Owner;
use fermata_io::process::{self, Exit, Fork, Pid};
use fermata_io::signal::{
    self, SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGTERM, SIGUSR1, SIGUSR2,
};
use fermata_io::{Driver, clock};

use super::state::Master;
use crate::channels::cluster::Process;
use crate::channels::memory;

impl Master {
    /// Forks the bridge when it is due. While the server stops as well: workers that drain go on publishing.
    pub(super) fn start_bridge(&mut self, now_ms: u64) {
        if now_ms < self.bridge.due_ms {
            return;
        }
        let master = process::pid();
        match process::fork() {
            Ok(Fork::Child) => {
                let error = self.become_bridge(master);
                let logger = self.logger.named("bridge");
                logger.write(LogLevel::Error, clock::unix_ms(), &error.to_string());
                process::exit_now(1);
            }
            Ok(Fork::Parent(pid)) => {
                self.bridge.begin(pid, now_ms);
                self.log(LogLevel::Info, &format!("bridge started pid={pid}"));
            }
            Err(error) => {
                let longest_ms = self.settings.restart_delay_ms_max;
                self.bridge.delay(now_ms, longest_ms);
                let message = format!(
                    "the bridge to the log of the cluster cannot be started: fork: {error}; tried again in {} ms",
                    self.bridge.delay_ms
                );
                self.log(LogLevel::Error, &message);
            }
        }
    }

    /// Is the bridge, until that fails.
    fn become_bridge(&mut self, master: Pid) -> std::io::Error {
        let begun = self.begin_bridge(master);
        begun.map_or_else(|error| error, Process::run)
    }

    fn begin_bridge(&mut self, master: Pid) -> std::io::Result<Process> {
        // The master ends it, when nobody publishes any more: not a terminal, and not whoever signals all processes.
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE] {
            signal::ignore(signal)?;
        }
        signal::restore_default(SIGCHLD)?;
        // What belongs to the master and to workers, above all the listeners.
        self.children.clear();
        self.seats.clear();
        self.control = None;
        self.metrics = None;
        self.tls = None;
        self.otlp = None;
        if let Some(identity) = &self.identity {
            identity.take_on().map_err(std::io::Error::other)?;
        }
        process::end_with_parent(master)?;
        let logger = self.logger.named("bridge");
        logger.take_panics();
        let (Some(cluster), Some(ring)) = (self.cluster.take(), self.ring.take()) else {
            return Err(std::io::Error::other("there is no cluster"));
        };
        let owner = memory::owner(Owner::MASTER_SLOT);
        let wakers = std::sync::Arc::clone(&self.wakers);
        Process::new(cluster, ring, owner, wakers, &self.settings, logger)
    }

    /// A child of this process has ended: starts the bridge anew if it was that.
    pub(super) fn on_bridge_exit(&mut self, pid: Pid, exit: Exit) {
        if pid != self.bridge.pid {
            return;
        }
        let now_ms = self.driver.refresh_now();
        let unix_ms = self.driver.unix_ms();
        let owner = memory::owner(Owner::MASTER_SLOT);
        if let Some(ring) = &mut self.ring
            && let Err(error) = ring.worker_ended(&owner, Owner::MASTER_SLOT, pid as u32, unix_ms)
        {
            self.log(
                LogLevel::Error,
                &format!("cleaning up after pid {pid}: {error}"),
            );
        }
        if let Some(cluster) = &mut self.cluster {
            cluster.bridge_ended(&owner, pid as u32);
        }
        // It may have published and waked nobody.
        for waker in self.wakers.iter() {
            waker.wake();
        }
        let longest_ms = self.settings.restart_delay_ms_max;
        self.bridge.end(now_ms, longest_ms);
        let message = format!(
            "the bridge to the log of the cluster has ended pid={pid} ({exit}); it is started anew in {} ms and goes on from \
             its place",
            self.bridge.delay_ms
        );
        self.log(LogLevel::Error, &message);
    }

    /// Nobody publishes any more. What it has not sent nobody was told to be published.
    pub(super) fn end_bridge(&mut self) {
        if self.bridge.pid != 0 {
            let _ = process::kill(self.bridge.pid, SIGKILL);
        }
    }
}
