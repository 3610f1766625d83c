//! PHP-FPM behind routes, as C says it before the server runs.

use std::mem::MaybeUninit;

use fermata_fastcgi::Site;

use crate::abi::{FM_MISUSE, FmError, FmStr, guard};
use crate::server::FmServer;

/// The longest time, a day.
const SECONDS_MAX: f64 = 86_400.0;

/// A PHP-FPM and the paths it answers.
#[repr(C)]
pub struct FmFastCgi {
    /// What the paths begin with; `/` for all.
    pub prefix: FmStr,
    /// Path of a Unix socket, or `HOST:PORT`.
    pub socket: FmStr,
    /// The folder of the scripts, as PHP-FPM's machine has it.
    pub root: FmStr,
    /// The script that answers what no other does; `ptr` NULL: the path has to name one.
    pub index: FmStr,
    /// Seconds that it may be silent.
    pub timeout_s: f64,
    /// Seconds that a connection is kept for another request; 0 = it is not.
    pub keep_s: f64,
    /// Bytes that a body may have; -1 = as the setting says.
    pub body_bytes_max: i64,
    /// Connections of a worker.
    pub connections_max: u32,
    /// Requests of a worker that wait for one.
    pub queue_max: u32,
    /// The root is a folder of this machine: its files are sent, and its scripts looked for.
    pub has_files: bool,
    /// A body is passed on while it arrives.
    pub streams_body: bool,
}

/// Has PHP-FPM answer the paths below a prefix. Its requests do not come as events. FM_MISUSE names the argument.
#[unsafe(no_mangle)]
pub extern "C" fn fm_server_fastcgi(
    server: Option<&mut FmServer>,
    given: Option<&FmFastCgi>,
    error: Option<&mut MaybeUninit<FmError>>,
) -> u32 {
    guard(server.zip(given), error, |(server, given)| {
        let milliseconds = |name: &str, seconds: f64, least: f64| match seconds {
            _ if (least..=SECONDS_MAX).contains(&seconds) => Ok((seconds * 1000.0) as u64),
            _ => {
                let message = format!(
                    "fastcgi(): {name} is {seconds}: give seconds from {least} to {SECONDS_MAX}"
                );
                Err((FM_MISUSE, message))
            }
        };
        let site = Site {
            prefix: given.prefix.text().into_owned(),
            socket: given.socket.text().into_owned(),
            root: given.root.text().into_owned(),
            index: given
                .index
                .option()
                .map(|_| given.index.text().into_owned()),
            has_files: given.has_files,
            streams_body: given.streams_body,
            body_bytes_max: u64::try_from(given.body_bytes_max).ok(),
            connections_max: given.connections_max,
            queue_max: given.queue_max,
            timeout_ms: milliseconds("timeout", given.timeout_s, 0.001)?,
            keep_ms: milliseconds("keepAlive", given.keep_s, 0.0)?,
        };
        fermata_fastcgi::add(&mut server.sites, &mut server.server, site)
            .map_err(|error| (FM_MISUSE, format!("fastcgi(): {error}")))
    })
}
