//! The service manager (systemd): told when the server is ready, reloads and stops, and that it lives.

use fermata_io::systemd::Notifier;
use fermata_io::{Deadline, clock};

/// What is told to the service manager, if there is one.
pub(super) struct Manager {
    notifier: Option<Notifier>,
    /// When it is next told that we live.
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

    fn tell(&self, lines: &str) {
        if let Some(notifier) = &self.notifier {
            notifier.tell(lines);
        }
    }

    /// All workers have been started; clients that connect are served.
    pub(super) fn ready(&mut self, status: &str) {
        if !std::mem::replace(&mut self.is_ready, true) {
            self.tell(&format!("READY=1\nSTATUS={status}"));
        }
    }

    /// Certificates and logs are opened anew, which is done when this returns to the loop.
    pub(super) fn reloading(&mut self) {
        let us = clock::monotonic_us();
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={us}"));
        self.is_ready = false;
    }

    /// The server finishes what it has.
    pub(super) fn stopping(&mut self) {
        self.tell("STOPPING=1\nSTATUS=stopping");
        self.is_ready = true;
    }

    /// Tells it that the master's loop goes round. Workers that stand still are the master's
    /// business, which replaces them.
    pub(super) fn alive(&mut self, now_ms: u64) {
        if !self.due.is_due(now_ms) {
            return;
        }
        self.tell("WATCHDOG=1");
        self.due = sign_of_life(self.notifier.as_ref(), now_ms);
    }
}

/// When the manager next wants one, if it watches.
fn sign_of_life(notifier: Option<&Notifier>, now_ms: u64) -> Deadline {
    let watchdog_ms = notifier.and_then(Notifier::watchdog_ms);
    watchdog_ms.map_or(Deadline::NEVER, |ms| Deadline::after(now_ms, ms))
}
