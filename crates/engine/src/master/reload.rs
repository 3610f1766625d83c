//! What is read or opened anew while the server runs: certificates, the access log, the program's files.

use std::io::Write;

use fermata_config::LogLevel;

use super::link::{ORDER_DRAIN, ORDER_RELOAD, ORDER_RELOAD_TLS, ORDER_REOPEN_LOG};
use super::state::Master;
use crate::admin::trace::Sink;

impl Master {
    /// Whether SIGHUP has something to read again.
    pub(super) fn can_reload(&self) -> bool {
        self.tls.is_some() || self.has_log_file || self.takes_reloads
    }

    /// Has the workers read the program's files again.
    pub(super) fn reload_program(&mut self) {
        if self.takes_reloads {
            for child in &mut self.children {
                let _ = child.stream.write(&[ORDER_RELOAD]);
            }
        }
    }

    /// Has the workers open the access log anew.
    pub(super) fn reopen_access_log(&mut self) {
        if self.has_log_file {
            self.renew_access_log();
            for child in &mut self.children {
                let _ = child.stream.write(&[ORDER_REOPEN_LOG]);
            }
        }
    }

    /// The access log of a new worker. The master has opened it before; a file that cannot be opened
    /// any more is no reason not to serve.
    pub(super) fn open_access_log(&self) -> Option<Sink> {
        Sink::open(&self.settings).unwrap_or_else(|error| {
            self.log(LogLevel::Error, &error.to_string());
            None
        })
    }

    /// Reads the certificates again, and has the workers do so when they are good.
    pub(super) fn reload_tls(&mut self) {
        if self
            .tls
            .as_ref()
            .is_some_and(|tls| tls.reload(&self.logger))
        {
            // Root's keys are not for other users to read: new workers have from us what we have read.
            let order = match self.identity {
                None => ORDER_RELOAD_TLS,
                Some(_) => ORDER_DRAIN,
            };
            for child in &mut self.children {
                let _ = child.stream.write(&[order]);
            }
        }
    }

    /// Makes the access log where it is gone, as root can everywhere, and gives it to the workers, who open it anew.
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
