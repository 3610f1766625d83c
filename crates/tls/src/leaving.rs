//! Connections that their owner closed and whose last bytes the kernel has not accepted.
//!
//! Each connection keeps only its descriptor and these bytes, for a limited time. The number of connections is limited too. When
//! there are more, the oldest one is closed immediately.

use std::collections::VecDeque;

use fermata_io::{Driver, Event, Fd};

use crate::fd_map::FdMap;

/// Maximum time for sending the last bytes.
const LEAVING_MS: u64 = 5_000;

/// Maximum number of closed connections with unsent bytes.
const LEAVING_MAX: usize = 512;

/// Maximum number of reads per event. They discard bytes that the peer still sends.
const READS_MAX: usize = 4;

/// Closed connections with unsent bytes.
#[derive(Default)]
pub(crate) struct Leaving {
    by_token: FdMap<u64, Last>,
    /// Expiry times and tokens in order. An entry's connection may already be closed.
    due: VecDeque<(u64, u64)>,
}

struct Last {
    fd: Fd,
    bytes: Vec<u8>,
    sent: usize,
}

impl Leaving {
    pub fn len(&self) -> usize {
        self.by_token.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_token.is_empty()
    }

    /// Keeps `fd`, watched with `token`, until the kernel has accepted `bytes`.
    pub fn add<D: Driver>(&mut self, driver: &mut D, fd: Fd, token: u64, bytes: Vec<u8>) {
        while self.by_token.len() >= LEAVING_MAX {
            let Some((_, token)) = self.due.pop_front() else {
                break;
            };
            self.end(driver, token);
        }
        let due_ms = driver.now_ms() + LEAVING_MS;
        self.due.push_back((due_ms, token));
        let sent = 0;
        self.by_token.insert(token, Last { fd, bytes, sent });
    }

    /// Processes an event. Returns true if the event belonged to one of these connections.
    pub fn handle_event<D: Driver>(&mut self, driver: &mut D, event: &Event) -> bool {
        let Some(last) = self.by_token.get_mut(&event.token) else {
            // An event of another connection.
            return false;
        };
        let mut is_done = event.readable && !ignore(driver, last.fd);
        while !is_done && event.writable {
            match driver.send_one(last.fd, &last.bytes[last.sent..]) {
                Ok(Some(sent)) => {
                    last.sent += sent;
                    is_done = last.sent == last.bytes.len();
                }
                Ok(None) => break,
                Err(_) => is_done = true,
            }
        }
        if is_done {
            self.end(driver, event.token);
        }
        true
    }

    /// Closes connections whose time has expired.
    pub fn expire<D: Driver>(&mut self, driver: &mut D) {
        let now_ms = driver.now_ms();
        while let Some(&(due_ms, token)) = self.due.front() {
            if due_ms > now_ms && self.by_token.contains_key(&token) {
                break;
            }
            self.due.pop_front();
            self.end(driver, token);
        }
    }

    /// Returns the next expiry time.
    pub fn due_ms(&self) -> Option<u64> {
        self.due.front().map(|&(due_ms, _)| due_ms)
    }

    fn end<D: Driver>(&mut self, driver: &mut D, token: u64) {
        if let Some(last) = self.by_token.remove(&token) {
            driver.close(last.fd);
        }
    }
}

/// Discards received bytes, because unread bytes would turn the close into a reset, which could destroy the last bytes sent.
/// Returns false if the connection is broken or the peer sends too much.
fn ignore<D: Driver>(driver: &mut D, fd: Fd) -> bool {
    let mut nothing = [0; 4096];
    for _ in 0..READS_MAX {
        match driver.recv(fd, &mut nothing) {
            Ok(Some(read)) if read == nothing.len() => {}
            // The socket is empty or at its end. More bytes may arrive later.
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
    false
}
