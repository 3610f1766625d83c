//! A worker inside a test process. `fermata_engine::Memory` documents the differences.

use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd;
use std::time::Duration;

use fermata_engine::Memory;
use fermata_fastcgi::FastCgi;
use fermata_io::{Peer, clock, shm};

use crate::abi::{FM_CONFIGURATION, FM_MISUSE, FmError, FmStr, ask, guard, put};
use crate::server::FmServer;
use crate::worker::{FmEvent, FmWorker};

/// State of the worker in this process, for `fm_in_process_end`.
pub struct FmMemory(Memory);

/// Creates the worker of a server in the calling process. Always consumes the server. The worker's clock is stopped. The log is an
/// unnamed file, for which `log` is a descriptor that the caller owns. Free the worker before `memory`.
#[unsafe(no_mangle)]
pub extern "C" fn fm_in_process_start(
    server: Option<Box<FmServer>>,
    log: Option<&mut MaybeUninit<i32>>,
    out: Option<&mut MaybeUninit<Box<FmWorker>>>,
    memory: Option<&mut MaybeUninit<Box<FmMemory>>>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server, error, |mut server| {
        let file = shm::anonymous_file();
        let files = file.and_then(|file| Ok((file.try_clone()?, file)));
        let (for_caller, file) =
            files.map_err(|error| (FM_CONFIGURATION, format!("a file for the log: {error}")))?;
        let configuration = |error: String| (FM_CONFIGURATION, error);
        let doors = server.doors.take();
        let opening = doors.map(|doors| doors.open(&mut server.server));
        let opening = opening
            .transpose()
            .map_err(|error| configuration(error.to_string()))?;
        let sites = std::mem::take(&mut server.sites);
        let started = server.server.start_in_process(file);
        let (worker, parts) = started.map_err(|error| configuration(error.to_string()))?;
        put(log, for_caller.into_raw_fd());
        let fastcgi = FastCgi::begin(sites, worker.settings());
        put(out, Box::new(FmWorker::new(worker, None, opening, fastcgi)));
        put(memory, Box::new(FmMemory(parts)));
        Ok(())
    })
}

/// Adds a connected stream as if the worker had accepted it from `address`, an IP address. An empty address means a Unix socket.
/// FM_MISUSE for an invalid address. The caller then still owns the descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn fm_in_process_connect(
    worker: Option<&mut FmWorker>,
    fd: i32,
    address: FmStr,
    port: u16,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(worker, error, |worker| {
        let text = address.text();
        let peer = if text.is_empty() {
            Peer::Unix
        } else {
            let ip: std::net::IpAddr = text
                .parse()
                .map_err(|_| (FM_MISUSE, format!("{text} is no IP address")))?;
            Peer::from(std::net::SocketAddr::new(ip, port))
        };
        worker.worker.adopt(fd, peer);
        Ok(())
    })
}

/// Like `fm_next_event`, but returns false if nothing is left to do now. Waits at most `wait_ms` for events from
/// outside the process.
#[unsafe(no_mangle)]
pub extern "C" fn fm_in_process_next(
    worker: Option<&mut FmWorker>,
    wait_ms: u64,
    event: Option<&mut FmEvent>,
) -> bool {
    ask(worker.zip(event), false, |(worker, event)| {
        worker.request = None;
        let next = worker.next_event_within(Duration::from_millis(wait_ms));
        next.map(|next| worker.hand_out(next, event)).is_some()
    })
}

/// Advances the clock to the next timer, at most by `ms_max`. Returns the milliseconds advanced.
#[unsafe(no_mangle)]
pub extern "C" fn fm_in_process_advance(worker: Option<&mut FmWorker>, ms_max: u64) -> u64 {
    ask(worker, 0, |worker| {
        let due_ms = worker.worker.due_in_ms().unwrap_or(u64::MAX);
        let ms = due_ms.max(1).min(ms_max);
        clock::advance_ms(ms);
        ms
    })
}

/// Restores the log to standard error and restarts the clock, after the worker was freed.
#[unsafe(no_mangle)]
pub extern "C" fn fm_in_process_end(memory: Option<Box<FmMemory>>) {
    ask(memory, (), |memory| memory.0.end())
}
