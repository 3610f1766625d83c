//! Forking workers.

use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;

use fermata_config::{LogLevel, Scheme};
use fermata_io::process::{self, Fork};
use fermata_io::signal::{self, SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGUSR1, SIGUSR2};
use fermata_io::{Deadline, Driver, Fd, Kernel};
use fermata_tls::Tls;

use super::blocking::HandlerSample;
use super::error::StartError;
use super::link::Link;
use super::restarted_process::{RESTART_DELAY_MS, STABLE_MS};
use super::stall::Heartbeat;
use super::state::{Child, Master};
use crate::channels::cluster::Cluster;
use crate::channels::memory;
use crate::net::backend;
use crate::start::Parts;
use crate::worker::Worker;

/// Minimum time in milliseconds between starts of a worker that was able to run a handler. If each
/// request to a page kills the worker, the master must not be busy with forks.
const RESTART_GAP_MS: u64 = 50;

impl Master {
    /// Forks the worker with this number. Returns `Some` in the worker.
    pub(super) fn spawn(
        &mut self,
        index: u16,
    ) -> Result<Option<Box<Worker<Tls<Kernel>>>>, StartError> {
        let worker_slot = &mut self.worker_slots[usize::from(index)];
        worker_slot.due = Deadline::NEVER;
        if self.stopping_until.is_some() {
            return Ok(None);
        }
        let Some(slot) = (0..self.wakers.len() as u16)
            .find(|slot| self.children.iter().all(|child| child.slot != *slot))
        else {
            // Draining workers use both slots of this worker number.
            worker_slot.due = Deadline::after(self.driver.now_ms(), RESTART_DELAY_MS);
            return Ok(None);
        };
        let io = |what| move |source| StartError::Io { what, source };
        let (ours, theirs) = UnixStream::pair().map_err(io("socketpair"))?;
        ours.set_nonblocking(true).map_err(io("socketpair"))?;
        theirs.set_nonblocking(true).map_err(io("socketpair"))?;
        let master_pid = process::pid();
        // Retired workers of this number have left connections for their replacement.
        let of_worker = self.children.iter().filter(|child| child.index == index);
        let retired: Vec<u16> = of_worker.map(|child| child.slot).collect();
        match process::fork() {
            Err(error) => {
                let message = format!("cannot start worker {index}: fork: {error}");
                self.log(LogLevel::Error, &message);
                self.delay_restart(index);
                Ok(None)
            }
            Ok(Fork::Child) => {
                drop(ours);
                process::set_title(&format!("fermata work {index}"));
                let begun = self.become_worker(index, slot, theirs, master_pid);
                match begun {
                    Ok(mut worker) => {
                        worker.net.inherit(&retired);
                        Ok(Some(worker))
                    }
                    Err(error) => {
                        // Do not return the error: the child process would continue in the master's
                        // code. The master starts another worker.
                        let message = format!("worker {index} cannot start: {error}");
                        self.log(LogLevel::Error, &message);
                        process::exit_now(1)
                    }
                }
            }
            Ok(Fork::Parent(pid)) => {
                self.stats.worker_forked();
                let token = pid as u64;
                self.driver
                    .add_wake(ours.as_raw_fd(), token)
                    .map_err(io("epoll"))?;
                let started_ms = self.driver.now_ms();
                let message = format!("worker {index} started pid={pid}");
                self.log(LogLevel::Info, &message);
                let is_replaced = false;
                let stream = ours;
                self.children.push(Child {
                    pid,
                    index,
                    slot,
                    stream,
                    started_ms,
                    is_replaced,
                    certificates_number: self.certificates_number,
                    is_drained: false,
                    heartbeat: Heartbeat::new(started_ms),
                    sample: HandlerSample::default(),
                });
                Ok(None)
            }
        }
    }

