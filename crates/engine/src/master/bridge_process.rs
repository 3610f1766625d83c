//! The bridge process between this machine and its cluster log, in the master.

use fermata_config::LogLevel;
use fermata_hub::Owner;
use fermata_io::Driver;
use fermata_io::process::{self, Pid};
use fermata_io::signal::SIGKILL;

use super::state::Master;
use crate::channels::cluster::Process;
use crate::channels::memory;
use crate::log::Logger;

impl Master {
    /// Runs the bridge in the forked process until the bridge fails.
    pub(super) fn be_bridge(&mut self, logger: Logger) -> std::io::Result<()> {
        self.otlp = None;
        let (Some(cluster), Some(ring)) = (self.cluster.take(), self.ring.take()) else {
            return Err(std::io::Error::other("there is no cluster"));
        };
        let owner = memory::owner(Owner::MASTER_SLOT);
        let wakers = std::sync::Arc::clone(&self.wakers);
        Err(Process::new(cluster, ring, owner, wakers, &self.settings, logger)?.run())
    }

    /// Releases the locks of an exited bridge.
    pub(super) fn clean_up_bridge(&mut self, pid: Pid) {
        self.driver.refresh_now();
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
        // The exited bridge may have published records without waking workers.
        for waker in self.wakers.iter() {
            waker.wake();
        }
    }

    /// Kills the bridge when no worker publishes any more. Its unsent records were never reported
    /// as published.
    pub(super) fn end_bridge(&mut self) {
        if self.bridge.pid != 0 {
            let _ = process::kill(self.bridge.pid, SIGKILL);
        }
    }
}
