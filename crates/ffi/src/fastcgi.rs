//! Routes that PHP-FPM serves, configured before the server starts.

use std::mem::MaybeUninit;

use fermata_fastcgi::Site;

use crate::abi::{FM_MISUSE, FmError, FmStr, guard};
use crate::server::FmServer;

/// Maximum of all times in seconds: one day.
const SECONDS_MAX: f64 = 86_400.0;

/// A PHP-FPM pool, and the paths that it serves.
#[repr(C)]
pub struct FmFastCgi {
    /// Path prefix; `/` for all paths.
    pub prefix: FmStr,
    /// Path of a Unix socket, or `HOST:PORT`.
    pub socket: FmStr,
    /// Directory of the scripts on PHP-FPM's machine.
    pub root: FmStr,
    /// Script for paths that name no script. `ptr` is NULL for none.
    pub index: FmStr,
    /// Maximum time without output from PHP-FPM, in seconds.
    pub timeout_s: f64,
    /// Idle time after which a connection is closed, in seconds; 0 = no reuse.
    pub keep_s: f64,
    /// Maximum size of a request body in bytes; -1 = the setting's value.
    pub body_bytes_max: i64,
    /// Maximum number of connections per worker.
    pub connections_max: u32,
    /// Maximum number of requests per worker that wait for a connection.
    pub queue_max: u32,
    /// True if `root` is on this machine. The worker then serves the files in it and checks that scripts exist.
    pub has_files: bool,
    /// True to forward a request body while it arrives.
    pub streams_body: bool,
}

/// Forwards requests below a prefix to PHP-FPM. These requests cause no events. FM_MISUSE names the argument.
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