    /// Sets up a forked worker: releases resources of the master.
    fn become_worker(
        &mut self,
        index: u16,
        slot: u16,
        stream: UnixStream,
        master_pid: i32,
    ) -> Result<Box<Worker<Tls<Kernel>>>, StartError> {
        let io = |what| move |source| StartError::Io { what, source };
        fermata_io::systemd::forget_in_child();
        // A terminal sends SIGINT and SIGHUP to the process group; only the master handles them.
        let signals = signal::Pipe::install(&[SIGTERM]).map_err(io("signal handlers"))?;
        // sendfile() to a disconnected client raises SIGPIPE, whatever PHP has set up. SIGUSR1 may
        // be sent to the process group, too.
        for signal in [SIGINT, SIGHUP, SIGPIPE, SIGUSR1] {
            signal::ignore(signal).map_err(io("signal handlers"))?;
        }
        for signal in [SIGCHLD, SIGUSR2] {
            signal::restore_default(signal).map_err(io("signal handlers"))?;
        }
        self.children.clear();
        let ring = self
            .ring
            .take()
            .expect("the ring is taken only here, and only in a child");
        // Dropping the slots closes this process' copies of the other workers' listeners.
        let worker_slots = std::mem::take(&mut self.worker_slots);
        let listeners: Vec<Fd> = worker_slots
            .into_iter()
            .nth(usize::from(index))
            .into_iter()
            .flat_map(|worker_slot| worker_slot.listeners)
            .map(IntoRawFd::into_raw_fd)
            .collect();
        let tls = self.tls.take().map(|tls| tls.for_worker());
        let handle = tls.as_ref().map(|tls| Rc::clone(&tls.handle));
        let logger = self.logger.named(&format!("worker {index}"));
        logger.take_panics();
        let kernel = backend::open(self.backend, &logger).map_err(io("the event loop"))?;
        let mut driver = Tls::new(kernel, handle.unwrap_or_default());
        let mut prefaced = Vec::new();
        for (bound, &listener) in self.addresses.iter().zip(&listeners) {
            if bound.has_preface {
                prefaced.push(listener);
            }
            match bound.scheme {
                Scheme::Https if bound.has_preface => driver.secure_later(listener),
                Scheme::Https => driver.secure(listener),
                Scheme::Http => {}
            }
        }
        let parts = Parts {
            index,
            slot,
            listeners,
            prefaced,
            control: self
                .control
                .take()
                .map(|(listener, _)| listener.into_raw_fd()),
            wakers: Arc::clone(&self.wakers),
            inboxes: Arc::clone(&self.inboxes),
            balances: self.settings.balance == "on" && memory::workers(&self.settings) > 1,
            link: Some(Link { stream, signals }),
            ring,
            outbox: self.cluster.take().map(Cluster::into_outbox),
            stats: self.stats,
            router: Arc::clone(&self.router),
            websockets: Arc::clone(&self.websockets),
            logger,
            settings: Arc::clone(&self.settings),
            spools: self.spools.clone(),
            tls,
            metrics: self.metrics.take().map(|(fd, _)| fd.into_raw_fd()),
            access_log: self.open_access_log(),
            spans: self.otlp.take().map(|otlp| otlp.into_outbox(self.stats)),
            sampler: match self.settings.blocking_call_ms {
                0 => None,
                _ => Some(self.sampler.waker.share().map_err(io("eventfd"))?),
            },
        };
        // Everything that requires root is open.
        if let Some(identity) = &self.identity {
            identity.take_on()?;
        }
        process::end_with_parent(master_pid).map_err(io("watching the master"))?;
        let worker = Worker::new(driver, parts).map_err(io("the event loop"))?;
        Ok(Box::new(worker))
    }

    /// Schedules the replacement of a worker that was started at `started_ms`.
    ///
    /// A worker that has run a handler is replaced immediately, however often handlers kill it. A
    /// worker that exits right after its start, before it has run a handler, is restarted after a
    /// growing delay. So a broken script or a lack of memory does not keep the master busy.
    pub(super) fn schedule(&mut self, index: u16, started_ms: u64, has_run: bool) {
        let now_ms = self.driver.now_ms();
        let worker_slot = &mut self.worker_slots[usize::from(index)];
        if has_run || now_ms - started_ms >= STABLE_MS {
            worker_slot.delay_ms = 0;
            worker_slot.due = Deadline::at(now_ms.max(started_ms + RESTART_GAP_MS));
        } else {
            self.delay_restart(index);
        }
    }

    fn delay_restart(&mut self, index: u16) {
        let now_ms = self.driver.now_ms();
        let longest_ms = self.settings.restart_delay_ms_max;
        let worker_slot = &mut self.worker_slots[usize::from(index)];
        worker_slot.delay_ms =
            (worker_slot.delay_ms * 2).clamp(RESTART_DELAY_MS.min(longest_ms), longest_ms);
        worker_slot.due = Deadline::after(now_ms, worker_slot.delay_ms);
        let message = format!("worker {index} is restarted in {} ms", worker_slot.delay_ms);
        self.log(LogLevel::Warning, &message);
    }
}
