//! Connections that their owner has closed and whose last bytes the kernel has not taken yet.
//!
//! They keep a descriptor and those bytes, nothing else, for a bounded time and in a bounded number:
//! over it the oldest is closed at once.

use std::collections::VecDeque;

use fermata_io::{Driver, Event, Fd};

use crate::fd_map::FdMap;

/// How long the kernel may take to take them.
const LEAVING_MS: u64 = 5_000;

/// Connections kept at once.
const LEAVING_MAX: usize = 512;

/// Reads of what such a peer still sends, per event; it is thrown away.
const READS_MAX: usize = 4;

/// The set of them.
#[derive(Default)]
pub(crate) struct Leaving {
    by_token: FdMap<u64, Last>,
    /// In the order in which their time is over. An entry may have left before.
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

    /// Keeps `fd`, which is watched with `token`, until the kernel has taken `bytes`.
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

    /// True when the event belonged to one of them.
    pub fn handle_event<D: Driver>(&mut self, driver: &mut D, event: &Event) -> bool {
        let Some(last) = self.by_token.get_mut(&event.token) else {
            // It is about none of them.
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

    /// Closes those whose time is over.
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

    /// When the next one's time is over.
    pub fn due_ms(&self) -> Option<u64> {
        self.due.front().map(|&(due_ms, _)| due_ms)
    }

    fn end<D: Driver>(&mut self, driver: &mut D, token: u64) {
        if let Some(last) = self.by_token.remove(&token) {
            driver.close(last.fd);
        }
    }
}

/// Throws away what the peer still sends: unread bytes would make the close a reset, which destroys
/// what was sent last. False when it broke the connection, or sends more than is worth reading.
fn ignore<D: Driver>(driver: &mut D, fd: Fd) -> bool {
    let mut nothing = [0; 4096];
    for _ in 0..READS_MAX {
        match driver.recv(fd, &mut nothing) {
            Ok(Some(read)) if read == nothing.len() => {}
            // Emptied, or ended: it may read on.
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
    false
}
