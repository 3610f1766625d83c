//! The master's loop: exited workers, signals, and stopping the server.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use fermata_config::LogLevel;
use fermata_hub::Owner;
use fermata_io::process::{self, Exit};
use fermata_io::signal::{self, SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGTERM, SIGUSR1, SIGUSR2};
use fermata_io::{Deadline, Driver, Kernel};
use fermata_tls::Tls;

use super::companion::Companion;
use super::error::StartError;
use super::link::{EXIT_RETIRED, NOTE_RETIRING, ORDER_DRAIN};
use super::restarted_process::Helper;
use super::state::{Master, SIGNALS, TERMINAL, TOKEN_SAMPLER, TOKEN_SIGNALS};
use crate::channels::follow::Archive;
use crate::channels::memory;
use crate::log::Logger;
use crate::worker::Worker;

/// Time in milliseconds within which a second stop signal counts as a repetition: shells signal the process group and the process,
/// and container runtimes may send the signal twice.
const SAME_SIGNAL_MS: u64 = 500;

/// Process 1 of a system or container, which adopts orphans.
const INIT_PID: i32 = 1;

/// Time in milliseconds after `drain_timeout_ms` before a worker is killed.
const KILL_GRACE_MS: u64 = 2_000;

/// The process in which `start` has returned.
pub enum Started {
    /// A worker: poll events from it.
    Worker(Box<Worker<Tls<Kernel>>>),
    /// The companion, each time the master has started one.
    Companion(Companion),
    /// The calling process: all workers have exited.
    Ended {
        /// Exit code for the process: 0 after a clean stop.
        exit_code: i32,
        /// Process id of the companion, which the caller has to stop. 0 means none.
        companion_pid: i32,
        /// The caller has to run its program again, with new code.
        is_to_restart: bool,
        /// All published events, for readers that are behind.
        published: Option<Box<Archive>>,
        /// The master's logger.
        logger: Logger,
    },
}

impl Master {
    /// Runs until every worker has exited; returns immediately in a worker.
    pub fn supervise(mut self) -> Result<Started, StartError> {
        self.logger.take_panics();
        self.announce();
        let (pid, worker_slots) = (process::pid() as u32, self.worker_slots.len() as u16);
        self.stats
            .server_started(pid, worker_slots, self.driver.unix_ms());
        let mut events = Vec::new();
        loop {
            let now_ms = self.driver.refresh_now();
            if let Some(companion) = self.start_companion(now_ms) {
                return Ok(Started::Companion(companion));
            }
            self.start_helpers(now_ms);
            for index in 0..self.worker_slots.len() {
                if self.worker_slots[index].due.is_due(now_ms)
                    && let Some(worker) = self.spawn(index as u16)?
                {
                    return Ok(Started::Worker(worker));
                }
            }
            if self.stopping_until.is_some() && self.children.is_empty() {
                return Ok(self.end());
            }
            if self.stopping_until.is_some_and(|it| it.is_due(now_ms)) {
                self.log(
                    LogLevel::Warning,
                    "workers did not stop in time; killing them",
                );
                self.kill_all();
            }
            if self.stopping_until.is_none() {
                self.manager.ready("serving");
            }
            self.manager.alive(now_ms);
            self.logger.log_dropped(self.driver.unix_ms());
            self.check_workers(now_ms);
            self.sample_handlers(now_ms);
            if let Some(tls) = &self.tls {
                tls.forget();
            }
            events.clear();
            let timeout = self.next_due().left_ms(now_ms);
            self.driver
                .wait(&mut events, timeout)
                .map_err(|source| StartError::Io {
                    what: "waiting for workers",
                    source,
                })?;
            for event in &events {
                match event.token {
                    TOKEN_SIGNALS => {}
                    TOKEN_SAMPLER => self.start_sampling(),
                    token => self.on_note(token),
                }
            }
            while let Some(signal) = self.signals.read() {
                self.on_signal(signal);
            }
        }
    }

