//! Notifications of the service manager (systemd): ready, reloading, stopping, and the watchdog.

use fermata_io::systemd::Notifier;
use fermata_io::{Deadline, clock};

/// State of the notifications, if there is a service manager.
pub(super) struct Manager {
    notifier: Option<Notifier>,
    /// Time of the next watchdog notification.
    pub due: Deadline,
    is_ready: bool,
}

impl Manager {
    pub(super) fn new(now_ms: u64) -> Manager {
        let notifier = Notifier::from_environment();
        Manager {
            due: sign_of_life(notifier.as_ref(), now_ms),
            notifier,
            is_ready: false,
        }
    }

    fn notify(&self, lines: &str) {
        if let Some(notifier) = &self.notifier {
            notifier.notify(lines);
        }
    }

    /// Notifies that all workers are started and clients are served.
    pub(super) fn ready(&mut self, status: &str) {
        if !std::mem::replace(&mut self.is_ready, true) {
            self.notify(&format!("READY=1\nSTATUS={status}"));
        }
    }

    /// Notifies that certificates and logs are being reopened, which is done when the caller
    /// returns to the loop.
    pub(super) fn reloading(&mut self) {
        let us = clock::monotonic_us();
        self.notify(&format!("RELOADING=1\nMONOTONIC_USEC={us}"));
        self.is_ready = false;
    }

    /// Notifies that the server drains.
    pub(super) fn stopping(&mut self) {
        self.notify("STOPPING=1\nSTATUS=stopping");
        self.is_ready = true;
    }

    /// Sends the watchdog notification if due. The watchdog monitors the master's loop only; the
    /// master itself replaces stuck workers.
    pub(super) fn alive(&mut self, now_ms: u64) {
        if !self.due.is_due(now_ms) {
            return;
        }
        self.notify("WATCHDOG=1");
        self.due = sign_of_life(self.notifier.as_ref(), now_ms);
    }
}

/// Returns the time of the next watchdog notification; never without a watchdog.
fn sign_of_life(notifier: Option<&Notifier>, now_ms: u64) -> Deadline {
    let watchdog_ms = notifier.and_then(Notifier::watchdog_ms);
    watchdog_ms.map_or(Deadline::NEVER, |ms| Deadline::after(now_ms, ms))
}
