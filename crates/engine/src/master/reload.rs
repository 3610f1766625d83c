//! Reloading certificates, the access log and the application's files.

use std::io::Write;

use fermata_config::LogLevel;

use super::link::{ORDER_DRAIN, ORDER_RELOAD, ORDER_RELOAD_TLS, ORDER_REOPEN_LOG};
use super::state::{Child, Master};
use crate::admin::trace::Sink;

impl Master {
    /// Returns true if SIGHUP has something to reload.
    pub(super) fn can_reload(&self) -> bool {
        self.tls.is_some() || self.has_log_file || self.takes_reloads
    }

    /// Makes the workers reload the application's files.
    pub(super) fn reload_program(&mut self) {
        if self.takes_reloads {
            for child in &mut self.children {
                let _ = child.stream.write(&[ORDER_RELOAD]);
            }
        }
    }

    /// Makes the workers reopen the access log.
    pub(super) fn reopen_access_log(&mut self) {
        if self.has_log_file {
            self.renew_access_log();
            for child in &mut self.children {
                let _ = child.stream.write(&[ORDER_REOPEN_LOG]);
            }
        }
    }

    /// Opens the access log for a new worker. The master has opened the file before; a later error
    /// does not prevent the worker from serving.
    pub(super) fn open_access_log(&self) -> Option<Sink> {
        Sink::open(&self.settings).unwrap_or_else(|error| {
            self.log(LogLevel::Error, &error.to_string());
            None
        })
    }

    /// Reloads the certificates, and makes the workers do so on success.
    pub(super) fn reload_tls(&mut self) {
        if self
            .tls
            .as_ref()
            .is_some_and(|tls| tls.reload(&self.logger))
        {
            self.certificates_number += 1;
            if self.identity.is_some() {
                self.renew_workers();
                return;
            }
            for child in &mut self.children {
                let _ = child.stream.write(&[ORDER_RELOAD_TLS]);
            }
        }
    }

    /// Replaces workers that have old certificates. With a separate user, workers cannot read
    /// root's keys: new workers inherit what the master has loaded. A worker drains if its
    /// replacement can get a slot, or if no other worker is being replaced. Otherwise repeated
    /// reloads could leave no worker that serves.
    pub(super) fn renew_workers(&mut self) {
        let slots_free = self.wakers.len() - self.children.len();
        let is_going = |child: &&Child| child.is_drained && !child.is_replaced;
        let owed = self
            .worker_slots
            .iter()
            .filter(|worker_slot| !worker_slot.due.is_never())
            .count()
            + self.children.iter().filter(is_going).count();
        let mut room = slots_free.saturating_sub(owed);
        if !self.children.iter().any(|child| child.is_drained) {
            room = room.max(1);
        }
        let number = self.certificates_number;
        let outdated = self.children.iter_mut().filter(|child| {
            child.certificates_number != number && !child.is_drained && !child.is_replaced
        });
        for child in outdated.take(room) {
            let _ = child.stream.write(&[ORDER_DRAIN]);
            child.is_drained = true;
        }
    }

    /// Recreates the access log and gives it to the workers' user; the workers then reopen it. The
    /// master runs as root, so it can write in every directory.
    fn renew_access_log(&self) {
        let Some(identity) = &self.identity else {
            return;
        };
        let renewed = Sink::open(&self.settings).map_err(|error| error.to_string());
        let given = renewed.and_then(|log| match log {
            Some(log) => identity.own_log(&log).map_err(|error| error.to_string()),
            None => Ok(()),
        });
        if let Err(error) = given {
            self.log(LogLevel::Error, &error);
        }
    }
}