    fn on_signal(&mut self, signal: i32) {
        match signal {
            SIGCHLD if process::pid() == INIT_PID => {
                // As process 1 of a container, reap adopted orphans.
                while let Some((pid, exit)) = process::reap() {
                    self.on_exit(pid, exit);
                    self.on_helper_exit(pid, exit);
                }
            }
            SIGCHLD => {
                // Reap only processes that the master has forked: the script may have started others.
                for pid in self
                    .children
                    .iter()
                    .map(|child| child.pid)
                    .collect::<Vec<_>>()
                {
                    if let Some(exit) = process::reap_pid(pid) {
                        self.on_exit(pid, exit);
                    }
                }
                for pid in Helper::ALL.map(|helper| self.helper(helper).pid) {
                    if let Some(exit) = process::reap_pid(pid) {
                        self.on_helper_exit(pid, exit);
                    }
                }
            }
            SIGUSR1 => self.reopen_access_log(),
            SIGUSR2 => {
                // A server that is already stopping does not restart.
                if self.stopping_until.is_none() {
                    self.is_to_restart = true;
                    self.stop("stopping to restart");
                }
            }
            SIGHUP if !self.has_lost_terminal() => {
                if !self.can_reload() {
                    let message = "SIGHUP: nothing to reload; restart to run a changed program";
                    self.log(LogLevel::Info, message);
                }
                self.manager.reloading();
                self.reload_tls();
                self.reopen_access_log();
                self.reload_program();
            }
            _ if self.stopping_until.is_none() => {
                self.stop("stopping; send the signal again to stop at once");
            }
            _ if self.is_to_restart => {
                // A stop signal after SIGUSR2 cancels the restart; drain as after any stop signal.
                self.is_to_restart = false;
                self.stop_signal_ms = self.driver.refresh_now();
                let message = "stopping without a restart; send the signal again to stop at once";
                self.log(LogLevel::Info, message);
            }
            _ if self.is_same_signal() => {}
            _ => {
                self.log(LogLevel::Warning, "second signal: stopping at once");
                self.kill_all();
            }
        }
    }

    /// Returns true if a stop signal only repeats the previous stop signal.
    fn is_same_signal(&mut self) -> bool {
        let now_ms = self.driver.refresh_now();
        let before_ms = std::mem::replace(&mut self.stop_signal_ms, now_ms);
        now_ms.saturating_sub(before_ms) < SAME_SIGNAL_MS
    }

    /// Returns true if SIGHUP means that the terminal was closed, rather than sent by an operator.
    fn has_lost_terminal(&self) -> bool {
        self.has_terminal && std::fs::File::open(TERMINAL).is_err()
    }

    /// Makes all workers drain.
    fn stop(&mut self, message: &str) {
        let now_ms = self.driver.refresh_now();
        let timeout_ms = self.settings.drain_timeout_ms + KILL_GRACE_MS;
        self.stopping_until = Some(Deadline::after(now_ms, timeout_ms));
        self.stop_signal_ms = now_ms;
        self.stats.set_stopping();
        self.manager.stopping();
        self.log(LogLevel::Info, message);
        for worker_slot in &mut self.worker_slots {
            worker_slot.due = Deadline::NEVER;
            worker_slot.listeners.clear();
        }
        // Remove the socket now, not at the end: a server started while this one drains uses the same paths.
        let control = self.control.as_ref().map(|(_, path)| path);
        let listening = self.addresses.iter().filter_map(|it| it.path.as_ref());
        for path in listening.chain(control) {
            let _ = std::fs::remove_file(path);
        }
        for child in &mut self.children {
            let _ = child.stream.write(&[ORDER_DRAIN]);
        }
    }

    fn kill_all(&mut self) {
        let now_ms = self.driver.refresh_now();
        self.stopping_until = Some(Deadline::after(now_ms, KILL_GRACE_MS));
        for child in &self.children {
            let _ = process::kill(child.pid, SIGKILL);
        }
    }

