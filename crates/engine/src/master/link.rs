//! What a worker and its master tell each other.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use fermata_io::{Fd, signal};

/// Exit code of a worker that PHP has made unusable (a fatal error): "replace me".
pub const EXIT_RETIRED: i32 = 255;

/// What the master has told its worker.
pub(crate) enum Order {
    None,
    Drain,
    ReloadTls,
    Reload,
    ReopenLog,
    MasterDied,
}

/// A worker's connection to its master, and its own signals.
pub struct Link {
    pub(super) stream: UnixStream,
    pub(super) signals: signal::Pipe,
}

pub(super) const ORDER_DRAIN: u8 = b'd';
pub(super) const ORDER_RELOAD_TLS: u8 = b't';
pub(super) const ORDER_RELOAD: u8 = b'h';
pub(super) const ORDER_REOPEN_LOG: u8 = b'l';
pub(super) const NOTE_RETIRING: u8 = b'r';

impl Link {
    pub(crate) fn fd(&self) -> Fd {
        self.stream.as_raw_fd()
    }

    pub(crate) fn signals_fd(&self) -> Fd {
        self.signals.fd()
    }

    pub(crate) fn read(&mut self) -> Order {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(1) if byte[0] == ORDER_DRAIN => Order::Drain,
            Ok(1) if byte[0] == ORDER_RELOAD_TLS => Order::ReloadTls,
            Ok(1) if byte[0] == ORDER_RELOAD => Order::Reload,
            Ok(1) if byte[0] == ORDER_REOPEN_LOG => Order::ReopenLog,
            Ok(0) => Order::MasterDied,
            _ => Order::None,
        }
    }

    pub(crate) fn read_signal(&mut self) -> Option<i32> {
        self.signals.read()
    }

    /// Asks for a replacement at once: this worker only finishes what it has.
    pub(crate) fn tell_retiring(&mut self) {
        // If the master is gone, the stream's end tells us so anyway.
        let _ = self.stream.write(&[NOTE_RETIRING]);
    }
}
