//! Messages between a worker and its master.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use fermata_io::{Fd, signal};

/// Exit code of a worker made unusable by a fatal PHP error, which requests a replacement.
pub const EXIT_RETIRED: i32 = 255;

/// An order of the master.
pub(crate) enum Order {
    None,
    Drain,
    ReloadTls,
    Reload,
    ReopenLog,
    MasterDied,
}

/// A worker's connection to its master, and its signals.
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

    /// Requests an immediate replacement, while this worker finishes its remaining work.
    pub(crate) fn send_retiring(&mut self) {
        // An error means that the master has exited; the end of the stream also reports that.
        let _ = self.stream.write(&[NOTE_RETIRING]);
    }
}
