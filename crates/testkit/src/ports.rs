//! Ports for tests that must name one: no two tests get the same, nor does the kernel give it to a client.

use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;

use rustix::fs::{FlockOperation, flock};

/// How many ports below those of the kernel are handed out.
const COUNT: u16 = 12_000;
/// The lowest port that the kernel gives to clients, where it does not say so.
const FIRST_OF_KERNEL: u16 = 32_768;
/// Ports below this belong to services of the machine.
const FIRST: u16 = 10_000;

/// What this process holds: a port is its own until it ends, since the lock is given back then.
static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A port on 127.0.0.1 where nothing listens, which no other test gets while this process runs.
///
/// It lies outside the range from which the kernel takes ports for clients and for listeners that name
/// none: a server may start on it seconds later. Processes agree by locks on files of the folder for temporary files.
///
/// # Panics
/// Panics when no port is free at all, or when the folder of locks cannot be written.
pub fn free_port() -> u16 {
    let range = range();
    let folder = folder();
    let len = range.end - range.start;
    // Processes begin at different places, so that they seldom try each other's.
    let begin = u16::try_from(std::process::id() * 61 % u32::from(len)).expect("below len");
    let mut held = HELD.lock().expect("nobody panics with it");
    for step in 0..len {
        let port = range.start + (begin + step) % len;
        let path = folder.join(port.to_string());
        let open = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path);
        let file = open.expect("the folder of locks is writable");
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            held.push(file);
            return port;
        }
    }
    panic!("no port of {range:?} is free");
}

/// The ports below those that the kernel gives to clients.
fn range() -> Range<u16> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = text.split_whitespace().next();
    let first = first.and_then(|first| first.parse::<u16>().ok());
    let end = first
        .filter(|first| *first >= FIRST + COUNT)
        .unwrap_or(FIRST_OF_KERNEL);
    end - COUNT..end
}

fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join("fermata-test-ports");
    fs::create_dir_all(&folder).expect("the folder for temporary files is writable");
    folder
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports: Vec<u16> = (0..100).map(|_| free_port()).collect();
        let distinct: BTreeSet<u16> = ports.iter().copied().collect();
        assert_eq!(distinct.len(), ports.len());
        assert!(ports.iter().all(|port| range().contains(port)));
    }

    #[test]
    fn a_port_that_another_process_holds_is_left_out() {
        let port = free_port();
        let file = File::open(folder().join(port.to_string())).expect("its lock");
        assert!(flock(&file, FlockOperation::NonBlockingLockExclusive).is_err());
    }
}