    /// Handles a message of a worker: the worker retires, so start its replacement.
    fn on_note(&mut self, token: u64) {
        let Some(child) = self
            .children
            .iter_mut()
            .find(|child| child.pid as u64 == token)
        else {
            return;
        };
        let mut note = [0];
        match child.stream.read(&mut note) {
            Ok(1) if note[0] == NOTE_RETIRING && !child.is_replaced => {
                child.is_replaced = true;
                let (index, slot, started_ms) = (child.index, child.slot, child.started_ms);
                if self.stopping_until.is_none() {
                    self.schedule(index, started_ms, self.stats.has_run_handler(slot));
                }
            }
            Ok(0) => {
                // The stream is closed; SIGCHLD follows.
                let _ = self.driver.remove(child.stream.as_raw_fd());
            }
            _ => {}
        }
    }

    fn on_exit(&mut self, pid: i32, exit: Exit) {
        let Some(at) = self.children.iter().position(|child| child.pid == pid) else {
            return;
        };
        let child = self.children.swap_remove(at);
        let _ = self.driver.remove(child.stream.as_raw_fd());
        self.driver.refresh_now();
        let owner = memory::owner(Owner::MASTER_SLOT);
        let unix_ms = self.driver.unix_ms();
        if let Some(ring) = &mut self.ring
            && let Err(error) =
                ring.worker_ended(&owner, u32::from(child.slot), pid as u32, unix_ms)
        {
            self.log(
                LogLevel::Error,
                &format!("cleaning up after pid {pid}: {error}"),
            );
        }
        if let Some(cluster) = &mut self.cluster {
            cluster.worker_ended(&owner, u32::from(child.slot), pid as u32);
        }
        // The leaves of the exited worker's users may have to be announced, and a full ring may have
        // room now.
        for waker in self.wakers.iter() {
            waker.wake();
        }
        let index = child.index;
        let (handler, has_run) = (
            self.stats.handler(child.slot),
            self.stats.has_run_handler(child.slot),
        );
        let is_expected = exit == Exit::Code(0) || exit == Exit::Code(EXIT_RETIRED);
        self.stats.worker_ended(child.slot, index, !is_expected);
        self.spools.sweep(pid as u32);
        self.pass_on(child.slot);
        let level = if is_expected {
            LogLevel::Info
        } else {
            LogLevel::Warning
        };
        let place = match (exit, handler) {
            (Exit::Signal(_), Some(handler)) => format!(" in {}", self.router.what_runs(handler)),
            _ => String::new(),
        };
        let message = format!("worker {index} ended pid={pid} ({exit}){place}");
        self.log(level, &message);
        if !child.is_replaced && self.stopping_until.is_none() {
            self.schedule(index, child.started_ms, has_run);
        }
        if self.stopping_until.is_none() && self.identity.is_some() {
            self.renew_workers();
        }
    }

    fn next_due(&self) -> Deadline {
        let own = [
            self.check_due,
            self.sampler.due,
            self.manager.due,
            self.companion.process.due,
            self.bridge.due,
            self.exporter.due,
        ];
        let restarts = self.worker_slots.iter().map(|worker_slot| worker_slot.due);
        let all = restarts.chain(own).chain(self.stopping_until);
        all.min().unwrap_or(Deadline::NEVER)
    }

    fn end(&mut self) -> Started {
        self.end_bridge();
        self.end_exporter();
        let published = self.ring.take().map(|mut ring| {
            ring.close();
            Box::new(Archive(ring))
        });
        self.log(LogLevel::Info, "stopped");
        for signal in SIGNALS {
            let _ = signal::restore_default(signal);
        }
        // A stop signal after the last worker has exited.
        while let Some(signal) = self.signals.read() {
            let is_hangup = signal == SIGHUP && self.has_lost_terminal();
            self.is_to_restart &= !(matches!(signal, SIGTERM | SIGINT) || is_hangup);
        }
        Started::Ended {
            exit_code: 0,
            companion_pid: self.companion.process.pid,
            is_to_restart: self.is_to_restart,
            published,
            logger: self.logger.clone(),
        }
    }
}
