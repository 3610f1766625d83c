//! Ports for tests that must specify one. No two tests get the same port, and the kernel gives it to no client.

use std::fs::{self, File, OpenOptions};
use std::net::TcpListener;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;

use rustix::fs::{FlockOperation, flock};

/// Number of ports used below the kernel's range.
const COUNT: u16 = 12_000;
/// Default start of the kernel's range for clients.
const FIRST_OF_KERNEL: u16 = 32_768;
/// Lowest port that tests use. Lower ports belong to services of the machine.
const FIRST: u16 = 10_000;

/// Lock files of this process. A port is reserved until the process exits, which releases the locks.
static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Returns a port on 127.0.0.1 without a listener, reserved while this process runs.
///
/// It is outside the range from which the kernel assigns ports to clients and unspecified listeners, so a server can
/// bind it seconds later. Processes coordinate by locking files in the temporary directory.
///
/// # Panics
/// Panics if no port is free, or if the directory of the locks is not writable.
pub fn free_port() -> u16 {
    let range = range();
    let folder = folder();
    let len = range.end - range.start;
    // Processes start at different offsets, so they rarely try the same port.
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

/// Returns the ports below the kernel's range for clients.
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
